"""Inputs drawn for a graph: what a file is run on when nobody gave cases."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from onnxproof.errors import InputSpecError
from onnxproof.evidence.dimensions import dimension

if TYPE_CHECKING:
    from onnxproof.evidence.record import Port

SIZES = (1, 2, 3)  # of every symbolic dimension, one case each
_NUMPY_NAMES = {"float": "float32", "double": "float64"}
_NAME = re.compile(r"\b(?!(?:floordiv|mod|max|min)\b)[A-Za-z_]\w*")


def draw(ports: Sequence[Port], size: int, seed: int, sizes: Mapping[str, int] | None = None) -> list[Any]:
    """Arrays for the inputs of a graph: standard normal floats, 0 and 1 in other dtypes.

    Args:
        size: of every symbolic dimension that ``sizes`` does not name.

    Raises:
        InputSpecError: an input is no tensor, or says nothing of its shape.
    """
    import numpy as np

    from onnxproof.evidence.tensors import dtype_of

    rng = np.random.default_rng(seed)
    arrays = []
    for port in ports:
        if port.shape is None or port.dtype == "other":
            raise InputSpecError(
                f"input {port.name!r} has no shape that arrays could be drawn for",
                way_out="Give cases of your own.",
            )
        shape = tuple(
            d if isinstance(d, int) else dimension(_filled(d, sizes or {}), size) for d in port.shape
        )
        dtype = dtype_of(_NUMPY_NAMES.get(port.dtype, port.dtype))
        wide = rng.normal(size=shape) if dtype.kind in "fcV" else rng.integers(0, 2, shape)
        arrays.append(np.asarray(wide).astype(dtype))
    return arrays


def names_of(ports: Sequence[Port]) -> list[str]:
    """Names of the dimensions that vary, in the order of their first use."""
    texts = [d for port in ports for d in port.shape or () if isinstance(d, str)]
    return list(dict.fromkeys(name for text in texts for name in _NAME.findall(text)))


def _filled(text: str, sizes: Mapping[str, int]) -> str:
    return _NAME.sub(lambda found: str(sizes.get(found[0], found[0])), text)
