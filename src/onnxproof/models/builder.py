"""What the JAX profiles name as the builder of their models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from onnxproof.errors import ConformanceError
from onnxproof.evidence.references.built import Built
from onnxproof.models.architectures import ARCHITECTURES

DTYPES = ("float16", "bfloat16", "float32", "float64")


def build(architecture: str, dtype: str, seed: int) -> Built:
    """The model of an architecture, with its parameters drawn from ``seed``.

    Raises:
        ConformanceError: there is no such architecture, or it can't have that dtype.
    """
    if architecture not in ARCHITECTURES or dtype not in DTYPES:
        raise ConformanceError(
            f"there is no {architecture!r} in {dtype}",
            way_out=f"Known are {', '.join(ARCHITECTURES)}, each in {', '.join(DTYPES)}.",
        )
    network = ARCHITECTURES[architecture](seed, jnp.dtype(dtype))

    def make(shapes: Sequence[Sequence[int]], seed: int) -> Sequence[Any]:
        return network.draw(shapes, np.random.default_rng(seed))

    fn = partial(network.apply, network.params)
    return Built(fn, network.inputs, make, weights=named(network.params))


def named(params: Any) -> Mapping[str, Any]:
    """Every array of the parameters under its path, such as ``blocks.0.qkv.w``."""
    flat = jax.tree_util.tree_flatten_with_path(params)[0]
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in flat}
