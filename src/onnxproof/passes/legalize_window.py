"""Expansions of convolutions and poolings, for types that only the operators around them take.

A window is cut into its *taps*, one spatial axis at a time. A convolution is then one MatMul of the kernel
with the taps, a pooling one reduction for each axis. Batch and spatial sizes may be symbolic, kernels are
static.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnxproof.passes.legalize_emit import DType, Emitter, MaybeDim, dims_of, dtype_of
from onnxproof.passes.legalize_reduce import per_channel

_END = np.iinfo(np.int64).max
INTEGERS = (DType.INT8, DType.INT16, DType.INT32, DType.INT64,
            DType.UINT8, DType.UINT16, DType.UINT32, DType.UINT64)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Window:
    """The spatial attributes of an operator, one entry for each spatial axis; ``pads`` is None for SAME_*."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[tuple[int, int], ...] | None

    @classmethod
    def of(cls, e: Emitter, kernel: Sequence[int]) -> Window:
        rank = len(kernel)
        ones = [1] * rank
        flat = list(e.attr("pads", [0] * (2 * rank)))
        auto = e.attr("auto_pad", "NOTSET")
        pads = tuple(zip(flat[:rank], flat[rank:], strict=True)) if auto == "NOTSET" else ((0, 0),) * rank
        return cls(
            tuple(kernel),
            tuple(e.attr("strides", ones)),
            tuple(e.attr("dilations", ones)),
            None if auto.startswith("SAME") else pads,
        )

    @property
    def reach(self) -> tuple[int, ...]:
        """Input elements before the last one that a window sees."""
        return tuple((k - 1) * d for k, d in zip(self.kernel, self.dilations, strict=True))


# -- padding and taps -------------------------------------------------------------------------


def _spatial(value: ir.Value, rank: int) -> tuple[MaybeDim, ...]:
    return (dims_of(value) or (None,) * (2 + rank))[2:]


def _pad(e: Emitter, x: ir.Value, window: Window, fill: ir.Value | None = None) -> ir.Value:
    """Pad the spatial axes as the operator's attributes say."""
    if window.pads is None:
        return _pad_same(e, x, window, fill)
    return _pad_by(e, x, window.pads, fill)


def _pad_by(
    e: Emitter, x: ir.Value, pads: Sequence[tuple[int, int]], fill: ir.Value | None = None
) -> ir.Value:
    if not any(amount for pair in pads for amount in pair):
        return x
    amounts = e.i64([0, 0, *(low for low, _ in pads), 0, 0, *(high for _, high in pads)])
    known = dims_of(x) or (None,) * (2 + len(pads))
    sizes = [
        d + low + high if isinstance(d, int) else None for d, (low, high) in zip(known[2:], pads, strict=True)
    ]
    return e.op("Pad", x, amounts, fill, shape=(*known[:2], *sizes))


