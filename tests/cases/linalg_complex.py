"""Factorizations and systems of complex matrices; all of them are unique with LAPACK's conventions."""

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

Array = Any


def c128(*shape: int, seed: int = 0) -> Array:
    """Normal complex values with the bits of double precision."""
    return c64(*shape, seed=seed).astype(C128) + 1e-8 * c64(*shape, seed=seed + 7)


def positive(*shape: int, dtype: Any = C64) -> Array:
    a = c128(*shape)
    return (a @ np.swapaxes(a, -1, -2).conj() + np.eye(shape[-1])).astype(dtype)


def graded(n: int, dtype: Any = C128) -> Array:
    """A positive matrix with eigenvalues from 1 to 1e-10."""
    q = np.linalg.qr(c128(n, n, seed=1))[0]
    return ((q * 10.0 ** np.linspace(0, -10, n)) @ q.conj().T).astype(dtype)


def replaced(a: Array, place: Any, value: complex) -> Array:
    a = a.copy()
    a[place] = value
    return a


def symbolic(*shapes: str) -> list[Any]:
    scope = jax.export.SymbolicScope()
    return [jax.ShapeDtypeStruct(jax.export.symbolic_shape(text, scope=scope), C64) for text in shapes]


DTYPES = (C64, C128)
CORNER = (-1, 0)
TIED = np.array([[3, 1], [2 + 2j, 1]], C64)  # the second row is first by |re| + |im| alone
NEGATIVE_ZERO = np.array([[complex(-0.0, 0), 1], [2, 3]], C64)


def _factor(a: Array) -> Array:
    """Of the lower triangle, which the diagonal's imaginary part is no part of."""
    return lax.linalg.cholesky(a, symmetrize_input=False)


def _qr(a: Array, full: bool = True, pivoting: bool = False) -> tuple[Array, ...]:
    q, r, *order = lax.linalg.qr(a, full_matrices=full, pivoting=pivoting)
    return q, r, q @ r, *order


def _rebuilt(a: Array) -> tuple[Array, ...]:
    q, r = lax.linalg.qr(a, full_matrices=False)
    return q @ r, q.conj().mT @ q, jnp.diagonal(r, axis1=-2, axis2=-1).imag


def _triangular(options: dict[str, bool], a: Array, b: Array) -> Array:
    return lax.linalg.triangular_solve(a, b, **options)


def _of_size(fn: Any) -> Any:
    """The gradient of a real function of the result, in the first argument."""
    return jax.grad(lambda *args: jnp.sum(jnp.abs(fn(*args)) ** 3))


def _whitened(a: Array, b: Array) -> Array:
    factor = linalg.cholesky(a @ a.conj().T + jnp.eye(4))
    return sl.solve_triangular(factor, b, lower=True)


