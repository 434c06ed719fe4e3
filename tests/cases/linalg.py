"""Dense linear algebra: factors that are unique as they are, others by what they reconstruct."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg as sl
import numpy as np
from jax import lax
from jax.numpy import linalg

from tests.cases.case import Case, f32, rng

Array = Any


def f64(*shape: int, seed: int = 0) -> Array:
    return rng(seed).normal(size=shape)


def positive(*shape: int, dtype: Any = np.float32) -> Array:
    a = f64(*shape)
    return (a @ np.swapaxes(a, -1, -2) + np.eye(shape[-1])).astype(dtype)


def spectrum(*values: float, dtype: Any = np.float32, symmetric: bool = True) -> Array:
    """A matrix with these eigenvalues, or singular values."""
    n = len(values)
    left = np.linalg.qr(f64(n, n, seed=1))[0]
    right = left if symmetric else np.linalg.qr(f64(n, n, seed=2))[0]
    return (left * np.array(values) @ right.T).astype(dtype)


def with_nan(a: Array, value: float = np.nan) -> Array:
    a = a.copy()
    a[..., -1, 0] = value
    return a


DTYPES = (np.float32, np.float64)
BOUNDS: dict[Any, dict[str, float]] = {  # of sums over products of factors
    np.float32: {"rtol": 2e-5, "atol": 1e-5},
    np.float64: {"rtol": 1e-11, "atol": 1e-12},
}
SINGULAR = np.array([[1, 2], [2, 4]], np.float32)
ROWS = np.array([[2, 0, 0], [0, 0, 3], [0, 0, 0]], np.float32)

# -- what the factors give back ---------------------------------------------------------------


def _gram(q: Array) -> Array:
    return q.mT @ q


def _eigh(a: Array, **options: Any) -> tuple[Array, ...]:
    """Values, and what vectors and values rebuild; vectors orthonormal."""
    v, w = lax.linalg.eigh(a, symmetrize_input=False, **options)[:2]
    return w, (v * w[..., None, :]) @ v.mT, _gram(v)


def _svd(a: Array, full: bool = True) -> tuple[Array, ...]:
    u, s, vt = lax.linalg.svd(a, full_matrices=full)
    k = s.shape[-1]
    return s, (u[..., :k] * s[..., None, :]) @ vt[..., :k, :], _gram(u), _gram(vt.mT)


def _values(a: Array) -> Array:
    return lax.linalg.svd(a, compute_uv=False)


def _qr(a: Array, full: bool = True, pivoting: bool = False) -> tuple[Array, ...]:
    q, r, *order = lax.linalg.qr(a, full_matrices=full, pivoting=pivoting)
    return q, r, q @ r, *order


def _rebuilt(a: Array) -> tuple[Array, ...]:
    q, r = lax.linalg.qr(a, full_matrices=False)
    return q @ r, _gram(q)


def _hessenberg(a: Array) -> tuple[Array, ...]:
    h, taus = lax.linalg.hessenberg(a)
    return h, taus


def _tridiagonal(lower: bool, a: Array) -> tuple[Array, ...]:
    return tuple(lax.linalg.tridiagonal(a, lower=lower)[:4])


def _schur(a: Array) -> tuple[Array, ...]:
    """What T and Z rebuild; where T has blocks; Z orthonormal."""
    t, z = sl.schur(a)
    return z @ t @ z.T, _gram(z), jnp.sum(jnp.diagonal(t, -1) != 0)


def _by_size(w: Array) -> Array:
    """Eigenvalues as a sum that no order changes: of powers, real for a real matrix."""
    return jnp.stack([jnp.sum(w.real), jnp.sum(w.real**2 - w.imag**2), jnp.sum(jnp.abs(w.imag))])


def _eig(a: Array) -> tuple[Array, ...]:
    """Residuals and lengths of vectors, and invariants of the eigenvalues, as reals."""
    w, left, right = lax.linalg.eig(a, compute_left_eigenvectors=True)

    def residual(m: Array, v: Array, w: Array) -> tuple[Array, ...]:
        re, im = v.real, v.imag
        wr, wi = w.real[..., None, :], w.imag[..., None, :]
        return m @ re - (re * wr - im * wi), m @ im - (re * wi + im * wr), jnp.sum(re * re + im * im, -2)

    return *residual(a, right, w), *residual(a.mT, left, w.conj()), _by_size(w)


def _triangular(options: dict[str, bool], a: Array, b: Array) -> Array:
    return lax.linalg.triangular_solve(a, b, **options)


CASES = [
    # -- Cholesky
    *(Case(f"cholesky_{a.shape}_{a.dtype.name}", linalg.cholesky, [a], x64=a.dtype == np.float64)
      for t in DTYPES
      for a in (positive(4, 4, dtype=t), positive(1, 1, dtype=t), positive(2, 3, 5, 5, dtype=t),
                np.zeros((3, 0, 0), t), np.zeros((0, 3, 3), t))),
    Case("cholesky_symbolic", linalg.cholesky, [positive(2, 5, 5)], spec=[("B", "N", "N")],
         also=[[positive(1, 1, 1)], [positive(3, 20, 20)], [with_nan(positive(2, 3, 3))],
               [np.stack([positive(2, 2), np.array([[1, 2], [2, 1]], np.float32), SINGULAR])]]),
    Case("cholesky_lower_only", partial(lax.linalg.cholesky, symmetrize_input=False),
         [np.tril(positive(4, 4)) + 7 * np.triu(np.ones((4, 4), np.float32), 1)]),
    Case("cholesky_times_vector", lambda a, b: linalg.cholesky(a) @ b, [positive(3, 3), f32(3)]),
    Case("cholesky_grad", jax.grad(lambda a: (linalg.cholesky(a @ a.T + jnp.eye(4)) ** 3).sum()), [f32(4, 4)]),
    # -- LU
    *(Case(f"lu_{a.shape}_{a.dtype.name}", lax.linalg.lu, [a], x64=a.dtype == np.float64)
      for t in DTYPES
      for a in (f64(5, 5).astype(t), f64(3, 5).astype(t), f64(5, 3).astype(t), f64(2, 3, 4, 4).astype(t),
                f64(1, 1).astype(t), np.zeros((2, 0, 3), t), np.zeros((0, 3, 3), t))),
    Case("lu_ties", lax.linalg.lu, [np.sign(f32(9, 9))]),
    Case("lu_zero_pivot", lax.linalg.lu, [ROWS], also=[[0 * ROWS], [np.ones((3, 3), np.float32)]]),
    Case("lu_symbolic", lax.linalg.lu, [f32(2, 4, 4)], spec=[("B", 4, 4)], also=[[f32(1, 4, 4)], [f32(7, 4, 4)]]),
    Case("lu_symbolic_size", lambda a: lax.linalg.lu(a)[0], [f32(4, 4)], spec=[("N", "N")],
         also=[[f32(1, 1)], [f32(9, 9)]], rtol=1e-4),
    Case("inv_symbolic_size", linalg.inv, [f32(4, 4)], spec=[("N", "N")], also=[[f32(1, 1)], [f32(9, 9)]], rtol=1e-4),
    Case("lu_pivots", lambda p: lax.linalg.lu_pivots_to_permutation(p, 6),
         [np.array([[3, 4, 5], [0, 1, 2], [5, 5, 5]], np.int32)]),
    # -- triangular and tridiagonal systems
    *(Case(f"triangular_{'_'.join(k for k, v in o.items() if v)}_{t.__name__}", partial(_triangular, o),
           [(f64(2, 4, 4) + 4 * np.eye(4)).astype(t), f64(2, 4, 4, seed=1).astype(t)], x64=t == np.float64)
      for t in DTYPES
      for bits in range(16)
      for o in [dict(zip(("left_side", "lower", "transpose_a", "unit_diagonal"),
                         (bool(bits >> i & 1) for i in range(4)), strict=True))]),
    Case("triangular_ignores", partial(_triangular, {"left_side": True, "lower": True, "unit_diagonal": True}),
         [np.tril(f32(3, 3), -1) + np.triu(np.full((3, 3), np.nan, np.float32)), f32(3, 2)]),
    Case("triangular_symbolic", partial(_triangular, {"left_side": True, "lower": False}),
         [f32(2, 4, 4) + 4 * np.eye(4, dtype=np.float32), f32(2, 4, 3)], spec=[("B", "N", "N"), ("B", "N", "M")],
         also=[[f32(1, 1, 1) + 1, f32(1, 1, 2)]]),
    Case("triangular_half", partial(_triangular, {"left_side": True, "lower": True}),
         [np.eye(4, dtype=np.float16) + np.float16(.5), f32(4, 2).astype(np.float16)]),
    *(Case(f"tridiagonal_solve_{n}_{t.__name__}", lax.linalg.tridiagonal_solve,
           [(f64(2, n) * (np.arange(n) > 0)).astype(t), f64(2, n, seed=1).astype(t),
            (f64(2, n, seed=2) * (np.arange(n) < n - 1)).astype(t), f64(2, n, 3).astype(t)], x64=t == np.float64)
      for t in DTYPES for n in (1, 3, 8)),
    Case("tridiagonal_solve_interchanges", lax.linalg.tridiagonal_solve,
         [np.array([0, 1, 1, 1], np.float32), np.zeros(4, np.float32), np.array([1, 1, 1, 0], np.float32), f32(4, 1)],
         also=[[np.zeros(4, np.float32), np.array([1, 0, 1, 1], np.float32), np.zeros(4, np.float32), f32(4, 1)]]),
    # -- Householder
    *(Case(f"qr_{a.shape}_{full}_{a.dtype.name}", partial(_qr, full=full), [a], x64=a.dtype == np.float64)
      for t in DTYPES for full in (True, False)
      for a in (f64(4, 4).astype(t), f64(3, 5).astype(t), f64(2, 6, 3).astype(t), np.zeros((3, 0), t),
                np.zeros((0, 3), t), np.zeros((0, 3, 2), t))),
    *(Case(f"qr_pivoting_{a.shape}", partial(_qr, full=False, pivoting=True), [a])
      for a in (f32(4, 4), f32(3, 5), f32(2, 6, 3), np.zeros((0, 3), np.float32))),
    Case("qr_one_row", _qr, [f32(1, 1)], also=[[-f32(1, 1)], [np.zeros((1, 1), np.float32)]]),
    Case("qr_deficient", _rebuilt, [np.ones((4, 3), np.float32)],
         also=[[0 * np.ones((4, 3), np.float32)], [f32(4, 3) * 1e30], [f32(4, 3) * 1e-30]]),
    Case("qr_extremes", lambda a: lax.linalg.qr(a)[0], [f64(4, 3) * 1e200], also=[[f64(4, 3) * 1e-200]], x64=True),
    Case("qr_symbolic", partial(_qr, full=False), [f32(2, 5, 3)], spec=[("B", 5, 3)], also=[[f32(1, 5, 3)]]),
    Case("qr_symbolic_size", _qr, [f32(4, 4)], spec=[("N", "N")], also=[[f32(1, 1)], [f32(9, 9)]], atol=1e-5),
    Case("qr_raw", lambda a: linalg.qr(a, mode="raw"), [f32(5, 3)]),
    *(Case(f"hessenberg_{a.shape}_{a.dtype.name}", _hessenberg, [a], x64=a.dtype == np.float64)
      for a in (f32(1, 1), f32(2, 2), f32(2, 5, 5), f64(6, 6), np.zeros((2, 0, 0), np.float32)) if a.size),
    Case("hessenberg_q", lambda a: sl.hessenberg(a, calc_q=True), [f32(5, 5)]),
    *(Case(f"tridiagonal_{lower}_{a.shape}_{a.dtype.name}", partial(_tridiagonal, lower), [a],
           x64=a.dtype == np.float64)
      for lower in (True, False)
      for a in (positive(1, 1), positive(2, 2), positive(2, 5, 5, dtype=float), positive(6, 6, dtype=float))),
    Case("symmetric_product", lambda a, c: lax.linalg.symmetric_product(a, c, alpha=2.0, beta=0.5),
         [f32(2, 5, 3), positive(2, 5, 5)]),
    Case("symmetric_product_alone", lambda a, c: lax.linalg.symmetric_product(a, c), [f32(5, 3), positive(5, 5)]),
    # -- Schur form and general eigenvalues
    *(Case(f"schur_{n}_{t.__name__}", _schur, [f64(n, n, seed=n).astype(t)], x64=t == np.float64, **BOUNDS[t])
      for t in DTYPES for n in (1, 2, 3, 6, 15)),
    Case("schur_special", _schur, [np.roll(np.eye(4), 1, 0)], x64=True,
         also=[[np.zeros((4, 4))], [np.diag(np.ones(3), 1) + 2 * np.eye(4)], [np.kron(np.eye(2), [[0, 1], [-1, 0]])],
               [np.diag([1.0, 2, 3, 4])], [positive(4, 4, dtype=float)], [f64(4, 4) * 1e100]], rtol=1e-9),
    *(Case(f"eig_{a.shape}_{a.dtype.name}", _eig, [a], x64=a.dtype == np.float64, **BOUNDS[t])
      for t in DTYPES
      for a in (f64(1, 1).astype(t), f64(2, 2).astype(t), f64(2, 5, 5).astype(t), f64(12, 12).astype(t))),
    Case("eig_special", _eig, [np.roll(np.eye(4), 1, 0)], x64=True,
         also=[[np.zeros((4, 4))], [np.eye(4)], [np.kron(np.eye(2), [[0, 1], [-1, 0]])],
               [positive(4, 4, dtype=float)]]),
    Case("eigvals", linalg.eigvals, [np.array([[0, -2], [1, 0]], np.float32)],
         also=[[np.array([[3, 1], [0, 2]], np.float32)]]),
    # -- symmetric eigenvalues
    *(Case(f"eigh_{a.shape}_{a.dtype.name}", _eigh, [a], x64=a.dtype == np.float64, **BOUNDS[t])
      for t in DTYPES
      for a in (positive(1, 1, dtype=t), positive(2, 2, dtype=t), positive(2, 3, 5, 5, dtype=t), np.zeros((0, 0), t),
                np.zeros((0, 3, 3), t), positive(24, 24, dtype=t))),
    Case("eigh_repeated", _eigh, [spectrum(1, 1, 1, 2, 2, 5, dtype=float)], x64=True,
         also=[[np.eye(6)], [np.zeros((6, 6))], [np.ones((6, 6))],
               [spectrum(1, 1 + 1e-13, 1 + 1e-9, 0, 1e-14, -3, dtype=float)],
               [spectrum(1, 1e-3, 1e-6, 1e-9, 1e-12, 0, dtype=float)]]),
    Case("eigh_extremes", lambda a: lax.linalg.eigh(a)[1], [positive(4, 4, dtype=float) * 1e200],
         also=[[positive(4, 4, dtype=float) * 1e-200]], x64=True),
    Case("eigh_upper", partial(_eigh, lower=False), [f32(5, 5)], atol=1e-5),
    Case("eigh_lower", _eigh, [f32(5, 5)], atol=1e-5),
    Case("eigh_symbolic", _eigh, [positive(2, 3, 3)], spec=[("B", 3, 3)],
         also=[[positive(1, 3, 3)], [with_nan(positive(2, 3, 3))]], atol=1e-5),
    Case("eigvalsh_grad", jax.grad(lambda a: (linalg.eigvalsh(a) ** 3).sum()), [spectrum(-1, 2, 3, 5)], atol=1e-4),
    # -- singular values
    *(Case(f"svd_{a.shape}_{full}_{a.dtype.name}", partial(_svd, full=full), [a],
           x64=a.dtype == np.float64, **BOUNDS[t])
      for t in DTYPES for full in (True, False)
      for a in (f64(1, 1).astype(t), f64(4, 4).astype(t), f64(2, 7).astype(t), f64(2, 3, 9, 4).astype(t),
                f64(3, 11).astype(t), np.zeros((0, 0), t), np.zeros((3, 0), t), np.zeros((2, 0, 3), t),
                np.zeros((0, 3, 2), t))),
    Case("svd_deficient", _svd, [spectrum(1, 1, 1, 0, 0, 0, dtype=float, symmetric=False)], x64=True,
         also=[[np.zeros((6, 6))], [np.ones((6, 6))], [np.eye(6)],
               [spectrum(2, 2, 2, 1, 1, 1e-14, dtype=float, symmetric=False)],
               [spectrum(1, 1e-3, 1e-6, 1e-9, 1e-12, 1e-15, dtype=float, symmetric=False)]]),
    Case("svd_tall_deficient", _svd, [f64(9, 1) @ f64(1, 5)], x64=True, also=[[np.zeros((9, 5))]]),
    Case("svd_extremes", _values, [f64(4, 4) * 1e200], also=[[f64(4, 4) * 1e-200]], x64=True),
    Case("svd_symbolic", _svd, [f32(2, 4, 3)], spec=[("B", 4, 3)], also=[[f32(1, 4, 3)]], atol=1e-5),
    Case("svd_values", _values, [f32(3, 5, 4)], also=[[with_nan(f32(3, 5, 4))], [with_nan(f32(3, 5, 4), np.inf)]]),
    Case("svd_grad", jax.grad(lambda a: (linalg.svd(a, compute_uv=False) ** 3).sum()), [f32(4, 3)], rtol=1e-4),
    # -- functions built on them
    *(Case(f"{name}_{a.shape}", fn, [a], spec=[("B", *a.shape[1:])] if a.ndim == 3 else None, rtol=tol, atol=tol)
      for a, tol in ((f32(6, 6, seed=6), 2e-5), (f32(5, 3, 3, seed=4), 2e-5), (f32(40, 40, seed=5), 2e-4))
      for name, fn in {
          "inv": linalg.inv, "det": lambda a: linalg.det(a / 4), "slogdet": lambda a: tuple(linalg.slogdet(a)),
          "pinv": linalg.pinv, "svdvals": linalg.svdvals, "eigvalsh": linalg.eigvalsh, "rank": linalg.matrix_rank,
          "norm_2": lambda a: linalg.norm(a, ord=2, axis=(-2, -1)), "expm": lambda a: sl.expm(a / 4),
          "norm_nuclear": lambda a: linalg.norm(a, ord="nuc", axis=(-2, -1)),
      }.items()),
    Case("expm_grad", jax.grad(lambda a: sl.expm(a).sum()), [f32(3, 3)], rtol=1e-4),
    Case("solve", linalg.solve, [f32(5, 5), f32(5)]),
    Case("solve_batch", linalg.solve, [f32(2, 4, 4), f32(2, 4, 3)], spec=[("B", 4, 4), ("B", 4, 3)],
         also=[[f32(5, 4, 4, seed=3), f32(5, 4, 3)]], rtol=1e-4),
    Case("solve_transposed", lambda a, b: sl.lu_solve(sl.lu_factor(a), b, trans=1), [f32(5, 5), f32(5, 2)], rtol=1e-4),
    Case("inv_singular", linalg.inv, [SINGULAR], also=[[0 * SINGULAR]]),
    Case("rank_deficient", linalg.matrix_rank, [SINGULAR], also=[[0 * SINGULAR], [np.eye(2, dtype=np.float32)]]),
    Case("lstsq", linalg.lstsq, [f32(9, 4), f32(9)], rtol=1e-4),
    Case("lstsq_deficient", lambda a, b: linalg.lstsq(a, b)[0], [np.ones((5, 3), np.float32), f32(5, 2)], atol=1e-5),
    Case("cho_solve", lambda a, b: sl.cho_solve(sl.cho_factor(a, lower=True), b), [positive(4, 4), f32(4, 2)]),
    Case("polyfit", lambda x, y: jnp.polyfit(x, y, 2), [f32(9), f32(9, seed=1)], rtol=1e-4),
    Case("random_orthogonal", lambda k: jax.random.orthogonal(k, 4), [jax.random.PRNGKey(0)]),
    Case("multivariate_normal", lambda k, c: jax.random.multivariate_normal(k, jnp.zeros(3), c),
         [jax.random.PRNGKey(0), positive(3, 3)]),
]  # fmt: skip

if hasattr(lax.linalg, "ormqr"):
    CASES += [
        Case(f"ormqr_{left}_{transpose}", partial(lax.linalg.ormqr, left=left, transpose=transpose),
             [np.tril(f32(2, 5, 3), -1), f32(2, 3, seed=1), f32(2, 5, 5, seed=2)])
        for left in (True, False) for transpose in (True, False)
    ]  # fmt: skip
if hasattr(lax.linalg, "cholesky_update"):
    CASES.append(Case("cholesky_update", lax.linalg.cholesky_update, [np.triu(positive(5, 5)), f32(5)]))