def _pad_same(e: Emitter, x: ir.Value, window: Window, fill: ir.Value | None) -> ir.Value:
    """Padding that makes the result ``ceil(size / stride)`` long; the odd element where auto_pad says."""
    rank = len(window.kernel)
    known = _spatial(x, rank)
    upper = e.attr("auto_pad") == "SAME_UPPER"
    terms = zip(known, window.strides, window.reach, strict=True)
    if all(isinstance(d, int) for d in known):
        totals = [max((-(-d // s) - 1) * s + r + 1 - d, 0) for d, s, r in terms]  # type: ignore[operator]
        halves = [t // 2 if upper else t - t // 2 for t in totals]
        return _pad_by(e, x, [(h, t - h) for h, t in zip(halves, totals, strict=True)], fill)
    size = _shape(e, x, 2, rank)
    stride, reach = e.i64(window.strides), e.i64(window.reach)
    steps = e.op("Div", e.op("Sub", size, e.i64([1])), stride)  # the result's size less one
    total = e.op("Sub", e.op("Add", e.op("Mul", steps, stride), e.op("Add", reach, e.i64([1]))), size)
    total = e.op("Max", total, e.i64([0]))
    half = e.op("Div", total, e.i64([2]))
    rest = e.op("Sub", total, half)
    none = e.i64([0, 0])
    parts = [none, half, none, rest] if upper else [none, rest, none, half]
    amounts = e.op("Concat", *parts, axis=0, shape=(4 + 2 * rank,))
    return e.op("Pad", x, amounts, fill, shape=(*(dims_of(x) or (None, None))[:2], *(None,) * rank))


def _shape(e: Emitter, x: ir.Value, start: int, count: int) -> ir.Value:
    return e.op("Shape", x, start=start, end=start + count, dtype=DType.INT64, shape=(count,))


def _out(size: MaybeDim, reach: int, stride: int) -> int | None:
    return (size - reach - 1) // stride + 1 if isinstance(size, int) else None


def _taps(e: Emitter, x: ir.Value, axis: int, kernel: int, stride: int, dilation: int) -> list[ir.Value]:
    """What each element of the window sees along one axis: strided slices, all of the result's size."""
    known = list(dims_of(x) or (None,) * e.rank(x))
    reach = (kernel - 1) * dilation
    known[axis] = _out(known[axis], reach, stride)
    taps = []
    for k in range(kernel):
        start, left = k * dilation, reach - k * dilation
        if start == left == 0 and stride == 1:
            taps.append(x)
            continue
        bounds = [e.i64([start]), e.i64([-left if left else _END]), e.i64([axis])]
        steps = [e.i64([stride])] if stride > 1 else []
        taps.append(e.op("Slice", x, *bounds, *steps, shape=known))
    return taps


def _stack(e: Emitter, x: ir.Value, axis: int, kernel: int, stride: int, dilation: int) -> ir.Value:
    """Replace ``axis`` by two: the elements of the window, and its positions."""
    known = list(dims_of(x) or (None,) * e.rank(x))
    size = known[axis]
    count = _out(size, (kernel - 1) * dilation, stride)
    shape = (*known[:axis], kernel, count, *known[axis + 1 :])
    if isinstance(size, int) and count is not None and kernel > 1:
        index = np.arange(kernel)[:, None] * dilation + np.arange(count) * stride
        return e.op("Gather", x, e.const(index.astype(np.int64)), axis=axis, shape=shape)
    single = (*known[:axis], 1, count, *known[axis + 1 :])
    taps = [
        e.op("Unsqueeze", tap, e.i64([axis]), shape=single)
        for tap in _taps(e, x, axis, kernel, stride, dilation)
    ]
    return taps[0] if len(taps) == 1 else e.op("Concat", *taps, axis=axis, shape=shape)


# -- convolution ------------------------------------------------------------------------------


def conv(e: Emitter) -> ir.Value:
    """Conv as padding, taps and one MatMul."""
    x, w, bias = (*e.node.inputs, None)[:3]
    assert x is not None
    assert w is not None
    window = Window.of(e, _kernel(e, w))
    return _biased(e, _convolve(e, _pad(e, x, window), w, window, e.attr("group", 1)), bias)


def conv_transpose(e: Emitter) -> ir.Value:
    """ConvTranspose as a Conv of the input with zeros between its elements."""
    x, w, bias = (*e.node.inputs, None)[:3]
    assert x is not None
    assert w is not None
    if e.attr("auto_pad", "NOTSET") != "NOTSET" or e.attr("output_shape"):
        raise e.refuse("with auto_pad or output_shape")
    window = Window.of(e, _kernel(e, w))
    group = e.attr("group", 1)
    rank = len(window.kernel)
    extra = e.attr("output_padding", [0] * rank)
    assert window.pads is not None
    pads = [
        (r - low, r - high + more - (s - 1))
        for r, (low, high), more, s in zip(window.reach, window.pads, extra, window.strides, strict=True)
    ]
    x = _pad_by(e, _dilated(e, x, window.strides), pads)
    unit = Window(window.kernel, (1,) * rank, window.dilations, None)
    return _biased(e, _convolve(e, x, _flipped(e, w, group), unit, group), bias)


def _kernel(e: Emitter, w: ir.Value) -> tuple[int, ...]:
    kernel = [d for d in dims_of(w) or () if isinstance(d, int)][2:]
    if not kernel or len(kernel) + 2 != e.rank(w):
        raise e.refuse("with a kernel of unknown shape")
    return tuple(kernel)


def _static(value: ir.Value) -> tuple[int, ...]:
    return tuple(d for d in dims_of(value) or () if isinstance(d, int))


def _convolve(e: Emitter, x: ir.Value, w: ir.Value, window: Window, group: int) -> ir.Value:
    """The convolution of a padded input ``[n, c, ...]`` with ``w [m, c/group, ...]``."""
    rank = len(window.kernel)
    out, inner = _static(w)[:2]
    depth = inner * int(np.prod(window.kernel))
    patches = x
    if any(k > 1 for k in window.kernel) or any(s > 1 for s in window.strides):
        for i in range(rank):
            patches = _stack(e, patches, 2 + 2 * i, window.kernel[i], window.strides[i], window.dilations[i])
        order = [0, 1, *range(2, 2 + 2 * rank, 2), *range(3, 2 + 2 * rank, 2)]
        known = dims_of(patches) or (None,) * len(order)
        patches = e.op("Transpose", patches, perm=order, shape=[known[i] for i in order])
    batch, *space = [(dims_of(patches) or (None,) * e.rank(patches))[i] for i in (0, *range(-rank, 0))]
    sizes = [d for d in space if isinstance(d, int)]
    points = int(np.prod(sizes)) if len(sizes) == rank else None
    split = (group,) if group > 1 else ()
    columns = e.op(
        "Reshape", patches, e.i64([0, *split, depth, -1 if points is None else points]),
        shape=(batch, *split, depth, points),
    )  # fmt: skip
    rows = e.op("Reshape", w, e.i64([*split, out // group, depth]), shape=(*split, out // group, depth))
    product = e.op("MatMul", rows, columns, shape=(batch, *split, out // group, points))
    if points is not None:
        target = e.i64([0, out, *sizes])
    else:
        here = _shape(e, patches, e.rank(patches) - rank, rank)
        target = e.op("Concat", e.i64([0, out]), here, axis=0, shape=(2 + rank,))
    return e.op("Reshape", product, target, shape=(batch, out, *space))


def _biased(e: Emitter, y: ir.Value, bias: ir.Value | None) -> ir.Value:
    return y if bias is None else e.op("Add", y, per_channel(e, bias, e.rank(y)))


def _dilated(e: Emitter, x: ir.Value, strides: Sequence[int]) -> ir.Value:
    """``s - 1`` zeros behind every element of each spatial axis."""
    if all(s == 1 for s in strides):
        return x
    rank = len(strides)
    batch, channels, *space = dims_of(x) or (None,) * (2 + rank)
    apart = [p for d in space for p in (d, 1)]
    spread = e.op("Unsqueeze", x, e.i64([3 + 2 * i for i in range(rank)]), shape=(batch, channels, *apart))
    filled = [p for d, s in zip(space, strides, strict=True) for p in (d, s)]
    amounts = [0] * (2 + 2 * rank), [0, 0, *(p for s in strides for p in (0, s - 1))]
    spread = e.op("Pad", spread, e.i64([*amounts[0], *amounts[1]]), shape=(batch, channels, *filled))
    sizes = [d * s if isinstance(d, int) else None for d, s in zip(space, strides, strict=True)]
    known = [s for s in sizes if s is not None]
    if len(known) == rank:
        target = e.i64([0, 0, *known])
    else:
        size = e.op("Mul", _shape(e, x, 2, rank), e.i64(strides))
        target = e.op("Concat", e.i64([0, 0]), size, axis=0, shape=(2 + rank,))
    return e.op("Reshape", spread, target, shape=(batch, channels, *sizes))


def _flipped(e: Emitter, w: ir.Value, group: int) -> ir.Value:
    """``[c, m/group, ...]`` with reversed space as ``[m, c/group, ...]``."""
    channels, outer, *kernel = _static(w)
    rank = len(kernel)
    axes = [2 + i for i in range(rank) if kernel[i] > 1]
    if axes:
        back = e.i64([-1] * len(axes))
        w = e.op("Slice", w, back, e.i64([-_END] * len(axes)), e.i64(axes), back, shape=dims_of(w))
    inner = channels // group
    if group == 1:
        perm = [1, 0, *range(2, 2 + rank)]
        return e.op("Transpose", w, perm=perm, shape=(outer, channels, *kernel))
    split = (group, inner, outer, *kernel)
    w = e.op("Reshape", w, e.i64(split), shape=split)
    perm = [0, 2, 1, *range(3, 3 + rank)]
    w = e.op("Transpose", w, perm=perm, shape=(group, outer, inner, *kernel))
    joined = (group * outer, inner, *kernel)
    return e.op("Reshape", w, e.i64(joined), shape=joined)


# -- pooling ----------------------------------------------------------------------------------


def average_pool(e: Emitter) -> ir.Value:
    """Sums along one axis after another, divided by the number of elements that count."""
    x, window = _pooled(e)
    total = _folded(e, _pad(e, x, window), window, "Add", "ReduceSum")
    rank = len(window.kernel)
    whole = window.pads is not None and not any(p for pair in window.pads for p in pair)
    if whole or e.attr("count_include_pad", 0):
        return e.op("Div", total, e.like(float(np.prod(window.kernel)), total))
    space = _spatial(x, rank)
    sizes = [d for d in space if isinstance(d, int)]
    if len(sizes) == rank:
        ones = e.const(np.ones((1, 1, *sizes)), dtype_of(x))
    else:
        target = e.op("Concat", e.i64([1, 1]), _shape(e, x, 2, rank), axis=0, shape=(2 + rank,))
        ones = e.op("Expand", e.like(1.0, x), target, shape=(1, 1, *space))
    count = _folded(e, _pad(e, ones, window), window, "Add", "ReduceSum")
    return e.op("Div", total, count)


def max_pool(e: Emitter) -> ir.Value:
    """Maxima along one axis after another; padding is the smallest integer."""
    x, window = _pooled(e)
    lowest = e.like(np.iinfo(dtype_of(x).numpy()).min, x)
    return _folded(e, _pad(e, x, window, lowest), window, "Max", "ReduceMax")


def _pooled(e: Emitter) -> tuple[ir.Value, Window]:
    x = e.node.inputs[0]
    assert x is not None
    if e.attr("ceil_mode", 0):
        raise e.refuse("with ceil_mode")
    if len(e.node.outputs) > 1:
        raise e.refuse("with indices")
    return x, Window.of(e, e.attr("kernel_shape"))


def _folded(e: Emitter, x: ir.Value, window: Window, pair: str, reduction: str) -> ir.Value:
    """Reduce every window: by one reduction over stacked taps where sizes are known, else tap by tap."""
    for i, (k, s, d) in enumerate(zip(window.kernel, window.strides, window.dilations, strict=True)):
        axis = 2 + i
        known = list(dims_of(x) or (None,) * e.rank(x))
        if k > 2 and isinstance(known[axis], int):
            stacked = _stack(e, x, axis, k, s, d)
            known[axis] = _out(known[axis], (k - 1) * d, s)
            axes_as_input = e.opset >= 18 or reduction == "ReduceSum"
            if axes_as_input:
                x = e.op(reduction, stacked, e.i64([axis]), keepdims=0, shape=known)
            else:
                x = e.op(reduction, stacked, axes=[axis], keepdims=0, shape=known)
            continue
        first, *rest = _taps(e, x, axis, k, s, d)
        for tap in rest:
            first = e.op(pair, first, tap)
        x = first
    return x


EXPANSIONS: Mapping[tuple[str, DType | None], Callable[[Emitter], ir.Value | None]] = {
    **{("Conv", d): conv for d in (DType.DOUBLE, *INTEGERS)},
    **{("ConvTranspose", d): conv_transpose for d in (DType.DOUBLE, *INTEGERS)},
    ("AveragePool", DType.DOUBLE): average_pool,
    ("MaxPool", DType.INT64): max_pool,
    ("MaxPool", DType.UINT64): max_pool,
}
