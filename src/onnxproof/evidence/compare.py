"""Compare two results, element by element, with the error of both against a float64 oracle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

# rtol and atol where the caller gives none: a few roundings of the dtype
DEFAULT_TOLERANCE: dict[str, tuple[float, float]] = {
    "float64": (1e-9, 1e-10),
    "float32": (1e-5, 1e-5),
    "float16": (2e-3, 2e-3),
    "bfloat16": (1.6e-2, 1.6e-2),
    "complex64": (1e-5, 1e-5),
    "complex128": (1e-9, 1e-10),
}


@dataclass(frozen=True, slots=True)
class Difference:
    """The outcome of one output.

    ``excess`` is the largest ratio of an absolute error to its allowance ``atol + rtol * |want|``: at most 1
    where everything matches, infinite where one side alone is not finite.
    """

    matches: bool
    reason: str
    max_abs: float = 0.0
    max_rel: float = 0.0
    excess: float = 0.0
    worst: tuple[int, ...] = ()
    got: Any = None
    want: Any = None


def is_inexact(dtype: np.dtype[Any]) -> bool:
    """Whether values of ``dtype`` are compared within a tolerance."""
    return dtype.name in DEFAULT_TOLERANCE or dtype.name.startswith("float8")


def difference(got: Array, want: Array, rtol: float | None = None, atol: float | None = None) -> Difference:
    """Compare ``got`` with ``want``: shape and dtype first, then values.

    NaN equals NaN and an infinity equals itself; integers and booleans have to be equal.
    """
    if got.shape != want.shape:
        return Difference(False, f"the shape is {got.shape}, not {want.shape}", excess=np.inf)
    if got.dtype != want.dtype:
        return Difference(False, f"the dtype is {got.dtype.name}, not {want.dtype.name}", excess=np.inf)
    if want.size == 0:
        return Difference(True, "")
    if not is_inexact(want.dtype):
        rtol, atol = 0.0, 0.0
        unequal = got != want
    else:
        default = DEFAULT_TOLERANCE.get(want.dtype.name, (0.25, 0.25))
        rtol = default[0] if rtol is None else rtol
        atol = default[1] if atol is None else atol
        unequal = None
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    a, b = got.astype(wide), want.astype(wide)
    with np.errstate(all="ignore"):
        same = (a == b) | (np.isnan(a) & np.isnan(b)) if unequal is None else ~unequal
        error = np.where(same, 0.0, np.abs(a - b))
        error = np.where(np.isnan(error), np.inf, error)
        allowed = atol + rtol * np.abs(np.where(np.isfinite(b), b, 0))
        excess = np.where(same, 0.0, np.where(allowed > 0, error / np.where(allowed > 0, allowed, 1), np.inf))
        relative = np.where(same, 0.0, error / np.maximum(np.abs(b), np.finfo(np.float64).tiny))
    at = np.unravel_index(int(np.argmax(excess)), want.shape)
    matches = bool(np.all(excess <= 1))
    finite = error[np.isfinite(error)]
    return Difference(
        matches,
        "" if matches else "values differ",
        max_abs=float(finite.max()) if finite.size == error.size else float("inf"),
        max_rel=float(relative.max()),
        excess=float(excess[at]),
        worst=tuple(int(i) for i in at),
        got=got[at],
        want=want[at],
    )


def join_complex(got: Array, want: Array) -> Array:
    """A result whose trailing pairs are real and imaginary parts, as complex where ``want`` is complex."""
    if want.dtype.kind == "c" and got.dtype.kind == "f" and got.shape == (*want.shape, 2):
        # Not by arithmetic: 1j * inf has a NaN.
        joined: Array = np.empty(want.shape, want.dtype)
        joined.real, joined.imag = got[..., 0], got[..., 1]
        return joined
    return got


def report(
    names: Sequence[str],
    differences: Sequence[Difference],
    oracle: Sequence[Array] | None,
    labels: tuple[str, str],
) -> str:
    """A message that names the worst output, its index, both values and both errors against float64."""
    worst = max(range(len(differences)), key=lambda i: differences[i].excess, default=None)
    if worst is None:
        return "there is nothing to compare: no outputs"
    d = differences[worst]
    state = "match" if all(x.matches for x in differences) else "MISMATCH"
    if d.reason and d.reason != "values differ":
        return f"{state}: output {names[worst]!r}: {d.reason} ({labels[0]} against {labels[1]})"
    text = (
        f"{state}: {len(differences)} outputs; worst is {names[worst]!r} at {list(d.worst)}:"
        f" {labels[0]} {_show(d.got)}, {labels[1]} {_show(d.want)};"
        f" max absolute error {d.max_abs:.3g}, relative {d.max_rel:.3g}"
    )
    if oracle is not None and is_inexact(np.asarray(d.want).dtype):
        true = oracle[worst][d.worst]
        errors = [abs(np.asarray(v).astype(true.dtype) - true) for v in (d.got, d.want)]
        text += (
            f"; float64 {_show(true)}, so that {labels[0]} is off by {errors[0]:.3g}"
            f" and {labels[1]} by {errors[1]:.3g}"
        )
    return text


def _show(value: Any) -> str:
    array = np.asarray(value)
    if array.dtype.kind == "V":  # bfloat16 and float8
        array = array.astype(np.float32)
    return (
        f"{array.item():.9g}" if array.dtype.kind == "f" else str(array.item() if array.ndim == 0 else array)
    )
