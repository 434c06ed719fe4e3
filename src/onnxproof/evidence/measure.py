"""One output, held against what was expected and against float64: the facts that a record keeps of it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from onnxproof.evidence.compare import Difference, difference, is_inexact, join_complex
from onnxproof.evidence.record import (
    Error,
    LostNan,
    OracleErrors,
    Output,
    Tensor,
    Tolerances,
    Ulp,
    Value,
    Worst,
)
from onnxproof.evidence.tensors import Array

_ULP_TYPES = {2: np.int16, 4: np.int32, 8: np.int64}


def measure(
    name: str,
    got: Array | None,
    want: Array | None,
    oracle: Array | None,
    tolerances: Tolerances,
) -> Output:
    """The facts of one output; what one side does not give is None.

    Args:
        got, want: of the runtime and of the reference.
        oracle: the reference in float64, or complex128.
    """
    if got is not None and want is not None:
        got = join_complex(got, want)
    comparable = got is not None and want is not None and got.shape == want.shape and got.dtype == want.dtype
    base: dict[str, Any] = dict.fromkeys(
        ("max_abs_error", "max_rel_error", "excess", "lost_nan", "worst", "ulp", "oracle")
    )
    if comparable:
        assert got is not None
        assert want is not None
        found = difference(got, want, tolerances.rtol, tolerances.atol)
        true = (
            oracle if oracle is not None and oracle.shape == want.shape and is_inexact(want.dtype) else None
        )
        base |= {
            "max_abs_error": error(found.max_abs),
            "max_rel_error": error(found.max_rel),
            "excess": error(found.excess),
            "lost_nan": None if found.matches else _lost_nan(got, want, tolerances),
            "worst": _worst(found, true),
            "ulp": ulp_quantiles(got, want),
            "oracle": None if true is None else _oracle_errors(got, want, true),
        }
    return Output(
        name=name,
        want=None if want is None else tensor_of(name, want),
        got=None if got is None else tensor_of(name, got),
        nonfinite=0 if got is None else _nonfinite(got),
        **base,
    )


def _lost_nan(got: Array, want: Array, tolerances: Tolerances) -> LostNan | None:
    if not is_inexact(want.dtype):
        return None
    lost = np.isnan(want) & ~np.isnan(got)
    if not lost.any():
        return None
    rest = difference(got[~lost], want[~lost], tolerances.rtol, tolerances.atol)
    return LostNan(elements=int(np.count_nonzero(lost)), excess=error(rest.excess))


def tensor_of(name: str, array: Array) -> Tensor:
    """Name, dtype and shape of an array."""
    return Tensor(name=name, dtype=array.dtype.name, shape=list(array.shape))


def error(value: float) -> Error:
    """A magnitude as records hold it."""
    return float(value) if math.isfinite(value) else "inf"


def plain(value: Any) -> Value:
    """An element as records hold it; of a complex number, its magnitude."""
    array = np.asarray(value)
    if array.dtype == np.bool_:
        return bool(array)
    number = float(np.abs(array)) if array.dtype.kind == "c" else float(array)
    if math.isnan(number):
        return "nan"
    return number if math.isfinite(number) else ("inf" if number > 0 else "-inf")


def ulp_quantiles(got: Array, want: Array) -> Ulp | None:
    """Quantiles of the distance in units of the last place, where both sides are finite; None for other dtypes."""
    integer = _ULP_TYPES.get(want.dtype.itemsize)
    if not is_inexact(want.dtype) or want.dtype.kind == "c" or integer is None:
        return None
    a, b = (x.reshape(-1)[_finite(got, want)] for x in (got, want))
    if a.size == 0:
        return None
    steps = np.abs(_ordered(a, integer).astype(np.float64) - _ordered(b, integer).astype(np.float64))
    p50, p90, p99, largest = np.quantile(steps, [0.5, 0.9, 0.99, 1.0], method="higher")
    return Ulp(p50=float(p50), p90=float(p90), p99=float(p99), max=float(largest))


def _ordered(values: Array, integer: Any) -> Array:
    """Integers in the order of the floats, one apart where floats are neighbours; both zeros are 0."""
    bits = np.ascontiguousarray(values).view(integer).astype(np.int64)
    ordered: Array = np.where(bits < 0, -(bits & np.iinfo(integer).max), bits)
    return ordered


def _finite(got: Array, want: Array) -> Array:
    with np.errstate(all="ignore"):
        mask: Array = np.isfinite(got.astype(np.float64)) & np.isfinite(want.astype(np.float64))
    return mask.reshape(-1)


def _nonfinite(got: Array) -> int:
    if not is_inexact(got.dtype):
        return 0
    wide = got.astype(np.complex128 if got.dtype.kind == "c" else np.float64)
    return int(got.size - np.count_nonzero(np.isfinite(wide)))


def _worst(found: Difference, oracle: Array | None) -> Worst | None:
    if found.want is None:
        return None
    true = None if oracle is None else plain(oracle[found.worst])
    return Worst(index=list(found.worst), got=plain(found.got), want=plain(found.want), oracle=true)


def _oracle_errors(got: Array, want: Array, oracle: Array) -> OracleErrors | None:
    wide = np.complex128 if oracle.dtype.kind == "c" else np.float64
    true = oracle.astype(wide)
    with np.errstate(all="ignore"):
        keep = np.isfinite(true)
        sides = [np.abs(x.astype(wide) - true)[keep] for x in (got, want)]
        size = np.maximum(np.abs(true[keep]), np.finfo(np.float64).tiny)
        if not size.size:
            return None
        top = [float(np.where(np.isnan(s), np.inf, s).max()) for s in sides]
        rel = [float(np.where(np.isnan(s), np.inf, s / size).max()) for s in sides]
    return OracleErrors(
        runtime_max_abs=error(top[0]),
        runtime_max_rel=error(rel[0]),
        reference_max_abs=error(top[1]),
        reference_max_rel=error(rel[1]),
    )
