"""The real Schur form, by implicit QR sweeps with two shifts on the Hessenberg form.

A sweep works on the lowest block of three or more rows that is not split yet; a subdiagonal element is dropped when
it is within rounding of its neighbours on the diagonal, so that the backward error is a few n ulp of float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
import onnx_ir as ir
from jax import lax

from onnxproof.lowering.emit import Ctx
from onnxproof.lowering.linalg import Array, at, in_double, indices, known_sizes, mapped
from onnxproof.lowering.linalg_qr import apply, reduce, reflect, reflector
from onnxproof.lowering.registry import ANY, lowers

_SWEEPS_PER_ROW = 30  # LAPACK's limit
_STALLED = 10  # sweeps without progress before one with other shifts
_ULP = float(np.finfo(np.float64).eps)


@lowers("schur", sort_eig_vals=False, select_callable=ANY)
def schur(ctx: Ctx, a: ir.Value, *, compute_schur_vectors: bool) -> Sequence[ir.Value]:
    """(T, Z) with blocks in LAPACK's standard form, in the order in which they come out."""
    known_sizes(ctx, ctx.ins[0].shape[-1])
    return in_double(ctx, mapped(_schur, compute_schur_vectors), a)


def _schur(vectors: bool, a: Array) -> tuple[Array, ...]:
    t, z, ok = real_schur(a)
    return tuple(jnp.where(ok, x, jnp.nan) for x in ((t, z) if vectors else (t,)))


def real_schur(a: Array) -> tuple[Array, Array, Array]:
    """(T, Z, whether it has converged from a finite input) of one matrix."""
    n = a.shape[0]
    h, vs, taus = reduce(a) if n > 1 else (a, a[:0], a[0, :0])
    z = apply(vs, taus, jnp.eye(n, dtype=a.dtype)) if n > 1 else jnp.eye(n, dtype=a.dtype)
    h = jnp.triu(h, -1)
    done = jnp.asarray(True)
    if n > 2:
        h, z, done = _sweeps(h, z)
    if n > 1:
        h, z = _standard(h, z)
    return h, z, done & jnp.all(jnp.isfinite(a))


# -- sweeps -----------------------------------------------------------------------------------


def _sweeps(h: Array, z: Array) -> tuple[Array, Array, Array]:
    n = h.shape[0]

    def go_on(state: Any) -> Array:
        count, _, end, _, _ = state
        return (end > 0) & (count < _SWEEPS_PER_ROW * n)

    def sweep(state: Any) -> Any:
        count, tries, end, h, z = state
        h, z = _sweep(h, z, end, tries % _STALLED == _STALLED - 1)
        h, left = _split(h)
        return count + 1, jnp.where(left == end, tries + 1, 0), left, h, z

    h, end = _split(h)
    zero = jnp.zeros((), jnp.int64)
    _, _, end, h, z = lax.while_loop(go_on, sweep, (zero, zero, end, h, z))
    return h, z, end == 0


def _split(h: Array) -> tuple[Array, Array]:
    """H without negligible subdiagonal elements, and the last row of its lowest block of three or more, or 0."""
    n = h.shape[0]
    diagonal, under = jnp.abs(jnp.diagonal(h)), jnp.abs(jnp.diagonal(h, -1))
    near = diagonal[1:] + diagonal[:-1]
    near = jnp.where(near == 0, jnp.sum(under), near)
    coupled = under > _ULP * near
    rows = indices(h)
    kept = (rows[:, None] <= rows) | jnp.concatenate([jnp.zeros((1,), bool), coupled])[:, None]
    wide = coupled[1:] & coupled[:-1]
    return jnp.where(kept, h, 0.0), jnp.max(jnp.where(wide, np.arange(2, n), 0))


