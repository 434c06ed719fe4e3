"""Starts of windows as gathers and scatters take them: integers of shape batch + [columns]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnxproof.capture import dims
from onnxproof.capture.program import Dim, Shape, SymDim
from onnxproof.lowering.emit import BOOL, I32, I64, Ctx
from onnxproof.lowering.indices import (
    Array,
    as_dimension,
    columns,
    evaluate,
    from_shapes,
    interval,
    unwrapped,
)
from onnxproof.lowering.regions import Start, unit
from onnxproof.lowering.shape import count


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis that is indexed: its size, and that of the window."""

    size: Dim
    window: Dim

    @property
    def last(self) -> Dim:
        """The last start at which the window lies within the axis."""
        return dims.minus(self.size, self.window)


@dataclass(frozen=True, slots=True)
class Starts:
    """Starts of windows, brought into range.

    ``value`` has the shape of the starts. ``ok`` says which windows lay in range before: it has no axis of
    columns, and is None when all did or none had to.
    """

    value: ir.Value
    ok: ir.Value | None = None


def into_range(
    ctx: Ctx,
    value: ir.Value,
    axes: Sequence[Axis],
    *,
    check: bool = False,
    trust: bool = False,
    wrap: bool = True,
    wide: bool = False,
    column: bool = False,
    guarded: bool = False,
) -> Starts:
    """Clamp starts to the range in which windows lie within their axes.

    Args:
        value: integers; with several axes, one column of the last axis for each.
        check: also tell which windows lay in range.
        trust: values that are computed from constants and sizes alone need no clamping.
        wrap: the result may count from the end of the axis.
        wide: give int64, else int32 stays.
        column: the last axis is that of columns also where there is one axis only.
        guarded: the operator that takes the starts fails on those out of range, as Slice does not: constants
            along axes of symbolic size are left to it.
    """
    value = _index_dtype(ctx, value, axes, wide)
    dtype = ctx.dtype(value)
    known = evaluate(ctx, value)
    lasts = [a.last for a in axes]
    if known is not None and (guarded or trust or _is_decided(known, lasts)):
        return _known_into_range(ctx, known, lasts, check, column or len(axes) > 1)
    distance = _from_end(ctx, value, axes[0], trust) if wrap and len(axes) == 1 else None
    if distance is not None:
        return Starts(ctx.const(np.full([1] * ctx.rank(value), distance, dtype)))
    lows: list[Dim] = [0] * len(axes)
    if wrap and all(a.window == 1 for a in axes):
        raw = unwrapped(ctx, value, [a.size for a in axes])
        if raw is not None:
            value, lows = raw, [dims.minus(0, a.size) for a in axes]
    if _within(ctx, value, lows, lasts) or (trust and from_shapes(ctx, value)):
        return Starts(value)
    if len(set(lasts)) == 1 and len(set(lows)) == 1:
        clamped = ctx.op("Clip", value, ctx.dim_scalar(lows[0], dtype), ctx.dim_scalar(lasts[0], dtype))
    else:
        low, high = (ctx.cast(ctx.dims(b), dtype) for b in (lows, lasts))
        shape = ctx.shape(value)
        clamped = ctx.op("Min", ctx.op("Max", value, low, shape=shape), high, shape=shape)
    if not check:
        return Starts(clamped)
    ok = ctx.op("Equal", clamped, value)
    if len(axes) > 1:
        ok = ctx.cast(ctx.reduce("ReduceMin", ctx.cast(ok, I32), [-1]), BOOL)
    elif column:
        ok = ctx.squeeze(ok, [ctx.rank(ok) - 1])
    return Starts(clamped, ok)


