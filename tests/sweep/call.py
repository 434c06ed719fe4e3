"""A row of a table: names of functions, and calls that each of them must take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from tests.cases.case import f32, ints, rng

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Call:
    """One call of a function.

    Attributes:
        args, kwargs: what the function gets. NumPy arrays and scalars, and keys, at any depth, are inputs of the graph;
            everything else is written into it.
        using: called in place of the function, which it gets as its first argument.
        result: what is compared of the outputs, for results that are unique up to sign, phase or order only. It
            gets the outputs (NumPy arrays, in a list) and gives arrays.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    using: Callable[..., Any] | None = None
    result: Callable[[list[Array]], Any] | None = None


Row = tuple[Any, ...]  # names in one string, then calls


def call(
    *args: Any,
    using: Callable[..., Any] | None = None,
    result: Callable[[list[Array]], Any] | None = None,
    **kwargs: Any,
) -> Call:
    return Call(args, kwargs, using, result)


def c64(*shape: int, seed: int = 0) -> Array:
    """Normal complex values."""
    return (f32(*shape, seed=seed) + 1j * f32(*shape, seed=seed + 1)).astype(np.complex64)


def unit(*shape: int, seed: int = 0, low: float = 0.05, high: float = 0.95) -> Array:
    """Uniform float32 values in [low, high)."""
    return rng(seed).uniform(low, high, shape).astype(np.float32)


def array(*values: Any, dtype: Any = np.float32) -> Array:
    return np.array(values, dtype)


X, Y, W = f32(3, 4), f32(3, 4, seed=1), f32(3, 4, seed=2)
V, V2 = f32(7), f32(7, seed=1)
U = unit(3, 4)
P = unit(3, 4, seed=3, low=0.2, high=4.0)
INT, INT2 = ints(3, 4), ints(3, 4, seed=1)
N = ints(3, 4, low=1, high=9, seed=2)
N8 = ints(3, 4, low=-128, high=127, dtype=np.int8)
U8 = ints(3, 4, low=0, high=255, dtype=np.uint8)
U32 = rng(5).integers(0, 2**32, (3, 4)).astype(np.uint32)
B, B2 = f32(3, 4, seed=8) > 0, f32(3, 4, seed=9) > 0
Z, Z2 = c64(3, 4), c64(3, 4, seed=4)
EDGE = array(np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1e-30, 3e38, -3e38)
M = f32(4, 4, seed=6)
KEY = jax.random.key(42)
