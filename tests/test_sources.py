"""Checkpoints become files whose weights have the checkpoint's paths, and which compute what the model computes."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import jax
import numpy as np
import onnx.numpy_helper
import pytest
from flax import serialization, traverse_util

from examples import from_msgpack, from_orbax
from onnxproof import to_onnx, verify
from onnxproof.evidence import summary_lines

pytestmark = pytest.mark.filterwarnings("ignore")  # of Orbax's own


@pytest.mark.parametrize("example", [from_msgpack, from_orbax], ids=lambda m: m.__name__)
def test_paths_are_kept(example: ModuleType, tmp_path: Path) -> None:
    place = example.save(tmp_path)
    model = example.load(place)
    proto = to_onnx(model, [("B", 8)])
    weights = {t.name: onnx.numpy_helper.to_array(t) for t in proto.graph.initializer}
    flat = traverse_util.flatten_dict(model.args[0], sep=".")
    assert set(weights) == set(flat)
    for name, array in weights.items():
        np.testing.assert_array_equal(array, np.asarray(flat[name]))
    cases = {
        f"batch-{n}": [np.random.default_rng(n).normal(size=(n, 8)).astype(np.float32)] for n in (1, 2, 7)
    }
    record = verify(model, proto, cases)
    assert record.status == "passed", "\n".join(summary_lines(record))


def test_a_model_without_an_example_of_its_parameters(tmp_path: Path) -> None:
    """The tree of a msgpack file is the tree of the parameters."""
    place = from_msgpack.save(tmp_path)
    tree = serialization.msgpack_restore(place.read_bytes())
    want = from_msgpack.Classifier().init(jax.random.key(0), np.zeros((1, 8), np.float32))
    assert jax.tree.structure(tree) == jax.tree.structure(want)


@pytest.mark.parametrize("example", [from_msgpack, from_orbax], ids=lambda m: m.__name__)
def test_examples_run(example: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    example.main()
    assert "passed" in capsys.readouterr().out
