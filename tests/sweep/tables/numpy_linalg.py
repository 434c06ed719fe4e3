"""``jax.numpy.linalg`` and ``jax.numpy.fft``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.cases.case import f32
from tests.sweep.call import V2, Z2, Array, M, V, X, Y, Z, c64, call

EYE = np.eye(4, dtype=np.float32)
PD = (M @ M.T + EYE).astype(np.float32)
SYM = (M + M.T).astype(np.float32)
BATCH = f32(2, 3, 3, seed=3) + 2 * np.eye(3, dtype=np.float32)
SQUARE = M + 3 * EYE
TALL = f32(5, 3)
CM = c64(4, 4)
HERMITIAN = (CM + CM.conj().T).astype(np.complex64)
CPD = (CM @ CM.conj().T + EYE).astype(np.complex64)


def product(outputs: Sequence[Array]) -> list[Array]:
    """Q @ R, where a column of Q may have either sign."""
    return [outputs[0] @ outputs[1]]


def svd_parts(outputs: Sequence[Array]) -> list[Array]:
    u, s, vh = outputs
    k = s.shape[-1]
    return [s, (u[..., :k] * s[..., None, :]) @ vh[..., :k, :]]


def eigh_parts(outputs: Sequence[Array]) -> list[Array]:
    w, v = outputs
    return [w, (v * w[..., None, :]) @ np.conj(np.swapaxes(v, -1, -2))]


def eig_parts(outputs: Sequence[Array]) -> list[Array]:
    """Eigenvalues by size, and the matrix again."""
    w, v = outputs
    return [*by_value([w]), (v * w[..., None, :]) @ np.linalg.inv(v)]


def by_value(outputs: Sequence[Array]) -> list[Array]:
    """Eigenvalues in order: by real part, then by imaginary part."""
    return [np.take_along_axis(w, np.lexsort((w.imag, np.round(w.real, 3))), -1) for w in outputs]


N13: Any = c64(3, 13)
R13: Any = f32(3, 13)

CALLS = {
    "jax.numpy.linalg": [
        ("cholesky", call(PD), call(PD, upper=True), call(CPD)),
        ("cond", call(SQUARE), call(SQUARE, p=1), call(BATCH)),
        ("cross", call(f32(4, 3), f32(4, 3, seed=1))),
        ("det inv slogdet", call(SQUARE), call(BATCH), call(CM)),
        ("diagonal trace", call(M), call(BATCH, offset=1)),
        ("eig", call(SQUARE, result=eig_parts), call(BATCH, result=eig_parts), call(CM, result=eig_parts)),
        ("eigvals", call(SQUARE, result=by_value), call(CM, result=by_value)),
        (
            "eigh",
            call(SYM, result=eigh_parts),
            call(BATCH, result=eigh_parts),
            call(HERMITIAN, result=eigh_parts),
        ),
        ("eigvalsh", call(SYM), call(HERMITIAN)),
        ("lstsq", call(TALL, f32(5)), call(TALL, f32(5, 2), rcond=1e-3), call(c64(5, 3), c64(5, seed=4))),
        ("matmul", call(X, M), call(BATCH, f32(3, 2)), call(Z, Z2.T.copy())),
        ("matrix_norm", call(X), call(BATCH, ord=1), call(X, ord="nuc"), call(X, ord=2, keepdims=True)),
        ("vector_norm", call(X), call(X, axis=1, ord=1), call(X, axis=0, ord=np.inf), call(Z)),
        (
            "norm",
            call(X),
            call(V, 3),
            call(X, axis=1),
            call(X, "fro"),
            call(X, 2),
            call(X, np.inf),
            call(Z, axis=0),
            call(X, -1),
        ),
        ("matrix_power", call(SQUARE, 3), call(SQUARE, -2), call(BATCH, 0)),
        ("matrix_rank", call(X), call(BATCH)),
        ("matrix_transpose", call(X), call(BATCH)),
        ("multi_dot", call([X, M, f32(4, 2)]), call([V, f32(7, 3), f32(3)])),
        ("outer", call(V, V2)),
        ("pinv", call(X), call(TALL), call(SYM, hermitian=True), call(Z)),
        (
            "qr",
            call(M, result=product),
            call(TALL, result=product),
            call(X, mode="complete", result=product),
            call(CM, result=product),
        ),
        ("solve", call(SQUARE, f32(4)), call(SQUARE, f32(4, 2)), call(BATCH, f32(2, 3, 2)), call(CM, c64(4))),
        (
            "svd",
            call(M, result=svd_parts),
            call(TALL, full_matrices=False, result=svd_parts),
            call(X, compute_uv=False),
            call(Z, result=svd_parts),
        ),
        ("svdvals", call(X), call(BATCH), call(Z)),
        ("tensordot", call(f32(2, 3, 4), f32(3, 4, 5))),
        ("tensorinv", call(SQUARE.reshape(2, 2, 4), ind=2)),
        ("tensorsolve", call(SQUARE.reshape(2, 2, 4), f32(2, 2))),
        ("vecdot", call(X, Y), call(Z, Z2)),
    ],
    "jax.numpy.fft": [
        ("fft ifft", call(N13), call(N13, n=8), call(N13, axis=0), call(R13, norm="ortho")),
        ("fft2 ifft2 fftn ifftn", call(N13), call(N13, s=(4, 4), norm="forward"), call(c64(2, 3, 4))),
        ("rfft ihfft", call(R13), call(R13, n=8, norm="ortho"), call(R13, axis=0)),
        ("rfft2 rfftn", call(R13), call(R13, s=(4, 5)), call(f32(2, 3, 4))),
        ("irfft hfft", call(N13), call(N13, n=9), call(N13, axis=0, norm="ortho")),
        ("irfft2 irfftn", call(N13), call(N13, s=(3, 9)), call(c64(2, 3, 4))),
        ("fftfreq rfftfreq", call(8), call(9, d=0.25)),
        ("fftshift ifftshift", call(R13), call(R13, axes=1), call(N13)),
    ],
}
