"""A JAX callable as the reference, and the same callable in float64 as the oracle."""

from __future__ import annotations

import copy
import importlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jax
import numpy as np

from onnxproof.evidence.references.subject import Oracle

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
        self._narrows = False

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

    def oracle(self, args: Sequence[Any]) -> Oracle | None:
        """The flat outputs computed in float64, or None when nothing here can compute them.

        Inputs are widened exactly; weights widen by JAX's own promotion. Where the callable narrows its values or
        does not run in float64, its traced program stands in for it.
        """
        outputs = None if self._narrows else self._in_float64(args)
        if outputs is not None:
            return Oracle("callable", outputs)
        self._narrows = True  # at other sizes too: nothing is gained by another try
        # by name: what judges does not import what it judges
        in_float64 = importlib.import_module("onnxproof._oracle").in_float64
        try:
            outputs = in_float64(self._fn, args, self._params, double=self._double)
        except (
            Exception
        ):  # whatever it raises while it is traced; JAX, on a float64 that some rule does not take
            return None
        return None if _narrow(outputs) else Oracle("program", outputs)

    def _in_float64(self, args: Sequence[Any]) -> list[Array] | None:
        """The flat outputs of the callable itself on widened inputs, None when it does not compute in float64."""
        try:
            with jax.enable_x64(True):
                wide = jax.tree_util.tree_map(_widened, list(args))
                outputs = [_plain(leaf) for leaf in jax.tree_util.tree_leaves(self._call(wide))]
        except Exception:  # whatever a callable raises on dtypes it was not made for
            return None
        return None if _narrow(outputs) else outputs


def _narrow(outputs: Sequence[Array]) -> bool:
    return any(_is_float(x.dtype) and x.dtype.itemsize < 8 for x in outputs)


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
    """An output as the graph gives it: keys as words, tangents of integers and booleans as false."""
    if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    return np.zeros(leaf.shape, np.bool_) if leaf.dtype == jax.dtypes.float0 else np.asarray(leaf)
