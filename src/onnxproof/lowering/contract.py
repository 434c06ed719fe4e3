"""Contractions: ``dot_general``, ``ragged_dot_general``, and products of operands with scales."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as ir

from onnxproof.capture.program import Dim, Shape, SymDim
from onnxproof.lowering.emit import BOOL, F32, F64, Ctx
from onnxproof.lowering.registry import lowers

_ALGORITHMS: dict[Any, np.dtype[Any]] = {
    jax.lax.DotAlgorithmPreset.F32_F32_F32: F32,
    jax.lax.DotAlgorithmPreset.F64_F64_F64: F64,
}
_WIDENING: dict[Any, str] = {  # operands that are of this dtype already are summed in float32
    jax.lax.DotAlgorithmPreset.BF16_BF16_F32: "bfloat16",
    jax.lax.DotAlgorithmPreset.F16_F16_F32: "float16",
}
_LEAST_ROW = 8  # elements behind a contracted axis, below which a product for each outer element is slow


def computing_dtype(ctx: Ctx) -> np.dtype[Any]:
    """The dtype in which XLA multiplies the two operands: the result's, unless theirs is the wider.

    A result that is narrower than the operands is rounded from a product in their dtype; a wider one
    (``preferred_element_type``) has its operands widened first.
    """
    wider = max((a.dtype for a in ctx.ins[:2]), key=_precedence)
    return wider if _precedence(wider) > _precedence(ctx.out.dtype) else ctx.out.dtype


def _precedence(dtype: np.dtype[Any]) -> tuple[int, int, int, bool]:
    if dtype == BOOL:
        return (-1, -1, 1, False)
    if dtype.kind in "iu":
        return (-1, -1, dtype.itemsize * 8, dtype.kind == "i")
    info = jnp.finfo(dtype)  # type: ignore[no-untyped-call]
    return (int(info.maxexp), int(info.nmant), dtype.itemsize * 8, True)


def product(dims: Sequence[Dim]) -> Dim:
    """The product of dimensions, symbolic ones in JAX's spelling."""
    number = int(np.prod([d for d in dims if isinstance(d, int)], dtype=np.int64))
    symbols = [str(d) if str(d).isidentifier() else f"({d})" for d in dims if isinstance(d, SymDim)]
    if not symbols or number == 0:
        return number
    if len(symbols) == 1 and number == 1:
        return next(d for d in dims if isinstance(d, SymDim))
    return SymDim("*".join([str(number)] * (number != 1) + symbols))


@dataclass(frozen=True, slots=True)
class _Side:
    """One operand: its value, and its axes by role, each list in the order of the result."""

    value: ir.Value
    shape: Shape
    batch: tuple[int, ...]
    free: tuple[int, ...]
    contract: tuple[int, ...]

    def sizes(self, axes: Sequence[int]) -> Shape:
        return tuple(self.shape[a] for a in axes)


