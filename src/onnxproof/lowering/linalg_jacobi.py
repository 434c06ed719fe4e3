"""Eigenvalues of symmetric and Hermitian matrices and singular values, by Jacobi's method.

Rows are paired, n / 2 pairs at a time, each pair is rotated, and the rows then move one place round a ring, so
that each meets each in a sweep of n - 1 rounds and stands at its own place again after it. Sweeps go on until
nothing is left to rotate; convergence is quadratic, 5 to 10 sweeps do. Eigenvalues and singular values are within
a few n ulp of float64 of the largest one, as LAPACK's are; vectors are orthonormal to the same, also for repeated
eigenvalues and matrices without full rank.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as ir
from jax import lax

from onnxproof.lowering.emit import Ctx
from onnxproof.lowering.linalg import (
    Array,
    at,
    by_part,
    conj,
    hermitian,
    in_double,
    is_double,
    known_sizes,
    nan_unless,
    scale_of,
    spelled,
    squared,
)
from onnxproof.lowering.linalg_qr import apply, factor
from onnxproof.lowering.registry import lowers, lowers_complex

_MOST_SWEEPS = 30
_NO_SQUARE = 1e-280  # of a length that is 0 beside a matrix near 1, or as small as float32 has them
_NOTHING = 8 * float(np.finfo(np.float64).eps)  # a relative size that rounding leaves anyway


# -- rounds and sweeps ------------------------------------------------------------------------


def _ring(n: int) -> np.ndarray[Any, Any]:
    """Which row comes to each place after a round: the first one stays, the others move round a ring."""
    half = n // 2
    ring = np.array([*range(1, half), *range(n - 1, half - 1, -1)])
    source = np.zeros(n, np.int64)
    source[np.roll(ring, -1)] = ring
    return source


def _rotation(p: Array, q: Array, pq: Array) -> tuple[Array, Array]:
    """(cosine, sine) of the smaller angle that makes [[p, pq], [conj pq, q]] diagonal; the sine has the phase of pq."""
    gap = q - p
    twice = _times(jnp.where(gap < 0, -2.0, 2.0), pq)
    size = jnp.abs(gap) + jnp.sqrt(gap * gap + squared(twice))
    size = jnp.where(size == 0, 1.0, size)
    tangent = by_part(lambda part: part / size, twice)
    cosine = lax.rsqrt(squared(tangent) + 1)
    return cosine, _times(cosine, tangent)


def _times(real: Array, x: Array) -> Array:
    return by_part(lambda part: part * real, x)


def _turn(cosine: Array, sine: Array) -> Callable[[Array], Array]:
    """What a round does to rows: rotate row i against row i + n / 2, then move all to their next places."""
    half = cosine.shape[0]
    here = _ring(2 * half)
    other = (here + half) % (2 * half)
    keep = at(jnp.concatenate([cosine, cosine]), here)[:, None]
    mix = at(jnp.concatenate([-sine, conj(sine)]), here)[:, None]
    return lambda rows: _times(keep, at(rows, here)) + mix * at(rows, other)


def _sweeps(round_: Callable[[Any], Any], unfinished: Callable[[Any], Array], state: Any, n: int) -> Any:
    """Rounds on a batch of states, a sweep at a time, until no state is unfinished."""

    def go_on(carry: Any) -> Array:
        count, going, _ = carry
        return going & (count < _MOST_SWEEPS)

    def sweep(carry: Any) -> Any:
        count, _, state = carry
        state = lax.fori_loop(0, max(n - 1, 1), lambda _, s: jax.vmap(round_)(s), state)
        return count + 1, jnp.any(jax.vmap(unfinished)(state)), state

    return lax.while_loop(go_on, sweep, (0, jnp.any(jax.vmap(unfinished)(state)), state))[2]


def _flat(a: Array) -> tuple[Array, tuple[Any, ...]]:
    """A batch of matrices along one leading axis, and the leading dimensions that it stands for."""
    lead = a.shape[:-2]
    return a.reshape((math.prod(lead), *a.shape[-2:])), lead


def _scaled_down(flat: Array, scale: Array) -> Array:
    return by_part(lambda x: x / scale[:, None, None], flat)


# -- symmetric eigenvalues --------------------------------------------------------------------


@lowers_complex("eigh", algorithm=None)
@lowers("eigh", algorithm=None)
def eigh(
    ctx: Ctx, a: ir.Value, *, lower: bool, sort_eigenvalues: bool, subset_by_index: Any
) -> Sequence[ir.Value]:
    """(vectors, values), ascending whether asked for or not, as on JAX's CPU; NaN where an input is not finite."""
    n = ctx.ins[0].shape[-1]
    known_sizes(ctx, n)
    if subset_by_index not in (None, (0, n)):
        raise ctx.unsupported("a subset of the eigenvalues is not available on JAX's CPU either")
    return in_double(ctx, spelled(_eigh, lower, is_double(ctx)), a)


