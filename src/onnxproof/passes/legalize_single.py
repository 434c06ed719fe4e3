"""Conversions of floats to 32-bit integers that go through float64, for targets that have none."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxproof.passes.legalize_emit import DType, Emitter, small_constant

_INTEGERS = (DType.INT32, DType.UINT32)
_FLOATS = (DType.FLOAT, DType.FLOAT16)


def chain(node: ir.Node) -> tuple[ir.Node, ir.Node] | None:
    """Cast to float64 and Clip in front of ``node``, where it casts what they give to a 32-bit integer.

    The bounds are those of the integer, which float32 can't hold: why the lowering clips in float64.
    """
    dtype = node.outputs[0].dtype
    clip = node.inputs[0].producer() if node.op_type == "Cast" and node.inputs[0] is not None else None
    if dtype not in _INTEGERS or clip is None or clip.op_type != "Clip" or clip.inputs[0] is None:
        return None
    wide = clip.inputs[0].producer()
    if (
        wide is None
        or wide.op_type != "Cast"
        or wide.inputs[0] is None
        or wide.inputs[0].dtype not in _FLOATS
    ):
        return None
    found = [None if bound is None else small_constant(bound) for bound in clip.inputs[1:]]
    info = np.iinfo(dtype.numpy())
    bounds = [int(bound) for bound in found if bound is not None and bound.size == 1]
    return (wide, clip) if bounds == [info.min, info.max] else None


def in_single(e: Emitter, x: ir.Value) -> ir.Value:
    """``x``, without NaN, as the integer that the emitter's node gives: the clip ends at the last float32 below the
    bound, and what lies above is put in."""
    dtype = e.node.outputs[0].dtype
    assert dtype is not None
    info = np.iinfo(dtype.numpy())
    x = e.cast(x, DType.FLOAT)
    top = np.float32(info.max + 1)
    below = np.nextafter(top, np.float32(0))
    inside = e.cast(e.op("Clip", x, e.like(info.min, x), e.like(below, x)), dtype)
    return e.op("Where", e.op("GreaterOrEqual", x, e.like(top, x)), e.const(info.max, dtype), inside)