@lowers("dot_general", out_sharding=None)
def dot_general(
    ctx: Ctx,
    x: ir.Value,
    y: ir.Value,
    *,
    dimension_numbers: Any,
    precision: Any,
    preferred_element_type: Any,
) -> ir.Value:
    del preferred_element_type  # the dtype of the result says it
    dtype = _algorithm_dtype(ctx, precision) or computing_dtype(ctx)
    if dtype == BOOL:
        dtype = F32  # a sum of products of 0 and 1 is exact enough to tell it from 0
    (cx, cy), (bx, by) = dimension_numbers
    if any(ctx.ins[0].shape[a] == 0 for a in cx):  # integer kernels leave such a sum unset
        return ctx.expand(ctx.const(0, ctx.out.dtype), ctx.out.shape)
    weight_first = _from_constant(x) and not _from_constant(y)
    pairs = sorted(zip(cx, cy, strict=True), key=lambda p: p[1] if weight_first else p[0])
    sides = []
    for value, aval, batch, k in ((x, ctx.ins[0], bx, 0), (y, ctx.ins[1], by, 1)):
        contract = tuple(int(p[k]) for p in pairs)
        free = tuple(i for i in range(aval.ndim) if i not in contract and i not in batch)
        sides.append(_Side(ctx.cast(value, dtype), aval.shape, tuple(batch), free, contract))
    left, right = sides
    if not pairs:
        result = _outer(ctx, left, right)
    elif left.batch and not left.free and not right.free and dtype.kind not in "iu":
        result = _row_by_row(ctx, left, right)
    elif left.batch and _computed(right) and len(left.free) <= 1:
        stacked = _stacked(ctx, right, left)
        n, m = len(left.batch), len(right.free)
        result = ctx.transpose(stacked, (*range(n), *range(n + m, n + m + len(left.free)), *range(n, n + m)))
    elif left.batch and _computed(left) and len(right.free) <= 1:
        result = _stacked(ctx, left, right)
    elif left.batch:
        result = _batched(ctx, *((right, left) if _turns(left, right) else (left, right)))
    elif (sides_across := _matrix_and_stack(left, right)) is not None:
        result = _across(ctx, *sides_across, matrix_first=sides_across[0] is left)
    elif weight_first and _trailing(right) and left.free and right.free:
        result = _swapped(ctx, left, right)
    else:
        result = _plain(ctx, left, right)
    return ctx.cast(ctx.reshape(result, ctx.out.shape), ctx.out.dtype)


def _algorithm_dtype(ctx: Ctx, precision: Any) -> np.dtype[Any] | None:
    """The operands' dtype that a requested algorithm fixes; precisions change nothing on a CPU."""
    presets = jax.lax.DotAlgorithmPreset
    if precision in _ALGORITHMS:
        return _ALGORITHMS[precision]
    if precision in _WIDENING and all(a.dtype.name == _WIDENING[precision] for a in ctx.ins[:2]):
        return F32
    if isinstance(precision, (presets, jax.lax.DotAlgorithm)) and precision != presets.DEFAULT:
        raise ctx.unsupported(
            f"the algorithm {precision} has no form in ONNX", way_out="Leave precision to its default."
        )
    return None


def _outer(ctx: Ctx, left: _Side, right: _Side) -> ir.Value:
    """No contraction: a product of every pair."""
    nb, nx, ny = len(left.batch), len(left.free), len(right.free)
    x = ctx.transpose(left.value, left.batch + left.free)
    y = ctx.transpose(right.value, right.batch + right.free)
    x = ctx.unsqueeze(x, range(nb + nx, nb + nx + ny))
    y = ctx.unsqueeze(y, range(nb, nb + nx)) if nb else y
    return ctx.op("Mul", x, y, shape=ctx.out.shape)


def _row_by_row(ctx: Ctx, left: _Side, right: _Side) -> ir.Value:
    """Batched dot products that share nothing: multiply and sum (half floats are summed wide)."""
    x, y = left.value, right.value
    narrow = ctx.dtype(x)
    if narrow.itemsize == 2:
        x, y = ctx.cast(x, F32), ctx.cast(y, F32)
    if list(left.batch) == sorted(left.batch):  # x stays as it is; y follows its order
        partner = dict(zip(left.batch + left.contract, right.batch + right.contract, strict=True))
        y = ctx.transpose(y, [partner[i] for i in range(len(left.shape))])
        axes = left.contract
    else:
        x = ctx.transpose(x, left.batch + left.contract)
        y = ctx.transpose(y, right.batch + right.contract)
        axes = tuple(range(len(left.batch), len(left.shape)))
    return ctx.cast(ctx.reduce("ReduceSum", ctx.op("Mul", x, y), axes), narrow)


