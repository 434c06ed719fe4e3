"""Householder reflections: QR, Hessenberg and tridiagonal forms, products with Q.

A reflection is ``I - tau v v.H`` with v 1 at its own place and 0 before, and LAPACK's choice of signs, so that
factors and packed forms are LAPACK's own. For complex matrices tau is complex and R has a real diagonal.
"""

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
    by_part,
    conj,
    hermitian,
    in_double,
    indices,
    is_double,
    known_sizes,
    mapped,
    outer,
    over,
    scale_of,
    squared,
    with_real_diagonal,
)
from onnxproof.lowering.registry import ANY, lowers, lowers_complex


def reflector(x: Array, k: Array) -> tuple[Array, Array]:
    """(v, tau) of the reflection whose adjoint makes x[k] real and x[k+1:] zero; tau is 0 where they are already."""
    rows = indices(x)
    tail = jnp.where(rows > k, x, 0.0)
    alpha = at(x, k)
    square = jnp.sum(squared(tail))
    if jnp.iscomplexobj(x):
        square = square + alpha.imag * alpha.imag
    norm = jnp.sqrt(alpha.real * alpha.real + square)
    beta = jnp.where(1 / alpha.real < 0, norm, -norm)  # -0.0 is negative
    still = square == 0
    v = jnp.where(rows == k, 1.0, over(tail, jnp.where(still, 1.0, alpha - beta)))
    return v, jnp.where(still, 0.0, by_part(lambda x: x / jnp.where(still, 1.0, beta), beta - alpha))


def reflect(x: Array, v: Array, tau: Array) -> Array:
    """``(I - tau v v.H) @ x``."""
    return x - outer(v, tau * (conj(v) @ x))


def reflect_columns(x: Array, v: Array, tau: Array) -> Array:
    """``x @ (I - tau v v.H)``."""
    return x - outer(tau * (x @ v), conj(v))


def apply(vs: Array, taus: Array, x: Array, transpose: bool = False) -> Array:
    """``Q @ x`` or ``Q.H @ x``, where Q is the product of the reflections with vectors ``vs`` [k, m]."""

    def step(x: Array, item: tuple[Array, Array]) -> tuple[Array, None]:
        return reflect(x, *item), None

    return lax.scan(step, x, (vs, conj(taus) if transpose else taus), reverse=not transpose)[0]


def factor(a: Array) -> tuple[Array, Array, Array]:
    """(R and what rounding left below it, vectors [k, m], taus [k]) for a matrix [m, n]."""

    def step(rest: Array, k: Array) -> tuple[Array, tuple[Array, Array]]:
        v, tau = reflector(at(rest, k, 1), k)
        return reflect(rest, v, conj(tau)), (v, tau)

    r, (vs, taus) = lax.scan(step, a, lax.iota(jnp.int64, min(a.shape)))
    return with_real_diagonal(r), vs, taus


def _factor_pivoting(a: Array) -> tuple[Array, Array, Array, Array]:
    """As ``factor``, with the column of the largest remaining norm first each time, and the order of columns."""
    rows, columns = indices(a), indices(a, 1)

    def step(carry: tuple[Array, Array], k: Array) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        rest, order = carry
        tail = jnp.where((rows >= k)[:, None], rest, 0.0)
        place = jnp.argmax(jnp.where(columns >= k, jnp.sum(squared(tail), 0), -1.0))
        swap = jnp.where(columns == k, place, jnp.where(columns == place, k, columns))
        rest, order = at(rest, swap, 1), at(order, swap)
        v, tau = reflector(at(rest, k, 1), k)
        return (reflect(rest, v, conj(tau)), order), (v, tau)

    (r, order), (vs, taus) = lax.scan(step, (a, columns), lax.iota(jnp.int64, min(a.shape)))
    return with_real_diagonal(r), vs, taus, order.astype(jnp.int32)


def _pack(r: Array, vs: Array) -> Array:
    """R with the vectors below its diagonal, as LAPACK stores them."""
    m, n = r.shape
    under = jnp.pad(vs.T, ((0, 0), (0, n - vs.shape[0])))
    return jnp.where(below((m, n)), under, r)


def _unpack(a: Array, count: int) -> Array:
    """The vectors [count, m] that are stored below the diagonal of ``a``."""
    columns = a[:, :count]
    return jnp.where(below(columns.shape), columns, jnp.eye(columns.shape[0], count, dtype=a.dtype)).T


# -- QR ---------------------------------------------------------------------------------------


@lowers_complex("qr", use_magma=ANY)
@lowers("qr", use_magma=ANY)
def qr(ctx: Ctx, a: ir.Value, *, pivoting: bool, full_matrices: bool) -> Sequence[ir.Value]:
    m, n = ctx.ins[0].shape[-2:]
    if m != n:
        known_sizes(ctx, m, n)
    return in_double(ctx, mapped(_qr, pivoting, full_matrices, is_double(ctx)), a)


