"""An NNX model from a safetensors file, under the names of the file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from flax import nnx
from safetensors.numpy import load_file, save_file

from examples import from_safetensors as example
from onnxproof import to_onnx, verify
from onnxproof.evidence import summary_lines


def test_names_are_kept(tmp_path: Path) -> None:
    place = example.save(tmp_path)
    model = example.load(place)
    proto = to_onnx(model, [("B", 8)])
    assert {t.name for t in proto.graph.initializer if np.prod(t.dims) > 1} == set(load_file(place))
    original = example.Classifier(nnx.Rngs(2))
    x = np.random.default_rng(0).normal(size=(3, 8)).astype(np.float32)
    np.testing.assert_array_equal(model(x), original(x))
    record = verify(original, proto, [x])
    assert record.status == "passed", "\n".join(summary_lines(record))


def test_what_does_not_belong_is_told(tmp_path: Path) -> None:
    place = example.save(tmp_path)
    arrays = load_file(place)
    save_file({**arrays, "head.kernel": arrays["scores.kernel"]}, place)
    with pytest.raises(ValueError, match=r"head\.kernel"):
        example.load(place)
    save_file({k: v for k, v in arrays.items() if k != "scores.bias"}, place)
    with pytest.raises(KeyError, match=r"scores\.bias"):
        example.load(place)
