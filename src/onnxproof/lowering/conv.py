"""Convolutions: ``conv_general_dilated`` as Conv, or as ConvTranspose where the input is dilated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxproof.capture import dims as dim_algebra
from onnxproof.capture.program import Dim, Shape, SymDim
from onnxproof.lowering.contract import computing_dtype, product
from onnxproof.lowering.emit import Ctx
from onnxproof.lowering.registry import ANY, lowers

_END = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class _Window:
    """The spatial side of a convolution, one entry for each spatial axis, and the number of groups."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    pads: tuple[tuple[Dim, Dim], ...]
    dilations: tuple[int, ...]
    groups: int

    @property
    def reach(self) -> tuple[int, ...]:
        """Input elements before the last one that a window sees."""
        return tuple((k - 1) * d for k, d in zip(self.kernel, self.dilations, strict=True))


@lowers("conv_general_dilated", precision=ANY, out_sharding=None, preferred_element_type=ANY)
def conv_general_dilated(
    ctx: Ctx,
    x: ir.Value,
    w: ir.Value,
    *,
    window_strides: Sequence[int],
    padding: Sequence[tuple[Dim, Dim]],
    lhs_dilation: Sequence[int],
    rhs_dilation: Sequence[int],
    dimension_numbers: Any,
    feature_group_count: int,
    batch_group_count: int,
) -> ir.Value:
    shapes = ctx.ins[0].shape, ctx.ins[1].shape
    if any(d == 0 for shape in (*shapes, ctx.out.shape) for d in shape):
        return ctx.expand(ctx.const(0, ctx.out.dtype), ctx.out.shape)  # sums of nothing, or no sums
    kernel = tuple(d for d in (shapes[1][i] for i in dimension_numbers.rhs_spec[2:]) if isinstance(d, int))
    if (
        len(kernel) < len(dimension_numbers.rhs_spec) - 2
    ):  # features may vary: the batch, in gradients of kernels
        raise ctx.unsupported("a kernel of symbolic size", "Give the kernel a fixed size.")
    dtype = computing_dtype(ctx)
    x, w = ctx.cast(x, dtype), ctx.cast(w, dtype)
    x = ctx.transpose(x, dimension_numbers.lhs_spec)
    w = ctx.transpose(w, dimension_numbers.rhs_spec)
    groups = feature_group_count
    if batch_group_count > 1:
        x, groups = _batch_to_features(ctx, x, batch_group_count), batch_group_count
    if not window_strides:  # no spatial axis at all: a window of one element
        x, w = ctx.unsqueeze(x, [2]), ctx.unsqueeze(w, [2])
        y = ctx.squeeze(_conv(ctx, x, w, _Window((1,), (1,), ((0, 0),), (1,), groups)), [2])
    else:
        strides, pads = tuple(window_strides), tuple(padding)
        window = _Window(kernel, strides, pads, tuple(rhs_dilation), groups)
        if any(d > 1 for d in lhs_dilation):
            y = _conv_transpose(ctx, x, w, tuple(lhs_dilation), window)
        else:
            y = _conv(ctx, x, w, window)
    back = np.argsort(dimension_numbers.out_spec).tolist()
    return ctx.cast(ctx.transpose(y, back), ctx.out.dtype)


def _batch_to_features(ctx: Ctx, x: ir.Value, groups: int) -> ir.Value:
    """``[g*n, c, ...]`` to ``[n, g*c, ...]``: groups of the batch become groups of channels."""
    batch, channels, *space = ctx.shape(x) or ()
    if isinstance(batch, SymDim):
        raise ctx.unsupported("batch_group_count with a symbolic batch")
    n = batch // groups
    if n == 1:
        return ctx.reshape(x, (1, product((groups, channels)), *space))
    x = ctx.reshape(x, (groups, n, channels, *space))
    x = ctx.transpose(x, (1, 0, *range(2, 3 + len(space))))
    return ctx.reshape(x, (n, product((groups, channels)), *space))


