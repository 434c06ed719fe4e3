"""The Schur form, by QR sweeps on the Hessenberg form: implicit ones with two shifts, or one explicit complex shift.

A sweep works on the lowest block that is not split yet, of three or more rows of a real matrix, two of a complex
one; a subdiagonal element is dropped when it is within rounding of its neighbours on the diagonal, so that the
backward error is a few n ulp of float64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

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
    in_double,
    indices,
    is_double,
    known_sizes,
    mapped,
    nan_unless,
    scale_of,
    size_of,
    squared,
)
from onnxproof.lowering.linalg_qr import apply, reduce, reflect, reflector
from onnxproof.lowering.registry import ANY, lowers, lowers_complex

_SWEEPS_PER_ROW = 30  # LAPACK's limit
_STALLED = 10  # sweeps without progress before one with other shifts
_ULP = float(np.finfo(np.float64).eps)
_TINY = (
    1e-140  # whose square is a normal float64; dropped from matrices near 1, or as small as float32 has them
)


@lowers_complex("schur", sort_eig_vals=False, select_callable=ANY)
@lowers("schur", sort_eig_vals=False, select_callable=ANY)
def schur(ctx: Ctx, a: ir.Value, *, compute_schur_vectors: bool) -> Sequence[ir.Value]:
    """(T, Z) in the order that comes out; blocks of real matrices are in LAPACK's standard form."""
    known_sizes(ctx, ctx.ins[0].shape[-1])
    return in_double(ctx, mapped(_schur, compute_schur_vectors, is_double(ctx)), a)


def _schur(vectors: bool, rescale: bool, a: Array) -> tuple[Array, ...]:
    t, z, scale, ok = schur_form(rescale, a)
    t = by_part(lambda x: x * scale, t) if rescale else t
    return tuple(nan_unless(ok, x) for x in ((t, z) if vectors else (t,)))


def schur_form(rescale: bool, a: Array) -> tuple[Array, Array, Array | float, Array]:
    """(T, Z, scale, whether it has converged from a finite input) for one matrix, which is ``Z @ (scale T) @ Z.H``."""
    finite = jnp.all(jnp.isfinite(a))
    scale = scale_of(a) if rescale else 1.0
    t = by_part(lambda x: x / scale, a) if rescale else a
    n = a.shape[0]
    z = jnp.eye(n, dtype=a.dtype)
    if n == 1:
        return t, z, scale, finite
    t, vs, taus = reduce(t)
    t, z = jnp.triu(t, -1), apply(vs, taus, z)
    if jnp.iscomplexobj(a):
        t, z, done = _sweeps(_complex_sweep, 2, t, z)
        return t, z, scale, done & finite
    if n > 2:
        t, z, done = _sweeps(_sweep, 3, t, z)
        finite = done & finite
    return *_standard(t, z), scale, finite


# -- sweeps -----------------------------------------------------------------------------------


def _sweeps(sweep: Callable[..., Any], least: int, h: Array, z: Array) -> tuple[Array, Array, Array]:
    """(H, Z, whether no block of ``least`` rows or more is left)."""
    n = h.shape[0]

    def go_on(state: Any) -> Array:
        count, _, end, _, _ = state
        return (end > 0) & (count < _SWEEPS_PER_ROW * n)

    def step(state: Any) -> Any:
        count, tries, end, h, z = state
        h, z = sweep(h, z, end, tries % _STALLED == _STALLED - 1)
        h, left = _split(least, h)
        return count + 1, jnp.where(left == end, tries + 1, 0), left, h, z

    h, end = _split(least, h)
    zero = jnp.zeros((), jnp.int64)
    _, _, end, h, z = lax.while_loop(go_on, step, (zero, zero, end, h, z))
    return h, z, end == 0


def _split(least: int, h: Array) -> tuple[Array, Array]:
    """H without negligible subdiagonal elements, and the last row of its lowest block of ``least`` or more, or 0."""
    n = h.shape[0]
    diagonal, under = size_of(jnp.diagonal(h)), size_of(jnp.diagonal(h, -1))
    near = diagonal[1:] + diagonal[:-1]
    near = jnp.where(near == 0, jnp.sum(under), near)
    coupled = under > jnp.maximum(_ULP * near, _TINY)
    rows = indices(h)
    kept = (rows[:, None] <= rows) | jnp.concatenate([jnp.zeros((1,), bool), coupled])[:, None]
    wide = coupled[1:] & coupled[:-1] if least == 3 else coupled
    return jnp.where(kept, h, 0.0), jnp.max(jnp.where(wide, np.arange(least - 1, n), 0))


