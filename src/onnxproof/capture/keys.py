"""Typed PRNG keys as their words.

A key array of shape ``s`` is a ``uint32`` array of shape ``s + words``. Random primitives give way to what
their generator computes (``threefry2x32`` and integer arithmetic), moves of keys by the same moves of words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import jax
import jax.extend.random as jax_random
import jax.numpy as jnp
import numpy as np
from jax import lax

from onnxproof.capture.jaxprs import sub_jaxprs
from onnxproof.capture.program import Site
from onnxproof.capture.trailing import with_trailing
from onnxproof.errors import UnsupportedParam

_GENERATORS = {
    "threefry2x32": jax_random.threefry_prng_impl,
    "rbg": jax_random.rbg_prng_impl,
    "unsafe_rbg": jax_random.unsafe_rbg_prng_impl,
}
_MOVES = frozenset(
    """squeeze unstack concatenate split stack rev expand_dims slice dynamic_slice dynamic_update_slice reshape
    transpose broadcast_in_dim gather select_n""".split()
)
DRAWS = frozenset({"random_seed", "random_split", "random_fold_in", "random_bits"})


@lru_cache(maxsize=256)
def is_key(dtype: Any) -> bool:
    """Whether ``dtype`` is that of typed PRNG keys."""
    return bool(jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key))


@lru_cache(maxsize=64)
def key_words(dtype: Any) -> tuple[int, ...]:
    """The shape of one key's words."""
    return tuple(jax.eval_shape(jax.random.key_data, jax.ShapeDtypeStruct((), dtype)).shape)


@lru_cache(maxsize=64)
def key_impl(dtype: Any) -> Any:
    """What ``jax.random.wrap_key_data`` takes as ``impl`` to make keys of this dtype."""
    found = []
    jax.eval_shape(lambda key: found.append(jax.random.key_impl(key)), jax.ShapeDtypeStruct((), dtype))
    return found[0]


@lru_cache(maxsize=1)
def _generators_by_dtype() -> Mapping[Any, Any]:
    return {
        jax.eval_shape(lambda name=name: jax.random.key(0, impl=name)).dtype: generator
        for name, generator in _GENERATORS.items()
    }


def has_keys(eqn: Any) -> bool:
    """Whether a JAX equation takes or gives typed keys."""
    return any(is_key(v.aval.dtype) for v in (*eqn.invars, *eqn.outvars) if hasattr(v.aval, "dtype"))


def physical(eqn: Any, site: Site) -> Callable[..., Any] | None:
    """A JAX function of words that computes what ``eqn`` computes on keys; None when it is no such equation.

    Raises:
        UnsupportedParam: the keys are of a generator that is not JAX's own, or used as numbers.
    """
    name, params = eqn.primitive.name, eqn.params
    if name == "random_seed":
        return _over(eqn.invars[0].aval.ndim, params["impl"].seed)
    if name in DRAWS:
        generator = _generators_by_dtype().get(eqn.invars[0].aval.dtype)
        if generator is None:
            raise UnsupportedParam(
                f"{name} with keys of the generator {eqn.invars[0].aval.dtype} can't be exported",
                site=site,
                way_out="Use JAX's own generators: threefry2x32, rbg or unsafe_rbg.",
            )
        rank = eqn.invars[0].aval.ndim
        if name == "random_split":
            return _over(rank, lambda words: generator.split(words, tuple(params["shape"])))
        if name == "random_bits":
            return _over(
                rank,
                lambda words: generator.random_bits(words, params["bit_width"], tuple(params["shape"])),
            )
        return _fold_in(rank, eqn.invars[1].aval.ndim, generator.fold_in)
    if not has_keys(eqn) or any(True for _ in sub_jaxprs(eqn)):
        return None
    return _moved(eqn, site)


def _over(rank: int, fn: Callable[..., Any]) -> Callable[..., Any]:
    for _ in range(rank):
        fn = jax.vmap(fn)
    return fn


def _fold_in(keys: int, data: int, fn: Callable[..., Any]) -> Callable[..., Any]:
    """``fn(key, datum)`` over key and data arrays of ranks ``keys`` and ``data``, from the leading axes."""
    for axis in range(max(keys, data)):
        fn = jax.vmap(fn, in_axes=(0 if axis < keys else None, 0 if axis < data else None))
    return fn


def _moved(eqn: Any, site: Site) -> Callable[..., Any]:
    """The primitive of ``eqn`` mapped over the axis of words; keys are equal when all their words are."""
    match eqn.primitive.name:
        case "eq":
            return lambda a, b: jnp.all(a == b, axis=-1)
        case "ne":
            return lambda a, b: jnp.any(a != b, axis=-1)
        case "select_n":
            return lambda which, *cases: lax.select_n(
                jnp.broadcast_to(which[..., None], cases[0].shape), *cases
            )
    if not all(is_key(v.aval.dtype) for v in eqn.outvars):
        raise UnsupportedParam(
            f"{eqn.primitive.name} on typed PRNG keys can't be exported",
            site=site,
            way_out="Apply it to jax.random.key_data(keys).",
        )
    in_axes = tuple(-1 if is_key(v.aval.dtype) else None for v in eqn.invars)
    out_axes = [-1] * len(eqn.outvars) if eqn.primitive.multiple_results else -1

    def bind(*operands: Any) -> Any:
        return eqn.primitive.bind(*operands, **eqn.params)

    return jax.vmap(bind, in_axes=in_axes, out_axes=out_axes)


def moved_params(eqn: Any) -> dict[str, Any] | None:
    """The parameters with which the primitive moves words as it moved keys; None where that needs more.

    Only the forms that samplers use are spelled out: elsewhere :func:`physical` serves.
    """
    if not eqn.invars or not all(is_key(v.aval.dtype) for v in eqn.outvars):
        return None
    if eqn.primitive.name not in _MOVES:
        return None
    ranks = [len(v.aval.shape) for v in eqn.invars]
    out = eqn.outvars[0].aval
    return with_trailing(eqn.primitive.name, eqn.params, key_words(out.dtype), ranks, out.ndim)


def moved_indices(eqn: Any) -> list[Any]:
    """The avals of the indices, all 0, that a dynamic slice of words takes beyond those of keys."""
    name = eqn.primitive.name
    if name not in ("dynamic_slice", "dynamic_update_slice") or not has_keys(eqn):
        return []
    if len(eqn.invars) == (1 if name == "dynamic_slice" else 2):
        return []
    return [eqn.invars[-1].aval for _ in key_words(eqn.outvars[0].aval.dtype)]


def structs(invars: Sequence[Any]) -> list[jax.ShapeDtypeStruct]:
    """The avals of operands, keys as words."""
    return [
        jax.ShapeDtypeStruct((*v.aval.shape, *key_words(v.aval.dtype)), np.uint32)
        if is_key(v.aval.dtype)
        else jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype)
        for v in invars
    ]
