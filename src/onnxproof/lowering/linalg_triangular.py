"""Systems with a triangular or a tridiagonal matrix."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import onnx_ir as ir
from jax import lax

from onnxproof.lowering.emit import Ctx
from onnxproof.lowering.linalg import Array, at, conj, in_double, indices, mapped, outer, over, size_of
from onnxproof.lowering.registry import lowers, lowers_complex


@lowers_complex("triangular_solve")
@lowers("triangular_solve")
def triangular_solve(
    ctx: Ctx,
    a: ir.Value,
    b: ir.Value,
    *,
    left_side: bool,
    lower: bool,
    transpose_a: bool,
    conjugate_a: bool,
    unit_diagonal: bool,
) -> ir.Value:
    """Substitution, an unknown at a time. The other triangle, and a unit diagonal, are never looked at."""
    fn = mapped(_triangular_solve, left_side, lower, transpose_a, conjugate_a, unit_diagonal, ranks=(2, 2))
    return in_double(ctx, fn, a, b)[0]


def _triangular_solve(
    left: bool, lower: bool, transpose: bool, conjugate: bool, unit: bool, a: Array, b: Array
) -> Array:
    if not left:  # x op(a) = b is op(a).T x.T = b.T
        return _triangular_solve(True, lower, not transpose, conjugate, unit, a, b.T).T
    if conjugate:
        a = conj(a)
    forward = lower != transpose
    rows = indices(a)

    def step(rest: Array, item: tuple[Array, Array]) -> tuple[Array, Array]:
        k, column = item
        unknown = at(rest, k)
        if not unit:
            unknown = over(unknown, at(column, k))
        ahead = rows > k if forward else rows < k
        return rest - outer(jnp.where(ahead, column, 0.0), unknown), unknown

    return lax.scan(step, b, (rows, a if transpose else a.T), reverse=not forward)[1]


@lowers_complex("tridiagonal_solve", perturb_singular=False)
@lowers("tridiagonal_solve", perturb_singular=False)
def tridiagonal_solve(ctx: Ctx, dl: ir.Value, d: ir.Value, du: ir.Value, b: ir.Value) -> ir.Value:
    """Elimination with row interchanges; NaN for a matrix that this shows to be singular, as from LAPACK."""
    return in_double(ctx, mapped(_tridiagonal_solve, ranks=(1, 1, 1, 2)), dl, d, du, b)[0]


def _tridiagonal_solve(dl: Array, d: Array, du: Array, b: Array) -> Array:
    zero = jnp.zeros((), d.dtype)

    def eliminate(row: Any, item: Any) -> tuple[Any, Any]:
        """Fold the next row into the pivot row: the one of them with the larger first element."""
        pivot, right, rhs = row
        low, middle, far, next_rhs = item
        swap = size_of(low) > size_of(pivot)
        top = [
            jnp.where(swap, y, x) for x, y in ((pivot, low), (right, middle), (zero, far), (rhs, next_rhs))
        ]
        under = [
            jnp.where(swap, x, y) for x, y in ((pivot, low), (right, middle), (zero, far), (rhs, next_rhs))
        ]
        factor = under[0] / top[0]
        rest = tuple(y - factor * x for x, y in zip(top[1:], under[1:], strict=True))
        return rest, tuple(top)

    def substitute(known: Any, item: Any) -> tuple[Any, Array]:
        after, second = known
        pivot, right, far, rhs = item
        x = (rhs - right * after - far * second) / pivot
        return (x, after), x

    last, tops = lax.scan(eliminate, (d[0], du[0], b[0]), (dl[1:], d[1:], du[1:].at[-1:].set(0.0), b[1:]))
    x = last[2] / last[0]
    _, before = lax.scan(substitute, (x, jnp.zeros_like(x)), tops, reverse=True)
    solution = jnp.concatenate([before, x[None]])
    singular = jnp.any(tops[0] == 0) | (last[0] == 0)
    return jnp.where(singular, jnp.nan, solution)
