"""Eigenvalues and eigenvectors of a general matrix, from its Schur form.

Results are complex: reals with a trailing axis of two. Eigenvalues of a real matrix are real, or in conjugate
pairs with the positive imaginary part first, exactly. Vectors have length 1, and a complex one is turned so that
its largest element is real, as LAPACK does; the matrix is not balanced first.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
import onnx_ir as ir
from jax import lax

from onnxproof.lowering.emit import Ctx
from onnxproof.lowering.linalg import Array, at, in_double, indices, is_double, known_sizes, mapped
from onnxproof.lowering.linalg_schur import schur_form
from onnxproof.lowering.registry import ANY, lowers_complex

_ULP = float(np.finfo(np.float64).eps)
Parts = tuple[Array, Array]


@lowers_complex("eig", implementation=ANY, enable_eigvec_derivs=ANY)
def eig(
    ctx: Ctx, a: ir.Value, *, compute_left_eigenvectors: bool, compute_right_eigenvectors: bool
) -> Sequence[ir.Value]:
    known_sizes(ctx, ctx.ins[0].shape[-1])
    fn = mapped(_eig, compute_left_eigenvectors, compute_right_eigenvectors, is_double(ctx))
    return in_double(ctx, fn, a)


def _eig(left: bool, right: bool, rescale: bool, a: Array) -> list[Array]:
    t, z, scale, ok = schur_form(rescale, a)
    if jnp.iscomplexobj(a):
        values, (tr, ti), basis = ((x.real, x.imag) for x in (jnp.diagonal(t), t, z))
        imaginary = None
    else:
        values, (tr, ti), basis = _triangular(t, z)
        imaginary = values[1]
    results = [tuple(x * scale for x in values) if rescale else values]
    if left:  # those of the conjugate transpose, which is upper triangular when read backwards
        xr, xi = _back_substitute(tr.T[::-1, ::-1], -ti.T[::-1, ::-1])
        results.append(_vectors(imaginary, basis, (xr[::-1, ::-1], xi[::-1, ::-1])))
    if right:
        results.append(_vectors(imaginary, basis, _back_substitute(tr, ti)))
    return [lax.complex(*(jnp.where(ok, x, jnp.nan) for x in parts)) for parts in results]


def _triangular(t: Array, z: Array) -> tuple[Parts, Parts, Parts]:
    """(eigenvalues, complex triangular form, its basis): a rotation for each block of the real form."""
    n = t.shape[0]
    above, below = jnp.diagonal(t, 1), jnp.diagonal(t, -1)
    block = below != 0
    size = jnp.sqrt(jnp.abs(above)) * jnp.sqrt(jnp.abs(below))
    length = jnp.where(block, jnp.sqrt(above * above + size * size), 1.0)
    diagonal = jnp.where(block, above / length, 1.0)
    diagonal = jnp.pad(diagonal, (0, 1), constant_values=1.0) * jnp.pad(diagonal, (1, 0), constant_values=1.0)
    side = jnp.where(block, size / length, 0.0)
    turn = jnp.diag(side, 1) + jnp.diag(side, -1) if n > 1 else jnp.zeros_like(t)
    imaginary = jnp.where(block, size, 0.0)
    imaginary = jnp.pad(imaginary, (0, 1)) - jnp.pad(imaginary, (1, 0))
    rows = diagonal[:, None]
    re = rows * t * diagonal + turn @ t @ turn
    im = rows * (t @ turn) - turn @ (t * diagonal)
    return (jnp.diagonal(t), imaginary), (jnp.triu(re), jnp.triu(im)), (z * diagonal, z @ turn)


def _back_substitute(tr: Array, ti: Array) -> Parts:
    """Eigenvectors of an upper triangular matrix: column j solves (T - T[j, j]) x = 0 with x[j] = 1."""
    n = tr.shape[0]
    columns = indices(tr)
    dr, di = jnp.diagonal(tr), jnp.diagonal(ti)
    least = _ULP * jnp.max(jnp.abs(tr) + jnp.abs(ti))
    least = jnp.where(least == 0, 1.0, least)

    def step(known: Parts, i: Array) -> tuple[Parts, None]:
        xr, xi = known
        row_r, row_i = at(tr, i), at(ti, i)
        sr, si = row_r @ xr - row_i @ xi, row_r @ xi + row_i @ xr
        gap_r, gap_i = dr - at(dr, i), di - at(di, i)
        gap_r = jnp.where(jnp.abs(gap_r) + jnp.abs(gap_i) < least, least, gap_r)
        square = gap_r * gap_r + gap_i * gap_i
        ahead, here = columns > i, columns == i
        new_r = jnp.where(ahead, (sr * gap_r + si * gap_i) / square, jnp.where(here, 1.0, 0.0))
        new_i = jnp.where(ahead, (si * gap_r - sr * gap_i) / square, 0.0)
        size = jnp.maximum(
            jnp.abs(new_r) + jnp.abs(new_i), 1.0
        )  # a chain of close eigenvalues would overflow
        at_row = (columns == i)[:, None]
        return (jnp.where(at_row, new_r, xr) / size, jnp.where(at_row, new_i, xi) / size), None

    start = (jnp.zeros_like(tr), jnp.zeros_like(ti))
    found, _ = lax.scan(step, start, jnp.arange(n), reverse=True)
    return found[0], found[1]


def _vectors(imaginary: Array | None, basis: Parts, x: Parts) -> Parts:
    """The vectors in the basis, made unit and turned.

    With the imaginary parts of the eigenvalues of a real matrix, the vectors of real ones are real, and the second
    of a pair is the conjugate of the first.
    """
    (br, bi), (xr, xi) = basis, x
    re, im = br @ xr - bi @ xi, br @ xi + bi @ xr
    turn = jnp.asarray(True)
    if imaginary is not None:
        turn, second = imaginary != 0, imaginary < 0
        im = jnp.where(turn, im, 0.0)
        re, im = jnp.where(second, jnp.roll(re, 1, 1), re), jnp.where(second, -jnp.roll(im, 1, 1), im)
    square = re * re + im * im
    norm = jnp.sqrt(jnp.sum(square, 0))
    largest = jnp.argmax(square, 0)[None]
    pr, pi = jnp.take_along_axis(re, largest, 0), jnp.take_along_axis(im, largest, 0)
    size = jnp.sqrt(pr * pr + pi * pi)
    cosine, sine = jnp.where(turn, pr / size, 1.0) / norm, jnp.where(turn, -pi / size, 0.0) / norm
    re, im = re * cosine - im * sine, re * sine + im * cosine
    im = jnp.where(turn & (indices(re)[:, None] == largest), 0.0, im)
    return re, im
