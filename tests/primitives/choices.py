"""Results that are unique only up to a choice (sign, phase, order) or ill-conditioned: what they must satisfy.

A check gives the largest violation in units of ``n * eps * norm``, with the size and the 2-norm of the operand: what
a backward stable algorithm stays within a small multiple of, and what LAPACK's own tests count in. JAX's result goes
through the same check, and ours may violate no more than a few times as much.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from tests.primitives.corpus import Call

Array = np.ndarray[Any, Any]
Check = Callable[[Mapping[str, Any], Call, Sequence[Array]], float]


def _wide(x: Array) -> Array:
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def _adjoint(x: Array) -> Array:
    return np.conj(np.swapaxes(x, -1, -2))


def _largest(x: Array) -> float:
    return float(np.nan_to_num(np.abs(x), nan=np.inf).max(initial=0.0))


def _norm(a: Array) -> float:
    """The largest 2-norm of the matrices in ``a``."""
    return float(np.linalg.norm(a, 2, (-2, -1)).max(initial=0.0)) if a.size else 0.0


def _scaled(residuals: Sequence[tuple[Array, float]], operand: Array) -> float:
    eps = float(ml_dtypes.finfo(operand.real.dtype).eps) * max(1, *operand.shape[-2:])
    return max(_largest(r) / (scale or 1.0) for r, scale in residuals) / eps


def _orthonormal(q: Array) -> tuple[Array, float]:
    return _adjoint(q) @ q - np.eye(q.shape[-1]), 1.0


def _cholesky(params: Mapping[str, Any], call: Call, out: Sequence[Array]) -> float:
    """The factor is unique, but moves with the condition of the operand; the upper triangles count for nothing."""
    factor, a = np.tril(_wide(out[0])), _wide(call.args[0])
    return _scaled([(np.tril(factor @ _adjoint(factor) - a), _norm(a))], call.args[0])


def _qr(params: Mapping[str, Any], call: Call, out: Sequence[Array]) -> float:
    a, (q, r) = _wide(call.args[0]), map(_wide, out[:2])
    return _scaled([(q @ r - a, _norm(a)), _orthonormal(q), (np.tril(r, -1), _norm(a))], call.args[0])


def _svd(params: Mapping[str, Any], call: Call, out: Sequence[Array]) -> float:
    a = _wide(call.args[0])
    s = _wide(out[0])
    residuals = [
        (s - np.linalg.svd(a, compute_uv=False), _norm(a)),
        (np.minimum(np.diff(s[..., ::-1]), 0), 1.0),
    ]
    if len(out) > 1:
        u, vh, k = _wide(out[1]), _wide(out[2]), s.shape[-1]
        residuals += [
            ((u[..., :k] * s[..., None, :]) @ vh[..., :k, :] - a, _norm(a)),
            _orthonormal(u),
            _orthonormal(_adjoint(vh)),
        ]
    return _scaled(residuals, call.args[0])


def _eigh(params: Mapping[str, Any], call: Call, out: Sequence[Array]) -> float:
    lower = _wide(call.args[0])
    a = np.tril(lower) if params.get("lower", True) else _adjoint(np.triu(lower))
    a = a + _adjoint(np.tril(a, -1))
    v, w = map(_wide, out[:2])
    return _scaled(
        [
            (a @ v - v * w[..., None, :], _norm(a)),
            _orthonormal(v),
            (w - np.linalg.eigvalsh(a), _norm(a)),
        ],
        call.args[0],
    )


def _eig(params: Mapping[str, Any], call: Call, out: Sequence[Array]) -> float:
    a = _wide(call.args[0])
    w, *vectors = map(_wide, out)
    scale = _norm(a)
    residuals = [(_matched(w, np.linalg.eigvals(a)), scale)]
    if params["compute_left_eigenvectors"]:
        left = vectors.pop(0)
        residuals.append((_adjoint(left) @ a - w[..., :, None] * _adjoint(left), scale))
    if params["compute_right_eigenvectors"]:
        right = vectors.pop(0)
        residuals.append((a @ right - right * w[..., None, :], scale))
    return _scaled(residuals, call.args[0])


def _matched(values: Array, reference: Array) -> Array:
    """Each of ``values`` less the nearest one of ``reference`` that no other has taken, last axis for last axis."""
    off = np.zeros(values.shape)
    for index in np.ndindex(values.shape[:-1]):
        left = list(reference[index])
        for i, value in enumerate(values[index]):
            nearest = min(range(len(left)), key=lambda j: abs(left[j] - value))
            off[(*index, i)] = abs(left.pop(nearest) - value)
    return off


def _unstable_sort(params: Mapping[str, Any], call: Call, out: Sequence[Array]) -> float:
    """Keys are in order; what goes with equal keys may come in any."""
    keys = params["num_keys"]
    if params["is_stable"] or not all(map(np.array_equal, out[:keys], call.want[:keys])):
        return np.inf
    return 0.0 if _rows(out) == _rows(call.want) else np.inf


def _rows(arrays: Sequence[Array]) -> list[tuple[Any, ...]]:
    """The elements that go together, complex ones as pairs, in an order of their own."""
    columns = [c for x in arrays for c in ([x.real, x.imag] if x.dtype.kind == "c" else [x])]
    return sorted(zip(*(np.ravel(c).tolist() for c in columns), strict=True))


def _top_k(params: Mapping[str, Any], call: Call, out: Sequence[Array]) -> float:
    """Values are JAX's; which of equal elements an index points at is free."""
    values, where = out[0], out[1].astype(np.int64)
    operand = call.args[0]
    distinct = all(len(set(row)) == len(row) for row in where.reshape(-1, where.shape[-1]).tolist())
    inside = bool(((where >= 0) & (where < operand.shape[-1])).all())
    equal = inside and np.array_equal(np.take_along_axis(operand, where, -1), values, equal_nan=True)
    return 0.0 if distinct and equal and np.array_equal(values, call.want[0], equal_nan=True) else np.inf


CHECKS: dict[str, Check] = {
    "cholesky": _cholesky,
    "qr": _qr,
    "svd": _svd,
    "eigh": _eigh,
    "eig": _eig,
    "sort": _unstable_sort,
    "approx_top_k": _top_k,
}


def violation(group: str, params: Mapping[str, Any], call: Call, out: Sequence[Array]) -> float:
    """What ``out`` violates, in epsilons; infinite where a result leaves no choice."""
    check = CHECKS.get(group)
    if check is None or any(
        x.shape != w.shape or x.dtype != w.dtype for x, w in zip(out, call.want, strict=True)
    ):
        return np.inf
    return check(params, call, out)
