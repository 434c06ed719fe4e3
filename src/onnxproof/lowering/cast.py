"""Conversions between dtypes as JAX converts."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir

from onnxproof.lowering.algebra import Num
from onnxproof.lowering.elementwise import is_float
from onnxproof.lowering.emit import F64, Ctx
from onnxproof.lowering.registry import ANY, lowers


@lowers("convert_element_type", weak_type=ANY, sharding=ANY)  # where a value lies does not change it
def convert_element_type(ctx: Ctx, x: ir.Value, *, new_dtype: Any) -> ir.Value:
    source, target = ctx.ins[0].dtype, ctx.out.dtype
    if source == target:
        return x
    if is_float(source) and (target.kind in "iu" or target.name in _SMALL_INTEGERS):
        return _to_integer(ctx, x, target)
    if target.name.startswith("float8"):
        return _to_float8(ctx, x, target)
    return ctx.op("Cast", x, to=target)


_SMALL_INTEGERS = frozenset({"int2", "uint2", "int4", "uint4"})
# The magnitude from which a float becomes NaN or infinity. ONNX Runtime is wrong about those next to it.
_FLOAT8 = {
    "float8_e4m3fn": ("Greater", 464, np.nan),
    "float8_e5m2": ("GreaterOrEqual", 61440, np.inf),
    "float8_e4m3fnuz": None,
    "float8_e5m2fnuz": None,
}


def _to_float8(ctx: Ctx, x: ir.Value, target: np.dtype[Any]) -> ir.Value:
    """To a float8 as JAX rounds: an overflow becomes what the type has for it, where ONNX would saturate."""
    if target.name not in _FLOAT8:
        raise ctx.unsupported(f"ONNX has no type {target.name}")
    ctx.need_opset(19, f"the type {target.name}")
    limit = _FLOAT8[target.name]
    if limit is not None and is_float(ctx.dtype(x)):
        compare, bound, beyond = limit
        over = ctx.op(compare, ctx.op("Abs", x), ctx.like(bound, x))
        x = ctx.op("Where", over, ctx.op("Mul", x, ctx.like(beyond, x)), x)
    return ctx.op("Cast", x, to=target, saturate=0)


def _to_integer(ctx: Ctx, x: ir.Value, target: np.dtype[Any]) -> ir.Value:
    """Float to integer: towards zero, to the nearest bound out of range, NaN to 0."""
    info = ml_dtypes.iinfo(target)  # type: ignore[no-untyped-call]
    value = Num(ctx, x)
    number = Num(ctx, ctx.op("Where", value.do("IsNaN").value, ctx.like(0, x), x))
    if target.itemsize < 8:
        if target.itemsize == 4 or value.dtype.itemsize < 4:
            # The bounds have to be exact in the type that clips.
            number = number.cast(F64 if target.itemsize == 4 else np.dtype(np.float32))
        within = number.clip(info.min, info.max)
        if target.kind not in "iu":  # a cast to 4 bits rounds
            within = within.cast(np.dtype(np.int8))
        return ctx.cast(within.value, target)
    if value.dtype.itemsize < 4:
        number = number.cast(np.dtype(np.float32))
    # No float is 2**63 - 1 (2**64 - 1): the clip ends one float below, and what lies above is put in.
    top = 2.0 ** (63 if target.kind == "i" else 64)
    below = float(np.nextafter(number.dtype.type(top), number.dtype.type(0)))
    inside = ctx.cast(number.clip(info.min, below).value, target)
    return ctx.op("Where", (number >= top).value, ctx.const(info.max, target), inside)
