"""A Linen model whose weights are a msgpack file, as ``flax.serialization.to_bytes`` writes it.

Run it with ``python -m examples.from_msgpack``.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import onnx
from flax import linen, serialization

from onnxproof import to_onnx, verify


class Classifier(linen.Module):
    """Rows (B, 8) to logits (B, 3)."""

    @linen.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = linen.relu(linen.Dense(16, name="hidden")(x))
        return linen.Dense(3, name="scores")(x)


def save(folder: Path) -> Path:
    """What people have: a file of weights."""
    params = Classifier().init(jax.random.key(0), np.zeros((1, 8), np.float32))
    place = folder / "weights.msgpack"
    place.write_bytes(serialization.to_bytes(params))
    return place


def load(place: Path) -> Callable[[Any], Any]:
    """The model with the weights of the file. It needs no example of the parameters: a tree of arrays will do."""
    params = serialization.msgpack_restore(place.read_bytes())
    return functools.partial(Classifier().apply, params)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        model = load(save(Path(folder)))
    proto = to_onnx(model, [("B", 8)])
    record = verify(model, proto, [np.ones((3, 8), np.float32)])
    print(record.status, names(proto))


def names(proto: onnx.ModelProto) -> list[str]:
    """Names of the weights of a model, in order."""
    return sorted(t.name for t in proto.graph.initializer)


if __name__ == "__main__":
    main()
