"""Eigenvalues and eigenvectors of a general real matrix, from its real Schur form.

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

from onnxproof.lowering.emit import F32, F64, Ctx
from onnxproof.lowering.linalg import Array, at, indices, known_sizes, mapped
from onnxproof.lowering.linalg_schur import real_schur
from onnxproof.lowering.registry import ANY, lowers_complex

_ULP = float(np.finfo(np.float64).eps)
Parts = tuple[Array, Array]


@lowers_complex("eig", implementation=ANY, enable_eigvec_derivs=ANY)
def eig(
    ctx: Ctx, a: ir.Value, *, compute_left_eigenvectors: bool, compute_right_eigenvectors: bool
) -> Sequence[ir.Value]:
    (aval,) = ctx.ins
    if aval.dtype.kind == "c":
        raise ctx.unsupported("eigenvalues of a complex matrix have no lowering yet")
    known_sizes(ctx, aval.shape[-1])
    real = F64 if aval.dtype == F64 else F32
    if 0 in aval.shape:
        return [ctx.expand(ctx.const(0, real), (*out.shape, 2)) for out in ctx.outs]
    fn = mapped(_eig, compute_left_eigenvectors, compute_right_eigenvectors)
    results = ctx.jax(fn, ctx.cast(a, F64), avals=[type(aval)(aval.shape, F64)])
    return [ctx.cast(x, real) for x in results]


def _eig(left: bool, right: bool, a: Array) -> list[Array]:
    t, z, ok = real_schur(a)
    values, (tr, ti), basis = _triangular(t, z)
    results = [jnp.stack(values, -1)]
    if left:  # those of the conjugate transpose, which is upper triangular when read backwards
        xr, xi = _back_substitute(tr.T[::-1, ::-1], -ti.T[::-1, ::-1])
        results.append(_vectors(values[1], basis, (xr[::-1, ::-1], xi[::-1, ::-1])))
    if right:
        results.append(_vectors(values[1], basis, _back_substitute(tr, ti)))
    return [jnp.where(ok, x, jnp.nan) for x in results]


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
        at_row = (columns == i)[:, None]
        return (jnp.where(at_row, new_r, xr), jnp.where(at_row, new_i, xi)), None

    start = (jnp.zeros_like(tr), jnp.zeros_like(ti))
    found, _ = lax.scan(step, start, jnp.arange(n), reverse=True)
    return found[0], found[1]


def _vectors(imaginary: Array, basis: Parts, x: Parts) -> Array:
    """The vectors in the basis, made unit and turned; the second of a pair is the conjugate of the first."""
    (br, bi), (xr, xi) = basis, x
    re, im = br @ xr - bi @ xi, br @ xi + bi @ xr
    im = jnp.where(imaginary == 0, 0.0, im)
    second = imaginary < 0
    re, im = jnp.where(second, jnp.roll(re, 1, 1), re), jnp.where(second, -jnp.roll(im, 1, 1), im)
    square = re * re + im * im
    norm = jnp.sqrt(jnp.sum(square, 0))
    largest = jnp.argmax(square, 0)[None]
    pr, pi = jnp.take_along_axis(re, largest, 0), jnp.take_along_axis(im, largest, 0)
    size = jnp.sqrt(pr * pr + pi * pi)
    turn = imaginary != 0
    cosine, sine = jnp.where(turn, pr / size, 1.0) / norm, jnp.where(turn, -pi / size, 0.0) / norm
    re, im = re * cosine - im * sine, re * sine + im * cosine
    im = jnp.where(turn & (indices(re)[:, None] == largest), 0.0, im)
    return jnp.stack([re, im], -1)
