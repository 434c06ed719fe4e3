"""A program of the zoo: what a user of some package would export, and inputs to hold it against JAX at."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests import zoo


@dataclass(frozen=True)
class Built:
    """What a builder gives.

    Attributes:
        fn: the callable to export.
        runs: argument tuples; the file is run at each of them.
        spec: what ``to_onnx`` gets as ``inputs``; the first arguments by default.
    """

    fn: Callable[..., Any]
    runs: Sequence[Sequence[Any]]
    spec: Sequence[Any] | None = None


@dataclass(frozen=True)
class Program:
    """One row.

    Attributes:
        name: unique in the zoo.
        packages: the modules that it needs, the one it is about first.
        build: makes the program; it imports the packages.
        x64: run with double precision.
        rtol, atol: for inexact dtypes, where ``why`` says what asks for other than what ``prove`` takes.
        options: further keyword arguments of ``to_onnx``.
        slow: XLA takes half a minute to compile it; only the lane of the zoo has that time.
        fails: why the program can't be exported yet; an export that succeeds all the same is a failed test.
    """

    name: str
    packages: Sequence[str]
    build: Callable[[], Built]
    x64: bool = False
    rtol: float | None = None
    atol: float | None = None
    why: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    slow: bool = False
    fails: str = ""


def programs() -> list[Program]:
    """Every row of every file of the zoo."""
    rows: list[Program] = []
    for module in pkgutil.iter_modules(zoo.__path__):
        rows += getattr(importlib.import_module(f"tests.zoo.{module.name}"), "PROGRAMS", [])
    return rows


def f32(*shape: int, seed: int = 0, scale: float = 1.0, shift: float = 0.0) -> np.ndarray[Any, Any]:
    """Normal float32 values."""
    return (np.random.default_rng(seed).normal(size=shape) * scale + shift).astype(np.float32)


def unit(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """Uniform float32 values in [0, 1)."""
    return np.random.default_rng(seed).uniform(size=shape).astype(np.float32)


def ints(*shape: int, high: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """Uniform int32 values in [0, high)."""
    return np.random.default_rng(seed).integers(0, high, size=shape).astype(np.int32)


def key(seed: int) -> np.ndarray[Any, Any]:
    """The two words of a key, as ``jax.random.PRNGKey`` gives them."""
    return np.array([0, seed], np.uint32)
