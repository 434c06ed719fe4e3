"""Running reductions along an axis: ``cumsum`` and its like."""

from __future__ import annotations

from typing import Any, Final

import ml_dtypes
import numpy as np
import onnx_ir as ir

from onnxproof.lowering.emit import F32, F64, Ctx
from onnxproof.lowering.reduce import identity_of, scan
from onnxproof.lowering.registry import lowers

_LONG: Final = 64  # terms up to which a running float32 sum is as accurate as XLA's sum of partial sums
_MASKED: Final = 1 << 16  # elements of the square that cumlogsumexp may build in place of a Scan
_CUMPROD: Final = 26  # the opset that brought CumProd


@lowers("cumsum")
def cumsum(ctx: Ctx, x: ir.Value, *, axis: int, reverse: bool) -> ir.Value:
    dtype = ctx.dtype(x)
    n = ctx.out.shape[axis]
    if dtype.kind not in "iub":
        if dtype.itemsize < 4:
            x = ctx.cast(x, F32)
        elif dtype == F32 and not (isinstance(n, int) and n <= _LONG):
            x = ctx.cast(x, F64)
    y = ctx.op("CumSum", x, ctx.const(axis, np.dtype(np.int64)), reverse=int(reverse) or None)
    return ctx.cast(y, dtype)


@lowers("cumprod")
def cumprod(ctx: Ctx, x: ir.Value, *, axis: int, reverse: bool) -> ir.Value:
    if ctx.opset >= _CUMPROD:
        return ctx.op("CumProd", x, ctx.const(axis, np.dtype(np.int64)), reverse=int(reverse) or None)
    return _running(ctx, "Mul", x, axis, reverse)


@lowers("cummax")
def cummax(ctx: Ctx, x: ir.Value, *, axis: int, reverse: bool) -> ir.Value:
    return _running(ctx, "Max", x, axis, reverse)


@lowers("cummin")
def cummin(ctx: Ctx, x: ir.Value, *, axis: int, reverse: bool) -> ir.Value:
    return _running(ctx, "Min", x, axis, reverse)


@lowers("cumlogsumexp")
def cumlogsumexp(ctx: Ctx, x: ir.Value, *, axis: int, reverse: bool) -> ir.Value:
    n, size = ctx.out.shape[axis], ctx.out.size
    if n in (0, 1):
        return x
    if isinstance(n, int) and size is not None and size * n <= _MASKED:
        return _masked_logsumexp(ctx, x, axis, n, reverse)
    return scan(ctx, _logaddexp, x, axis, reverse, neutral=-np.inf)[1]


def _running(ctx: Ctx, op: str, x: ir.Value, axis: int, reverse: bool) -> ir.Value:
    """Each step doubles how far a total reaches: it combines with the total just before its own."""
    shape, dtype = ctx.out.shape, ctx.out.dtype
    n = shape[axis]
    if not isinstance(n, int):
        return scan(ctx, op, x, axis, reverse)[1]
    neutral = ctx.const(identity_of(op, dtype), dtype)
    reach = 1
    while reach < n:
        pads = np.zeros((2, len(shape)), np.int64)
        pads[:, axis] = (-reach, reach) if reverse else (reach, -reach)
        moved = ctx.op("Pad", x, ctx.i64(pads.ravel().tolist()), neutral, shape=shape)
        x = ctx.op(op, x, moved)
        reach *= 2
    return x


def _masked_logsumexp(ctx: Ctx, x: ir.Value, axis: int, n: int, reverse: bool) -> ir.Value:
    """log-sum-exp over the square of (result, term), terms beyond the result masked out."""
    dtype: np.dtype[Any] = ctx.dtype(x)
    rank = len(ctx.out.shape)
    seen = np.triu(np.ones((n, n), bool)) if reverse else np.tri(n, dtype=bool)
    mask = ctx.const(seen.reshape(n, n, *[1] * (rank - axis - 1)))
    terms = ctx.op("Where", mask, ctx.unsqueeze(x, [axis]), ctx.const(-np.inf, dtype))
    # A finite shift: infinite terms then give infinite totals, not NaN.
    limits = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    top = ctx.reduce("ReduceMax", terms, [axis + 1], keepdims=True)
    shift = ctx.op("Clip", top, ctx.const(limits.min, dtype), ctx.const(limits.max, dtype))
    total = ctx.reduce("ReduceSum", ctx.op("Exp", ctx.op("Sub", terms, shift)), [axis + 1])
    return ctx.op("Add", ctx.op("Log", total), ctx.squeeze(shift, [axis + 1]))


def _logaddexp(ctx: Ctx, total: ir.Value, item: ir.Value) -> ir.Value:
    """log(exp(total) + exp(item)) as JAX computes it, infinities included."""
    top = ctx.op("Max", total, item)
    gap = ctx.op("Neg", ctx.op("Abs", ctx.op("Sub", total, item)))
    one = ctx.const(1, ctx.dtype(total))
    sum_ = ctx.op("Add", top, ctx.op("Log", ctx.op("Add", ctx.op("Exp", gap), one)))
    return ctx.op("Where", ctx.op("IsNaN", gap), ctx.op("Add", total, item), sum_)