def _eigh(lower: bool, rescale: bool, a: Array) -> tuple[Array, Array]:
    n = a.shape[-1]
    flat, lead = _flat(a)
    flat = jax.vmap(partial(hermitian, lower))(flat)
    scale = jax.vmap(scale_of)(flat) if rescale else jnp.ones(flat.shape[:1])
    padded = jnp.pad(_scaled_down(flat, scale), ((0, 0), (0, n % 2), (0, n % 2)))
    size = padded.shape[-1]
    start = (padded, jnp.broadcast_to(jnp.eye(size, dtype=a.dtype), padded.shape))
    rotated, vectors = _sweeps(_two_sided, _has_off_diagonal, start, size)
    values = jax.vmap(jnp.diagonal)(rotated)[:, :n].real
    order = jnp.argsort(values, axis=-1)
    values = jnp.take_along_axis(values, order, -1) * scale[:, None]
    vectors = conj(jax.vmap(at)(vectors[:, :n, :n], order).mT)
    ok = jnp.all(jnp.isfinite(flat), (1, 2))
    values, vectors = nan_unless(ok[:, None], values), nan_unless(ok[:, None, None], vectors)
    return vectors.reshape((*lead, n, n)), values.reshape((*lead, n))


def _two_sided(state: tuple[Array, Array]) -> tuple[Array, Array]:
    """A round on (A, V.H): J.H A J is the turn of the adjoint of the turn of A, which is Hermitian."""
    a, vectors = state
    n = a.shape[0]
    half = n // 2
    first = np.arange(half)
    places = np.concatenate([first * (n + 1), (first + half) * (n + 1), first * (n + 1) + half])
    p, q, pq = at(a.reshape(-1), places).reshape(3, half)
    turn = _turn(*_rotation(p.real, q.real, pq))
    return turn(conj(turn(a).T)), turn(vectors)


def _has_off_diagonal(state: tuple[Array, Array]) -> Array:
    size = jnp.abs(state[0])
    off = jnp.where(jnp.eye(size.shape[0], dtype=bool), 0.0, size)
    return jnp.max(off) > _NOTHING * jnp.max(size)


# -- singular values --------------------------------------------------------------------------


@lowers_complex("svd")
@lowers("svd")
def svd(
    ctx: Ctx,
    a: ir.Value,
    *,
    full_matrices: bool,
    compute_uv: bool,
    subset_by_index: Any,
    algorithm: Any = None,
) -> Sequence[ir.Value]:
    """(values descending, U, V.H), by one-sided rotations of the columns; NaN where an input is not finite.

    U is the Q of the rotated columns, so that it is orthonormal also where singular values are 0. LAPACK's
    two algorithms are both this one.
    """
    m, n = ctx.ins[0].shape[-2:]
    known_sizes(ctx, m, n)
    if subset_by_index not in (None, (0, min(int(m), int(n)))):
        raise ctx.unsupported("a subset of the singular values is not available on JAX's CPU either")
    if algorithm is not None and algorithm.name in ("JACOBI", "POLAR"):
        raise ctx.unsupported(f"the algorithm {algorithm.name} is not available on JAX's CPU either")
    return in_double(ctx, spelled(_svd, full_matrices, compute_uv, is_double(ctx)), a)


