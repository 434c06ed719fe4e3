"""Eigenvalues, singular values and Schur forms of complex matrices, by what they reconstruct.

Rows for real matrices are those of cases that a real form alone can fail.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg as sl
import numpy as np
from jax import lax
from jax.numpy import linalg

from tests.cases.case import Case, f32
from tests.cases.complex import C64, C128, c64
from tests.cases.linalg import f64
from tests.cases.linalg_complex import c128, positive, replaced, symbolic

Array = Any

DTYPES = (C64, C128)
CORNER = (..., -1, 0)
BOUNDS: dict[Any, dict[str, float]] = {  # of sums over products of factors
    C64: {"rtol": 2e-5, "atol": 1e-5},
    C128: {"rtol": 1e-11, "atol": 1e-12},
}


def hermitian(*shape: int, dtype: Any = C64) -> Array:
    a = c128(*shape)
    return (a + np.swapaxes(a, -1, -2).conj()).astype(dtype)


def unitary(n: int, seed: int = 1) -> Array:
    return np.linalg.qr(c128(n, n, seed=seed))[0]


def spectrum(*values: complex, symmetric: bool = True) -> Array:
    """A normal matrix with these eigenvalues, or any one with these singular values."""
    left = unitary(len(values))
    return (left * np.array(values)) @ (left if symmetric else unitary(len(values), 2)).conj().T


def jordan(n: int, value: complex = 1 + 2j) -> Array:
    """One vector for n eigenvalues."""
    return value * np.eye(n) + np.diag(np.ones(n - 1), 1)


def graded(n: int) -> Array:
    """Rows and columns from 1 to 1e-24."""
    steps = 10.0 ** -np.linspace(0, 12, n)
    return steps[:, None] * c128(n, n) * steps


def near(n: int, gap: float) -> Array:
    """A real symmetric matrix with eigenvalues as close to 1 as rounding nearly hides."""
    q = np.linalg.qr(f64(n, n, seed=1))[0]
    return (q * (1 + gap * np.arange(n))) @ q.T


FULL = [[np.zeros((6, 6), C128)], [np.ones((6, 6), C128)], [1j * np.eye(6)]]
NANS = [[replaced(c64(2, 3, 3), CORNER, value)] for value in (np.nan, complex(0, np.nan))]

# -- what the factors give back ---------------------------------------------------------------


def _adjoint(x: Array) -> Array:
    return x.conj().mT


def _gram(q: Array) -> Array:
    return _adjoint(q) @ q


def _eigh(a: Array, **options: Any) -> tuple[Array, ...]:
    """Values, and what vectors and values rebuild; vectors orthonormal."""
    v, w = lax.linalg.eigh(a, symmetrize_input=False, **options)[:2]
    return w, (v * w[..., None, :]) @ _adjoint(v), _gram(v)


def _svd(a: Array, **options: Any) -> tuple[Array, ...]:
    u, s, vh = lax.linalg.svd(a, **options)
    k = s.shape[-1]
    return s, (u[..., :k] * s[..., None, :]) @ vh[..., :k, :], _gram(u), _gram(_adjoint(vh))


def _values(a: Array) -> Array:
    return lax.linalg.svd(a, compute_uv=False)


def _schur(a: Array) -> tuple[Array, ...]:
    """What T and Z rebuild; what of T is below the diagonal; Z orthonormal."""
    t, z = lax.linalg.schur(a)
    return z @ t @ _adjoint(z), jnp.tril(t, -1), _gram(z)


def _blocks(a: Array) -> tuple[Array, ...]:
    t, z = sl.schur(a)
    return z @ t @ z.T, _gram(z)


def _powers(w: Array) -> Array:
    """Sums of powers, which no order of the eigenvalues changes and close ones leave as they are."""
    return jnp.stack([jnp.sum(w, -1), jnp.sum(w * w, -1), jnp.sum(w * w * w, -1)])


def _eig(a: Array, size: float = 1.0) -> tuple[Array, ...]:
    """Residuals and lengths of vectors, the part that their largest elements lack, invariants of the values.

    Rounding decides which of several equally large elements is the largest.
    """
    w, left, right = lax.linalg.eig(a, compute_left_eigenvectors=True)
    w, a = w / size, a / size

    def largest(v: Array) -> Array:
        if v.size == 0:
            return v.imag
        size = jnp.abs(v)
        return jnp.min(jnp.abs(v.imag), -2, where=size >= size.max(-2, keepdims=True) * (1 - 1e-5), initial=jnp.inf)

    return (
        a @ right - right * w[..., None, :],
        _adjoint(a) @ left - left * w.conj()[..., None, :],
        *(jnp.sum(jnp.abs(v) ** 2, -2) for v in (left, right)),
        *(largest(v) for v in (left, right)),
        _powers(w),
    )


def _tridiagonal(lower: bool, a: Array) -> tuple[Array, ...]:
    return tuple(lax.linalg.tridiagonal(a, lower=lower)[:4])


def _of_parts(fn: Any) -> Any:
    """The gradient of a sum of cubes, in both parts of the argument."""
    return jax.grad(lambda re, im: jnp.sum(jnp.abs(fn(re + 1j * im)) ** 3), argnums=(0, 1))


CASES = [
    # -- Hermitian eigenvalues
    *(Case(f"eigh_{a.shape}_{t.__name__}", _eigh, [a], x64=t == C128, **BOUNDS[t])
      for t in DTYPES
      for a in (hermitian(1, 1, dtype=t), hermitian(2, 2, dtype=t), hermitian(2, 3, 5, 5, dtype=t), np.zeros((0, 0), t),
                np.zeros((0, 3, 3), t), hermitian(24, 24, dtype=t))),
    Case("eigh_special", _eigh, [spectrum(1, 1, 1, 2, 2, 5)], x64=True,
         also=[[a.real + 0j] for (a,) in FULL] + [[np.fliplr(np.diag([1j, 1j, 1j, -1j, -1j, -1j]))]]
         + [[spectrum(1, 1 + 1e-13, 1 + 1e-9, 0, 1e-14, -3)], [spectrum(1, 1e-3, 1e-6, 1e-9, 1e-12, 0)]]),
    Case("eigh_extremes", lambda a: lax.linalg.eigh(a)[1], [hermitian(4, 4, dtype=C128) * 1e200],
         also=[[hermitian(4, 4, dtype=C128) * 1e-200]], x64=True),
    *(Case(f"eigh_{lower}", partial(_eigh, lower=lower), [c64(5, 5)], atol=1e-5) for lower in (True, False)),
    Case("eigh_symbolic", _eigh, [hermitian(2, 3, 3)], spec=symbolic("B, 3, 3"),
         also=[[hermitian(1, 3, 3)], *NANS], atol=1e-5),
    # -- singular values
    *(Case(f"svd_{a.shape}_{full}_{t.__name__}", partial(_svd, full_matrices=full), [a], x64=t == C128, **BOUNDS[t])
      for t in DTYPES for full in (True, False)
      for a in (c128(1, 1).astype(t), c128(4, 4).astype(t), c128(2, 7).astype(t), c128(2, 3, 9, 4).astype(t),
                c128(3, 11).astype(t), np.zeros((0, 0), t), np.zeros((3, 0), t), np.zeros((2, 0, 3), t),
                np.zeros((0, 3, 2), t))),
    Case("svd_special", _svd, [spectrum(1, 1, 1, 0, 0, 0, symmetric=False)], x64=True,
         also=[*FULL, [spectrum(2, 2, 2, 1, 1, 1e-14, symmetric=False)],
               [spectrum(1, 1e-3, 1e-6, 1e-9, 1e-12, 1e-15, symmetric=False)], [c128(6, 1) @ c128(1, 6)], [graded(6)],
               [np.sign(f64(6, 6)) + 1j * np.sign(f64(6, 6, seed=1))]]),
    Case("svd_signs", _svd, [np.sign(f64(40, 4, 4)) + 1j * np.sign(f64(40, 4, 4, seed=1))], x64=True),
    Case("svd_tall_deficient", _svd, [c128(9, 1) @ c128(1, 5)], x64=True, also=[[np.zeros((9, 5), C128)]]),
    Case("svd_extremes", _values, [c128(4, 4) * 1e200], also=[[c128(4, 4) * 1e-200]], x64=True),
    *(Case(f"svd_{algorithm.name}", partial(_svd, algorithm=algorithm), [c64(5, 4)], atol=1e-5)
      for algorithm in (lax.linalg.SvdAlgorithm.DEFAULT, lax.linalg.SvdAlgorithm.QR)),
    Case("svd_symbolic", _svd, [c64(2, 4, 3)], spec=symbolic("B, 4, 3"), also=[[c64(1, 4, 3)]], atol=1e-5),
    Case("svd_values", _values, [c64(2, 3, 3)], also=[*NANS, [replaced(c64(2, 3, 3), CORNER, np.inf)]]),
    # -- Schur form
    *(Case(f"schur_{a.shape}_{t.__name__}", _schur, [a], x64=t == C128, **BOUNDS[t])
      for t in DTYPES
      for a in (c128(1, 1).astype(t), c128(2, 2).astype(t), c128(2, 5, 5).astype(t), c128(15, 15).astype(t),
                np.zeros((0, 0), t), np.zeros((0, 3, 3), t))),
    Case("schur_special", _schur, [np.roll(np.eye(6), 1, 0) + 0j], x64=True,
         also=[*FULL, [jordan(6)], [jordan(6).T], [spectrum(1, 1, 1, 2j, 2j, 0)], [graded(6)],
               [unitary(6) @ jordan(6) @ unitary(6).conj().T], [spectrum(1, 1 + 1e-13, 1 + 1e-9j, 0, 1e-14, -3)],
               [np.diag([1, 0, 0, 0, 0, 0]) + 1e-155 * np.roll(np.eye(6), 1, 0) + 0j]]),
    Case("schur_extremes", lambda a: jnp.sum(jnp.abs(lax.linalg.schur(a, compute_schur_vectors=False)[0] / 1e200) ** 2),
         [c128(4, 4) * 1e200], x64=True),
    Case("schur_symbolic", _schur, [c64(2, 4, 4)], spec=symbolic("B, 4, 4"),
         also=[[c64(5, 4, 4, seed=3)], [replaced(c64(2, 4, 4), CORNER, np.nan)]], **BOUNDS[C64]),
    Case("schur_real_near", _blocks, [near(3, 1e-11)], x64=True, also=[[near(3, gap)] for gap in (1e-9, 1e-13, 0)]),
    Case("schur_real_near_12", _blocks, [near(12, 1e-11)], x64=True, also=[[near(12, gap)] for gap in (1e-9, 1e-13)]),
    Case("schur_real_extremes", lambda a, s: _blocks(a)[0] / s, [f64(4, 4) * 1e200, np.float64(1e200)],
         also=[[f64(4, 4) * 1e-200, np.float64(1e-200)]], x64=True),
    # -- general eigenvalues
    *(Case(f"eig_{a.shape}_{t.__name__}", _eig, [a], x64=t == C128, **BOUNDS[t])
      for t in DTYPES
      for a in (c128(1, 1).astype(t), c128(2, 2).astype(t), c128(2, 5, 5).astype(t), c128(12, 12).astype(t),
                np.zeros((0, 0), t), np.zeros((0, 3, 3), t))),
    Case("eig_special", _eig, [np.roll(np.eye(6), 1, 0) + 0j], x64=True,
         also=[*FULL, [jordan(6)], [jordan(6).T], [spectrum(1, 1, 1, 2j, 2j, 0)], [graded(6)],
               [unitary(6) @ jordan(6) @ unitary(6).conj().T], [np.triu(c128(6, 6))], [np.tril(c128(6, 6))]]),
    Case("eig_defective_40", _eig, [jordan(40)], x64=True, also=[[jordan(40).T]]),
    Case("eig_real_defective_40", _eig, [jordan(40, 2).real], x64=True, also=[[near(40, 1e-12)]]),
    *(Case(f"eig_extremes_{size:.0e}_{a.dtype}", partial(_eig, size=size), [a * size], x64=True)
      for size in (1e130, 1e-130) for a in (c128(4, 4), f64(4, 4))),
    *(Case(f"eig_{left}_{right}", lambda a, vl=left, vr=right: tuple(
        jnp.abs(x) if i else _powers(x) for i, x in enumerate(lax.linalg.eig(
            a, compute_left_eigenvectors=vl, compute_right_eigenvectors=vr))), [np.diag([1, 2j, 3]).astype(C64)])
      for left in (True, False) for right in (True, False)),
    Case("eig_symbolic", _eig, [c64(2, 4, 4)], spec=symbolic("B, 4, 4"),
         also=[[c64(5, 4, 4, seed=3)], [replaced(c64(2, 4, 4), CORNER, np.nan)]], **BOUNDS[C64]),
    # -- Hessenberg and tridiagonal forms, unique with LAPACK's conventions
    *(Case(f"hessenberg_{a.shape}_{t.__name__}", lambda a: tuple(lax.linalg.hessenberg(a)), [a], x64=t == C128)
      for t in DTYPES for a in (c128(1, 1).astype(t), c128(2, 2).astype(t), c128(2, 6, 6).astype(t))),
    Case("hessenberg_q", lambda a: sl.hessenberg(a, calc_q=True), [c64(5, 5)]),
    *(Case(f"tridiagonal_{lower}_{a.shape}_{t.__name__}", partial(_tridiagonal, lower), [a], x64=t == C128)
      for t in DTYPES for lower in (True, False)
      for a in (positive(1, 1, dtype=t), positive(2, 2, dtype=t), positive(2, 5, 5, dtype=t))),
    # -- derivatives
    Case("eigvalsh_grad", _of_parts(lambda a: linalg.eigvalsh(a + _adjoint(a))), [f32(4, 4), f32(4, 4, seed=1)],
         rtol=1e-4),
    Case("svd_grad", _of_parts(_values), [f64(4, 3), f64(4, 3, seed=1)], x64=True, rtol=1e-9),
    Case("eigvals_grad", _of_parts(linalg.eigvals), [f64(4, 4), f64(4, 4, seed=1)], x64=True, rtol=1e-9),
    # -- functions built on them
    *(Case(f"{name}_{a.shape}", fn, [a], spec=symbolic("B, 3, 3") if a.ndim == 3 else None, rtol=tol, atol=tol)
      for a, tol in ((c64(6, 6, seed=3), 2e-5), (c64(5, 3, 3, seed=4), 2e-5))
      for name, fn in {
          "pinv": linalg.pinv, "svdvals": linalg.svdvals, "rank": linalg.matrix_rank, "cond": linalg.cond,
          "norm_2": lambda a: linalg.norm(a, ord=2, axis=(-2, -1)),
          "norm_nuclear": lambda a: linalg.norm(a, ord="nuc", axis=(-2, -1)),
          "eigvalsh": lambda a: linalg.eigvalsh(a + _adjoint(a)),
      }.items()),
    *(Case(f"{name}_{a.dtype}", fn, [a], x64=True, rtol=1e-9)
      for a in (c128(5, 5), f64(5, 5))
      for name, fn in {
          "sqrtm": lambda a: sl.sqrtm(a) @ sl.sqrtm(a), "polar": sl.polar,
          "funm": lambda a: sl.funm(a, jnp.exp, disp=False)[0],
          "schur_complex": lambda a: _gram(sl.schur(a, output="complex")[1]),
          "roots": lambda a: _powers(jnp.roots(a[0], strip_zeros=False)),
      }.items()),
    Case("rsf2csf", lambda a: (lambda t, z: z @ t @ _adjoint(z))(*sl.rsf2csf(*sl.schur(a))), [f64(5, 5)], x64=True),
    Case("lstsq", lambda a, b: linalg.lstsq(a, b)[0], [c64(9, 4), c64(9, 2)], rtol=1e-4),
]  # fmt: skip

if hasattr(sl, "solve_sylvester"):
    SYSTEM = [c128(5, 5), c128(3, 3, seed=1), c128(5, 3)]
    CASES.append(Case("solve_sylvester", sl.solve_sylvester, SYSTEM, x64=True, rtol=1e-9))
