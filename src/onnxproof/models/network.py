"""What an architecture consists of: its parameters, a function of them, and its inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Params = dict[str, Any]
Shapes = Sequence[Sequence[int]]

WIDTH, HEADS, LAYERS = 16, 2, 2
HEAD = WIDTH // HEADS
VOCAB, CACHE, EXPERTS, TOP_K = 29, 16, 4, 2
B, T = "B", "T"


@dataclass(frozen=True, slots=True)
class Network:
    """An architecture with its parameters.

    Attributes:
        apply: takes the parameters, then the inputs.
        params: a pytree of arrays.
        inputs: the inputs as ``to_onnx`` takes them; batch ``B`` and time ``T`` vary.
        draw: arguments of given shapes, one for each array of the inputs.
    """

    apply: Callable[..., Any]
    params: Params
    inputs: tuple[Any, ...]
    draw: Callable[[Shapes, np.random.Generator], tuple[Any, ...]]


class Init:
    """Draws parameters one after another, all of them ``dtype``.

    Values are uniform, from nothing but additions and multiplications of the generator's own 53-bit numbers: a
    normal distribution would take logarithms, whose last bit differs between machines.
    """

    def __init__(self, seed: int, dtype: Any) -> None:
        self.rng = np.random.default_rng(seed)
        self.dtype = np.dtype(dtype)

    def array(self, *shape: int, scale: float = 0.1, shift: float = 0.0) -> jax.Array:
        """Uniform values of mean ``shift``, with ``scale`` as half of their range."""
        with jax.enable_x64(True):  # or float64 would become float32
            return jnp.asarray((2 * self.rng.random(shape) - 1) * scale + shift, self.dtype)

    def dense(self, n_in: int, n_out: int) -> Params:
        return {"w": self.array(n_in, n_out, scale=(3 / n_in) ** 0.5), "b": self.array(n_out)}

    def conv(self, k: int, n_in: int, n_out: int) -> Params:
        return {"w": self.array(k, k, n_in, n_out, scale=(3 / (k * k * n_in)) ** 0.5), "b": self.array(n_out)}

    def norm(self, n: int) -> Params:
        return {"scale": self.array(n, shift=1.0), "bias": self.array(n)}

    def block(self) -> Params:
        """A transformer's block."""
        return {
            "norm1": self.norm(WIDTH),
            "qkv": self.dense(WIDTH, 3 * WIDTH),
            "out": self.dense(WIDTH, WIDTH),
            "norm2": self.norm(WIDTH),
            "up": self.dense(WIDTH, 2 * WIDTH),
            "down": self.dense(2 * WIDTH, WIDTH),
        }


def of_floats(apply: Callable[..., Any], params: Params, shape: Sequence[Any], dtype: Any) -> Network:
    """A network of one array of numbers, of that shape."""

    def draw(shapes: Shapes, rng: np.random.Generator) -> tuple[Any, ...]:
        return (floats(rng, shapes[0], dtype),)

    return Network(apply, params, (jax.ShapeDtypeStruct(tuple(shape), np.dtype(dtype)),), draw)


def of_tokens(apply: Callable[..., Any], params: Params) -> Network:
    """A network of token ids ``[B, T]``."""

    def draw(shapes: Shapes, rng: np.random.Generator) -> tuple[Any, ...]:
        return (ids(rng, shapes[0]),)

    return Network(apply, params, (jax.ShapeDtypeStruct((B, T), np.dtype(np.int32)),), draw)


def floats(rng: np.random.Generator, shape: Sequence[int], dtype: Any) -> np.ndarray[Any, Any]:
    """Standard normal numbers."""
    return rng.normal(size=tuple(shape)).astype(dtype)


def ids(rng: np.random.Generator, shape: Sequence[int], below: int = VOCAB) -> np.ndarray[Any, Any]:
    """Integers in ``[0, below)``."""
    return np.asarray(rng.integers(0, below, tuple(shape)), np.int32)