CASES = [
    # -- Cholesky
    *(Case(f"cholesky_{a.shape}_{t.__name__}", linalg.cholesky, [a], x64=t == C128)
      for t in DTYPES
      for a in (positive(4, 4, dtype=t), positive(1, 1, dtype=t), positive(2, 3, 5, 5, dtype=t),
                np.zeros((3, 0, 0), t), np.zeros((0, 3, 3), t))),
    Case("cholesky_symbolic", linalg.cholesky, [positive(2, 5, 5)], spec=symbolic("B, N, N"),
         also=[[positive(1, 1, 1)], [positive(3, 20, 20)]]),
    Case("cholesky_pivots", _factor, [positive(4, 4)],
         also=[[replaced(positive(4, 4), place, value)]
               for place, value in (((1, 1), 0), ((2, 2), -1), ((2, 2), 9 + 3j), (CORNER, np.nan), ((1, 1), np.nan),
                                    ((0, 3), np.nan))]),
    Case("cholesky_graded", linalg.cholesky, [graded(8)], x64=True, rtol=1e-5),
    # -- LU
    *(Case(f"lu_{a.shape}_{t.__name__}", lax.linalg.lu, [a], x64=t == C128)
      for t in DTYPES
      for a in (c128(5, 5).astype(t), c128(3, 5).astype(t), c128(5, 3).astype(t), c128(2, 3, 4, 4).astype(t),
                c128(1, 1).astype(t), np.zeros((2, 0, 3), t), np.zeros((0, 3, 3), t))),
    Case("lu_ties", lax.linalg.lu, [np.sign(f32(9, 9)) + 1j * np.sign(f32(9, 9, seed=1))]),
    Case("lu_magnitudes", lax.linalg.lu, [TIED],
         also=[[0 * TIED], [0 * TIED + 1], [0 * TIED + 1j], [np.array([[1, 2j], [2j, -4]], C64)]]),
    Case("lu_zero_pivot", lax.linalg.lu, [np.array([[2j, 0, 0], [0, 0, 3], [0, 0, 0]], C64)]),
    Case("lu_extremes", lax.linalg.lu, [c128(4, 4) * 1e290], also=[[c128(4, 4) * 1e-290]], x64=True),
    Case("lu_symbolic", lax.linalg.lu, [c64(2, 4, 4)], spec=symbolic("B, 4, 4"), also=[[c64(1, 4, 4)], [c64(7, 4, 4)]]),
    # -- triangular and tridiagonal systems
    *(Case(f"triangular_{'_'.join(k for k, v in o.items() if v)}_{t.__name__}", partial(_triangular, o),
           [(c128(2, 4, 4) + 4 * np.eye(4)).astype(t), c128(2, 4, 4, seed=1).astype(t)], x64=t == C128)
      for t in DTYPES
      for bits in range(32)
      for o in [dict(zip(("left_side", "lower", "transpose_a", "conjugate_a", "unit_diagonal"),
                         (bool(bits >> i & 1) for i in range(5)), strict=True))]),
    Case("triangular_special", partial(_triangular, {"left_side": True, "lower": True}), [c64(3, 3), c64(3, 2, seed=1)],
         also=[[replaced(c64(3, 3), place, value), c64(3, 2, seed=1)]
               for place, value in (((1, 1), 0), ((0, 2), np.nan), ((1, 1), np.nan))]),
    Case("triangular_empty", partial(_triangular, {"left_side": True, "lower": True}),
         [np.zeros((0, 0), C64), np.zeros((0, 2), C64)]),
    Case("triangular_symbolic", partial(_triangular, {"left_side": True, "lower": False, "conjugate_a": True}),
         [c64(2, 4, 4) + 4 * np.eye(4, dtype=C64), c64(2, 4, 3)], spec=symbolic("B, N, N", "B, N, M"),
         also=[[c64(1, 1, 1) + 1, c64(1, 1, 2)]]),
    *(Case(f"tridiagonal_solve_{n}_{t.__name__}", lax.linalg.tridiagonal_solve,
           [(c128(2, n) * (np.arange(n) > 0)).astype(t), c128(2, n, seed=1).astype(t),
            (c128(2, n, seed=2) * (np.arange(n) < n - 1)).astype(t), c128(2, n, 3).astype(t)], x64=t == C128)
      for t in DTYPES for n in (1, 3, 8)),
    Case("tridiagonal_solve_singular", lax.linalg.tridiagonal_solve, [*np.zeros((3, 4), C64), c64(4, 1)],
         also=[[np.array([0, 1, 1j, 1], C64), np.zeros(4, C64), np.array([1, 1j, 1, 0], C64), c64(4, 1)]]),
    # -- QR
    *(Case(f"qr_{a.shape}_{full}_{t.__name__}", partial(_qr, full=full), [a], x64=t == C128)
      for t in DTYPES for full in (True, False)
      for a in (c128(4, 4).astype(t), c128(3, 5).astype(t), c128(2, 6, 3).astype(t), c128(1, 1).astype(t),
                np.zeros((3, 0), t), np.zeros((0, 3), t), np.zeros((0, 3, 2), t))),
    *(Case(f"qr_pivoting_{a.shape}", partial(_qr, full=False, pivoting=True), [a])
      for a in (c64(4, 4), c64(3, 5), c64(2, 6, 3), np.zeros((0, 3), C64))),
    Case("qr_signs", _qr, [NEGATIVE_ZERO],
         also=[[np.eye(2, dtype=C64) * turn] for turn in (1, -1, 1j, -1j, complex(-0.0, 1))]
         + [[np.zeros((2, 2), C64)], [replaced(c64(2, 2), (0, 0), np.nan)]]),
    Case("qr_deficient", _rebuilt, [np.full((4, 3), 1j, C64)],
         also=[[np.zeros((4, 3), C64)], [c64(4, 1) @ c64(1, 3)], [c64(4, 3) * 1e30], [c64(4, 3) * 1e-30]]),
    Case("qr_graded", _rebuilt, [graded(6)], x64=True),
    Case("qr_extremes", lambda a: lax.linalg.qr(a)[0], [c128(4, 3) * 1e200], also=[[c128(4, 3) * 1e-200]], x64=True),
    Case("qr_symbolic", partial(_qr, full=False), [c64(2, 5, 3)], spec=symbolic("B, 5, 3"), also=[[c64(1, 5, 3)]]),
    Case("qr_symbolic_size", _qr, [c64(4, 4)], spec=symbolic("N, N"), also=[[c64(1, 1)], [c64(9, 9)]], atol=1e-5),
    Case("qr_raw", lambda a: linalg.qr(a, mode="raw"), [c64(2, 5, 3)], also=[[1j * c64(2, 5, 3)]]),
    Case("householder_product", lax.linalg.householder_product, [c64(2, 5, 3), c64(2, 3, seed=1)]),
    # -- derivatives
    Case("cholesky_grad", _of_size(_whitened), [c64(4, 4), c64(4, 2)], rtol=1e-4, atol=1e-4),
    Case("solve_grad", _of_size(linalg.solve), [c64(4, 4) + 3 * np.eye(4, dtype=C64), c64(4, 2)], rtol=1e-4),
    Case("qr_grad", jax.grad(lambda a: jnp.sum(linalg.qr(a)[0].real ** 3)), [c64(5, 3)], rtol=1e-4, atol=1e-5),
    Case("det_grad", jax.grad(lambda a: jnp.abs(linalg.det(a))), [c128(4, 4)], x64=True),
    Case("expm_grad", _of_size(sl.expm), [c128(3, 3)], x64=True, rtol=1e-9),
    # -- functions built on them
    *(Case(f"{name}_{a.shape}", fn, [a], spec=symbolic("B, 3, 3") if a.ndim == 3 else None, rtol=tol, atol=tol)
      for a, tol in ((c64(6, 6, seed=3), 2e-5), (c64(5, 3, 3, seed=4), 2e-5), (c64(40, 40, seed=5), 2e-4))
      for name, fn in {
          "inv": linalg.inv, "det": lambda a: linalg.det(a / 6), "slogdet": lambda a: tuple(linalg.slogdet(a)),
          "expm": lambda a: sl.expm(a / 6), "matrix_power": lambda a: linalg.matrix_power(a / 6, -2),
      }.items()),
    Case("solve_batch", linalg.solve, [c64(2, 4, 4), c64(2, 4, 3)], spec=symbolic("B, 4, 4", "B, 4, 3"),
         also=[[c64(5, 4, 4, seed=3), c64(5, 4, 3)]], rtol=1e-4, atol=1e-5),
    *(Case(f"lu_solve_{trans}", lambda a, b, t=trans: sl.lu_solve(sl.lu_factor(a), b, trans=t), [c64(5, 5), c64(5, 2)],
           rtol=1e-4) for trans in (0, 1, 2)),
    *(Case(f"solve_triangular_{trans}", partial(sl.solve_triangular, trans=trans), [c64(4, 4), c64(4)], rtol=1e-4)
      for trans in (0, 1, 2)),
    *(Case(f"cho_solve_{low}", lambda a, b, low=low: sl.cho_solve(sl.cho_factor(a, lower=low), b),
           [positive(4, 4), c64(4, 2)]) for low in (True, False)),
    Case("qr_multiply", sl.qr_multiply, [c64(6, 4), c64(2, 6)]),
    Case("structured", lambda r, c: (sl.toeplitz(r), sl.toeplitz(c, r), sl.block_diag(r, c)), [c64(4), c64(3)]),
    Case("products", lambda v, a: (v @ a, a @ v, v @ a[0], jnp.einsum("bi,bij->bj", a[..., 0], a), jnp.vdot(v, v),
                                   jnp.einsum("i,bij->jb", v, a)), [c64(4), c64(5, 4, 4)]),
]  # fmt: skip

if hasattr(lax.linalg, "ormqr"):
    CASES += [
        Case(f"ormqr_{left}_{transpose}", partial(lax.linalg.ormqr, left=left, transpose=transpose),
             [c64(2, 5, 3), c64(2, 3, seed=1), c64(2, 5, 5, seed=2)])
        for left in (True, False) for transpose in (True, False)
    ]  # fmt: skip