def _qr(pivoting: bool, full: bool, rescale: bool, a: Array) -> Sequence[Array]:
    m, n = a.shape
    size = m if full else min(m, n)
    if m == 0 or n == 0:
        empty = jnp.eye(m, size, dtype=a.dtype), jnp.zeros((size, n), a.dtype)
        return (*empty, jnp.zeros((n,), jnp.int32)) if pivoting else empty
    scale = scale_of(a) if rescale else 1.0
    if rescale:
        a = by_part(lambda x: x / scale, a)
    r, vs, taus, *order = (_factor_pivoting if pivoting else factor)(a)
    q = apply(vs, taus, jnp.eye(m, size, dtype=a.dtype))
    r = jnp.triu(r[:size])
    return q, by_part(lambda x: x * scale, r) if rescale else r, *order


@lowers_complex("geqrf")
@lowers("geqrf")
def geqrf(ctx: Ctx, a: ir.Value) -> Sequence[ir.Value]:
    known_sizes(ctx, *ctx.ins[0].shape[-2:])
    return in_double(ctx, mapped(_geqrf), a)


def _geqrf(a: Array) -> tuple[Array, Array]:
    r, vs, taus = factor(a)
    return _pack(r, vs), taus


@lowers_complex("householder_product")
@lowers("householder_product")
def householder_product(ctx: Ctx, a: ir.Value, taus: ir.Value) -> ir.Value:
    known_sizes(ctx, *ctx.ins[0].shape[-2:])
    return in_double(ctx, mapped(_householder_product, ranks=(2, 1)), a, taus)[0]


def _householder_product(a: Array, taus: Array) -> Array:
    return apply(_unpack(a, taus.shape[0]), taus, jnp.eye(a.shape[0], a.shape[1], dtype=a.dtype))


@lowers_complex("ormqr")
@lowers("ormqr")
def ormqr(ctx: Ctx, a: ir.Value, taus: ir.Value, c: ir.Value, *, left: bool, transpose: bool) -> ir.Value:
    known_sizes(ctx, *ctx.ins[0].shape[-2:])
    return in_double(ctx, mapped(_ormqr, left, transpose, ranks=(2, 1, 2)), a, taus, c)[0]


def _ormqr(left: bool, transpose: bool, a: Array, taus: Array, c: Array) -> Array:
    vs = _unpack(a, taus.shape[0])
    return apply(vs, taus, c, transpose) if left else conj(apply(vs, taus, conj(c).T, not transpose)).T


# -- Hessenberg and tridiagonal forms ---------------------------------------------------------


@lowers_complex("hessenberg")
@lowers("hessenberg")
def hessenberg(ctx: Ctx, a: ir.Value) -> Sequence[ir.Value]:
    known_sizes(ctx, ctx.ins[0].shape[-1])
    return in_double(ctx, mapped(_hessenberg), a)


def _hessenberg(a: Array) -> tuple[Array, Array]:
    """LAPACK's packed form: H with the vectors below its first subdiagonal."""
    h, vs, taus = reduce(a)
    packed = jnp.where(below((a.shape[0] - 1, a.shape[0])), jnp.pad(vs[:, 1:].T, ((0, 0), (0, 1))), h[1:])
    return jnp.concatenate([h[:1], packed]), taus


def reduce(a: Array) -> tuple[Array, Array, Array]:
    """(Q.H @ a @ Q, Hessenberg up to rounding, vectors [n - 1, n] and taus [n - 1] of Q)."""

    def step(rest: Array, k: Array) -> tuple[Array, tuple[Array, Array]]:
        v, tau = reflector(at(rest, k, 1), k + 1)
        return reflect_columns(reflect(rest, v, conj(tau)), v, tau), (v, tau)

    h, (vs, taus) = lax.scan(step, a, lax.iota(jnp.int64, a.shape[0] - 1))
    return with_real_diagonal(h, 1), vs, taus


@lowers_complex("tridiagonal")
@lowers("tridiagonal")
def tridiagonal(ctx: Ctx, a: ir.Value, *, lower: bool) -> Sequence[ir.Value]:
    known_sizes(ctx, ctx.ins[0].shape[-1])
    return in_double(ctx, mapped(_lower_tridiagonal if lower else _upper_tridiagonal), a)


def _lower_tridiagonal(a: Array) -> tuple[Array, Array, Array, Array]:
    """(packed, diagonal, off-diagonal, taus) from the lower triangle; the strict upper one stays as it is."""
    packed, taus = _hessenberg(hermitian(True, a))
    packed = jnp.where(below(a.shape).T, a, packed)
    return packed, jnp.diagonal(packed).real, jnp.diagonal(packed, -1).real, taus


def _upper_tridiagonal(a: Array) -> tuple[Array, Array, Array, Array]:
    """From the upper triangle: the lower form of the matrix with its rows and columns in reverse order."""
    packed, diagonal, off, taus = _lower_tridiagonal(a[::-1, ::-1])
    return packed[::-1, ::-1], diagonal[::-1], off[::-1], taus[::-1]