def _batched(ctx: Ctx, left: _Side, right: _Side) -> ir.Value:
    """``[batch, m, k] @ [batch, k, n]``, each side transposed and reshaped where its layout asks for it."""
    batch, nb = left.sizes(left.batch), len(left.batch)
    k = product(left.sizes(left.contract))
    m, n = product(left.sizes(left.free)), product(right.sizes(right.free))
    x = ctx.transpose(left.value, left.batch + left.free + left.contract)
    y = ctx.transpose(right.value, right.batch + right.contract + right.free)
    single = len(left.contract) == 1
    x = ctx.unsqueeze(x, [nb]) if single and not left.free else ctx.reshape(x, (*batch, m, k))
    y = ctx.unsqueeze(y, [nb + 1]) if single and not right.free else ctx.reshape(y, (*batch, k, n))
    out = ctx.op("MatMul", x, y, shape=(*batch, m, n))
    if len(left.free) <= 1 and len(right.free) <= 1:
        return ctx.squeeze(out, [nb] * (not left.free) + [nb + 1] * (not right.free))
    return out


def _turns(left: _Side, right: _Side) -> bool:
    """Whether a product by single rows is laid out better the other way; its elements keep their order."""
    single = [bool(side.free) and all(d == 1 for d in side.sizes(side.free)) for side in (left, right)]
    if single == [True, False] and right.free:
        return max(right.free) < min(right.contract)
    if single == [False, True] and left.free:
        return min(left.free) > max(left.contract)
    return False


def _computed(side: _Side) -> bool:
    """Whether joining the free axes, and parting them again, would take a shape computed at run time."""
    return len(side.free) > 1 and sum(isinstance(d, SymDim) for d in side.sizes(side.free)) > 1


def _stacked(ctx: Ctx, rows: _Side, columns: _Side) -> ir.Value:
    """``[free, batch, m, k] @ [batch, k, n]`` by MatMul's broadcasting, as ``[batch, free, m, n]``."""
    outer, last = rows.free[:-1], rows.free[-1]
    batch, nb, no = rows.sizes(rows.batch), len(rows.batch), len(outer)
    k = product(rows.sizes(rows.contract))
    x = ctx.transpose(rows.value, (*outer, *rows.batch, last, *rows.contract))
    x = ctx.reshape(x, (*rows.sizes(outer), *batch, rows.shape[last], k))
    y = ctx.transpose(columns.value, columns.batch + columns.contract + columns.free)
    n = columns.sizes(columns.free)
    y = ctx.reshape(y, (*batch, k, *n)) if n else ctx.unsqueeze(ctx.reshape(y, (*batch, k)), [nb + 1])
    shape = (*rows.sizes(outer), *batch, rows.shape[last], *(n or (1,)))
    out = ctx.op("MatMul", x, y, shape=shape)
    if not n:
        out = ctx.squeeze(out, [len(shape) - 1])
    tail = range(no + nb, len(shape) if n else len(shape) - 1)
    return ctx.transpose(out, (*range(no, no + nb), *range(no), *tail))


def _plain(ctx: Ctx, left: _Side, right: _Side) -> ir.Value:
    """No batch: MatMul's rules for vectors and stacks of matrices take most layouts as they are."""
    direct = _vector(ctx, left, right)
    if direct is not None:
        return direct
    k = product(left.sizes(left.contract))
    x = ctx.transpose(left.value, left.free + left.contract)
    x = ctx.reshape(x, (*left.sizes(left.free), k))
    y = ctx.transpose(right.value, right.contract + right.free)
    n = product(right.sizes(right.free))
    return ctx.op("MatMul", x, ctx.reshape(y, (k, n)), shape=(*left.sizes(left.free), n))


def _from_constant(value: ir.Value) -> bool:
    """Whether the value is a constant, or one rearranged."""
    while value.const_value is None:
        producer = value.producer()
        if producer is None or producer.op_type not in (
            "Cast",
            "Reshape",
            "Squeeze",
            "Transpose",
            "Unsqueeze",
        ):
            return False
        value = producer.inputs[0]  # type: ignore[assignment]
    return True


def _trailing(side: _Side) -> bool:
    return side.free + side.contract == tuple(range(len(side.shape)))


def _swapped(ctx: Ctx, left: _Side, right: _Side) -> ir.Value:
    """A constant times rows, as ``vmap`` has it: rows times the constant, transposed at export."""
    rows, columns = right.sizes(right.free), left.sizes(left.free)
    out = ctx.reshape(_plain(ctx, right, left), (*rows, *columns))
    n, m = len(rows), len(columns)
    return ctx.transpose(out, (*range(n, n + m), *range(n)))


