"""Slices, static and dynamic, and the update of one."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from onnxproof.capture.program import Dim
from onnxproof.lowering.emit import Ctx
from onnxproof.lowering.regions import Start, read_window, slice_end, write_window
from onnxproof.lowering.registry import lowers
from onnxproof.lowering.starts import Axis, into_range


@lowers("slice")
def slice_(
    ctx: Ctx,
    x: ir.Value,
    *,
    start_indices: Sequence[Dim],
    limit_indices: Sequence[Dim],
    strides: Sequence[Dim] | None,
) -> ir.Value:
    shape = ctx.ins[0].shape
    steps = [1] * len(shape) if strides is None else list(strides)
    used = [
        i
        for i, (start, limit, step) in enumerate(zip(start_indices, limit_indices, steps, strict=True))
        if (start, limit, step) != (0, shape[i], 1)
    ]
    if not used:
        return x
    starts = [start_indices[i] for i in used]
    ends = [slice_end(0, limit_indices[i], shape[i]) for i in used]
    strided = [steps[i] for i in used]
    operands = [ctx.dims(starts), ctx.dims(ends), ctx.i64(used)]
    if any(s != 1 for s in strided):
        operands.append(ctx.dims(strided))
    return ctx.op("Slice", x, *operands, shape=ctx.out.shape)


@lowers("dynamic_slice")
def dynamic_slice(ctx: Ctx, x: ir.Value, *starts: ir.Value, slice_sizes: Sequence[Dim]) -> ir.Value:
    if 0 in ctx.out.shape:
        return ctx.expand(ctx.const(0, ctx.out.dtype), ctx.out.shape)
    axes = [Axis(d, w) for d, w in zip(ctx.ins[0].shape, slice_sizes, strict=True)]
    found = {
        i: Start(into_range(ctx, start, [axis]).value)
        for i, (start, axis) in enumerate(zip(starts, axes, strict=True))
        if axis.size != axis.window
    }
    return read_window(ctx, x, found, slice_sizes)


@lowers("dynamic_update_slice")
def dynamic_update_slice(ctx: Ctx, x: ir.Value, update: ir.Value, *starts: ir.Value) -> ir.Value:
    shape, window = ctx.ins[0].shape, ctx.ins[1].shape
    if 0 in window:
        return x
    found = {
        i: Start(into_range(ctx, start, [Axis(shape[i], window[i])], wrap=False).value)
        for i, start in enumerate(starts)
        if shape[i] != window[i]
    }
    return write_window(ctx, x, found, window, update)
