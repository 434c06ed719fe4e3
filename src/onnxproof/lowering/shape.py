"""Shapes: reshape, broadcast, transpose, pad, concatenate and their like."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxproof.capture.program import Dim, SymDim
from onnxproof.lowering.emit import I64, Ctx
from onnxproof.lowering.registry import ANY, lowers, lowers_complex

# A constant of up to so many elements is written out where it would else be expanded at run time.
_WRITTEN_OUT = 256
_LONGEST_COUNT = 4096

LAST = int(np.iinfo(np.int64).max)  # the end of an axis, for Slice
BEFORE_FIRST = int(np.iinfo(np.int64).min)  # the end of an axis that is walked backwards


@lowers("reshape", sharding=None)
def reshape(ctx: Ctx, x: ir.Value, *, new_sizes: Sequence[Dim], dimensions: Sequence[int] | None) -> ir.Value:
    if dimensions is not None:
        x = ctx.transpose(x, dimensions)
    return picked(ctx, x, tuple(new_sizes)) or ctx.reshape(x, new_sizes)


def picked(ctx: Ctx, x: ir.Value, shape: tuple[Dim, ...]) -> ir.Value | None:
    """The Gather of one position that drops its axis by itself, where ``x`` is one that keeps it."""
    node = x.producer()
    if node is None or node.op_type != "Gather":
        return None
    data, index = node.inputs
    axis = node.attributes.get_int("axis", 0)
    kept = ctx.shape(x)
    maker = None if index is None else index.producer()
    if maker is None or maker.op_type != "Unsqueeze" or data is None or kept is None:
        return None
    (scalar, _) = maker.inputs
    if scalar is None or ctx.shape(scalar) != () or kept[:axis] + kept[axis + 1 :] != shape:
        return None
    return ctx.op("Gather", data, scalar, axis=axis, shape=shape)


@lowers("squeeze")
def squeeze(ctx: Ctx, x: ir.Value, *, dimensions: Sequence[int]) -> ir.Value:
    return picked(ctx, x, ctx.out.shape) or ctx.squeeze(x, dimensions)


@lowers("expand_dims")
def expand_dims(ctx: Ctx, x: ir.Value, *, dimensions: Sequence[int]) -> ir.Value:
    return ctx.unsqueeze(x, dimensions)


@lowers("transpose")
def transpose(ctx: Ctx, x: ir.Value, *, permutation: Sequence[int]) -> ir.Value:
    return ctx.transpose(x, permutation)


@lowers("broadcast_in_dim", sharding=None)
def broadcast_in_dim(
    ctx: Ctx,
    x: ir.Value,
    *_sizes: ir.Value,
    shape: Sequence[Dim],
    broadcast_dimensions: Sequence[int],
) -> ir.Value:
    size = ctx.out.size
    known = ctx.constant_value(x) if size is not None and size <= _WRITTEN_OUT else None
    first = min(broadcast_dimensions, default=len(shape))
    added = [i - first for i in range(first, len(shape)) if i not in broadcast_dimensions]
    if known is not None:
        full = [int(d) for d in shape]
        sizes = iter(known.shape)
        lined = [1 if i in added else next(sizes) for i in range(len(shape) - first)]
        return ctx.const(np.broadcast_to(known.reshape(lined), full))
    return ctx.expand(ctx.unsqueeze(x, added), shape)


@lowers("empty", out_sharding=None, dtype=ANY)
def empty(ctx: Ctx, *_sizes: ir.Value, shape: Sequence[Dim]) -> ir.Value:
    """Zeros, as JAX gives on a CPU."""
    return ctx.expand(ctx.const(0, ctx.out.dtype), shape)


@lowers_complex("empty2", dtype=ANY, memory_space=ANY)
@lowers("empty2", dtype=ANY, memory_space=ANY)
def empty2(ctx: Ctx) -> ir.Value:
    """A scalar that nothing has written yet, which JAX makes 0."""
    return ctx.expand(ctx.const(0, ctx.out.part.dtype), ctx.out.stored.shape)


@lowers("dim_as_value")
def dim_as_value(ctx: Ctx, *, dim: SymDim) -> ir.Value:
    return ctx.dim_scalar(dim, ctx.out.dtype)


@lowers("iota", sharding=None)
def iota(ctx: Ctx, *_sizes: ir.Value, dtype: Any, shape: Sequence[Dim], dimension: int) -> ir.Value:
    length, out = shape[dimension], ctx.out.dtype
    line = [length if i == dimension else 1 for i in range(len(shape))][dimension:]
    if isinstance(length, int) and length <= _LONGEST_COUNT:
        numbers = np.arange(length).astype(out).reshape([int(d) for d in line])
        if ctx.out.size is not None and ctx.out.size <= _WRITTEN_OUT:
            return ctx.const(np.broadcast_to(numbers, [int(d) for d in shape]))
        return ctx.expand(ctx.const(numbers), shape)
    return ctx.expand(ctx.reshape(count(ctx, length, out), line), shape)


def count(ctx: Ctx, length: Dim, dtype: np.dtype[Any]) -> ir.Value:
    """``0, 1, ... length - 1``, counted in int64 so that every number is exact."""
    if isinstance(length, int) and length <= _LONGEST_COUNT:
        return ctx.const(np.arange(length).astype(dtype))
    ends = (ctx.const(0, I64), ctx.dim_scalar(length), ctx.const(1, I64))
    return ctx.cast(ctx.op("Range", *ends, shape=(length,)), dtype)


@lowers("concatenate")
def concatenate(ctx: Ctx, *operands: ir.Value, dimension: int) -> ir.Value:
    parts = [x for x, aval in zip(operands, ctx.ins, strict=True) if aval.shape[dimension] != 0]
    if not parts:
        return operands[0]
    if len(parts) == 1:
        return parts[0]
    return ctx.op("Concat", *parts, axis=dimension, shape=ctx.out.shape)


@lowers("stack")
def stack(ctx: Ctx, *operands: ir.Value, axis: int) -> ir.Value:
    axis %= len(ctx.out.shape)
    parts = [ctx.unsqueeze(x, [axis]) for x in operands]
    return parts[0] if len(parts) == 1 else ctx.op("Concat", *parts, axis=axis, shape=ctx.out.shape)


@lowers("split")
def split(ctx: Ctx, x: ir.Value, *, sizes: Sequence[Dim], axis: int) -> Sequence[ir.Value]:
    if len(sizes) == 1:
        return [x]
    dtypes, shapes = [a.dtype for a in ctx.outs], [a.shape for a in ctx.outs]
    return ctx.multi("Split", x, ctx.dims(sizes), axis=axis, dtypes=dtypes, shapes=shapes)


@lowers("unstack")
def unstack(ctx: Ctx, x: ir.Value, *, axis: int) -> Sequence[ir.Value]:
    axis %= len(ctx.ins[0].shape)
    if len(ctx.outs) == 1:
        return [ctx.squeeze(x, [axis])]
    return [ctx.op("Gather", x, ctx.const(i, I64), axis=axis, shape=a.shape) for i, a in enumerate(ctx.outs)]


@lowers("tile")
def tile(ctx: Ctx, x: ir.Value, *, reps: Sequence[Dim]) -> ir.Value:
    shape = ctx.ins[0].shape
    if all(r == 1 for r in reps):
        return x
    if all(r == 1 or d == 1 for r, d in zip(reps, shape, strict=True)):
        return ctx.expand(x, ctx.out.shape)
    return ctx.op("Tile", x, ctx.dims(reps), shape=ctx.out.shape)


@lowers("rev")
def rev(ctx: Ctx, x: ir.Value, *, dimensions: Sequence[int]) -> ir.Value:
    shape = ctx.out.shape
    axes = [d for d in dimensions if shape[d] not in (0, 1)]
    if not axes:
        return x
    n = len(axes)
    return ctx.slice(x, [-1] * n, [BEFORE_FIRST] * n, axes, [-1] * n, shape=shape)


@lowers("pad")
def pad(
    ctx: Ctx, x: ir.Value, value: ir.Value, *, padding_config: Sequence[tuple[Dim, Dim, int]]
) -> ir.Value:
    if 0 in ctx.out.shape or 0 in ctx.ins[0].shape:
        return ctx.expand(value, ctx.out.shape)
    shape = list(ctx.ins[0].shape)
    plans = []
    for axis, (low, high, interior) in enumerate(padding_config):
        if interior and shape[axis] != 1:
            x = spread(ctx, x, value, axis, int(interior))
            shape[axis] = (ctx.shape(x) or ())[axis]
            high = SymDim(f"{high} - {interior}") if isinstance(high, SymDim) else high - interior
        plans.append(_plan(shape[axis], low, high))
    cut = [axis for axis, plan in enumerate(plans) if plan.start or plan.end != LAST]
    if cut:
        x = ctx.slice(x, [plans[a].start for a in cut], [plans[a].end for a in cut], cut)
    pads = [p.before for p in plans] + [p.after for p in plans]
    if all(p == 0 for p in pads):
        return x
    return ctx.op("Pad", x, ctx.dims(pads), value, shape=ctx.out.shape)


@dataclass(frozen=True, slots=True)
class _AxisPlan:
    """What of an axis is kept, ``[start:end]``, and the padding on both sides of it."""

    start: int
    end: int
    before: Dim
    after: Dim


def _plan(size: Dim, low: Dim, high: Dim) -> _AxisPlan:
    match size, low, high:
        case int(n), int(a), int(b) if max(-a, 0) >= n + min(b, 0):  # nothing of the operand is left
            return _AxisPlan(0, 0, n + a + b, 0)
    start = max(-low, 0) if isinstance(low, int) else 0
    end = high if isinstance(high, int) and high < 0 else LAST
    before = max(low, 0) if isinstance(low, int) else low
    after = max(high, 0) if isinstance(high, int) else high
    return _AxisPlan(start, end, before, after)


def spread(ctx: Ctx, x: ir.Value, value: ir.Value, axis: int, interior: int) -> ir.Value:
    """``interior`` paddings after each position of an axis, the last one included."""
    shape = list(ctx.shape(x) or ())
    wide = [*shape[: axis + 1], 1 + interior, *shape[axis + 1 :]]
    pads = [0] * (2 * len(wide))
    pads[len(wide) + axis + 1] = interior
    x = ctx.op("Pad", ctx.unsqueeze(x, [axis + 1]), ctx.i64(pads), value, shape=tuple(wide))
    size = shape[axis]
    shape[axis] = SymDim(f"({size})*{1 + interior}") if isinstance(size, SymDim) else size * (1 + interior)
    return ctx.reshape(x, shape)
