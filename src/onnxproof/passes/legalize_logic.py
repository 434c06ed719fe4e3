"""Expansions of selection, comparison, bits and small linear algebra."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import onnx_ir as ir

from onnxproof.passes.legalize_emit import DType, Emitter, dims_of, dtype_of

_UNSIGNED_OF = {
    DType.INT8: DType.UINT8,
    DType.INT16: DType.UINT16,
    DType.INT32: DType.UINT32,
    DType.INT64: DType.UINT64,
}
UNSIGNED = tuple(_UNSIGNED_OF.values())


def _operands(e: Emitter) -> list[ir.Value]:
    return [v for v in e.node.inputs if v is not None]


def where_bool(e: Emitter) -> ir.Value:
    """``(c and a) or (not c and b)``: many times faster than a Where on a cast."""
    condition, a, b = _operands(e)
    return e.op("Or", e.op("And", condition, a), e.op("And", e.op("Not", condition), b))


def _folded(op: str) -> Callable[[Emitter], ir.Value]:
    def fold(e: Emitter) -> ir.Value:
        result, *rest = _operands(e)
        for value in rest:
            result = e.op(op, result, value)
        return result

    return fold


def _compared(op: str, negate_first: bool) -> Callable[[Emitter], ir.Value]:
    """An order on booleans, false first: ``a < b`` is ``not a and b``."""

    def compare(e: Emitter) -> ir.Value:
        a, b = _operands(e)
        if negate_first:
            return e.op(op, e.op("Not", a), b)
        return e.op(op, a, e.op("Not", b))

    return compare


def negate_unsigned(e: Emitter) -> ir.Value:
    (x,) = _operands(e)
    return e.op("Sub", e.like(0, x), x)


def identity(e: Emitter) -> ir.Value:
    """An operator that changes nothing on an unsigned type."""
    return _operands(e)[0]


def relu_signed(e: Emitter) -> ir.Value:
    (x,) = _operands(e)
    return e.op("Max", x, e.like(0, x))


def shift_signed(e: Emitter) -> ir.Value:
    """A shift of signed integers through the unsigned type of that width; right shifts keep the sign."""
    x, by = _operands(e)
    dtype = dtype_of(x)
    unsigned = _UNSIGNED_OF[dtype]
    direction = e.attr("direction")
    by = e.cast(by, unsigned)
    if direction == "LEFT":
        return e.cast(e.op("BitShift", e.cast(x, unsigned), by, direction=direction), dtype)
    # For x < 0 shift its complement -1 - x, which is not negative, and take the complement back.
    negative, ones = e.op("Less", x, e.like(0, x)), e.like(-1, x)
    magnitude = e.op("Where", negative, e.op("Sub", ones, x), x)
    shifted = e.cast(e.op("BitShift", e.cast(magnitude, unsigned), by, direction=direction), dtype)
    return e.op("Where", negative, e.op("Sub", ones, shifted), shifted)


def shift_words(e: Emitter) -> ir.Value:
    """A shift of uint16 in uint32, of which the cast back drops what left the 16 bits."""
    x, by = (e.cast(v, DType.UINT32) for v in _operands(e))
    return e.cast(e.op("BitShift", x, by, direction=e.attr("direction")), DType.UINT16)


def matmul_bytes(e: Emitter) -> ir.Value:
    """8-bit operands have a kernel that accumulates in int32."""
    a, b = _operands(e)
    product = e.op("MatMulInteger", a, b, dtype=DType.INT32, shape=dims_of(e.node.outputs[0]))
    return e.cast(product, dtype_of(a))


def gemm_integer(e: Emitter) -> ir.Value | None:
    """Gemm as MatMul and Add; only with the factors that integers allow."""
    if e.attr("alpha", 1.0) != 1.0 or e.attr("beta", 1.0) != 1.0:
        return None
    a, b, *rest = _operands(e)
    if e.attr("transA", 0):
        a = e.op("Transpose", a, perm=[1, 0], shape=(dims_of(a) or (None, None))[::-1])
    if e.attr("transB", 0):
        b = e.op("Transpose", b, perm=[1, 0], shape=(dims_of(b) or (None, None))[::-1])
    product = e.op("MatMul", a, b, shape=dims_of(e.node.outputs[0]))
    return e.op("Add", product, rest[0]) if rest else product


def swish(e: Emitter) -> ir.Value:
    (x,) = _operands(e)
    alpha = e.attr("alpha", 1.0)
    scaled = x if alpha == 1.0 else e.op("Mul", x, e.like(alpha, x))
    return e.op("Mul", x, e.op("Sigmoid", scaled))


EXPANSIONS: Mapping[tuple[str, DType | None], Callable[[Emitter], ir.Value | None]] = {
    ("Where", DType.BOOL): where_bool,
    ("Max", DType.BOOL): _folded("Or"),
    ("Min", DType.BOOL): _folded("And"),
    ("Less", DType.BOOL): _compared("And", True),
    ("LessOrEqual", DType.BOOL): _compared("Or", True),
    ("Greater", DType.BOOL): _compared("And", False),
    ("GreaterOrEqual", DType.BOOL): _compared("Or", False),
    **{("Neg", d): negate_unsigned for d in UNSIGNED},
    **{("Abs", d): identity for d in (*UNSIGNED, DType.BOOL)},
    **{("Relu", d): identity for d in UNSIGNED},
    **{("Relu", d): relu_signed for d in (DType.INT16, DType.INT64)},
    **{("BitShift", d): shift_signed for d in _UNSIGNED_OF},
    ("BitShift", DType.UINT16): shift_words,
    ("MatMul", DType.INT8): matmul_bytes,
    ("MatMul", DType.UINT8): matmul_bytes,
    **{("Gemm", d): gemm_integer for d in (DType.INT8, DType.INT16, DType.INT32, DType.INT64, *UNSIGNED)},
    ("Swish", None): swish,
}
