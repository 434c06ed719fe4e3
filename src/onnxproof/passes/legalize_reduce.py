"""Expansions of reductions and normalizations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from onnxproof.passes.legalize_emit import DType, Emitter, MaybeDim, dims_of, dtype_of, small_constant
from onnxproof.passes.legalize_math import F

_CHUNK = 16  # bits; the kernel sums exactly below 2^53, so up to 2^37 chunks of 16 bits


def sum_small(e: Emitter) -> ir.Value:
    """A sum of 8- and 16-bit integers in int64, exact, and the remainder of it."""
    x, axes = _operands(e)
    return e.cast(_sum(e, e.cast(x, DType.INT64), axes), dtype_of(x))


def sum_large(e: Emitter) -> ir.Value:
    """A sum of uint32 or uint64 modulo 2^n: 16 bits at a time, each sum exact."""
    x, axes = _operands(e)
    dtype = dtype_of(x)
    wide = e.cast(x, DType.UINT64)
    total: ir.Value | None = None
    for low in range(0, dtype.bitwidth, _CHUNK):
        bits = wide
        if low:
            bits = e.op("BitShift", bits, e.like(low, bits), direction="RIGHT")
        if low + _CHUNK < dtype.bitwidth:
            bits = e.op("Mod", bits, e.like(1 << _CHUNK, bits))
        part = _sum(e, e.cast(bits, DType.INT64), axes)
        if low:
            part = e.op("Mul", part, e.like(np.int64(1 << low), part))
        total = part if total is None else e.op("Add", total, part)
    assert total is not None
    return e.cast(total, dtype)


def _sum(e: Emitter, x: ir.Value, axes: ir.Value | None) -> ir.Value:
    attributes = [a for a in e.node.attributes.values() if a.type is ir.AttributeType.INT]
    node = e.build("ReduceSum", [x] if axes is None else [x, axes], attributes, [dtype_of(x)])
    node.outputs[0].shape = e.node.outputs[0].shape
    return e.insert(node)[0]


def _operands(e: Emitter) -> tuple[ir.Value, ir.Value | None]:
    x = e.node.inputs[0]
    assert x is not None
    return x, e.node.inputs[1] if len(e.node.inputs) > 1 else None


def global_average(e: Emitter) -> ir.Value:
    x, _ = _operands(e)
    return reduce(e, "ReduceMean", x, range(2, e.rank(x)))


def reduce(e: Emitter, op: str, x: ir.Value, axes: Sequence[int]) -> ir.Value:
    """A reduction that keeps its axes, which are an attribute before opset 18."""
    known = dims_of(x)
    shape: list[MaybeDim] | None = None
    if known is not None:
        shape = [1 if i in axes else d for i, d in enumerate(known)]
    if e.opset >= 18 or op == "ReduceSum":
        return e.op(op, x, e.i64(axes), keepdims=1, shape=shape)
    return e.op(op, x, axes=list(axes), keepdims=1, shape=shape)


def instance_norm(e: Emitter) -> ir.Value:
    """Each channel of each example, with its own mean and variance over space."""
    x, scale, bias = (v for v in e.node.inputs if v is not None)
    rank = e.rank(x)
    space = range(2, rank)
    centred = F(e, x) - F(e, reduce(e, "ReduceMean", x, space))
    variance = F(e, reduce(e, "ReduceMean", (centred * centred).value, space))
    epsilon: float = e.attr("epsilon", 1e-5)
    normal = centred / (variance + epsilon).op("Sqrt")
    return (normal * F(e, per_channel(e, scale, rank)) + F(e, per_channel(e, bias, rank))).value


def per_channel(e: Emitter, value: ir.Value, rank: int) -> ir.Value:
    """``[C]`` as ``[C, 1, ...]``, to broadcast along axis 1."""
    if rank == 2:
        return value
    array = small_constant(value)
    shape = (-1, *(1,) * (rank - 2))
    if array is not None:
        return e.const(array.reshape(shape))
    known = dims_of(value)
    return e.op("Reshape", value, e.i64(shape), shape=((known or (None,))[0], *shape[1:]))


EXPANSIONS: Mapping[tuple[str, DType | None], Callable[[Emitter], ir.Value | None]] = {
    **{("ReduceSum", d): sum_small for d in (DType.BOOL, DType.INT8, DType.UINT8, DType.INT16, DType.UINT16)},
    ("ReduceSum", DType.UINT32): sum_large,
    ("ReduceSum", DType.UINT64): sum_large,
    ("GlobalAveragePool", DType.DOUBLE): global_average,
    ("InstanceNormalization", DType.DOUBLE): instance_norm,
}