def _matrix_and_stack(left: _Side, right: _Side) -> tuple[_Side, _Side] | None:
    """(a matrix, an operand that it meets on an axis amid others), where MatMul takes both as they lie."""
    for matrix, stack in ((left, right), (right, left)):
        if len(matrix.shape) != 2 or len(stack.shape) < 3 or len(stack.contract) != 1 or not matrix.free:
            continue
        value, order = _before_transpose(stack)
        axis = order[stack.contract[0]]
        tail = [stack.shape[i] for i, a in enumerate(order) if a > axis]
        fixed = [d for d in tail if isinstance(d, int)]
        long = np.prod(fixed) >= _LEAST_ROW if len(fixed) == len(tail) else len(tail) == 1
        if (axis and tail and long) or (value is not stack.value and not tail):
            return matrix, stack
    return None


def _before_transpose(stack: _Side) -> tuple[ir.Value, tuple[int, ...]]:
    """(the product of which the stack is a transpose, the order of its axes there), or the stack as it is."""
    node = stack.value.producer()
    if node is not None and node.op_type == "Transpose" and node.inputs[0] is not None:
        maker = node.inputs[0].producer()
        if maker is not None and maker.op_type == "Reshape" and maker.inputs[0] is not None:
            maker = maker.inputs[0].producer()
        if maker is not None and maker.op_type == "MatMul":
            return node.inputs[0], tuple(node.attributes["perm"].as_ints())
    return stack.value, tuple(range(len(stack.shape)))


def _across(ctx: Ctx, matrix: _Side, stack: _Side, matrix_first: bool) -> ir.Value:
    """``[n, k] @ [outer, k, inner]``, its axes then in the order of the result; the stack is not transposed."""
    value, order = _before_transpose(stack)
    axis, shape = order[stack.contract[0]], ctx.shape(value) or ()
    (n,), tail = matrix.sizes(matrix.free), shape[axis + 1 :]
    if not tail:
        columns = ctx.transpose(matrix.value, matrix.contract + matrix.free)
        out = ctx.op("MatMul", value, columns, shape=(*shape[:axis], n))
    else:
        rows = ctx.transpose(matrix.value, matrix.free + matrix.contract)
        flat = ctx.reshape(value, (*shape[: axis + 1], product(tail)))
        out = ctx.op("MatMul", rows, flat, shape=(*shape[:axis], n, product(tail)))
        out = ctx.reshape(out, (*shape[:axis], n, *tail))
    free = [order[i] for i in stack.free]
    return ctx.transpose(out, (axis, *free) if matrix_first else (*free, axis))


def _vector(ctx: Ctx, left: _Side, right: _Side) -> ir.Value | None:
    """A vector against an operand whose contracted axis is the last or the last but one."""
    for vector, other in ((left, right), (right, left)):
        if len(vector.contract) != 1 or vector.free or not other.free:
            continue
        from_end = len(other.shape) - other.contract[0]
        if from_end == 1:
            return _times_vector(ctx, other.value, vector.value)
        if from_end == 2:
            return ctx.op("MatMul", vector.value, other.value, shape=ctx.out.shape)
    return None


def _times_vector(ctx: Ctx, rows: ir.Value, vector: ir.Value) -> ir.Value:
    """``rows @ vector``.

    ONNX Runtime fuses a Transpose, also one that it moves here from further up, with a MatMul by a vector into a
    wrong result. So a computed operand meets the vector as a column, or from the other side.
    """
    node = rows.producer()
    if node is None:
        return ctx.op("MatMul", rows, vector, shape=ctx.out.shape)
    if node.op_type == "Transpose" and node.inputs[0] is not None:
        perm, rank = list(node.attributes["perm"].as_ints()), ctx.rank(rows)
        if perm == [*range(rank - 2), rank - 1, rank - 2]:
            return ctx.op("MatMul", vector, node.inputs[0], shape=ctx.out.shape)
    column = ctx.op("MatMul", rows, ctx.unsqueeze(vector, [1]), shape=(*ctx.out.shape, 1))
    return ctx.squeeze(column, [-1])


