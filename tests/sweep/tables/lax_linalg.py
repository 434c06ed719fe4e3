"""``jax.lax.linalg``, ``jax.scipy.linalg`` and ``jax.scipy.sparse.linalg``."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import jax.scipy.linalg as sl
import numpy as np
from jax import lax

from tests.cases.case import f32
from tests.sweep.call import Array, M, V, X, Z, array, c64, call
from tests.sweep.tables.numpy_linalg import (
    BATCH,
    CM,
    CPD,
    EYE,
    HERMITIAN,
    PD,
    SQUARE,
    SYM,
    TALL,
    by_value,
    eig_parts,
    eigh_parts,
    product,
    svd_parts,
)

LOWER = np.tril(SQUARE)
CLOWER = np.tril(CM + 3 * EYE)
DIAGONAL, OFF = array(4, 5, 6, 7, 8), array(1, -1, 2, 0.5)
PADDED = array(0, 1, -1, 2, 0.5)


def similar(outputs: Sequence[Array]) -> list[Array]:
    """T and Q of a Schur or Hessenberg form, as Q T Q*: the signs of Q's columns are free."""
    t, q = outputs
    return [q @ t @ np.conj(np.swapaxes(q, -1, -2))]


def similar_q_first(outputs: Sequence[Array]) -> list[Array]:
    return similar([outputs[1], outputs[0]])


