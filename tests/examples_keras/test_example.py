"""Keras models on the JAX backend: names of weights, inputs and outputs, inference mode, several forms of input."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

os.environ["KERAS_BACKEND"] = "jax"  # Keras reads it once, when it is imported

import keras

from examples import from_keras as example
from onnxproof import to_onnx
from onnxproof.errors import InputSpecError
from onnxproof.sources import from_keras
from tests.running import assert_same, run, session

pytestmark = pytest.mark.filterwarnings("ignore")  # of Keras's own
layers = keras.layers


def f32(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def test_the_example(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = example.load(example.save(tmp_path))
    source = from_keras(model)
    proto = to_onnx(source.fn, source.inputs, **source.names)
    assert [i.name for i in proto.graph.input] == ["image", "meta"]
    assert [o.name for o in proto.graph.output] == ["scores"]
    assert {"conv.kernel", "scores.bias"} <= {t.name for t in proto.graph.initializer}
    example.main()
    assert "passed" in capsys.readouterr().out


def sequential() -> Any:
    steps = [
        keras.Input((8,)),
        layers.Dense(6, activation="gelu"),
        layers.LayerNormalization(),
        layers.Dense(2),
    ]
    return keras.Sequential(steps)


def two_outputs() -> Any:
    x = keras.Input((8,), name="x")
    return keras.Model(x, {"a": layers.Dense(2, name="one")(x), "b": layers.Dense(3, name="two")(x)})


def named_inputs() -> Any:
    left, right = keras.Input((8,), name="left"), keras.Input((8,), name="right")
    return keras.Model({"left": left, "right": right}, layers.Subtract()([left, right]))


def open_length() -> Any:
    x = keras.Input((None, 8), name="steps")
    return keras.Model(x, layers.GlobalAveragePooling1D()(layers.Dense(4)(x)))


# model, inputs as Keras takes them
FORMS: list[tuple[Callable[[], Any], Any]] = [
    (sequential, f32(3, 8)),
    (two_outputs, f32(3, 8)),
    (named_inputs, {"left": f32(3, 8), "right": f32(3, 8) * 2}),
    (open_length, f32(3, 5, 8)),
]


@pytest.mark.parametrize(("make", "inputs"), FORMS, ids=[f[0].__name__ for f in FORMS])
def test_forms(make: Callable[[], Any], inputs: Any) -> None:
    import jax

    keras.utils.set_random_seed(0)
    model = make()
    source = from_keras(model)
    proto = to_onnx(source.fn, source.inputs, **source.names)
    for rows in (1, 3):
        args = jax.tree.map(lambda a, n=rows: a[:n], inputs)
        want = jax.tree.leaves(model(args, training=False))
        for got, expected in zip(run(session(proto), [args]), want, strict=True):
            assert_same(got, expected)


def test_a_model_that_does_not_say_what_it_takes() -> None:
    class Own(keras.Model):
        def call(self, x: Any) -> Any:
            return x

    with pytest.raises(InputSpecError, match="does not say what it takes"):
        from_keras(Own())
