"""LU factorization with partial pivoting."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import onnx_ir as ir
from jax import lax

from onnxproof.lowering.emit import Ctx
from onnxproof.lowering.linalg import (
    Array,
    at,
    below,
    in_double,
    indices,
    known_sizes,
    mapped,
    outer,
    over,
    size_of,
)
from onnxproof.lowering.registry import lowers, lowers_complex


@lowers_complex("lu")
@lowers("lu")
def lu(ctx: Ctx, a: ir.Value) -> Sequence[ir.Value]:
    """A column at a time, with the pivots that LAPACK takes: the first largest one in the order of the rows.

    A pivot of 0 is left where it stands, as LAPACK leaves it.
    """
    m, n = ctx.ins[0].shape[-2:]
    if m != n:
        known_sizes(ctx, m, n)
    return in_double(ctx, mapped(_lu), a)


def _lu(a: Array) -> tuple[Array, Array, Array]:
    """(L and U in one matrix, pivots, permutation). Rows stay where they are; the permutation moves."""
    m, n = a.shape
    rows = indices(a)

    def step(
        carry: tuple[Array, Array, Array], k: Array
    ) -> tuple[tuple[Array, Array, Array], tuple[Array, Array, Array]]:
        rest, live, order = carry
        column = at(rest, k, 1)
        size = at(jnp.where(live, size_of(column), -1.0), order)
        place = jnp.argmax(size)
        pivot_row = at(order, place)
        order = jnp.where(rows == k, pivot_row, jnp.where(rows == place, at(order, k), order))
        live = live & (rows != pivot_row)
        pivot = at(column, pivot_row)
        factors = jnp.where(live, over(column, jnp.where(pivot == 0, 1.0, pivot)), 0.0)
        row = at(rest, pivot_row)
        return (rest - outer(factors, row), live, order), (factors, row, place)

    start = (a, jnp.ones((m,), bool), rows)
    (_, _, order), (factors, upper, pivots) = lax.scan(step, start, lax.iota(jnp.int64, min(m, n)))
    lower = at(factors, order, 1).T
    if m < n:
        lower = jnp.pad(lower, ((0, 0), (0, n - m)))
    elif m > n:
        upper = jnp.pad(upper, ((0, m - n), (0, 0)))
    return jnp.where(below((m, n)), lower, upper), pivots.astype(jnp.int32), order.astype(jnp.int32)


@lowers("lu_pivots_to_permutation")
def lu_pivots_to_permutation(ctx: Ctx, pivots: ir.Value, *, permutation_size: int) -> ir.Value:
    fn = mapped(_permutation, permutation_size, ranks=(1,))
    return ctx.jax(fn, pivots)[0]


def _permutation(size: int, pivots: Array) -> Array:
    """The permutation that the swaps of row k with row ``pivots[k]`` make, in order."""
    places = lax.iota(pivots.dtype, size)

    def step(order: Array, swap: tuple[Array, Array]) -> tuple[Array, None]:
        k, pivot = swap
        moved = jnp.where(places == pivot, at(order, k), order)
        return jnp.where(places == k, at(order, pivot), moved), None

    return lax.scan(step, places, (lax.iota(pivots.dtype, pivots.shape[0]), pivots))[0]
