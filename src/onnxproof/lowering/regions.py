"""One window of an array at starts that are already in range."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnxproof.capture.dims import difference, plus
from onnxproof.capture.program import Dim, Shape, SymDim
from onnxproof.lowering.emit import I64, Ctx
from onnxproof.lowering.indices import evaluate
from onnxproof.lowering.shape import LAST

_MOST_TUPLES = 16384  # of an update that is written by position


@dataclass(frozen=True, slots=True)
class Start:
    """The start of a window along one axis: an integer scalar, in range."""

    value: ir.Value


def _known(ctx: Ctx, start: Start) -> int | None:
    known = evaluate(ctx, start.value)
    return None if known is None else int(known)


def read_window(ctx: Ctx, x: ir.Value, starts: Mapping[int, Start], window: Sequence[Dim]) -> ir.Value:
    """The window of shape ``window``; axes without a start are taken whole.

    Starts that are constant, and those of windows of size 1, may count from the end of their axis.
    """
    known = {d: _known(ctx, s) for d, s in starts.items()}
    for d, start in starts.items():  # positions first: each leaves less to move
        if known[d] is None and window[d] == 1:
            shape = _with(ctx.shape(x) or (), d, 1)
            x = ctx.op("Gather", x, ctx.unsqueeze(start.value, [0]), axis=d, shape=shape)
    axes = [d for d in starts if not (known[d] is None and window[d] == 1)]
    if not axes:
        return x
    if all(known[d] is not None for d in axes):
        shape = ctx.shape(x) or ()
        first = ctx.i64([int(known[d] or 0) for d in axes])
        last = ctx.dims([slice_end(int(known[d] or 0), window[d], shape[d]) for d in axes])
        return ctx.op("Slice", x, first, last, ctx.i64(axes), shape=tuple(window))
    dtype = _common(ctx, [starts[d] for d in axes if known[d] is None])
    first = _vector(ctx, [starts[d] for d in axes], dtype)
    last = ctx.op("Add", first, ctx.cast(ctx.dims([window[d] for d in axes]), dtype))
    return ctx.op("Slice", x, first, last, ctx.const(axes, dtype), shape=tuple(window))


def slice_end(start: int, window: Dim, size: Dim) -> Dim:
    """Where a window ends, as Slice takes it: counted from the end of an axis whose size is symbolic."""
    if start < 0 and isinstance(window, int):
        return start + window or LAST
    end = plus(window, start)
    if isinstance(size, SymDim) and isinstance(end, SymDim):
        distance = difference(end, size)
        if distance is not None and distance <= 0:
            return distance or LAST
    return end


def _common(ctx: Ctx, starts: Sequence[Start]) -> np.dtype[np.generic]:
    dtypes = {ctx.dtype(s.value) for s in starts}
    return dtypes.pop() if len(dtypes) == 1 else I64


def _vector(ctx: Ctx, starts: Sequence[Start], dtype: np.dtype[np.generic]) -> ir.Value:
    parts = []
    for start in starts:
        known = _known(ctx, start)
        parts.append(
            ctx.const([known], dtype)
            if known is not None
            else ctx.unsqueeze(ctx.cast(start.value, dtype), [0])
        )
    return parts[0] if len(parts) == 1 else ctx.op("Concat", *parts, axis=0, shape=(len(parts),))


def _with(shape: Shape, axis: int, size: Dim) -> Shape:
    return (*shape[:axis], size, *shape[axis + 1 :])


def tuple_axes(shape: Shape, window: Sequence[Dim]) -> int | None:
    """How many leading axes positions have to name for a write; None when there are too many positions."""
    lead = max((d + 1 for d in range(len(shape)) if shape[d] != window[d]), default=0)
    if any(isinstance(w, SymDim) for w in window[:lead]):
        return None
    count = np.prod([int(w) for w in window[:lead]], dtype=np.int64)
    return lead if count <= _MOST_TUPLES else None


def tuples(ctx: Ctx, starts: Mapping[int, Start], window: Sequence[Dim], lead: int) -> ir.Value:
    """Every position of the window along its first ``lead`` axes.

    int64 of shape [*window[:lead], lead], or [lead] where that is a single position.
    """
    sizes = [int(w) for w in window[:lead]]
    axes = [s for s in sizes if s != 1] and sizes
    grid = np.zeros((*axes, lead), np.int64)
    for d, size in enumerate(axes):
        grid[..., d] = np.arange(size).reshape([size if i == d else 1 for i in range(lead)])
    parts: list[ir.Value | None] = [None] * lead
    for d, start in starts.items():
        known = _known(ctx, start)
        if known is None:
            parts[d] = ctx.unsqueeze(ctx.cast(start.value, I64), [0])
        else:
            grid[..., d] += known
    moving = [p for p in parts if p is not None]
    if not moving:
        return ctx.const(grid)
    if len(moving) == 1 and lead > 1:
        d = next(i for i, p in enumerate(parts) if p is not None)
        shift = ctx.op("Mul", moving[0], unit(ctx, d, lead), shape=(lead,))
    elif lead == 1:
        shift = moving[0]
    else:
        filled = [ctx.i64([0]) if p is None else p for p in parts]
        shift = ctx.op("Concat", *filled, axis=0, shape=(lead,))
    return shift if not grid.any() and not axes else ctx.op("Add", shift, ctx.const(grid), shape=grid.shape)


def tuple_window(window: Sequence[Dim], lead: int) -> Shape:
    """The shape of an update at :func:`tuples`."""
    return tuple(window[lead:]) if all(w == 1 for w in window[:lead]) else tuple(window)


def write_window(
    ctx: Ctx, x: ir.Value, starts: Mapping[int, Start], window: Sequence[Dim], update: ir.Value
) -> ir.Value:
    """``x`` with the window replaced by ``update``; no start may count from the end."""
    shape = ctx.shape(x) or ()
    axes = [d for d in range(len(shape)) if shape[d] != window[d]]
    if not axes:
        return update
    lead = tuple_axes(shape, window)
    if lead is not None:
        index = tuples(ctx, starts, window, lead)
        return ctx.op("ScatterND", x, index, ctx.reshape(update, tuple_window(window, lead)), shape=shape)
    return _spliced(ctx, x, starts, window, update, axes)


def _spliced(
    ctx: Ctx,
    x: ir.Value,
    starts: Mapping[int, Start],
    window: Sequence[Dim],
    update: ir.Value,
    axes: Sequence[int],
) -> ir.Value:
    """Before, window and after, joined along the first of ``axes``; the window so too along the others."""
    axis, rest = axes[0], axes[1:]
    shape = ctx.shape(x) or ()
    start, size = starts.get(axis), window[axis]
    known = 0 if start is None else _known(ctx, start)
    at = ctx.i64([axis])
    zero, end = ctx.i64([0]), ctx.i64([LAST])
    middle: Shape = _with(shape, axis, size)
    if known is not None:
        first = ctx.i64([known])
        last = ctx.dim(plus(size, known))
    else:
        first = ctx.unsqueeze(ctx.cast(start.value, I64), [0])  # type: ignore[union-attr]
        last = ctx.op("Add", first, ctx.dim(size))
    if rest:
        inner = ctx.op("Slice", x, first, last, at, shape=middle)
        update = _spliced(ctx, inner, starts, window, update, rest)
    parts = [] if known == 0 else [ctx.op("Slice", x, zero, first, at)]
    parts.append(update)
    ends_there = known is not None and isinstance(size, int) and shape[axis] == known + size
    if not ends_there:
        parts.append(ctx.op("Slice", x, last, end, at))
    return ctx.op("Concat", *parts, axis=axis, shape=shape)


def unit(ctx: Ctx, column: int, width: int) -> ir.Value:
    """1 at ``column``, else 0: int64 of shape [width]."""
    return ctx.const(np.eye(width, dtype=np.int64)[column])