def _conv(ctx: Ctx, x: ir.Value, w: ir.Value, window: _Window) -> ir.Value:
    """Conv on ``[n, c, ...]`` and ``[o, c/groups, ...]``."""
    space = (ctx.shape(x) or ())[2:]
    auto_pad = None
    if any(isinstance(p, SymDim) for pair in window.pads for p in pair):
        if _is_same_padding(space, window):
            auto_pad = "SAME_UPPER"
        else:
            x = _pad_symbolic(ctx, x, window.pads)
        window = replace(window, pads=((0, 0),) * len(space))
    elif any(p < 0 for pair in window.pads for p in pair):  # type: ignore[operator]
        x, window = _crop(ctx, x, window)
    pads = [p[side] for side in (0, 1) for p in window.pads]
    return ctx.op(
        "Conv",
        x,
        w,
        shape=_result_shape(ctx),
        kernel_shape=window.kernel,
        strides=window.strides if any(s > 1 for s in window.strides) else None,
        dilations=window.dilations if any(d > 1 for d in window.dilations) else None,
        pads=pads if any(pads) else None,
        group=window.groups if window.groups > 1 else None,
        auto_pad=auto_pad,
    )


def _result_shape(ctx: Ctx) -> Shape:
    """The shape of the result in the order batch, channels, space."""
    spec = ctx.eqn.params["dimension_numbers"].out_spec
    shape = tuple(ctx.out.shape[i] for i in spec)
    return shape if len(shape) > 2 else (*shape, 1)


def _crop(ctx: Ctx, x: ir.Value, window: _Window) -> tuple[ir.Value, _Window]:
    """Take off what negative padding takes off; Conv itself pads only outwards."""
    cropped = list(ctx.shape(x) or ())
    starts, ends, axes, left = [], [], [], []
    for axis, (low, high) in enumerate(window.pads, 2):
        assert isinstance(low, int)
        assert isinstance(high, int)
        left.append((max(low, 0), max(high, 0)))
        if low < 0 or high < 0:
            starts.append(max(-low, 0))
            ends.append(high if high < 0 else _END)
            axes.append(axis)
            cropped[axis] = _plus(cropped[axis], min(low, 0) + min(high, 0))
    if any(isinstance(d, int) and d < 0 for d in cropped):
        raise ctx.unsupported("negative padding takes off more than there is")
    x = ctx.slice(x, starts, ends, axes, shape=tuple(cropped))
    return x, replace(window, pads=tuple(left))


def _plus(dim: Dim, number: int) -> Dim:
    if isinstance(dim, int):
        return dim + number
    return SymDim(f"{dim} {'-' if number < 0 else '+'} {abs(number)}") if number else dim


def _pad_symbolic(ctx: Ctx, x: ir.Value, pads: Sequence[tuple[Dim, Dim]]) -> ir.Value:
    """Pad with zeros by amounts that depend on the input's size."""
    shape = ctx.shape(x) or ()
    amounts = ctx.dims((0, 0, *(p[0] for p in pads), 0, 0, *(p[1] for p in pads)))
    padded = tuple(SymDim(f"{low} + {d} + {high}") for d, (low, high) in zip(shape[2:], pads, strict=True))
    return ctx.op("Pad", x, amounts, shape=(*shape[:2], *padded))


