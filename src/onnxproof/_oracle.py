"""What a callable computes in float64, though it narrows its values itself: its Program, with every float widened."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from onnxproof.capture.evaluate import outputs_in_float64
from onnxproof.capture.trace import capture, x64
from onnxproof.lowering.driver import load_rules

Array = np.ndarray[Any, Any]


def in_float64(
    fn: Callable[..., Any], args: Sequence[Any], params: Mapping[str, Any], *, double: bool
) -> list[Array]:
    """The flat outputs of ``fn`` at ``args``, computed in float64 from the same inputs, keys as their words.

    Casts of the callable's own to a narrower float stay casts to float64. What the callable does differently for
    other dtypes is not seen: it is traced with those that it is given.

    Args:
        params: keyword arguments; arrays are inputs, other values are fixed.
        double: trace with 64-bit types.

    Raises:
        OnnxProofError: the callable can't be traced, or applies a primitive that JAX does not make public.
    """
    with x64(double):
        traced = capture(fn, args, known=load_rules(), input_params=params, drop_effects=("debug", "checks"))
        dynamic = {k: v for k, v in params.items() if hasattr(v, "dtype")}
        flat = [_plain(leaf) for leaf in jax.tree_util.tree_leaves((list(args), dynamic))]
    return outputs_in_float64(traced.program, flat)


def _plain(leaf: Any) -> Array:
    if hasattr(leaf, "dtype") and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    array = np.asarray(leaf)
    return array.astype(jax.dtypes.canonicalize_dtype(array.dtype), copy=False)
