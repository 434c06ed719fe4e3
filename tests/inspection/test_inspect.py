"""What ``onnxproof inspect`` says of a file, and where its nodes and weights come from."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from typer.testing import CliRunner

from onnxproof import to_onnx
from onnxproof.cli import application
from onnxproof.errors import ConformanceError, InputSpecError
from onnxproof.inspection.facts import inspect
from onnxproof.inspection.provenance import node_origin, value_origin
from onnxproof.inspection.reading import read
from onnxproof.inspection.tree import rows, tree

Command = Callable[..., Any]


class Net:
    """Two layers, and an embedding that is used as it is and transposed."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)

        def draw(*shape: int) -> Any:
            return jnp.asarray(rng.normal(size=shape), jnp.float32)

        self.layers = [{"kernel": draw(16, 32), "bias": draw(32)}, {"kernel": draw(32, 4), "bias": draw(4)}]
        self.embed = draw(4, 16)

    def __call__(self, x: Any) -> Any:
        with jax.named_scope("mlp"):
            for layer in self.layers:
                x = jnp.tanh(x @ layer["kernel"] + layer["bias"])
        return x @ self.embed @ self.embed.T


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("inspect") / "net.onnx"
    to_onnx(Net(), [("B", 16)], return_mode="file", output_path=path, external_data=True)
    return path


def command(*arguments: str | Path) -> Any:
    return CliRunner().invoke(application(), [str(a) for a in arguments])


def test_facts(model: Path) -> None:
    facts = inspect(model)
    assert [str(p) for p in (*facts.inputs, *facts.outputs)] == ["x  float32[B, 16]", "output  float32[B, 4]"]
    assert (facts.dimensions, facts.opsets, facts.producer) == (("B",), {"ai.onnx": 23}, "onnxproof")
    assert facts.operators == {"Gemm": 2, "MatMul": 2, "Tanh": 2}
    assert facts.with_provenance == facts.nodes == 6
    assert {w.name: w.bytes for w in facts.weights}["layers.0.kernel"] == 16 * 32 * 4
    assert list(facts.files.values()) == [p.stat().st_size for p in (model, Path(f"{model}.data"))]


def test_weights_that_are_not_there_are_counted(model: Path, tmp_path: Path) -> None:
    alone = tmp_path / "alone.onnx"
    alone.write_bytes(model.read_bytes())
    facts = inspect(alone)
    assert sum(w.bytes for w in facts.weights) == 4 * (16 * 32 + 32 + 32 * 4 + 4 + 2 * 64)
    assert list(facts.files.values()) == [alone.stat().st_size, None]
    assert "missing" in command("inspect", alone).output


def test_a_tree_has_totals_per_prefix(model: Path) -> None:
    root = tree(inspect(model).weights)
    found = {(level, b.name): (b.count, b.elements) for level, b in rows(root, 9)}
    assert found[0, "layers"] == (4, 16 * 32 + 32 + 32 * 4 + 4)
    assert found[1, "0"] == (2, 16 * 32 + 32)
    assert found[0, "embed"] == (2, 128)  # the weight, and its transpose below it
    assert root.count == 6


def test_where_nodes_and_values_come_from(model: Path) -> None:
    proto = read(model)
    node = node_origin(proto, "mlp/tanh")
    assert node.source is not None
    assert "test_inspect.py:" in node.source
    assert (node.scope, node.primitive) == ("mlp", "tanh")
    value = value_origin(proto, "embed.T")
    assert (value.kind, value.type, value.passes) == ("weight", "float32[16, 4]", ("fold",))
    assert len(value.readers) == 1
    assert value_origin(proto, "x").kind == "input"
    computed = value_origin(proto, "output")
    assert computed.is_output
    assert computed.node is not None
    with pytest.raises(InputSpecError, match="mlp/tanh"):
        node_origin(proto, "mlp/tan")
    with pytest.raises(InputSpecError, match=r"embed\.T"):
        value_origin(proto, "embed.t")


def test_bodies_and_sub_byte_weights(tmp_path: Path) -> None:
    path = tmp_path / "loop.onnx"

    def loop(x: Any) -> Any:
        return jax.lax.fori_loop(0, x.shape[0], lambda i, c: c + jnp.sin(c), x)

    to_onnx(loop, [("B", 3)], return_mode="file", output_path=path)
    proto = read(path)
    inside = next(n for n in proto.graph.node if n.op_type in ("Loop", "Scan"))
    sine = next(n for n in inside.attribute[-1].g.node if n.op_type == "Sin")
    origin = node_origin(proto, sine.name)
    assert origin.graph.startswith(inside.name)
    proto.graph.initializer.append(onnx.TensorProto(name="q", dims=[3], data_type=onnx.TensorProto.INT4))
    onnx.save(proto, path)
    assert {w.name: w.bytes for w in inspect(path).weights}["q"] == 2


def test_what_is_no_model(tmp_path: Path) -> None:
    for name, data in {"text": b"hello", "empty": b""}.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(ConformanceError, match="is no ONNX model"):
            inspect(tmp_path / name)


def test_command(model: Path) -> None:
    done = command("inspect", model, "--depth", "3")
    assert done.exit_code == 0, done.output
    for text in ("x  float32[B, 16]", "Gemm 2", "layers", "kernel  float32[16, 32]"):
        assert text in done.output
    assert json.loads(command("inspect", model, "--json").output)["nodes"] == 6
    origin = json.loads(command("inspect", model, "--node", "mlp/tanh", "--json").output)
    assert origin["primitive"] == "tanh"
    assert "derived by  fold" in command("inspect", model, "--value", "embed.T").output
    assert command("inspect", model, "--node", "a", "--netron").exit_code == 2
