"""One row of the matrix: an architecture written in one framework, and what its file must do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from onnxproof.models.network import CACHE as CACHE
from onnxproof.models.network import EXPERTS as EXPERTS
from onnxproof.models.network import HEADS as HEADS
from onnxproof.models.network import LAYERS as LAYERS
from onnxproof.models.network import TOP_K as TOP_K
from onnxproof.models.network import VOCAB as VOCAB
from onnxproof.models.network import WIDTH as WIDTH
from onnxproof.models.network import B as B
from onnxproof.models.network import T as T

BATCHES = (1, 2, 3, 7)
BATCHES_AND_TIMES = ((1, 1), (2, 5), (3, 16), (7, 5), (1, 16))


@dataclass(frozen=True)
class Model:
    """An architecture, ready to be exported.

    Attributes:
        fn: takes arrays only.
        inputs: what ``to_onnx`` gets: one entry for each argument of ``fn``.
        make: concrete arguments at (batch, time).
        weights: every array that ``fn`` holds, under the path that its initializer must carry.
        timed: whether the inputs have the symbolic dimension ``T``.
        folded: a pattern of the weights that may be folded into others, such as a normalization's statistics.
        compiled: whether ``fn`` runs under ``jit``; a module that counts its RNG keys does not.
    """

    fn: Callable[..., Any]
    inputs: Sequence[Any]
    make: Callable[[int, int], Sequence[Any]]
    weights: Mapping[str, Any]
    timed: bool = False
    folded: str = ""
    compiled: bool = True

    @property
    def sizes(self) -> Sequence[tuple[int, int]]:
        return BATCHES_AND_TIMES if self.timed else tuple((b, 0) for b in BATCHES)


def drawn(tree: Any, seed: int = 0) -> Any:
    """``tree``, of arrays or of shapes, with every leaf drawn anew: no scale is 1, no bias or mean 0."""
    rng = np.random.default_rng(seed)

    def draw(path: tuple[Any, ...], leaf: Any) -> Any:
        if not isinstance(leaf, (jax.Array, jax.ShapeDtypeStruct)):
            return leaf
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return jax.random.key(0)
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            return jnp.zeros(leaf.shape, leaf.dtype)
        name = jax.tree_util.keystr(path[-3:]).lower()
        if "var" in name:
            return jnp.asarray(rng.uniform(0.5, 1.5, leaf.shape), leaf.dtype)
        if leaf.ndim <= 1:
            shift = 1.0 if "scale" in name or "weight" in name else 0.0
            return jnp.asarray(shift + 0.1 * rng.normal(size=leaf.shape), leaf.dtype)
        fan_in = leaf.size / max(leaf.shape[0], leaf.shape[-1])
        return jnp.asarray(rng.normal(size=leaf.shape) / fan_in**0.5, leaf.dtype)

    return jax.tree_util.tree_map_with_path(draw, tree)


def paths(tree: Any) -> dict[str, Any]:
    """Array leaves of a pytree under their key paths."""
    flat = jax.tree_util.tree_flatten_with_path(tree)[0]
    return {
        jax.tree_util.keystr(path, simple=True, separator="."): leaf
        for path, leaf in flat
        if isinstance(leaf, (jax.Array, np.ndarray))
    }


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def ids(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(sum(shape)).integers(0, VOCAB, shape).astype(np.int32)


FEATURES = ((B, WIDTH),)
IMAGE = ((B, 12, 12, 3),)
IMAGE_NCHW = ((B, 3, 12, 12),)
SEQUENCE = ((B, T, WIDTH),)
TOKENS = (jax.ShapeDtypeStruct((B, T), jnp.int32),)


def features(batch: int, time: int) -> tuple[Any, ...]:
    return (floats(batch, WIDTH),)


def image(batch: int, time: int) -> tuple[Any, ...]:
    return (floats(batch, 12, 12, 3),)


def image_nchw(batch: int, time: int) -> tuple[Any, ...]:
    return (floats(batch, 3, 12, 12),)


def sequence(batch: int, time: int) -> tuple[Any, ...]:
    return (floats(batch, time, WIDTH),)


def tokens(batch: int, time: int) -> tuple[Any, ...]:
    return (ids(batch, time),)