def _from_end(ctx: Ctx, value: ir.Value, axis: Axis, trust: bool) -> int | None:
    """The constant start, counted from the end of an axis of symbolic size, that ``value`` is."""
    if not isinstance(axis.size, SymDim) or not isinstance(axis.window, int):
        return None
    if any(d != 1 for d in ctx.shape(value) or ()):
        return None
    start = as_dimension(ctx, value)
    distance = None if start is None else dims.difference(start, axis.size)
    if distance is None or distance > -axis.window:
        return None
    # A start farther from the end than its window is long may lie before the axis.
    return distance if trust or distance == -axis.window else None


def _index_dtype(ctx: Ctx, value: ir.Value, axes: Sequence[Axis], wide: bool) -> ir.Value:
    """The starts in a dtype that indices may have, without a change of what they mean."""
    dtype = ctx.dtype(value)
    if dtype == np.uint64:  # beyond int64 is beyond every axis
        value = ctx.op("Min", value, ctx.const(np.iinfo(np.int64).max, dtype))
    if wide or dtype.itemsize == 8 or dtype == np.uint32:
        return ctx.cast(value, I64)
    return ctx.cast(value, I32)


def _within(ctx: Ctx, value: ir.Value, lows: Sequence[Dim], lasts: Sequence[Dim]) -> bool:
    """Whether starts are known to lie in range, column by column where columns can be told."""
    parts = columns(ctx, value) if len(lows) > 1 else [value]
    if parts is None:
        parts = [value] * len(lows)
    for part, low, last in zip(parts, lows, lasts, strict=True):
        least, most = interval(ctx, part)
        if isinstance(last, SymDim):
            if (least, most) != (0, 0):
                return False
        elif isinstance(low, SymDim) or least < low or most > last:
            return False
    return True


def _is_decided(known: Array, lasts: Sequence[Dim]) -> bool:
    """Whether it is known what constant starts come to: 0 alone lies in range of every symbolic size."""
    parts = np.moveaxis(known, -1, 0) if len(lasts) > 1 else [known]
    return all(not (isinstance(d, SymDim) and (p > 0).any()) for p, d in zip(parts, lasts, strict=True))


def _known_into_range(ctx: Ctx, known: Array, lasts: Sequence[Dim], check: bool, column: bool) -> Starts:
    """Constant starts, clamped along the axes whose size is known."""
    limit = np.asarray([np.iinfo(np.int64).max if isinstance(d, SymDim) else d for d in lasts])
    clamped = np.clip(known, 0, np.broadcast_to(limit, known.shape) if column else limit[0])
    value = ctx.const(clamped.astype(known.dtype))
    right = clamped == known
    if not check or right.all():
        return Starts(value)
    return Starts(value, ctx.const(right.all(-1) if column else right))


def offsets(ctx: Ctx, windows: Mapping[int, Dim], width: int) -> ir.Value:
    """Positions in windows, int64 of shape [*windows, width]: column ``c`` counts along ``windows[c]``."""
    sizes = list(windows.values())
    if all(isinstance(s, int) for s in sizes):
        table = np.zeros([*map(int, sizes), width], np.int64)
        for axis, (column, size) in enumerate(windows.items()):
            lined = [int(size) if i == axis else 1 for i in range(len(sizes))]
            table[..., column] += np.arange(int(size)).reshape(lined)
        return ctx.const(table)
    total: ir.Value | None = None
    for axis, (column, size) in enumerate(windows.items()):
        line = count_along(ctx, size, axis, len(sizes) + 1)
        part = line if width == 1 else ctx.op("Mul", line, unit(ctx, column, width))
        total = part if total is None else ctx.op("Add", total, part)
    if total is None:
        return ctx.const(np.zeros(width, np.int64))
    return total


def count_along(ctx: Ctx, size: Dim, axis: int, rank: int) -> ir.Value:
    """``0 ... size - 1`` along ``axis`` of ``rank`` axes, the others of size 1; int64."""
    shape: list[Dim] = [size if i == axis else 1 for i in range(rank)]
    return ctx.reshape(count(ctx, size, I64), shape)


