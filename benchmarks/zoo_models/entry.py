"""What a model of the zoo is: a callable, its inputs, and the weights that its twin in PyTorch shares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


@dataclass(frozen=True)
class Network:
    """A model ready to be exported; every size is fixed.

    Attributes:
        fn: takes arrays, gives an array or a tuple of arrays.
        feed: one array for each argument of ``fn``.
        weights: every array that ``fn`` holds, under its path in the framework's own pytree.
    """

    fn: Callable[..., Any]
    feed: tuple[np.ndarray[Any, Any], ...]
    weights: Mapping[str, Any] = field(default_factory=dict)

    @property
    def specs(self) -> list[jax.ShapeDtypeStruct]:
        return [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in self.feed]


def drawn(tree: Any, seed: int = 0) -> Any:
    """``tree`` with every float drawn anew: variances in [0.5, 1.5], scales around 1, weights by fan-in."""
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
        if leaf.ndim <= 1 or leaf.shape.count(1) >= leaf.ndim - 1:
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
        if isinstance(leaf, jax.Array) and not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    }


def floats(*shape: int, seed: int = 1) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def ids(*shape: int, below: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(2).integers(0, below, shape).astype(np.int32)


def linen(module: Any, *feed: np.ndarray[Any, Any], **options: Any) -> Network:
    """A Linen module, its variables drawn and bound in a closure."""
    variables = drawn(jax.eval_shape(lambda *xs: module.init(jax.random.key(0), *xs, **options), *feed))
    return Network(lambda *xs: module.apply(variables, *xs, **options), feed, paths(variables))


def nnx(cls: Callable[..., Any], *feed: np.ndarray[Any, Any]) -> Network:
    """An NNX module in evaluation mode."""
    from flax import nnx as lib

    module = lib.eval_shape(lambda: cls(lib.Rngs(0)))
    module.eval()
    graphdef, state = lib.split(module)
    module = lib.merge(graphdef, drawn(state))
    return Network(module, feed, nnx_weights(module))


def nnx_weights(module: Any) -> dict[str, Any]:
    from flax import nnx as lib

    state = lib.to_flat_state(lib.state(module, (lib.Param, lib.BatchStat)))
    return {".".join(map(str, path)): variable[...] for path, variable in state}


def equinox(cls: Callable[..., Any], *feed: np.ndarray[Any, Any]) -> Network:
    """An Equinox module for one example, mapped over the batch."""
    import equinox as eqx

    module = eqx.nn.inference_mode(drawn(eqx.filter_eval_shape(cls, jax.random.key(0))))
    return Network(jax.vmap(module), feed, paths(eqx.filter(module, eqx.is_array)))


def haiku(forward: Callable[..., Any], *feed: np.ndarray[Any, Any], **training: Any) -> Network:
    """A Haiku function, transformed; its parameters and state in a closure. ``training`` is for ``init`` alone."""
    import haiku as hk

    transformed = hk.transform_with_state(forward)
    shapes = jax.eval_shape(lambda *xs: transformed.init(jax.random.key(0), *xs, **training), *feed)
    params, state = drawn(shapes)

    def apply(*xs: jax.Array) -> Any:
        return transformed.apply(params, state, None, *xs)[0]

    return Network(apply, feed, paths(params) | paths(state))
