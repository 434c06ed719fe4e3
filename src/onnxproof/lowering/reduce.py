"""Reductions over axes.

What ONNX Runtime's kernels do differently and these rules make good: ReduceMax and ReduceMin drop NaN,
ReduceSum and ReduceProd of integers go through floating point, and long float sums are plain running sums.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
import onnx_ir as ir

from onnxproof.capture.program import Aval, Dim, Program, Shape, SymDim
from onnxproof.lowering.contract import product
from onnxproof.lowering.emit import F32, I64, Ctx
from onnxproof.lowering.monoid import lift, named
from onnxproof.lowering.precise import precise
from onnxproof.lowering.registry import ANY, lowers

# Terms of a float32 ReduceSum whose rounding error stays below 1e-5 (measured with equal terms): over
# leading, inner and trailing axes, which run in one, a few and many lanes.
_LEADING, _INNER, _TRAILING = 1024, 4096, 8192
NEVER_NEGATIVE: Final = frozenset({"Abs", "Exp", "Relu", "Sigmoid", "Softmax", "Sqrt"})


@lowers("reduce_sum", out_sharding=None)
def reduce_sum(ctx: Ctx, x: ir.Value, *, axes: Sequence[int]) -> ir.Value:
    if not axes:
        return x
    return _float_sum(ctx, x, axes) if _is_float(ctx.dtype(x)) else _int_sum(ctx, x, axes)


@lowers("reduce_prod", out_sharding=None)
def reduce_prod(ctx: Ctx, x: ir.Value, *, axes: Sequence[int]) -> ir.Value:
    if not axes:
        return x
    return ctx.reduce("ReduceProd", x, axes) if _is_float(ctx.dtype(x)) else fold(ctx, "Mul", x, axes)


@lowers("reduce_max", out_sharding=None)
def reduce_max(ctx: Ctx, x: ir.Value, *, axes: Sequence[int]) -> ir.Value:
    return _extremum(ctx, x, axes, largest=True)


@lowers("reduce_min", out_sharding=None)
def reduce_min(ctx: Ctx, x: ir.Value, *, axes: Sequence[int]) -> ir.Value:
    return _extremum(ctx, x, axes, largest=False)


@lowers("reduce_and", out_sharding=None)
def reduce_and(ctx: Ctx, x: ir.Value, *, axes: Sequence[int]) -> ir.Value:
    if ctx.dtype(x) == np.bool_:
        return _extremum(ctx, x, axes, largest=False)
    return fold(ctx, "BitwiseAnd", x, axes)


@lowers("reduce_or", out_sharding=None)
def reduce_or(ctx: Ctx, x: ir.Value, *, axes: Sequence[int]) -> ir.Value:
    if ctx.dtype(x) == np.bool_:
        return _extremum(ctx, x, axes, largest=True)
    return fold(ctx, "BitwiseOr", x, axes)


@lowers("reduce_xor", out_sharding=None)
def reduce_xor(ctx: Ctx, x: ir.Value, *, axes: Sequence[int]) -> ir.Value:
    return fold(ctx, "Xor" if ctx.dtype(x) == np.bool_ else "BitwiseXor", x, axes)


@lowers("argmax")
def argmax(ctx: Ctx, x: ir.Value, *, axes: Sequence[int], index_dtype: Any) -> ir.Value:
    return _arg_extremum(ctx, x, axes[0], index_dtype, largest=True)


@lowers("argmin")
def argmin(ctx: Ctx, x: ir.Value, *, axes: Sequence[int], index_dtype: Any) -> ir.Value:
    return _arg_extremum(ctx, x, axes[0], index_dtype, largest=False)


@lowers("reduce", computation=ANY)
def reduce(ctx: Ctx, *operands: ir.Value, jaxpr: Program, dimensions: Sequence[int]) -> Sequence[ir.Value]:
    """A known computation by its own rule, another one element after element, as XLA does on a CPU."""
    n = len(operands) // 2
    xs, inits = operands[:n], operands[n:]
    known = named(jaxpr)
    if known is not None:
        total = _BY_NAME[known](ctx, xs[0], axes=dimensions)
        return [ctx.op(binary_op(known, ctx.out.dtype), inits[0], total)]
    body = lift(jaxpr, ctx.out.shape)
    if body is None:
        raise ctx.unsupported("its computation is not element-wise on scalars")
    lowered = ctx.body(body)
    return list(
        ctx.multi(
            "Scan",
            *(ctx.expand(i, ctx.out.shape) for i in inits),
            *(_leading(ctx, x, dimensions) for x in xs),
            dtypes=[a.dtype for a in ctx.outs],
            shapes=[a.shape for a in ctx.outs],
            body=lowered.graph("reduce_body", lowered.inputs, lowered.outputs),
            num_scan_inputs=n,
        )
    )


def binary_op(primitive: str, dtype: np.dtype[Any]) -> str:
    """The ONNX operator of a primitive that :func:`onnxproof.lowering.monoid.named` gives."""
    bitwise = "" if dtype == np.bool_ else "Bitwise"
    if dtype == np.bool_ and primitive in ("add", "max", "mul", "min"):
        return "Or" if primitive in ("add", "max") else "And"
    return f"{bitwise}{primitive.title()}" if primitive in ("and", "or", "xor") else primitive.title()


def identity_of(op: str, dtype: np.dtype[Any]) -> Any:
    """The neutral element of Add, Mul, Max, Min and the logical and bitwise operators."""
    match op:
        case "Max" | "Min":
            if _is_float(dtype):
                return -np.inf if op == "Max" else np.inf
            if dtype == np.bool_:
                return op == "Min"
            limits = np.iinfo(dtype)
            return limits.min if op == "Max" else limits.max
        case "Mul":
            return 1
        case "And":
            return True
        case "BitwiseAnd":
            return np.asarray(-1).astype(dtype)  # all bits, signed or not
        case _:
            return 0


def fold(ctx: Ctx, op: str, x: ir.Value, axes: Sequence[int]) -> ir.Value:
    """Reduce by a commutative binary operator: by halves, or step by step along a symbolic length."""
    if not axes:
        return x
    x = _leading(ctx, x, axes)
    shape = ctx.shape(x) or ()
    n, rest = shape[0], shape[1:]
    neutral = ctx.const(identity_of(op, ctx.dtype(x)), ctx.dtype(x))
    if n == 0:
        return ctx.expand(neutral, rest)
    one_more = ctx.i64([0] * len(shape) + [1] + [0] * len(rest))
    if not isinstance(n, int):  # a Scan needs an element
        x = ctx.op("Pad", x, one_more, neutral, shape=(SymDim(f"{n} + 1"), *rest))
        return scan(ctx, op, x, 0, reverse=False)[0]
    while n > 1:
        if n % 2:
            n += 1
            x = ctx.op("Pad", x, one_more, neutral, shape=(n, *rest))
        n //= 2
        lower = ctx.slice(x, [0], [n], [0], shape=(n, *rest))
        upper = ctx.slice(x, [n], [2 * n], [0], shape=(n, *rest))
        x = ctx.op(op, lower, upper)
    return ctx.squeeze(x, [0])


def scan(
    ctx: Ctx,
    op: str | Callable[[Ctx, ir.Value, ir.Value], ir.Value],
    x: ir.Value,
    axis: int,
    reverse: bool,
    neutral: Any = None,
) -> tuple[ir.Value, ir.Value]:
    """(total, running totals) of ``x`` along ``axis`` as a Scan; the latter have the shape of ``x``."""
    dtype, shape = ctx.dtype(x), ctx.shape(x) or ()
    rest = Aval((*shape[:axis], *shape[axis + 1 :]), dtype)
    if neutral is None:
        assert isinstance(op, str)
        neutral = identity_of(op, dtype)
    inner = ctx.within(ctx.scope, [])
    total, item = inner.value(rest), inner.value(rest)
    new = inner.op(op, total, item) if isinstance(op, str) else op(inner, total, item)
    graph = ir.Graph([total, item], inner.distinct([new, new]), nodes=inner.nodes, name="scan_body")
    # Scan moves a later axis to the front by itself, and stops the process where another axis is empty.
    first = [axis, *(a for a in range(len(shape)) if a != axis)]
    final, running = ctx.multi(
        "Scan",
        ctx.expand(ctx.const(neutral, dtype), rest.shape),
        ctx.transpose(x, first),
        dtypes=[dtype, dtype],
        shapes=[rest.shape, tuple(shape[a] for a in first)],
        body=graph,
        num_scan_inputs=1,
        scan_input_directions=[1] if reverse else None,
        scan_output_directions=[1] if reverse else None,
    )
    return final, ctx.transpose(running, [first.index(a) for a in range(len(shape))])


def _is_float(dtype: np.dtype[Any]) -> bool:
    return dtype.kind not in "iub"


def _leading(ctx: Ctx, x: ir.Value, axes: Sequence[int]) -> ir.Value:
    """``x`` with ``axes`` merged, in their order, into one leading axis."""
    shape = ctx.shape(x) or ()
    kept = [i for i in range(len(shape)) if i not in axes]
    x = ctx.transpose(x, [*axes, *kept])
    return ctx.reshape(x, (product([shape[i] for i in axes]), *(shape[i] for i in kept)))


# -- sums -----------------------------------------------------------------------------------------


def _float_sum(ctx: Ctx, x: ir.Value, axes: Sequence[int]) -> ir.Value:
    """ReduceSum, in two stages where one running sum would lose digits."""
    shape, dtype = ctx.shape(x) or (), ctx.dtype(x)
    fixed = [a for a in axes if isinstance(shape[a], int)]
    if not fixed or _is_short(shape, fixed):
        return ctx.reduce("ReduceSum", x, axes)
    x = ctx.cast(x, F32) if dtype.itemsize < 4 else x  # partial sums are not rounded to half precision
    for first, last in reversed(_runs(fixed)):
        x = _split_sum(ctx, x, first, last)
    symbolic = [a - sum(f < a for f in fixed) for a in axes if a not in fixed]
    return ctx.cast(ctx.reduce("ReduceSum", x, symbolic), dtype)


def _split_sum(ctx: Ctx, x: ir.Value, first: int, last: int) -> ir.Value:
    """Sum over the static axes ``first`` to ``last``, as a sum of sums of equal length."""
    shape = ctx.shape(x) or ()
    if _is_short(shape, range(first, last + 1)):
        return ctx.reduce("ReduceSum", x, range(first, last + 1))
    before, after = shape[:first], shape[last + 1 :]
    count = product(shape[first : last + 1])
    assert isinstance(count, int)
    inner = next((d for d in range(_LEADING, 31, -1) if count % d == 0), 0)
    if not inner:  # no fitting divisor: make the length a multiple
        inner = 512
        pads = [0] * (2 * (first + 1 + len(after)))
        pads[first + 1 + len(after) + first] = -count % inner
        x = ctx.reshape(x, (*before, count, *after))
        count += -count % inner
        x = ctx.op("Pad", x, ctx.i64(pads), shape=(*before, count, *after))
    x = ctx.reshape(x, (*before, count // inner, inner, *after))
    x = ctx.reduce("ReduceSum", x, [first + 1])
    return _split_sum(ctx, x, first, first)


def _is_short(shape: Shape, axes: Sequence[int]) -> bool:
    """Whether one ReduceSum over the static ``axes`` is accurate."""
    count, first, last = product([shape[a] for a in axes]), min(axes), max(axes)
    if any(d != 1 for d in shape[last + 1 :]):
        limit = _INNER if any(d != 1 for d in shape[:first]) and len(axes) == last - first + 1 else _LEADING
    else:
        limit = _TRAILING
    return isinstance(count, int) and count <= limit


def _runs(axes: Sequence[int]) -> list[tuple[int, int]]:
    """Axes as runs of neighbours, first and last of each."""
    order = sorted(axes)
    starts = [order[0], *(b for a, b in pairwise(order) if b != a + 1)]
    ends = [*(a for a, b in pairwise(order) if b != a + 1), order[-1]]
    return list(zip(starts, ends, strict=True))


def _int_sum(ctx: Ctx, x: ir.Value, axes: Sequence[int]) -> ir.Value:
    """A product with ones: exact modulo the width, and much faster than ReduceSum of integers."""
    shape = ctx.shape(x) or ()
    if any(shape[a] == 0 for a in axes):
        return ctx.expand(ctx.const(0, ctx.dtype(x)), _without(shape, axes))
    for first, last in reversed(_runs(axes)):
        shape = ctx.shape(x) or ()
        before, after = shape[:first], shape[last + 1 :]
        count = product(shape[first : last + 1])
        ones = ctx.expand(ctx.const([1], ctx.dtype(x)), (count,))
        if after:
            columns = product(after)
            x = ctx.reshape(x, (*before, count, columns))
            x = ctx.op("MatMul", ones, x, shape=(*before, columns))
            x = ctx.reshape(x, (*before, *after))
        else:
            x = ctx.op("MatMul", ctx.reshape(x, (*before, count)), ones, shape=before)
    return x


def _without(shape: Shape, axes: Sequence[int]) -> tuple[Dim, ...]:
    return tuple(d for i, d in enumerate(shape) if i not in axes)


# -- extrema --------------------------------------------------------------------------------------


def _extremum(ctx: Ctx, x: ir.Value, axes: Sequence[int], largest: bool) -> ir.Value:
    """ReduceMax or ReduceMin, with the NaN that they drop put back.

    The sum of magnitudes, in any order and rounding, is never below the largest value, nor is its negative
    above the smallest one, and it is NaN exactly where there is a NaN. Max and Min propagate that.
    """
    if not axes:
        return x
    shape, dtype = ctx.shape(x) or (), ctx.dtype(x)
    op = "Max" if largest else "Min"
    if any(shape[a] == 0 for a in axes):
        return ctx.expand(ctx.const(identity_of(op, dtype), dtype), _without(shape, axes))
    if all(shape[a] == 1 for a in axes):
        return ctx.squeeze(x, axes)
    y = ctx.reduce(f"Reduce{op}", x, axes)
    if not _is_float(dtype):
        return y
    producer = x.producer()
    magnitude = x if producer is not None and producer.op_type in NEVER_NEGATIVE else ctx.op("Abs", x)
    bound = ctx.reduce("ReduceSum", magnitude, axes)
    return ctx.op("Min", y, bound) if largest else ctx.op("Max", y, ctx.op("Neg", bound))


def _arg_extremum(ctx: Ctx, x: ir.Value, axis: int, index_dtype: Any, largest: bool) -> ir.Value:
    """TopK of one for floats, since it takes the first NaN as the largest value where ArgMax drops it."""
    shape, dtype = ctx.shape(x) or (), ctx.dtype(x)
    kept = _without(shape, [axis])
    if not _is_float(dtype):
        index = ctx.op("ArgMax" if largest else "ArgMin", x, axis=axis, keepdims=0, shape=kept)
        return ctx.cast(index, np.dtype(index_dtype))
    x = precise(ctx, x)
    x = x if largest else ctx.op("Neg", x)  # NaN stays the largest
    one = (*shape[:axis], 1, *shape[axis + 1 :])
    _, index = ctx.multi("TopK", x, ctx.i64([1]), dtypes=[dtype, I64], shapes=[one, one], axis=axis)
    return ctx.cast(ctx.squeeze(index, [axis]), np.dtype(index_dtype))


_BY_NAME: dict[str, Callable[..., ir.Value]] = {
    "add": reduce_sum,
    "mul": reduce_prod,
    "max": reduce_max,
    "min": reduce_min,
    "and": reduce_and,
    "or": reduce_or,
    "xor": reduce_xor,
}