CALLS = {
    "jax.lax.linalg": [
        ("cholesky", call(PD), call(PD, symmetrize_input=False), call(CPD)),
        ("cholesky_update", call(np.linalg.cholesky(PD).T.copy(), f32(4))),
        (
            "eig",
            call(SQUARE, compute_left_eigenvectors=False, result=eig_parts),
            call(SQUARE, compute_left_eigenvectors=False, compute_right_eigenvectors=False, result=by_value),
            call(CM, compute_left_eigenvectors=False, result=eig_parts),
        ),
        (
            "eigh",
            call(SYM, result=lambda outputs: eigh_parts(outputs[::-1])),
            call(HERMITIAN, result=lambda outputs: eigh_parts(outputs[::-1])),
        ),
        ("hessenberg", call(M, using=lambda f, a: (f(a), lax.linalg.householder_product(*f(a))))),
        ("householder_product", call(f32(5, 3), f32(3, seed=1))),
        ("lu", call(M), call(BATCH), call(X), call(CM)),
        ("lu_pivots_to_permutation", call(array(2, 1, 3, 3, dtype=np.int32), 4)),
        (
            "ormqr",
            call(f32(5, 3), f32(3, seed=1), f32(5, 2, seed=2)),
            call(f32(5, 3), f32(3, seed=1), f32(2, 5, seed=2), left=False, transpose=True),
        ),
        ("qdwh", call(SQUARE, result=lambda outputs: outputs[:2])),
        (
            "qr",
            call(M, result=product),
            call(TALL, full_matrices=False, result=product),
            call(CM, result=product),
        ),
        ("schur", call(SQUARE, result=similar), call(CM, result=similar)),
        (
            "svd",
            call(X, full_matrices=False, result=svd_parts),
            call(X, compute_uv=False),
            call(Z, full_matrices=False, result=svd_parts),
        ),
        ("symmetric_product", call(X, PD[:3, :3].copy(), alpha=0.5, beta=2.0, symmetrize_output=True)),
        (
            "triangular_solve",
            call(LOWER, f32(4, 2), left_side=True, lower=True),
            call(LOWER, f32(2, 4), lower=True, transpose_a=True),
            call(LOWER, f32(4, 2), left_side=True, lower=True, unit_diagonal=True),
            call(CLOWER, c64(4, 2), left_side=True, lower=True, conjugate_a=True, transpose_a=True),
        ),
        (
            "tridiagonal",
            call(SYM, using=lambda f, a: f(a)[1:3], result=lambda outputs: [outputs[0], np.abs(outputs[1])]),
        ),
        ("tridiagonal_solve", call(PADDED, DIAGONAL, PADDED[::-1], f32(5, 2))),
    ],
    "jax.scipy.linalg": [
        ("block_diag", call(X, M), call(V, 2.0)),
        ("cholesky", call(PD), call(PD, lower=True), call(CPD)),
        ("cho_factor", call(PD, using=lambda f, a: jnp.triu(f(a)[0]))),
        ("cho_solve", call(np.linalg.cholesky(PD), f32(4), using=lambda f, c, b: f((c, True), b))),
        ("circulant hankel toeplitz", call(V), call(X[0])),
        ("hankel toeplitz", call(V, X[0])),
        ("companion", call(array(2, 3, -1, 4))),
        ("convolution_matrix", call(V, 4), call(V, 4, mode="same"), call(V, 4, mode="valid")),
        ("det inv", call(SQUARE), call(CM)),
        ("dft hadamard helmert hilbert invhilbert pascal invpascal", call(4)),
        ("dft", call(5, scale="sqrtn")),
        ("helmert", call(4, full=True)),
        ("pascal invpascal", call(4, kind="lower")),
        (
            "eigh",
            call(SYM, result=eigh_parts),
            call(SYM, eigvals_only=True),
            call(HERMITIAN, result=eigh_parts),
        ),
        (
            "eigh_tridiagonal",
            call(DIAGONAL, OFF, eigvals_only=True),
            call(DIAGONAL, OFF, eigvals_only=True, select="i", select_range=(1, 2)),
        ),
        ("expm", call(M), call(BATCH), call(CM)),
        ("expm_frechet", call(M, SQUARE)),
        ("fiedler", call(V)),
        ("fiedler_companion", call(array(2, 3, -1, 4))),
        ("funm", call(SQUARE, jnp.exp, disp=False, using=lambda f, a, g, disp: f(a, g, disp=disp)[0])),
        ("hessenberg", call(M, calc_q=True, result=similar)),
        ("leslie", call(array(1, 2, 3), array(0.5, 0.7))),
        ("lu", call(M), call(X), call(M, permute_l=True), call(CM)),
        ("lu_factor", call(M), call(CM)),
        (
            "lu_solve",
            call(SQUARE, f32(4), using=lambda f, a, b: f(sl.lu_factor(a), b)),
            call(SQUARE, f32(4), using=lambda f, a, b: f(sl.lu_factor(a), b, trans=1)),
        ),
        ("polar", call(SQUARE), call(TALL, method="svd"), call(X, side="left", method="svd")),
        (
            "qr",
            call(M, result=product),
            call(TALL, mode="economic", result=product),
            call(X, mode="r", result=lambda outputs: [outputs[0].T @ outputs[0]]),
        ),
        ("qr_multiply", call(M, f32(2, 4), using=lambda f, a, c: f(a, c)[0] @ f(a, c)[1])),
        ("rsf2csf", call(SQUARE, using=lambda f, a: f(*sl.schur(a)), result=similar)),
        ("schur", call(SQUARE, result=similar), call(SQUARE, output="complex", result=similar)),
        ("solve", call(SQUARE, f32(4)), call(PD, f32(4, 2), assume_a="pos"), call(CM, c64(4))),
        ("solve_sylvester", call(SQUARE, PD, M), call(SQUARE, PD, M, method="eigen")),
        (
            "solve_triangular",
            call(LOWER, f32(4), lower=True),
            call(LOWER, f32(4, 2), trans=1, lower=True),
            call(CLOWER, c64(4), trans="C", lower=True),
        ),
        ("sqrtm", call(PD), call(SQUARE)),
        (
            "svd",
            call(X, result=svd_parts),
            call(X, compute_uv=False),
            call(Z, full_matrices=False, result=svd_parts),
        ),
    ],
    "jax.scipy.sparse.linalg": [
        (
            "cg",
            call(PD, f32(4), tol=1e-6),
            call(PD, f32(4), using=lambda f, a, b: f(lambda v: a @ v, b, maxiter=3)),
        ),
        ("bicgstab gmres", call(PD, f32(4), tol=1e-6), call(SQUARE, f32(4), f32(4, seed=1), tol=1e-6)),
    ],
}
APART = {
    "jax.lax.linalg": {"names of options": "EigImplementation EighImplementation SvdAlgorithm"},
}
