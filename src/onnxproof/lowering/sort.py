"""Sorting. TopK is the one operator: stable, NaN as the largest value, zeros of both signs equal.

No operator sees the sign of a NaN, so NaN is the largest value for ``top_k`` too, whatever its sign (XLA's
``top_k`` puts NaN with the sign bit set last).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxproof.capture.program import Dim
from onnxproof.lowering.emit import F32, I64, Ctx
from onnxproof.lowering.precise import precise
from onnxproof.lowering.registry import ANY, lowers

# The sums of a product start at +0.0, which no finite number of terms turns into -0.0 short of underflow.
_NEVER_MINUS_ZERO = frozenset({"Abs", "Exp", "MatMul", "Sigmoid", "Softmax"})


@lowers("sort", is_stable=ANY)
def sort(ctx: Ctx, *operands: ir.Value, dimension: int, num_keys: int) -> Sequence[ir.Value]:
    """One stable sort for each key, the last key first; every operand then follows the permutation."""
    shape = ctx.out.shape
    n = shape[dimension]
    if n in (0, 1):
        return operands
    order: ir.Value | None = None
    for key in reversed(operands[:num_keys]):
        if order is not None:
            key = _follow(ctx, key, order, dimension)
        values, index = _top(ctx, key, n, dimension, largest=False)
        order = index if order is None else _follow(ctx, order, index, dimension)
    assert order is not None
    return [values, *(_in_order(ctx, x, order, dimension) for x in operands[1:])]


def _in_order(ctx: Ctx, x: ir.Value, order: ir.Value, axis: int) -> ir.Value:
    """An operand in sorted order; positions, which argsort sorts along, become the permutation itself."""
    return ctx.cast(order, ctx.dtype(x)) if _counts(ctx, x, axis) else _follow(ctx, x, order, axis)


def _counts(ctx: Ctx, x: ir.Value, axis: int) -> bool:
    """Whether ``x`` is known to hold 0, 1, 2 ... along ``axis``."""
    rank, node = ctx.rank(x), x.producer()
    if node is not None and node.op_type == "Expand":
        x = node.inputs[0] or x
        node = x.producer()
    shape = ctx.shape(x)
    if shape is None or any(d != 1 for i, d in enumerate(shape, rank - len(shape)) if i != axis):
        known = ctx.constant_value(x)
        return known is not None and shape is not None and len(shape) == rank and _is_count(known, axis)
    known = ctx.constant_value(x)
    if known is not None:
        return _is_count(known.reshape(-1), 0)
    while node is not None and node.op_type in ("Reshape", "Unsqueeze", "Cast"):
        node = node.inputs[0].producer() if node.inputs[0] is not None else None
    if node is None or node.op_type != "Range" or node.inputs[0] is None or node.inputs[2] is None:
        return False
    start, step = ctx.constant_value(node.inputs[0]), ctx.constant_value(node.inputs[2])
    return start is not None and step is not None and int(start) == 0 and int(step) == 1


def _is_count(array: np.ndarray[Any, Any], axis: int) -> bool:
    line = np.arange(array.shape[axis]).reshape(-1, *[1] * (array.ndim - axis - 1))
    return bool((array == line).all())


@lowers("top_k", is_stable=ANY)
def top_k(ctx: Ctx, x: ir.Value, *, k: Dim, axis: int) -> Sequence[ir.Value]:
    return _top_k(ctx, x, k, axis % len(ctx.ins[0].shape))


@lowers("approx_top_k", recall_target=ANY, reduction_input_size_override=ANY)
def approx_top_k(
    ctx: Ctx, x: ir.Value, *, k: Dim, reduction_dimension: int, is_max_k: bool, aggregate_to_topk: bool
) -> Sequence[ir.Value]:
    """The exact answer, which every recall allows."""
    axis = reduction_dimension % len(ctx.ins[0].shape)
    count = ctx.out.shape[axis]
    if not aggregate_to_topk and count != k:
        raise ctx.unsupported("aggregate_to_topk=False", "Leave aggregate_to_topk at True.")
    if is_max_k:
        return _top_k(ctx, x, count, axis)
    values, index = _top(ctx, x, count, axis, largest=False)
    return values, ctx.cast(index, ctx.outs[1].dtype)


def _top_k(ctx: Ctx, x: ir.Value, k: Dim, axis: int) -> Sequence[ir.Value]:
    """Largest first, the lower index first among equals, +0.0 before -0.0."""
    dtype: np.dtype[Any] = ctx.dtype(x)
    producer = x.producer()
    if dtype.kind in "iub" or (producer is not None and producer.op_type in _NEVER_MINUS_ZERO):
        values, index = _top(ctx, x, k, axis, largest=True)
        return values, ctx.cast(index, ctx.outs[1].dtype)
    # The reciprocal knows the sign of a zero: the key is x, moved by the least number where that can be seen.
    wide = ctx.cast(x, F32) if dtype.itemsize < 4 else x
    least = np.nextafter(np.zeros((), ctx.dtype(wide)), np.ones((), ctx.dtype(wide)))
    sign = ctx.op("Clip", ctx.op("Reciprocal", wide), ctx.const(-least), ctx.const(least))
    _, index = _top(ctx, ctx.op("Add", wide, sign), k, axis, largest=True)
    return _follow(ctx, x, index, axis), ctx.cast(index, ctx.outs[1].dtype)


def _top(ctx: Ctx, x: ir.Value, k: Dim, axis: int, largest: bool) -> Sequence[ir.Value]:
    """(values, int64 indices) of TopK."""
    x = precise(ctx, x)
    shape = list(ctx.shape(x) or ())
    shape[axis] = k
    return ctx.multi(
        "TopK",
        x,
        ctx.dim(k),
        dtypes=[ctx.dtype(x), I64],
        shapes=[tuple(shape), tuple(shape)],
        axis=axis,
        largest=int(largest),
    )


def _follow(ctx: Ctx, x: ir.Value, index: ir.Value, axis: int) -> ir.Value:
    """``x`` in the order of ``index`` along an axis."""
    return ctx.op("GatherElements", x, index, axis=axis, shape=ctx.shape(index))
