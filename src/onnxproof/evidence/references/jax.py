"""A JAX callable as the reference, and the same callable in float64 as the oracle."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jax
import numpy as np

Array = np.ndarray[Any, Any]


class JaxReference:
    """Runs ``fn`` under ``jax.jit`` on the CPU as it is, or in float64.

    Args:
        double: run with 64-bit types enabled.
    """

    def __init__(
        self, fn: Callable[..., Any], params: Mapping[str, Any] | None = None, *, double: bool = False
    ) -> None:
        self._fn = fn
        self._params = dict(params or {})
        self._double = double

    def run(self, args: Sequence[Any]) -> list[Array]:
        """The flat outputs, keys as their words."""
        with self._precision():
            return [_plain(leaf) for leaf in jax.tree_util.tree_leaves(self._call(args))]

    def _precision(self) -> AbstractContextManager[None]:
        return jax.enable_x64(True) if self._double else nullcontext()

    def _call(self, args: Sequence[Any]) -> Any:
        """The result under ``jit``; of a copy outside it, where a module that counts its random draws refuses."""
        try:
            return jax.jit(lambda *a: self._fn(*a, **self._params))(*args)
        except Exception:  # whatever a framework raises inside a trace; a true fault is raised again below
            return copy.deepcopy(self._fn)(*args, **self._params)

    def flat(self, args: Sequence[Any]) -> list[Array]:
        """The arguments as the graph takes them, in its order; array parameters follow the positional ones."""
        dynamic = {k: v for k, v in self._params.items() if hasattr(v, "dtype")}
        with self._precision():
            return [_fed(x) for x in jax.tree_util.tree_leaves((list(args), dynamic))]

    def oracle(self, args: Sequence[Any]) -> list[Array] | None:
        """The flat outputs computed in float64, or None when the callable does not compute in it.

        Inputs are widened exactly; weights widen by JAX's own promotion. A callable that narrows its values, or
        that does not run in float64, gives no oracle.
        """
        try:
            with jax.enable_x64(True):
                wide = jax.tree_util.tree_map(_widened, list(args))
                leaves = [_plain(leaf) for leaf in jax.tree_util.tree_leaves(self._call(wide))]
        except Exception:  # whatever a callable raises on dtypes it was not made for
            return None
        narrow = [x for x in leaves if _is_float(x.dtype) and x.dtype.itemsize < 8]
        return None if narrow else leaves


def _fed(leaf: Any) -> Array:
    """An argument as the graph takes it: keys as words, complex numbers as pairs, 32 bits where JAX narrows."""
    if hasattr(leaf, "dtype") and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    array = np.asarray(leaf)
    array = array.astype(jax.dtypes.canonicalize_dtype(array.dtype), copy=False)
    return np.stack([array.real, array.imag], -1) if array.dtype.kind == "c" else array


def _is_float(dtype: Any) -> bool:
    return bool(jax.dtypes.issubdtype(dtype, np.inexact))


def _widened(leaf: Any) -> Any:
    if not hasattr(leaf, "dtype") or not _is_float(leaf.dtype):
        return leaf
    wide = np.complex128 if np.dtype(leaf.dtype).kind == "c" else np.float64
    return np.asarray(leaf).astype(wide)


def _plain(leaf: Any) -> Array:
    if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    return np.asarray(leaf)
