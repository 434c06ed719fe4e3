"""Exports for the browser: what is legal there, and what is said of what falls back."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from onnxproof import IllegalForTarget, allclose_onnxruntime_web, to_onnx, verify
from onnxproof.errors import OpsetError
from onnxproof.passes.placement import fallbacks

X = np.array([[-3e9, -2.5, -0.0, 0.5], [3e9, 2147483520.0, np.inf, 7.5]], np.float32)


SCALE = np.linspace(0.5, 2, 64, dtype=np.float32)


def metadata(model) -> dict[str, str]:
    return {p.key: p.value for p in model.metadata_props}


def test_web_mode_selects_its_target() -> None:
    """Where on int8 has a kernel on the CPU and none in ONNX Runtime Web 1.30."""

    def fn(x):
        return jnp.where(x > 2, x, -x)

    spec = [jax.ShapeDtypeStruct((4,), "int8")]
    plain, web = (to_onnx(fn, spec, export_mode=mode) for mode in ("standard", "web"))
    assert len(web.graph.node) > len(plain.graph.node)
    assert len(to_onnx(fn, spec, export_mode="web", target="ort-cpu").graph.node) == len(plain.graph.node)
    matches, text = allclose_onnxruntime_web(web, [np.array([-128, -1, 2, 127], np.int8)], fn=fn)
    assert matches, text


@pytest.mark.parametrize("direction", [jnp.left_shift, jnp.right_shift])
def test_shift_of_uint16(direction) -> None:
    x, by = np.array([0xFFFF, 0x8001, 1, 3], np.uint16), np.array([1, 15, 15, 0], np.uint16)
    model = to_onnx(direction, [x, by], target="ort-web-wasm")
    matches, text = allclose_onnxruntime_web(model, [x, by], fn=direction)
    assert matches, text


@pytest.mark.parametrize("target", ["ort-web-wasm", "ort-web-webgpu"])
def test_newest_opset(target: str) -> None:
    to_onnx(lambda x: x + 1, [(2,)], opset=26, target=target)
    with pytest.raises(OpsetError, match="up to 26"):
        to_onnx(lambda x: x + 1, [(2,)], opset=27, target=target)


def test_no_float64_on_webgpu() -> None:
    with pytest.raises(IllegalForTarget, match="float64"):
        to_onnx(lambda x: x * 2, [np.ones(2)], enable_double_precision=True, target="ort-web-webgpu")
    for dtype in ("int16", "uint16", "bfloat16"):
        with pytest.raises(IllegalForTarget, match=dtype):
            to_onnx(lambda x: x * 2, [jax.ShapeDtypeStruct((2,), dtype)], target="ort-web-webgpu")
        with pytest.raises(IllegalForTarget, match=dtype):  # also where it is cast at once
            to_onnx(
                lambda x: x.astype("float32"), [jax.ShapeDtypeStruct((2,), dtype)], target="ort-web-webgpu"
            )


@pytest.mark.parametrize("dtype", ["int32", "uint32"])
def test_integers_of_floats_without_float64(dtype: str) -> None:
    """The form that needs no float64 gives JAX's integers at every bound."""

    def fn(x):
        return x.astype(dtype)

    model = to_onnx(fn, [("B", 4)], target="ort-web-webgpu", opset=21)
    kinds = {t.elem_type for v in model.graph.value_info for t in [v.type.tensor_type]}
    assert 11 not in kinds  # DOUBLE
    x = np.concatenate([X, np.full((1, 4), np.nan, np.float32), np.float32([[4294967040, 5e9, -1, 1e-9]])])
    assert verify(fn, model, [x]).status == "passed"
    matches, text = allclose_onnxruntime_web(model, [x], fn=fn, runner="browser", provider="webgpu")
    assert matches, text


def test_what_falls_back() -> None:
    """The listing of the table is what ONNX Runtime Web does."""

    def fn(x):
        return jnp.round(jnp.tanh(x) * 3)

    model = to_onnx(fn, [("B", 4)], target="ort-web-webgpu", return_mode="ir", opset=21)
    found = fallbacks(model, "ort-web-webgpu")
    assert {(f.operator, f.dtype, f.nodes) for f in found} == {("Round", "float32", 1)}
    proto = to_onnx(fn, [("B", 4)], target="ort-web-webgpu", opset=21)
    assert metadata(proto)["onnxproof.fallback"] == "Round float32"
    matches, text = allclose_onnxruntime_web(
        proto, [np.float32([[1, -2, 0, 0.3]])], fn=fn, runner="browser", provider="webgpu"
    )
    assert matches, text
    assert "1 nodes on CPUExecutionProvider" in text
    assert fallbacks(model, "ort-cpu") == fallbacks(model, "ort-web-wasm") == ()


def test_an_earlier_opset_may_have_more_on_webgpu() -> None:
    model = to_onnx(jnp.sin, [(2,)], target="ort-web-webgpu", opset=23)
    assert metadata(model)["onnxproof.fallback"] == "Sin float32 (on WebGPU up to opset 21)"
    assert "onnxproof.fallback" not in metadata(to_onnx(jnp.sin, [(2,)], target="ort-web-webgpu", opset=21))


@pytest.mark.parametrize("size", [8, 256, 300, 509, 4096])
def test_fourier_transforms_on_webgpu(size: int) -> None:
    """The runtime's DFT and its slices backwards are not used: both are wrong there."""

    def fn(x):
        z = jnp.fft.fft(x + 1j * jnp.flip(x))
        return z, jnp.fft.ifft(z), jnp.fft.rfft(x), jnp.fft.irfft(z)

    x = np.random.default_rng(0).normal(size=(3, size)).astype(np.float32)
    model = to_onnx(fn, [("B", size)], target="ort-web-webgpu", opset=21)
    assert "DFT" not in {n.op_type for n in model.graph.node}
    bound = 2e-6 * size**0.5
    matches, text = allclose_onnxruntime_web(
        model, [x], 1e-5, bound, fn=fn, runner="browser", provider="webgpu"
    )
    assert matches, text


def test_what_kernels_of_webgpu_get_wrong_is_written_otherwise() -> None:
    """Rows far from 0 keep their layer normalization, and a vector can be resized."""

    def fn(x):
        centred = x - x.mean(-1, keepdims=True)
        variance = (centred * centred).mean(-1, keepdims=True)
        return centred * jax.lax.rsqrt(variance + 1e-5) * SCALE + SCALE, jnp.repeat(x[0], 3)

    x = (np.random.default_rng(0).normal(size=(4, 64)) + 100).astype(np.float32)
    model = to_onnx(fn, [(4, 64)], target="ort-web-webgpu", opset=21)
    assert {"LayerNormalization", "Resize"} <= {n.op_type for n in model.graph.node}
    matches, text = allclose_onnxruntime_web(
        model, [x], 1e-4, 1e-4, fn=fn, runner="browser", provider="webgpu"
    )
    assert matches, text


def test_a_file_for_the_cpu_may_load_on_webgpu() -> None:
    """Indices of resizing are constants: nothing of float64 is left."""

    def fn(x):
        return jax.image.resize(x, (2, 9, 9, 3), "nearest")

    x = np.random.default_rng(0).normal(size=(2, 4, 4, 3)).astype(np.float32)
    matches, text = allclose_onnxruntime_web(
        to_onnx(fn, [x]), [x], fn=fn, runner="browser", provider="webgpu"
    )
    assert matches, text
