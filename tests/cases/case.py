"""A case: a JAX function, how to export it, and inputs at which ONNX Runtime must agree with JAX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Case:
    """One row.

    Attributes:
        name: unique in its table.
        fn: the callable to export.
        args: concrete arguments; the export uses their shapes and dtypes unless ``spec`` is given.
        spec: what ``to_onnx`` gets as ``inputs``, for symbolic dimensions.
        also: further argument tuples to run through the same file (other batch sizes, edge values).
        x64: export with double precision.
        options: further keyword arguments of ``to_onnx``.
        rtol, atol: for inexact dtypes; integers and booleans must be equal. Default by dtype.
        ops: operator types that the graph must hold (``"Gelu"``) or must not hold (``"!Expand"``).
    """

    name: str
    fn: Callable[..., Any]
    args: Sequence[Any]
    spec: Any = None
    also: Sequence[Sequence[Any]] = ()
    x64: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    rtol: float | None = None
    atol: float | None = None
    ops: Sequence[str] = ()


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def f32(*shape: int, seed: int = 0, scale: float = 1.0, shift: float = 0.0) -> np.ndarray[Any, Any]:
    """Normal float32 values."""
    return (rng(seed).normal(size=shape) * scale + shift).astype(np.float32)


def ints(*shape: int, low: int = -9, high: int = 9, dtype: Any = np.int32, seed: int = 0) -> Any:
    """Uniform integers in [low, high)."""
    return rng(seed).integers(low, high, size=shape).astype(dtype)
