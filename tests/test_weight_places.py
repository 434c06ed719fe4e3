"""``to_onnx(..., weights=...)``: in the file, beside it, or as inputs of the graph."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime as ort
import pytest

from onnxproof import ConformanceError, InputSpecError, allclose, to_onnx, verify
from onnxproof.evidence.runtimes.ort import OrtSession
from tests.inspection.test_weights import ROWS, Net, drawn, flat, normalized
from tests.test_cli import onnxproof_command

FOLDED = (normalized, {"kernel": (3, 3, 4, 8), **dict.fromkeys(("mean", "var", "scale", "shift"), (8,))},
          ("B", 6, 6, 4))  # fmt: skip


@pytest.mark.parametrize("row", [*ROWS.values(), FOLDED], ids=[*ROWS, "folded"])
def test_any_weights_are_right(row: Any) -> None:
    """Those of another checkpoint too: nothing of the first is in the file."""
    fn, shapes, spec = row
    model = to_onnx(Net(fn, drawn(shapes, 0)), [spec], weights="inputs")
    assert not [t.name for t in model.graph.initializer if t.name.startswith("params")]
    session = OrtSession(model)
    x = np.random.default_rng(3).normal(size=(3, *spec[1:])).astype(np.float32)
    for seed in (0, 1):
        params = drawn(shapes, seed)
        arrays = {f"params.{name}": array for name, array in flat(params).items()}
        if "params.layers" in arrays:  # a scan spelled out takes its stack layer by layer
            arrays |= {f"params.layers.{i}": a for i, a in enumerate(arrays["params.layers"])}
        got = session.run([x, *(arrays[name] for name in session.input_names[1:])])
        np.testing.assert_allclose(got[0], fn(params, x), rtol=2e-5, atol=2e-5)


def test_places(tmp_path: Path) -> None:
    net = Net(lambda p, x: x @ p["kernel"], {"kernel": jnp.ones((64, 64))})
    for place, files in {"embedded": 1, "external": 2, "inputs": 1}.items():
        folder = tmp_path / place
        folder.mkdir()
        to_onnx(net, [("B", 64)], return_mode="file", output_path=folder / "m.onnx", weights=place)  # type: ignore[call-overload]
        assert len(list(folder.iterdir())) == files
        ort.InferenceSession(folder / "m.onnx", providers=["CPUExecutionProvider"])
    model = onnx.load(tmp_path / "inputs" / "m.onnx")
    assert [v.name for v in model.graph.input] == ["x", "params.kernel"]
    (said,) = (p.value for p in model.metadata_props if p.key == "onnxproof.weight_inputs")
    assert json.loads(said) == ["params.kernel"]
    with pytest.raises(ConformanceError, match=r"2 inputs \(x, params\.kernel\), 1 were given"):
        allclose(net, tmp_path / "inputs" / "m.onnx", [np.ones((2, 64), np.float32)])


@pytest.mark.parametrize(
    "options",
    [
        {"weights": "elsewhere"},
        {"weights": "external", "export_mode": "web"},
        {"weights": "external"},
        {"weights": "embedded", "external_data": True},
    ],
)
def test_what_contradicts_itself(options: dict[str, Any]) -> None:
    with pytest.raises(InputSpecError):
        to_onnx(jnp.tanh, [("B",)], **options)


def test_verify_refuses_what_it_can_not_feed(tmp_path: Path) -> None:
    net = Net(lambda p, x: x @ p["kernel"], {"kernel": jnp.ones((4, 4))})
    path = tmp_path / "m.onnx"
    to_onnx(net, [("B", 4)], return_mode="file", output_path=path, weights="inputs")
    with pytest.raises(ConformanceError, match=r"the file takes 2: x, params\.kernel"):
        verify(net, path, {"one": [np.ones((2, 4), np.float32)]})


def test_command(tmp_path: Path) -> None:
    (tmp_path / "held.py").write_text(
        "import jax.numpy as jnp\nkernel = jnp.ones((4, 3)) * 0.5\n\n\ndef net(x):\n    return jnp.tanh(x @ kernel)\n"
    )
    done = onnxproof_command(tmp_path, "export", "held:net", "-i", "x=B,4", "--weights", "inputs", "--json")
    assert done.code == 0, done.err
    facts = json.loads(done.out)
    assert [v["name"] for v in facts["inputs"]] == ["x", "kernel"]
    assert facts["proof"]["level"] == "executed"
    done = onnxproof_command(
        tmp_path, "export", "held:net", "-i", "x=B,4", "--weights", "external", "--no-external-data"
    )
    assert done.code == 2
