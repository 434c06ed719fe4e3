"""A Linen model whose weights are an Orbax checkpoint.

Run it with ``python -m examples.from_orbax``.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp

from examples.from_msgpack import Classifier, names
from onnxproof import to_onnx, verify


def save(folder: Path) -> Path:
    """What people have: a folder that a training run left."""
    params = Classifier().init(jax.random.key(1), np.zeros((1, 8), np.float32))
    place = folder.resolve() / "step_1000"
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(place, params)
    return place


def load(place: Path) -> Callable[[Any], Any]:
    """The model with the weights of the checkpoint, in the shapes and dtypes that the model asks for."""
    model = Classifier()
    wanted = jax.eval_shape(model.init, jax.random.key(0), np.zeros((1, 8), np.float32))
    with ocp.StandardCheckpointer() as checkpointer:
        params = checkpointer.restore(place, wanted)
    return functools.partial(model.apply, params)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        model = load(save(Path(folder)))
    proto = to_onnx(model, [("B", 8)])
    record = verify(model, proto, [np.ones((3, 8), np.float32)])
    print(record.status, names(proto))


if __name__ == "__main__":
    main()