@lowers("ragged_dot_general", group_offset=None, out_sharding=None)
def ragged_dot_general(
    ctx: Ctx,
    x: ir.Value,
    y: ir.Value,
    group_sizes: ir.Value,
    *,
    ragged_dot_dimension_numbers: Any,
    precision: Any,
    preferred_element_type: Any,
) -> ir.Value:
    numbers = ragged_dot_dimension_numbers
    dims = (numbers.dot_dimension_numbers, numbers.lhs_ragged_dimensions, numbers.rhs_group_dimensions)
    if dims != ((((1,), (1,)), ((), ())), (0,), (0,)) or ctx.ins[2].ndim != 1:
        raise ctx.unsupported(
            "only lax.ragged_dot's form, [m, k] x [groups, k, n] with one list of sizes, can be lowered"
        )
    fn = partial(_ragged_dot, precision, preferred_element_type)
    return ctx.jax(fn, x, y, group_sizes)[0]


def _ragged_dot(precision: Any, preferred: Any, x: jax.Array, y: jax.Array, sizes: jax.Array) -> jax.Array:
    """Rows masked into their groups, then one product over groups and k."""
    ends = jnp.cumsum(sizes)
    row = jnp.arange(x.shape[0], dtype=sizes.dtype)
    inside = ((ends - sizes)[:, None] <= row) & (row < ends[:, None])
    grouped = jnp.where(inside[:, :, None], x, jnp.zeros((), x.dtype))
    return jax.lax.dot_general(
        grouped,
        y,
        (((0, 2), (0, 1)), ((), ())),
        precision=precision,
        preferred_element_type=preferred,
    )


@lowers("scaled_matmul")
def scaled_matmul(
    ctx: Ctx, x: ir.Value, y: ir.Value, x_scales: ir.Value, y_scales: ir.Value, *, preferred_element_type: Any
) -> ir.Value:
    return ctx.jax(partial(_scaled_matmul, preferred_element_type), x, y, x_scales, y_scales)[0]


def _scaled_matmul(dtype: Any, *operands: jax.Array) -> jax.Array:
    """x [b, m, k] times y [b, n, k], each in blocks along k that have a scale of their own, computed in ``dtype``."""
    x, y, x_scales, y_scales = (operand.astype(dtype) for operand in operands)
    scaled = []
    for values, scales in ((x, x_scales), (y, y_scales)):
        blocks = values.reshape(*scales.shape, values.shape[2] // scales.shape[2]) * scales[..., None]
        scaled.append(blocks.reshape(values.shape))
    a, b = scaled
    return jax.lax.dot_general(a, b, (((2,), (2,)), ((0,), (0,))), preferred_element_type=dtype)


@lowers("scaled_dot")
def scaled_dot(
    ctx: Ctx,
    x: ir.Value,
    y: ir.Value,
    x_scales: ir.Value,
    y_scales: ir.Value,
    *,
    dimension_numbers: Any,
    preferred_element_type: Any,
) -> ir.Value:
    fn = partial(_scaled_dot, dimension_numbers, preferred_element_type)
    return ctx.jax(fn, x, y, x_scales, y_scales)[0]


def _scaled_dot(
    numbers: Any, preferred: Any, x: jax.Array, y: jax.Array, x_scales: jax.Array, y_scales: jax.Array
) -> jax.Array:
    """``dot_general`` of operands in bfloat16, which have a scale for each block along the axes of the sum."""
    scaled = []
    for values, scales, axes in ((x, x_scales, numbers[0][0]), (y, y_scales, numbers[0][1])):
        for axis in axes:
            scales = jnp.repeat(scales, values.shape[axis] // scales.shape[axis], axis)
        scaled.append(values.astype(jnp.bfloat16) * scales.astype(jnp.bfloat16))
    a, b = scaled
    return jax.lax.dot_general(a, b, numbers, preferred_element_type=preferred)