def one_start(
    ctx: Ctx,
    indices: ir.Value,
    where: Sequence[int],
    axes: Sequence[Axis],
    check: bool,
    trust: bool = False,
    wrap: bool = True,
) -> tuple[dict[int, Start], ir.Value | None]:
    """The starts of a single window by axis of the operand, and whether it lay in range."""
    found: dict[int, Start] = {}
    ok: ir.Value | None = None
    parts = columns(ctx, indices)
    for k, (d, axis) in enumerate(zip(where, axes, strict=True)):
        if axis.size == axis.window and not check:
            continue
        column = pick_columns(ctx, indices, [k]) if parts is None else parts[k]
        start = into_range(ctx, scalar(ctx, column), [axis], check=check, trust=trust, wrap=wrap)
        if axis.size != axis.window:
            found[d] = Start(start.value)
        if start.ok is not None:
            ok = start.ok if ok is None else ctx.op("And", ok, start.ok)
    return found, ok


def scalar(ctx: Ctx, value: ir.Value) -> ir.Value:
    """A value of one element as a scalar: the one that it was made from, where that is known."""
    known = evaluate(ctx, value)
    if known is not None:
        return ctx.const(known.reshape(()))
    node = value.producer()
    if node is not None and node.op_type in ("Reshape", "Unsqueeze"):
        source = node.inputs[0]
        if source is not None and ctx.shape(source) == ():
            return source
    return ctx.reshape(value, ())


def without_last(ctx: Ctx, value: ir.Value) -> ir.Value:
    """Starts of one column without the axis of columns: what it was added to, where that is known."""
    known = evaluate(ctx, value)
    if known is not None:
        return ctx.const(known[..., 0])
    shape = (ctx.shape(value) or ())[:-1]
    node = value.producer()
    if node is not None and node.op_type in ("Reshape", "Unsqueeze"):
        source = node.inputs[0]
        if source is not None and ctx.shape(source) == shape:
            return source
    return ctx.squeeze(value, [len(shape)])


def pick_columns(ctx: Ctx, value: ir.Value, order: Sequence[int]) -> ir.Value:
    """The columns of starts in ``order``."""
    shape = ctx.shape(value) or ()
    if list(order) == list(range(int(shape[-1]))):
        return value
    known = evaluate(ctx, value)
    if known is not None:
        return ctx.const(known[..., list(order)])
    picked = (*shape[:-1], len(order))
    parts = columns(ctx, value)
    if parts is None:
        return ctx.op("Gather", value, ctx.i64(order), axis=-1, shape=picked)
    if len(order) == 1:
        return parts[order[0]]
    return ctx.op("Concat", *(parts[k] for k in order), axis=-1, shape=picked)


def spread_windows(
    ctx: Ctx, tuples: ir.Value, windows: Mapping[int, Dim], width: int, batch: Shape
) -> ir.Value:
    """Tuples of shape batch + [width] made batch + windows + [width]: every position of the windows."""
    if not windows:
        return tuples
    lined = ctx.reshape(tuples, (*batch, *([1] * len(windows)), width))
    shape = (*batch, *windows.values(), width)
    return ctx.op("Add", lined, offsets(ctx, windows, width), shape=shape)


def elements_axis(
    rank: int,
    where: Sequence[int],
    batching: Sequence[int],
    starts_batching: Sequence[int],
    batch: Sequence[int],
    window: Shape,
) -> tuple[int, bool] | None:
    """The axis along which GatherElements or ScatterElements does it, and whether the starts have it too."""
    if len(where) != 1 or len(batching) != rank - 1:
        return None
    axis = where[0]
    partner = dict(zip(batching, starts_batching, strict=True))
    if len(batch) == rank and window[axis] == 1:
        free = next(i for i in batch if i not in starts_batching)
        partner[axis] = free
        return (axis, True) if [partner[d] for d in range(rank)] == list(batch) else None
    if len(batch) == rank - 1 and axis == rank - 1:
        return (axis, False) if [partner[d] for d in range(rank - 1)] == list(batch) else None
    return None
