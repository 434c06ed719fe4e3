"""Reductions over sliding windows.

Windows are taken apart by axis into shifted slices, which hold for every type, rank, dilation and padding; slices
of outer axes are plain copies. Maxima of images are left to the pooling operator where that is faster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product as every
from typing import Any, Final

import numpy as np
import onnx_ir as ir

from onnxproof.capture.program import Dim, Program, Shape, SymDim
from onnxproof.lowering.contract import product
from onnxproof.lowering.emit import BOOL, I32, U8, Ctx
from onnxproof.lowering.monoid import lift, named
from onnxproof.lowering.pooling import max_pool
from onnxproof.lowering.reduce import binary_op, identity_of, reduce_max, reduce_min, reduce_prod, reduce_sum
from onnxproof.lowering.registry import ANY, lowers
from onnxproof.lowering.shape import spread

_LAST: Final = np.iinfo(np.int64).max
_TAPS: Final = 8  # window sizes beyond this are built from windows of half the size


@dataclass(frozen=True, slots=True)
class Windows:
    """One entry for each axis."""

    size: tuple[Dim, ...]
    strides: tuple[int, ...]
    padding: tuple[tuple[Dim, Dim], ...]
    base_dilation: tuple[int, ...]
    dilation: tuple[int, ...]

    def fixed_size(self, ctx: Ctx) -> tuple[int, ...]:
        """The window sizes, which have to be numbers here."""
        sizes = tuple(k for k in self.size if isinstance(k, int))
        if len(sizes) < len(self.size):
            raise ctx.unsupported("a window of symbolic size", "Give the window a fixed size.")
        return sizes

    def over(self, space: Sequence[int]) -> Windows:
        """The windows over these axes alone, behind an axis of batches and one of channels."""
        one, none = (1, 1), ((0, 0), (0, 0))
        return Windows(
            (*one, *(self.size[a] for a in space)),
            (*one, *(self.strides[a] for a in space)),
            (*none, *(self.padding[a] for a in space)),
            (*one, *(self.base_dilation[a] for a in space)),
            (*one, *(self.dilation[a] for a in space)),
        )


@lowers("reduce_window_sum")
def reduce_window_sum(
    ctx: Ctx,
    x: ir.Value,
    *,
    window_dimensions: Sequence[Dim],
    window_strides: Sequence[int],
    padding: Sequence[tuple[Dim, Dim]],
    base_dilation: Sequence[int],
    window_dilation: Sequence[int],
) -> ir.Value:
    windows = _windows(window_dimensions, window_strides, padding, base_dilation, window_dilation)
    return _separable(ctx, "Add", x, windows, ctx.const(0, ctx.out.dtype))


@lowers("reduce_window_max")
def reduce_window_max(
    ctx: Ctx,
    x: ir.Value,
    *,
    window_dimensions: Sequence[Dim],
    window_strides: Sequence[int],
    padding: Sequence[tuple[Dim, Dim]],
    base_dilation: Sequence[int],
    window_dilation: Sequence[int],
) -> ir.Value:
    windows = _windows(window_dimensions, window_strides, padding, base_dilation, window_dilation)
    neutral = ctx.const(identity_of("Max", ctx.out.dtype), ctx.out.dtype)

    def cut(ctx: Ctx, x: ir.Value, windows: Windows) -> ir.Value:
        return _separable(ctx, binary_op("max", ctx.out.dtype), x, windows, neutral)

    pooled = max_pool(ctx, x, windows, cut)
    return cut(ctx, x, windows) if pooled is None else pooled


@lowers("reduce_window_min")
def reduce_window_min(
    ctx: Ctx,
    x: ir.Value,
    *,
    window_dimensions: Sequence[Dim],
    window_strides: Sequence[int],
    padding: Sequence[tuple[Dim, Dim]],
    base_dilation: Sequence[int],
    window_dilation: Sequence[int],
) -> ir.Value:
    windows = _windows(window_dimensions, window_strides, padding, base_dilation, window_dilation)
    neutral = ctx.const(identity_of("Min", ctx.out.dtype), ctx.out.dtype)
    return _separable(ctx, binary_op("min", ctx.out.dtype), x, windows, neutral)


@lowers("reduce_window", consts=ANY)
def reduce_window(
    ctx: Ctx,
    *operands: ir.Value,
    jaxpr: Program,
    window_dimensions: Sequence[Dim],
    window_strides: Sequence[int],
    padding: Sequence[tuple[Dim, Dim]],
    base_dilation: Sequence[int],
    window_dilation: Sequence[int],
) -> Sequence[ir.Value]:
    """Any computation, from the initial value on; padding takes no part in it."""
    n = len(operands) // 2
    xs, inits = operands[:n], operands[n:]
    windows = _windows(window_dimensions, window_strides, padding, base_dilation, window_dilation)
    known = named(jaxpr)
    if known is not None:
        op = binary_op(known, ctx.out.dtype)
        neutral = ctx.const(identity_of(op, ctx.out.dtype), ctx.out.dtype)
        return [ctx.op(op, inits[0], _separable(ctx, op, xs[0], windows, neutral))]
    body = lift(jaxpr, ctx.out.shape)
    if body is None:
        raise ctx.unsupported("its computation is not element-wise on scalars")
    padded = [_padded(ctx, x, windows, init) for x, init in zip(xs, inits, strict=True)]
    totals = [ctx.expand(init, ctx.out.shape) for init in inits]
    for tap in _taps(windows.fixed_size(ctx)):
        items = [_tap(ctx, x, windows, tap, ctx.out.shape) for x in padded]
        new = ctx.inline(body, [*totals, *items])
        inside = _inside(ctx, windows, tap)
        if not inside.all():
            mask = ctx.const(inside)
            new = [ctx.op("Where", mask, a, b) for a, b in zip(new, totals, strict=True)]
        totals = new
    return totals


@lowers("select_and_gather_add")
def select_and_gather_add(
    ctx: Ctx,
    tangents: ir.Value,
    x: ir.Value,
    *,
    select_prim: Any,
    window_dimensions: Sequence[Dim],
    window_strides: Sequence[int],
    padding: Sequence[tuple[Dim, Dim]],
    base_dilation: Sequence[int],
    window_dilation: Sequence[int],
) -> ir.Value:
    """The tangent that stands where the window has its extremum, 0 where padding is chosen."""
    windows = _windows(window_dimensions, window_strides, padding, base_dilation, window_dilation)
    compare, best = _selection(ctx, select_prim, ctx.dtype(x))
    chosen = ctx.const(0, ctx.out.dtype)
    x, tangents = _padded(ctx, x, windows, best), _padded(ctx, tangents, windows, chosen)
    for tap in _taps(windows.fixed_size(ctx)):
        item = _tap(ctx, x, windows, tap, ctx.out.shape)
        tangent = _tap(ctx, tangents, windows, tap, ctx.out.shape)
        keep = ctx.op(compare, best, item)
        inside = _inside(ctx, windows, tap)
        if not inside.all():
            keep = ctx.op("Or", keep, ctx.const(~inside))
        best, chosen = ctx.op("Where", keep, best, item), ctx.op("Where", keep, chosen, tangent)
    return chosen


@lowers("select_and_scatter_add")
def select_and_scatter_add(
    ctx: Ctx,
    source: ir.Value,
    x: ir.Value,
    *,
    select_prim: Any,
    window_dimensions: Sequence[Dim],
    window_strides: Sequence[int],
    padding: Sequence[tuple[Dim, Dim]],
) -> ir.Value:
    """Each element of ``source`` goes to the element of its window that the comparison selects.

    As JAX does on a CPU, padding takes part as the value that yields to every other, and may be selected.
    """
    ones = (1,) * len(ctx.out.shape)
    windows = _windows(window_dimensions, window_strides, padding, ones, ones)
    if ctx.dtype(x) == BOOL:
        x = ctx.cast(x, U8)
    compare, start = _selection(ctx, select_prim, ctx.dtype(x))
    x = _padded(ctx, x, windows, start)
    best: ir.Value | None = None
    chosen = ctx.const(0, I32)
    for i, tap in enumerate(_taps(windows.fixed_size(ctx))):
        item = _tap(ctx, x, windows, tap, ctx.ins[0].shape)
        if best is None:
            best = item
            continue
        keep = ctx.op(compare, best, item)
        best, chosen = ctx.op("Where", keep, best, item), ctx.op("Where", keep, chosen, ctx.const(i, I32))
    return _unpadded(ctx, _scattered(ctx, source, chosen, windows, ctx.shape(x) or ()), windows)


def _scattered(ctx: Ctx, source: ir.Value, chosen: ir.Value, windows: Windows, whole: Shape) -> ir.Value:
    """``source`` of each window added at the tap that it chose, on zeros of the shape ``whole``.

    A window is cut into blocks as long as its stride. Blocks of different windows lie side by side, so that a
    block's part of the sum is one comparison and a Reshape; windows that overlap have several blocks.
    """
    sizes, strides = windows.fixed_size(ctx), windows.strides
    numbers = np.arange(int(np.prod(sizes))).reshape(sizes)
    counts = [-(-k // s) for k, s in zip(sizes, strides, strict=True)]
    blocked = [a for a, s in enumerate(strides) if s > 1]
    inserted = [a + i + 1 for i, a in enumerate(blocked)]
    source = ctx.unsqueeze(source, inserted)
    if ctx.shape(chosen) != ():
        chosen = ctx.unsqueeze(chosen, inserted)
    zero, out = ctx.const(0, ctx.out.dtype), ctx.ins[0].shape
    size = [product([d, s]) for d, s in zip(out, strides, strict=True)]
    total: ir.Value | None = None
    for block in every(*map(range, counts)):
        at = [b * s for b, s in zip(block, strides, strict=True)]
        taps = numbers[tuple(slice(a, a + s) for a, s in zip(at, strides, strict=True))]
        missing = [(0, s - n) for s, n in zip(strides, taps.shape, strict=True)]
        taps = np.pad(taps, missing, constant_values=-1)  # no window chooses tap -1
        interleaved = [n for a, s in enumerate(strides) for n in ([1, s] if s > 1 else [1])]
        mine = ctx.op("Equal", chosen, ctx.const(taps.reshape(interleaved), I32))
        part = ctx.reshape(ctx.op("Where", mine, source, zero), size)
        after = [_minus(_minus(n, a), d) for n, a, d in zip(whole, at, size, strict=True)]
        if any(at) or any(d != 0 for d in after):
            part = ctx.op("Pad", part, ctx.dims([*at, *after]), zero, shape=whole)
        total = part if total is None else ctx.op(binary_op("add", ctx.out.dtype), total, part)
    assert total is not None
    return total


def _selection(ctx: Ctx, select_prim: Any, dtype: np.dtype[Any]) -> tuple[str, ir.Value]:
    """(the comparison that keeps an element over a later one, the value that yields to every other)."""
    largest = str(select_prim) == "ge"
    neutral = identity_of("Max" if largest else "Min", dtype)
    return "GreaterOrEqual" if largest else "LessOrEqual", ctx.const(neutral, dtype)


# -- one operator, axis by axis -------------------------------------------------------------------


def _windows(
    size: Sequence[Dim],
    strides: Sequence[int],
    padding: Sequence[tuple[Dim, Dim]],
    base_dilation: Sequence[int],
    dilation: Sequence[int],
) -> Windows:
    pads = tuple((lo, hi) for lo, hi in padding)
    return Windows(tuple(size), tuple(strides), pads, tuple(base_dilation), tuple(dilation))


def _separable(ctx: Ctx, op: str, x: ir.Value, windows: Windows, fill: ir.Value) -> ir.Value:
    """The windows of a commutative operator; outer axes first, whose slices are the cheapest."""
    if 0 in ctx.out.shape:
        return ctx.expand(fill, ctx.out.shape)
    x = _padded(ctx, x, windows, fill)
    shape = ctx.shape(x) or ()
    whole = [
        axis
        for axis, (k, n) in enumerate(zip(windows.size, shape, strict=True))
        if k == n and k != 1 and windows.dilation[axis] == 1 and ctx.out.shape[axis] == 1
    ]
    if whole and op in _WHOLE:
        x = ctx.unsqueeze(_WHOLE[op](ctx, x, axes=whole), whole)
    else:
        whole = []
    for axis, k in enumerate(windows.size):
        if axis in whole:
            continue
        if not isinstance(k, int):
            raise ctx.unsupported("a window of symbolic size", "Give the window a fixed size.")
        x = _slide(ctx, op, x, axis, k, windows)
    return x


def _slide(ctx: Ctx, op: str, x: ir.Value, axis: int, k: int, windows: Windows) -> ir.Value:
    """Windows along one axis."""
    stride, step, count = windows.strides[axis], windows.dilation[axis], ctx.out.shape[axis]
    shape = ctx.shape(x) or ()
    if k <= _TAPS:
        items = [_cut(ctx, x, axis, t * step, (k - 1 - t) * step, stride, count) for t in range(k)]
        return _combined(ctx, op, items)
    if stride == k and step == 1 and isinstance(count, int) and shape[axis] == count * k and op in _WHOLE:
        x = ctx.reshape(x, (*shape[:axis], count, k, *shape[axis + 1 :]))
        return _WHOLE[op](ctx, x, axes=[axis + 1])
    reach, offset, parts = 1, 0, []
    while reach <= k:
        if k & reach:
            trail = (k - reach - offset) * step
            parts.append(_cut(ctx, x, axis, offset * step, trail, stride, count))
            offset += reach
        if 2 * reach <= k:
            length = _minus((ctx.shape(x) or ())[axis], reach * step)
            lower = _cut(ctx, x, axis, 0, reach * step, 1, length)
            upper = _cut(ctx, x, axis, reach * step, 0, 1, length)
            x = ctx.op(op, lower, upper)
        reach *= 2
    return _combined(ctx, op, parts)


def _combined(ctx: Ctx, op: str, items: Sequence[ir.Value]) -> ir.Value:
    if len(items) == 1:
        return items[0]
    if op == "Add" and ctx.out.dtype.kind not in "iub":
        return ctx.op("Sum", *items, shape=ctx.shape(items[0]))
    if op in ("Max", "Min"):
        return ctx.op(op, *items)
    total = items[0]
    for item in items[1:]:
        total = ctx.op(op, total, item)
    return total


def _cut(ctx: Ctx, x: ir.Value, axis: int, start: int, trail: int, stride: int, length: Dim) -> ir.Value:
    """Every ``stride``-th element of an axis from ``start`` on, ``trail`` elements at its end left out."""
    if start == trail == 0 and stride == 1:
        return x
    shape = list(ctx.shape(x) or ())
    shape[axis] = length
    return ctx.slice(x, [start], [-trail or _LAST], [axis], [stride], shape=tuple(shape))


# -- windows of any computation -------------------------------------------------------------------


def _taps(size: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """The positions inside a window, in the order in which XLA visits them."""
    return every(*map(range, size))


def _tap(ctx: Ctx, x: ir.Value, windows: Windows, tap: Sequence[int], out: Shape) -> ir.Value:
    """The element at position ``tap`` of every window."""
    starts = [t * d for t, d in zip(tap, windows.dilation, strict=True)]
    sizes = windows.fixed_size(ctx)
    trails = [(k - 1 - t) * d for k, t, d in zip(sizes, tap, windows.dilation, strict=True)]
    axes = [a for a, k in enumerate(sizes) if k > 1 or windows.strides[a] > 1]
    if not axes:
        return x
    return ctx.slice(
        x,
        [starts[a] for a in axes],
        [-trails[a] or _LAST for a in axes],
        axes,
        [windows.strides[a] for a in axes],
        shape=out,
    )


def _inside(ctx: Ctx, windows: Windows, tap: Sequence[int]) -> np.ndarray[Any, Any]:
    """Which windows find an element of the operand at ``tap``, and not padding or the room of a dilation."""
    shape, out = ctx.ins[0].shape, ctx.out.shape
    mask = np.ones((1,) * len(shape), np.bool_)
    for axis, (lo, hi) in enumerate(windows.padding):
        gap = windows.base_dilation[axis]
        if lo == hi == 0 and gap == 1:
            continue
        n, count = shape[axis], out[axis]
        if not (isinstance(n, int) and isinstance(count, int) and isinstance(lo, int)):
            raise ctx.unsupported("padding along an axis of symbolic size", "Pad the operand before.")
        at = np.arange(count) * windows.strides[axis] + tap[axis] * windows.dilation[axis] - lo
        line = (at >= 0) & (at < n * gap) & (at % gap == 0)
        mask = mask & line.reshape(-1, *[1] * (len(shape) - axis - 1))
    return mask


def _padded(ctx: Ctx, x: ir.Value, windows: Windows, fill: ir.Value) -> ir.Value:
    """The operand with its dilation and its padding filled."""
    pads = list(windows.padding)
    for axis, dilation in enumerate(windows.base_dilation):
        if dilation > 1:
            x = spread(ctx, x, fill, axis, dilation - 1)
            lo, hi = pads[axis]
            pads[axis] = (lo, _minus(hi, dilation - 1))
    if all(lo == 0 and hi == 0 for lo, hi in pads):
        return x
    shape = tuple(_sum(n, *pad) for n, pad in zip(ctx.shape(x) or (), pads, strict=True))
    amounts = ctx.dims([lo for lo, _ in pads] + [hi for _, hi in pads])
    return ctx.op("Pad", x, amounts, fill, shape=shape)


def _unpadded(ctx: Ctx, x: ir.Value, windows: Windows) -> ir.Value:
    axes = [a for a, pad in enumerate(windows.padding) if pad != (0, 0)]
    if not axes:
        return x
    bounds = [(lo, hi) for lo, hi in windows.padding if isinstance(lo, int) and isinstance(hi, int)]
    if len(bounds) < len(windows.padding):
        cuts = [[_minus(0, side) for side in sides] for sides in zip(*windows.padding, strict=True)]
        return ctx.op("Pad", x, ctx.dims([*cuts[0], *cuts[1]]), shape=ctx.out.shape)
    starts = [bounds[a][0] for a in axes]
    return ctx.slice(x, starts, [-bounds[a][1] or _LAST for a in axes], axes, shape=ctx.out.shape)


def _minus(a: Dim, b: Dim) -> Dim:
    if isinstance(a, int) and isinstance(b, int):
        return a - b
    return 0 if a == b else (a if b == 0 else SymDim(f"({a}) - ({b})"))


def _sum(*dims: Dim) -> Dim:
    number = sum(d for d in dims if isinstance(d, int))
    symbols = [str(d) for d in dims if isinstance(d, SymDim)]
    if not symbols:
        return number
    return SymDim(" + ".join(symbols + ([f"({number})"] if number else [])))


_WHOLE: dict[str, Callable[..., ir.Value]] = {
    "Add": reduce_sum,
    "Mul": reduce_prod,
    "Max": reduce_max,
    "Min": reduce_min,
}
