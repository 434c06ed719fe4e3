"""A Keras 3 model on the JAX backend, saved as ``.keras``.

Run it with ``KERAS_BACKEND=jax python -m examples.from_keras``; it needs ``pip install 'onnxproof[keras]'``.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import keras
import numpy as np

from examples.from_msgpack import names
from onnxproof import to_onnx, verify
from onnxproof.sources import from_keras


def save(folder: Path) -> Path:
    """What people have: a saved model."""
    keras.utils.set_random_seed(0)
    layers = keras.layers
    image, meta = keras.Input((8, 8, 1), name="image"), keras.Input((4,), name="meta")
    x = layers.Conv2D(4, 3, activation="relu", name="conv")(image)
    x = layers.GlobalAveragePooling2D()(layers.BatchNormalization(name="norm")(x))
    x = layers.Dropout(0.3)(layers.Concatenate()([x, meta]))
    model = keras.Model([image, meta], layers.Dense(3, activation="softmax", name="scores")(x), name="net")
    place = folder / "model.keras"
    model.save(place)
    return place


def load(place: Path) -> Any:
    return keras.models.load_model(place)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        source = from_keras(load(save(Path(folder))))
    proto = to_onnx(source.fn, source.inputs, **source.names)
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=shape).astype(np.float32) for shape in ((3, 8, 8, 1), (3, 4))]
    record = verify(lambda *inputs: source.fn(list(inputs)), proto, arrays)
    print(record.status, names(proto))


if __name__ == "__main__":
    main()