def _sweep(h: Array, z: Array, end: Array, other_shifts: Array) -> tuple[Array, Array]:
    """Chase the bulge of two shifts through the block that ends at row ``end``."""
    rows = indices(h)
    under = jnp.concatenate([jnp.zeros((1,), h.dtype), jnp.diagonal(h, -1)])
    start = jnp.max(jnp.where((under == 0) & (rows <= end), rows, 0))
    first = _first_column(h, start, end, other_shifts)

    def step(carry: tuple[Array, Array], k: Array) -> tuple[tuple[Array, Array], None]:
        h, z = carry
        column = jnp.where(k == start, first, at(h, jnp.maximum(k - 1, 0), 1))
        v, tau = reflector(jnp.where(rows <= jnp.minimum(k + 2, end), column, 0.0), k)
        tau = jnp.where((start <= k) & (k < end), tau, 0.0)
        h = reflect(h, v, tau)
        return (h - (tau * (h @ v))[:, None] * v, z - (tau * (z @ v))[:, None] * v), None

    (h, z), _ = lax.scan(step, (h, z), jnp.arange(h.shape[0] - 1))
    return jnp.triu(h, -1), z


def _first_column(h: Array, start: Array, end: Array, other_shifts: Array) -> Array:
    """The first column of (H - s1)(H - s2), up to a factor, for the eigenvalues s1, s2 of the block's last corner."""
    rows = indices(h)

    def element(row: Array, column: Array) -> Array:
        return at(at(h, row), column)

    low, lower = element(end, end - 1), element(end - 1, end - 2)
    trace = element(end - 1, end - 1) + element(end, end)
    det = element(end - 1, end - 1) * element(end, end) - element(end - 1, end) * low
    size = jnp.abs(low) + jnp.abs(lower)
    trace = jnp.where(other_shifts, 1.5 * size, trace)
    det = jnp.where(other_shifts, size * size, det)
    next_ = start + 1
    corner, under = element(start, start), element(next_, start)
    top = (corner * (corner - trace) + det) / under + element(start, next_)
    middle = corner + element(next_, next_) - trace
    values = zip((start, next_, start + 2), (top, middle, element(start + 2, next_)), strict=True)
    return sum(jnp.where(rows == row, value, 0.0) for row, value in values)


# -- blocks -----------------------------------------------------------------------------------


def _standard(h: Array, z: Array) -> tuple[Array, Array]:
    """Blocks with real eigenvalues made triangular, others with equal diagonal elements: one rotation for each."""
    a, d = jnp.diagonal(h)[:-1], jnp.diagonal(h)[1:]
    b, c = jnp.diagonal(h, 1), jnp.diagonal(h, -1)
    half = (a - d) / 2
    disc = half * half + b * c
    real = disc >= 0
    root = jnp.sqrt(jnp.abs(disc))
    shift = half + jnp.where(half < 0, -root, root)  # (shift, c) is an eigenvector of a real one
    total, skew = b + c, a - d
    length = jnp.sqrt(total * total + skew * skew)
    equal = length == 0
    length = jnp.where(equal, 1.0, length)
    cosine = jnp.sqrt((1 + jnp.where(equal, 1.0, jnp.abs(total) / length)) / 2)
    sine = jnp.where(total < 0, skew, -skew) / (length * 2 * cosine)
    block = c != 0
    norm = jnp.where(block, jnp.sqrt(shift * shift + c * c), 1.0)
    cosine = jnp.where(block, jnp.where(real, shift / norm, cosine), 1.0)
    sine = jnp.where(block, jnp.where(real, c / norm, sine), 0.0)
    diagonal = jnp.pad(cosine, (0, 1), constant_values=1.0) * jnp.pad(cosine, (1, 0), constant_values=1.0)
    turn = jnp.diag(diagonal) + jnp.diag(sine, 1) - jnp.diag(sine, -1)
    h = turn @ h @ turn.T
    still = jnp.concatenate([jnp.zeros((1,), bool), block & ~real])
    rows = indices(h)
    kept = (rows[:, None] <= rows) | (still[:, None] & (rows[:, None] == rows + 1))
    mean = (jnp.diagonal(h)[:-1] + jnp.diagonal(h)[1:]) / 2
    means = jnp.pad(mean, (0, 1)), jnp.pad(mean, (1, 0))
    starts = jnp.concatenate([still[1:], jnp.zeros((1,), bool)])
    diagonal = jnp.where(starts, means[0], jnp.where(still, means[1], jnp.diagonal(h)))
    h = jnp.where(rows[:, None] == rows, diagonal, jnp.where(kept, h, 0.0))
    return h, z @ turn.T