def _svd(full: bool, vectors: bool, rescale: bool, a: Array) -> Sequence[Array]:
    m, n = a.shape[-2:]
    if m < n:
        s, *uv = _svd(full, vectors, rescale, conj(a.mT))
        return s, *(conj(x.mT) for x in reversed(uv))
    if n == 0:
        eye = jnp.broadcast_to(jnp.eye(m, m if full else 0, dtype=a.dtype), (*a.shape[:-1], m if full else 0))
        values = a[..., 0, :].real
        return (values, eye, a[..., :0, :]) if vectors else (values,)
    flat, lead = _flat(a)
    scale = jax.vmap(scale_of)(flat) if rescale else jnp.ones(flat.shape[:1])
    rows = jnp.pad(conj(_scaled_down(flat, scale).mT), ((0, 0), (0, n % 2), (0, 0)))
    size = n + n % 2
    eye = jnp.broadcast_to(jnp.eye(size, dtype=a.dtype), (rows.shape[0], size, size))
    start = (rows, eye) if vectors else (rows,)
    rows, *turned = (x[:, :n] for x in _sweeps(_one_sided, _is_skew, start, size))
    ok = jnp.all(jnp.isfinite(flat), (1, 2))
    square = jnp.sum(squared(rows), -1)
    order = jnp.argsort(-square, axis=-1)
    values = jnp.sqrt(jnp.take_along_axis(square, order, -1)) * scale[:, None]
    results = [nan_unless(ok[:, None], values)]
    if vectors:
        u = jax.vmap(partial(_directions, m if full else n))(conj(jax.vmap(at)(rows, order).mT))
        vt = jax.vmap(at)(turned[0][:, :, :n], order)
        results += [nan_unless(ok[:, None, None], x) for x in (u, vt)]
    return [x.reshape((*lead, *x.shape[1:])) for x in results]


def _directions(count: int, a: Array) -> Array:
    """Columns of ``a``, orthogonal to each other, made unit; completed to ``count`` orthonormal columns."""
    r, vs, taus = factor(jnp.where(jnp.sum(squared(a), 0) > _NO_SQUARE, a, 0.0))
    q = apply(vs, taus, jnp.eye(a.shape[0], count, dtype=a.dtype))
    signs = jnp.where(jnp.diagonal(r).real < 0, -1.0, 1.0)
    return _times(jnp.pad(signs, (0, count - signs.shape[0]), constant_values=1.0), q)


def _one_sided(state: Sequence[Array]) -> Sequence[Array]:
    """A round on rows that shall become orthogonal, and on those that record the rotations."""
    p, q, pq = _products(state[0])
    turn = _turn(*_rotation(p, q, pq))
    return tuple(turn(x) for x in state)


def _products(rows: Array) -> tuple[Array, Array, Array]:
    """Squares of the rows of each half, and the products of the pairs."""
    half = rows.shape[0] // 2
    square = jnp.sum(squared(rows), -1)
    return square[:half], square[half:], jnp.sum(rows[:half] * conj(rows[half:]), -1)


def _is_skew(state: Sequence[Array]) -> Array:
    """Whether two rows are not orthogonal to rounding, in relation to their lengths."""
    rows = state[0]
    gram = rows @ conj(rows.T)
    square = jnp.diagonal(gram).real
    off = jnp.where(jnp.eye(rows.shape[0], dtype=bool), 0.0, squared(gram))
    bound = _NOTHING * math.sqrt(rows.shape[1])
    return jnp.any(off > bound * bound * square[:, None] * square)