def _start(h: Array, end: Array) -> Array:
    """The first row of the block that ends at row ``end``."""
    rows = indices(h)
    under = jnp.concatenate([jnp.zeros((1,), h.dtype), jnp.diagonal(h, -1)])
    return jnp.max(jnp.where((under == 0) & (rows <= end), rows, 0))


def _element(h: Array, row: Array, column: Array) -> Array:
    return at(at(h, row), column)


# -- real sweeps ------------------------------------------------------------------------------


def _sweep(h: Array, z: Array, end: Array, other_shifts: Array) -> tuple[Array, Array]:
    """Chase the bulge of two shifts through the block that ends at row ``end``."""
    rows, start = indices(h), _start(h, end)
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
    """The first column of (H - s1)(H - s2), up to a factor, for the eigenvalues s1, s2 of the block's last corner.

    It is made of differences of the diagonal, which stay exact where eigenvalues lie close to each other.
    """
    rows, element = indices(h), partial(_element, h)
    low, lower = element(end, end - 1), element(end - 1, end - 2)
    last, before, product = element(end, end), element(end - 1, end - 1), element(end - 1, end) * low
    size = jnp.abs(low) + jnp.abs(lower)
    before = jnp.where(other_shifts, last, before)
    aside = jnp.where(other_shifts, 0.75 * size, 0.0)
    product = jnp.where(other_shifts, -0.4375 * size * size, product)
    next_ = start + 1
    corner, under = element(start, start), element(next_, start)
    last, before = last - corner + aside, before - corner + aside
    top = (last * before - product) / under + element(start, next_)
    middle = element(next_, next_) - corner - last - before
    values = zip((start, next_, start + 2), (top, middle, element(start + 2, next_)), strict=True)
    return sum(jnp.where(rows == row, value, 0.0) for row, value in values)


# -- complex sweeps ---------------------------------------------------------------------------

# A unitary turn of two rows, [[conj x, conj y], [-y, x]], on their four rows of parts, from the parts of x and y.
_TURN_OF = np.array([[0, 1, 2, 3], [1, 0, 3, 2], [2, 3, 0, 1], [3, 2, 1, 0]])
_TURN_SIGN = np.array([[1.0, 1, 1, 1], [-1, 1, -1, 1], [-1, 1, 1, -1], [-1, -1, 1, 1]])
_NO_TURN = np.array([1.0, 0, 0, 0])


def _complex_sweep(h: Array, z: Array, end: Array, other_shift: Array) -> tuple[Array, Array]:
    """Factor the shifted block that ends at row ``end`` by rotations, and multiply the factors in reverse order."""
    n = h.shape[0]
    rows, start = indices(h), _start(h, end)
    shift = jnp.diag(jnp.where((start <= rows) & (rows <= end), _shift(h, end, other_shift), 0.0))
    still = (rows[:-1] < start) | (jnp.diagonal(h, -1) == 0)

    def step(row: Array, item: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        k, still, next_ = item
        pair = jnp.concatenate([row, next_])
        column = at(pair, k, 1)
        unit = column / jnp.sqrt(jnp.sum(column * column))
        rotation = at(jnp.where(still, _NO_TURN, unit), _TURN_OF) * _TURN_SIGN
        pair = rotation @ pair
        return pair[2:], pair[:2]

    widened = jnp.concatenate([h - shift, jnp.eye(n, dtype=h.dtype)], 1)
    widened = jnp.stack([widened.real, widened.imag], 1)
    last, turned = lax.scan(step, widened[0], (rows[:-1], still, widened[1:]))
    turned = jnp.concatenate([turned, last[None]])
    turned = lax.complex(turned[:, 0], turned[:, 1])
    r = jnp.where((rows[:, None] <= rows) | (rows[:, None] < start), turned[:, :n], 0.0)
    q = conj(turned[:, n:].T)
    return r @ q + shift, z @ q


def _shift(h: Array, end: Array, other_shift: Array) -> Array:
    """The eigenvalue of the block's last corner that is nearer to its last element (J. H. Wilkinson)."""
    element = partial(_element, h)
    corner, low = element(end, end), element(end, end - 1)
    half = (element(end - 1, end - 1) - corner) / 2
    product = element(end - 1, end) * low
    root = jnp.sqrt(half * half + product)
    total = half + jnp.where(half.real * root.real + half.imag * root.imag < 0, -root, root)
    square = squared(total)
    step = by_part(lambda part: part / jnp.where(square == 0, 1.0, square), product * conj(total))
    return corner - jnp.where(other_shift, -0.75 * size_of(low), step)


# -- real blocks ------------------------------------------------------------------------------


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
