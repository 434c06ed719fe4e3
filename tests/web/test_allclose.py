"""``allclose_onnxruntime_web``: one call for each place where a model may run."""

from __future__ import annotations

import asyncio
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest

from onnxproof import ConformanceError, InputSpecError, allclose_onnxruntime_web, to_onnx

PLACES = [("node", "wasm", 1), ("node", "wasm", 2), ("browser", "wasm", 2), ("browser", "webgpu", 1)]
X = np.random.default_rng(0).normal(size=(3, 16)).astype(np.float32)
W = np.random.default_rng(1).normal(size=(16, 4)).astype(np.float32)


def layer(x):
    return jnp.tanh(x @ W), x.sum(-1)


@pytest.mark.parametrize(("runner", "provider", "threads"), PLACES)
def test_places(runner: str, provider: str, threads: int, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    to_onnx(layer, [("B", 16)], return_mode="file", output_path=path, export_mode="web")
    place = {"runner": runner, "provider": provider, "threads": threads}
    matches, text = allclose_onnxruntime_web(path, [X], 1e-5, 1e-5, fn=layer, **place)
    assert matches, text
    assert "JAX" in text
    assert "float64" in text
    assert "1.30.0 in " in text
    assert ("webgpu" if provider == "webgpu" else f"threads: {threads}").lower() in text.lower()
    matches, text = allclose_onnxruntime_web(str(path), [X], **place)
    assert matches, text
    assert "ONNX Runtime on the CPU" in text


def test_forms_of_a_model_and_of_inputs() -> None:
    model = to_onnx(layer, [(3, 16)])
    for form in (model, model.SerializeToString()):
        matches, text = allclose_onnxruntime_web(form, [(3, 16)])
        assert matches, text


def test_a_difference_names_the_worst_output() -> None:
    model = to_onnx(layer, [("B", 16)], output_names=["hidden", "total"])
    matches, text = allclose_onnxruntime_web(model, [X], fn=lambda x: (layer(x)[0], x.sum(-1).at[1].add(0.5)))
    assert not matches
    assert "MISMATCH" in text
    assert "'total' at [1]" in text


def test_complex_values_are_pairs() -> None:
    z = (X[:, :8] + 1j * X[:, 8:]).astype(np.complex64)
    model = to_onnx(lambda z: z * z + 1, [jax.ShapeDtypeStruct((3, 8), jnp.complex64)])
    for fn in (None, lambda z: z * z + 1):
        matches, text = allclose_onnxruntime_web(model, [z], fn=fn)
        assert matches, text


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "bool", "float16"])
def test_dtypes(dtype: str) -> None:
    x = np.arange(6).reshape(2, 3).astype(dtype)

    def fn(x):
        return jnp.where(x > 2, x, jnp.zeros_like(x))

    model = to_onnx(fn, [jax.ShapeDtypeStruct((2, 3), dtype)], export_mode="web")
    matches, text = allclose_onnxruntime_web(model, [x], fn=fn)
    assert matches, text


@pytest.mark.parametrize("dtype", ["int64", "uint64", "float64"])
def test_wide_dtypes(dtype: str) -> None:
    x = np.array([2**53 + 1, 3], dtype)
    model = to_onnx(lambda x: x + x, [np.ones(2, dtype)], enable_double_precision=True, export_mode="web")
    matches, text = allclose_onnxruntime_web(model, [x], fn=lambda x: x + x, enable_double_precision=True)
    assert matches, text


def test_bfloat16_is_refused() -> None:
    model = to_onnx(lambda x: x + 1, [jax.ShapeDtypeStruct((2,), jnp.bfloat16)])
    with pytest.raises(ConformanceError, match="bfloat16"):
        allclose_onnxruntime_web(model, [jnp.ones(2, jnp.bfloat16)])


def test_inside_an_event_loop() -> None:
    """As in a notebook."""

    async def call() -> tuple[bool, str]:
        return allclose_onnxruntime_web(to_onnx(layer, [("B", 16)]), [X], runner="browser", fn=layer)

    assert asyncio.run(call())[0]


def test_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = to_onnx(layer, [("B", 16)])
    with pytest.raises(InputSpecError, match="webgpu"):
        allclose_onnxruntime_web(model, [X], runner="node", provider="webgpu")
    with pytest.raises(ConformanceError, match="invalid dimensions"):
        allclose_onnxruntime_web(model, [X[:, :3]], fn=lambda x: (x, x))
    later = onnx.ModelProto()
    later.CopyFrom(model)
    later.opset_import[0].version = 27
    with pytest.raises(ConformanceError, match="opset 26"):
        allclose_onnxruntime_web(later, [X])
    with pytest.raises(ConformanceError, match="npm install"):
        allclose_onnxruntime_web(model, [X], package=tmp_path)
    with pytest.raises(ConformanceError, match="apt-get install chromium"):
        allclose_onnxruntime_web(model, [X], runner="browser", browser=tmp_path / "firefox")


def test_package_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = Path.cwd()
    monkeypatch.chdir(tmp_path)
    for place in (here, here / "node_modules", here / "node_modules" / "onnxruntime-web"):
        matches, text = allclose_onnxruntime_web(to_onnx(layer, [("B", 16)]), [X], package=place)
        assert matches, text