def _is_same_padding(space: Shape, window: _Window) -> bool:
    """Whether symbolic padding is what Conv calls SAME_UPPER, told by its value at many sizes.

    The padding is built of floordiv, max and linear terms of one variable with small constants, so that
    agreement at every size up to far beyond those constants is agreement at all.
    """
    if any(d > 1 for d in window.dilations):
        return False
    names = {n for d in space for n in dim_algebra.symbols(d)}
    names |= {n for pair in window.pads for p in pair for n in dim_algebra.symbols(p)}
    for axis, (low, high) in enumerate(window.pads):
        used = dim_algebra.symbols(space[axis]) | dim_algebra.symbols(low) | dim_algebra.symbols(high)
        if len(used) > 1 or (isinstance(low, SymDim) and _largest(low, high) > 4096):
            return False
        stride, reach = window.strides[axis], window.reach[axis]
        span = 8 * (1 + reach + stride + _largest(low, high, space[axis]))
        for n in range(1, span if used else 2):
            env = dict.fromkeys(used, n)
            size = dim_algebra.evaluate(space[axis], env)
            if size <= 0:
                continue
            total = max((-(-size // stride) - 1) * stride + reach + 1 - size, 0)
            found = dim_algebra.evaluate(low, env), dim_algebra.evaluate(high, env)
            if found != (total // 2, total - total // 2):
                return False
    return True


def _largest(*dims: Dim) -> int:
    """The largest constant that stands in the dimensions."""
    found = 0
    stack = [dim_algebra.Num(d) if isinstance(d, int) else dim_algebra.parse(d) for d in dims]
    while stack:
        expr = stack.pop()
        if isinstance(expr, dim_algebra.Num):
            found = max(found, abs(expr.value))
        elif isinstance(expr, dim_algebra.Op):
            stack += [expr.left, expr.right]
    return found


def _conv_transpose(
    ctx: Ctx, x: ir.Value, w: ir.Value, dilation: tuple[int, ...], window: _Window
) -> ir.Value:
    """A convolution of the dilated input: ConvTranspose with the flipped kernel, then what strides leave.

    Conv with padding (low, high) of the dilated input gives what ConvTranspose gives when it cuts
    ``reach - low`` and ``reach - high`` off its full result; where that is negative, zeros are added.
    """
    pads = [(low, high) for low, high in window.pads if isinstance(low, int) and isinstance(high, int)]
    if len(pads) < len(window.pads):
        raise ctx.unsupported("padding of symbolic size with a dilated input")
    cut = [(r - low, r - high) for r, (low, high) in zip(window.reach, pads, strict=True)]
    begins, ends = [max(low, 0) for low, _ in cut], [max(high, 0) for _, high in cut]
    before, after = [max(-low, 0) for low, _ in cut], [max(-high, 0) for _, high in cut]
    output_padding = [0] * len(after)
    if any(after) and all(e < d for e, d in zip(after, dilation, strict=True)):
        output_padding, after = after, output_padding
    n, o = _result_shape(ctx)[:2]
    sizes = [
        _plus(_minus_one_times(size, d), 1 + r + more - b - e)
        for size, d, r, more, b, e in zip(
            (ctx.shape(x) or ())[2:], dilation, window.reach, output_padding, begins, ends, strict=True
        )
    ]
    if any(isinstance(s, int) and s <= 0 for s in sizes):
        raise ctx.unsupported("padding takes off more than there is")
    y = ctx.op(
        "ConvTranspose",
        x,
        _flipped(ctx, w, window),
        shape=(n, o, *sizes),
        kernel_shape=window.kernel,
        strides=dilation,
        dilations=window.dilations if any(d > 1 for d in window.dilations) else None,
        pads=[*begins, *ends] if any(begins) or any(ends) else None,
        output_padding=output_padding if any(output_padding) else None,
        group=window.groups if window.groups > 1 else None,
    )
    if any(before) or any(after):
        sizes = [_plus(s, low + high) for s, low, high in zip(sizes, before, after, strict=True)]
        y = ctx.op("Pad", y, ctx.i64([0, 0, *before, 0, 0, *after]), shape=(n, o, *sizes))
    steps = [(axis, s) for axis, s in enumerate(window.strides, 2) if s > 1]
    if steps:
        axes = [axis for axis, _ in steps]
        strides = [s for _, s in steps]
        y = ctx.slice(y, [0] * len(axes), [_END] * len(axes), axes, strides, shape=_result_shape(ctx))
    return y


def _minus_one_times(dim: Dim, factor: int) -> Dim:
    """``(dim - 1) * factor``."""
    if isinstance(dim, int):
        return (dim - 1) * factor
    return _plus(SymDim(f"{factor}*{dim}" if dim.isidentifier() else f"{factor}*({dim})"), -factor)


def _flipped(ctx: Ctx, w: ir.Value, window: _Window) -> ir.Value:
    """``[o, c/g, ...]`` to ``[c, o/g, ...]``, each spatial axis reversed: the kernel of a transposed Conv."""
    out, channels = (ctx.shape(w) or ())[:2]
    kernel = window.kernel
    space = range(len(kernel))
    axes = [2 + i for i in space if kernel[i] > 1]
    if axes:
        ones = [-1] * len(axes)
        w = ctx.slice(w, ones, [-_END] * len(axes), axes, ones, shape=(out, channels, *kernel))
    g = window.groups
    if g == 1:
        return ctx.transpose(w, (1, 0, *(2 + i for i in space)))
    if isinstance(out, SymDim):
        raise ctx.unsupported("groups of features whose number is symbolic")
    w = ctx.reshape(w, (g, out // g, channels, *kernel))
    w = ctx.transpose(w, (0, 2, 1, *(3 + i for i in space)))
    return ctx.reshape(w, (product((g, channels)), out // g, *kernel))
