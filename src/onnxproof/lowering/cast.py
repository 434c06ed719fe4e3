"""Conversions between dtypes as JAX converts."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from onnxproof.lowering.algebra import Num
from onnxproof.lowering.elementwise import is_float
from onnxproof.lowering.emit import F64, Ctx
from onnxproof.lowering.registry import ANY, lowers


@lowers("convert_element_type", weak_type=ANY, sharding=None)
def convert_element_type(ctx: Ctx, x: ir.Value, *, new_dtype: Any) -> ir.Value:
    source, target = ctx.ins[0].dtype, ctx.out.dtype
    if source == target:
        return x
    if is_float(source) and target.kind in "iu":
        return _to_integer(ctx, x, target)
    if target.itemsize == 1 and target.kind not in "biu":
        # JAX lets an overflow become what the type has for it; saturation is ONNX's default.
        return ctx.op("Cast", x, to=target, saturate=0)
    return ctx.op("Cast", x, to=target)


def _to_integer(ctx: Ctx, x: ir.Value, target: np.dtype[Any]) -> ir.Value:
    """Float to integer: towards zero, to the nearest bound out of range, NaN to 0."""
    info = np.iinfo(target)
    value = Num(ctx, x)
    number = Num(ctx, ctx.op("Where", value.do("IsNaN").value, ctx.like(0, x), x))
    if target.itemsize < 8:
        if target.itemsize == 4 or value.dtype.itemsize < 4:
            # The bounds have to be exact in the type that clips.
            number = number.cast(F64 if target.itemsize == 4 else np.dtype(np.float32))
        return ctx.cast(number.clip(info.min, info.max).value, target)
    if value.dtype.itemsize < 4:
        number = number.cast(np.dtype(np.float32))
    # No float is 2**63 - 1 (2**64 - 1): the clip ends one float below, and what lies above is put in.
    top = 2.0 ** (63 if target.kind == "i" else 64)
    below = float(np.nextafter(number.dtype.type(top), number.dtype.type(0)))
    inside = ctx.cast(number.clip(info.min, below).value, target)
    return ctx.op("Where", (number >= top).value, ctx.const(info.max, target), inside)
