"""Max pooling by ONNX Runtime's MaxPool, kept exact.

The operator loses a NaN that other elements of its window follow, and between convolutions it turns a window of
nothing but -inf into the lowest finite number. Behind a Relu the mean of a window is NaN exactly where an element
is; elsewhere a sum of squares says whether every element is finite, and slices are taken where one is not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np
import onnx_ir as ir

from onnxproof.capture.program import Aval, Shape, SymDim
from onnxproof.lowering.emit import BOOL, Ctx
from onnxproof.lowering.reduce import NEVER_NEGATIVE

if TYPE_CHECKING:
    from onnxproof.lowering.window import Windows

Cut = Callable[[Ctx, ir.Value, "Windows"], ir.Value]

_BLOCK: Final = 16  # channels that ONNX Runtime keeps together between convolutions
_MOST_READS: Final = (5, 128)  # of an element, up to which the mean, and MaxPool itself, are the faster form
_VIEWS: Final = frozenset({"MaxPool", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})
_CHANNELS_FIRST: Final = frozenset({"AveragePool", "Conv", "ConvTranspose", "MaxPool", "Transpose"})
_CARRYING: Final = _VIEWS | frozenset(
    "Add Clip Concat Div Elu Gelu HardSigmoid LeakyRelu Max Mul Relu Selu Sigmoid Sub Sum Tanh".split()
)


def max_pool(ctx: Ctx, x: ir.Value, windows: Windows, cut: Cut) -> ir.Value | None:
    """The maxima of float32 windows over two axes, or None where slices are the faster form.

    ``cut`` takes the maxima by slices, of an operand and windows in the order batch, channels, height, width.
    """
    axes = _axes(ctx, x, windows)
    if axes is None:
        return None
    outer, space = axes
    if any(a > space[0] for a in outer[1:]) and not _comes_channels_first(x):
        return None
    shape, rank = ctx.shape(x) or (), len(windows.size)
    kept = [a for a in range(rank) if a in (*outer, *space)]
    missing = 4 - len(kept)
    flat = (1,) * missing + tuple(shape[a] for a in kept)
    order = [*range(missing), *(missing + kept.index(a) for a in (*outer, *space))]
    images = ctx.transpose(ctx.reshape(x, flat), order)
    out = (1,) * missing + tuple(ctx.out.shape[a] for a in (*outer, *space))
    y = _exact(ctx, images, windows.over(space), out, cut)
    return ctx.reshape(ctx.transpose(y, np.argsort(order).tolist()), ctx.out.shape)


def _axes(ctx: Ctx, x: ir.Value, windows: Windows) -> tuple[list[int], list[int]] | None:
    """(axes of batch and channels, the two axes of the windows) where MaxPool can do it, unit axes left out."""
    shape, w = ctx.shape(x) or (), windows
    space = [a for a, (k, s) in enumerate(zip(w.size, w.strides, strict=True)) if k != 1 or s != 1]
    outer = [a for a in range(len(shape)) if a not in space]
    outer = outer if len(outer) <= 2 else [a for a in outer if shape[a] != 1]
    if ctx.out.dtype != np.float32 or len(space) != 2 or len(outer) > 2:
        return None
    if any(d != 1 for d in (*w.base_dilation, *w.dilation)) or 0 in ctx.out.shape:
        return None
    if any(w.padding[a] != (0, 0) for a in range(len(shape)) if a not in space):
        return None
    for a in space:
        size, window, pads = shape[a], w.size[a], w.padding[a]
        if isinstance(size, SymDim) or not isinstance(window, int) or window == size:
            return None
        if any(isinstance(p, SymDim) or not 0 <= p < window for p in pads):
            return None
    if outer and any(shape[a] == 0 or isinstance(shape[a], SymDim) for a in outer[1:]):
        return None
    sizes = [int(w.size[a]) / w.strides[a] for a in space]
    return (outer, space) if math.prod(sizes) <= _MOST_READS[1] else None


def _exact(ctx: Ctx, x: ir.Value, windows: Windows, out: Shape, cut: Cut) -> ir.Value:
    """The maxima of ``x`` [batch, channels, height, width]."""
    highest = _pooled(ctx, "MaxPool", x, windows, out)
    reads = math.prod(int(k) / s for k, s in zip(windows.size, windows.strides, strict=True))
    channels = out[1]
    if reads <= _MOST_READS[0] and isinstance(channels, int) and channels % _BLOCK == 0 and _not_negative(x):
        mean = _pooled(ctx, "AveragePool", x, windows, out)
        return ctx.op("Max", highest, ctx.op("Min", mean, highest))  # a mean that overflows is no maximum
    total = ctx.op("ReduceSumSquare", x, keepdims=0, shape=())
    finite = ctx.op("LessOrEqual", total, ctx.const(np.finfo(np.float32).max), dtype=BOOL)
    inner = ctx.viewed([Aval(ctx.shape(x) or (), ctx.out.dtype)], [Aval(out, ctx.out.dtype)], {})
    plain, careful = (inner.within(ctx.scope, []) for _ in range(2))
    results = plain.op("Identity", highest), cut(careful, x, windows)
    then, other = (
        ir.Graph([], c.distinct([y]), nodes=c.nodes, name="branch")
        for c, y in zip((plain, careful), results, strict=True)
    )
    (y,) = ctx.multi("If", finite, dtypes=[ctx.out.dtype], shapes=[out], then_branch=then, else_branch=other)
    return y


def _pooled(ctx: Ctx, op: str, x: ir.Value, windows: Windows, out: Shape) -> ir.Value:
    pads = [windows.padding[a][side] for side in (0, 1) for a in (2, 3)]
    kernel, strides = windows.size[2:], windows.strides[2:]
    return ctx.op(op, x, shape=out, kernel_shape=kernel, strides=strides, pads=pads if any(pads) else None)


def _not_negative(value: ir.Value) -> bool:
    """Whether every element is known to be 0, more, or NaN."""
    node = value.producer()
    if node is None or node.domain:
        return False
    operands = [v for v in node.inputs if v is not None]
    if node.op_type in _VIEWS:
        return _not_negative(operands[0])
    if node.op_type == "Concat":
        return all(map(_not_negative, operands))
    if node.op_type == "Max":
        return any(map(_not_negative, operands))
    return node.op_type in NEVER_NEGATIVE


def _comes_channels_first(value: ir.Value) -> bool:
    """Whether a convolution or a transpose above leaves the layout that MaxPool takes."""
    todo, seen = [value], {value}
    for v in todo:
        node = v.producer()
        if node is None or node.domain:
            continue
        if node.op_type in _CHANNELS_FIRST:
            return True
        if node.op_type in _CARRYING:
            new = [i for i in node.inputs if i is not None and i not in seen]
            seen.update(new)
            todo += new
    return False
