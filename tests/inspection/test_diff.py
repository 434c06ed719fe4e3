"""What ``onnxproof diff`` finds between two files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from typer.testing import CliRunner

from onnxproof import to_onnx, verify
from onnxproof.cli import application
from onnxproof.errors import ConformanceError
from onnxproof.inspection.diff import diff

RNG = np.random.default_rng(0)
KERNEL = RNG.normal(size=(4, 3)).astype(np.float32)


class Net:
    def __init__(self, kernel: Any, more: Any = None) -> None:
        self.kernel = jnp.asarray(kernel)
        self.more = more

    def __call__(self, x: Any) -> Any:
        x = jnp.tanh(x @ self.kernel)
        return x if self.more is None else jnp.exp(x) * self.more


def export(path: Path, net: Net, **options: Any) -> Path:
    to_onnx(net, [("B", 4)], return_mode="file", output_path=path, **options)
    return path


@pytest.fixture
def before(tmp_path: Path) -> Path:
    return export(tmp_path / "before.onnx", Net(KERNEL))


def command(*arguments: str | Path) -> Any:
    return CliRunner().invoke(application(), [str(a) for a in arguments])


def test_the_same(tmp_path: Path, before: Path) -> None:
    after = export(tmp_path / "after.onnx", Net(KERNEL), external_data=True)
    assert not diff(before, after).differ
    done = command("diff", before, after, "--run")
    assert (done.exit_code, done.output.splitlines()[0]) == (0, "the same, and so are their outputs")
    assert all(
        o.max_abs == 0 for o in diff(before, after, {"a": [np.ones((2, 4), np.float32)]}).outputs or ()
    )


def test_other_values(tmp_path: Path, before: Path) -> None:
    kernel = KERNEL.copy()
    kernel[1, 2] += 0.5
    after = export(tmp_path / "after.onnx", Net(kernel))
    found = diff(before, after, {"ones": [np.ones((2, 4), np.float32)]})
    (change,) = found.weights.changed
    assert (change.name, change.changed, change.elements) == ("kernel", 1, 12)
    assert change.max_abs == pytest.approx(0.5, rel=1e-6)
    assert (found.facts, found.operators, found.places) == ((), {}, ())
    assert found.outputs is not None
    assert [o.matches for o in found.outputs] == [False]
    done = command("diff", before, after, "--json")
    assert done.exit_code == 1
    assert json.loads(done.output)["weights"]["changed"][0]["name"] == "kernel"


def test_other_structure(tmp_path: Path, before: Path) -> None:
    after = export(tmp_path / "after.onnx", Net(KERNEL, jnp.ones(3)), opset=21, output_names=["y"])
    found = diff(before, after)
    assert [c.what for c in found.facts] == ["output output", "output y", "opset ai.onnx"]
    assert found.operators["Exp"] == (0, 1)
    assert {p.primitive: (p.before, p.after) for p in found.places}["exp"] == ({}, {"Exp": 1})
    assert found.weights.added == ("more",)
    back = diff(after, before)
    assert (back.weights.removed, back.operators["Exp"]) == (("more",), (1, 0))


def test_other_shapes(tmp_path: Path, before: Path) -> None:
    after = export(tmp_path / "after.onnx", Net(RNG.normal(size=(4, 5)).astype(np.float32)))
    found = diff(before, after)
    assert [(c.what, c.before, c.after) for c in found.weights.reshaped] == [
        ("kernel", "float32[4, 3]", "float32[4, 5]")
    ]


def test_not_a_number_equals_itself(tmp_path: Path) -> None:
    paths = []
    for i, value in enumerate((np.nan, -np.nan)):
        kernel = KERNEL.copy()
        kernel[0, 0] = value
        paths.append(export(tmp_path / f"{i}.onnx", Net(kernel)))
    (change,) = diff(*paths).weights.changed or (None,)
    assert change is None or change.changed == 0


def test_cases_of_a_bundle(tmp_path: Path, before: Path) -> None:
    bundle = tmp_path / "before.evidence"
    verify(Net(KERNEL), before, {"one": [np.ones((2, 4), np.float32)]}, bundle_path=bundle)
    done = command("diff", bundle, before, "--cases", bundle, "--json")
    assert done.exit_code == 0, done.output
    assert [o["case"] for o in json.loads(done.output)["outputs"]] == ["one"]


def test_weights_that_are_gone(tmp_path: Path) -> None:
    after = export(tmp_path / "after.onnx", Net(np.ones((4, 300), np.float32)), external_data=True)
    assert diff(after, after).weights.equal == 1
    (tmp_path / "after.onnx.data").unlink()
    with pytest.raises(ConformanceError, match="'kernel'"):
        diff(after, after)


def test_nodes_without_provenance(tmp_path: Path, before: Path) -> None:
    model = onnx.load(before)
    for node in model.graph.node:
        del node.metadata_props[:]
    onnx.save(model, tmp_path / "bare.onnx")
    assert diff(tmp_path / "bare.onnx", tmp_path / "bare.onnx").differ is False
