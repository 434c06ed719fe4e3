"""What ``to_onnx`` promises besides values: versions, names, provenance, files, the documents' samples."""

from __future__ import annotations

from collections import namedtuple
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnx_ir as ir
import pytest

from onnxproof import allclose, to_onnx
from tests.running import run, session

WEIGHT = jnp.asarray(np.random.default_rng(0).normal(size=(16, 4)), jnp.float32)


def affine(x: jax.Array) -> jax.Array:
    return jnp.tanh(x @ WEIGHT)


@pytest.mark.parametrize(
    ("opset", "ir_version"), [(17, 8), (18, 8), (19, 9), (20, 9), (21, 10), (23, 10), (28, 10)]
)
def test_versions(opset: int, ir_version: int) -> None:
    model = to_onnx(affine, [("B", 16)], opset=opset, strip_provenance=True)
    assert model.ir_version == ir_version
    assert [(o.domain, o.version) for o in model.opset_import] == [("", opset)]
    onnx.checker.check_model(model, full_check=True)
    assert run(session(model), [np.ones((3, 16), np.float32)])[0].shape == (3, 4)


def test_provenance_names_line_and_primitive() -> None:
    model = to_onnx(affine, [("B", 16)])
    (tanh,) = [n for n in model.graph.node if n.op_type == "Tanh"]
    props = {p.key: p.value for p in tanh.metadata_props}
    assert props["onnxproof.primitive"] == "tanh"
    assert props["onnxproof.source"].startswith("tests/test_api.py:")
    bare = to_onnx(affine, [("B", 16)], strip_provenance=True)
    assert not any(n.metadata_props for n in bare.graph.node)
    assert b"test_api" not in bare.SerializeToString()


def test_return_modes(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    proto = to_onnx(affine, [("B", 16)])
    assert isinstance(to_onnx(affine, [("B", 16)], return_mode="ir"), ir.Model)
    assert to_onnx(affine, [("B", 16)], return_mode="file", output_path=path) == str(path)
    assert path.read_bytes() == proto.SerializeToString()
    assert [p.name for p in tmp_path.iterdir()] == ["model.onnx"]


def test_external_data_and_web(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    to_onnx(affine, [("B", 16)], return_mode="file", output_path=path, external_data=True)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.onnx", "model.onnx.data"]
    x = np.ones((2, 16), np.float32)
    assert allclose(affine, path, [x])[0]
    to_onnx(affine, [("B", 16)], return_mode="file", output_path=path, export_mode="web")
    assert [p.name for p in tmp_path.iterdir()] == ["model.onnx"]
    assert allclose(affine, path, [x])[0]


Pair = namedtuple("Pair", ["left", "right"])


def test_names_come_from_arguments_and_paths() -> None:
    def fn(image: Any, pair: Pair, *, scale: Any, flag: bool) -> dict[str, Any]:
        return {"sum": image + scale, "pair": Pair(pair.left * 2, pair.right), "flag": jnp.asarray(flag)}

    spec = jax.ShapeDtypeStruct(("B", 3), jnp.float32)
    model = to_onnx(fn, [spec, Pair(spec, spec)], {"scale": jnp.float32(2), "flag": True})
    assert [i.name for i in model.graph.input] == ["image", "pair.left", "pair.right", "scale"]
    assert [o.name for o in model.graph.output] == ["flag", "output.pair.left", "output.pair.right", "sum"]


def test_dimension_text() -> None:
    model = to_onnx(lambda x: x.reshape(-1, 3), [("B", "2*T", 3)])
    dims = [d.dim_param or d.dim_value for d in model.graph.output[0].type.tensor_type.shape.dim]
    assert dims == ["2*B*T", 3]


def test_channels_first() -> None:
    def fn(x: jax.Array) -> jax.Array:
        return x * jnp.arange(3.0)

    model = to_onnx(fn, [("B", 5, 4, 3)], inputs_as_nchw=[0], outputs_as_nchw=[0])
    x = np.random.default_rng(0).normal(size=(2, 5, 4, 3)).astype(np.float32)
    (got,) = run(session(model), [np.moveaxis(x, -1, 1)])
    np.testing.assert_allclose(np.moveaxis(got, 1, -1), fn(x), rtol=1e-6)
    ok, message = allclose(fn, model, [x], inputs_as_nchw=[0], outputs_as_nchw=[0])
    assert ok, message


def test_tangents_of_booleans_are_false() -> None:
    """JAX has a type without values for them, and ONNX none."""

    def fn(x):
        return jax.jvp(lambda y: (y == x, 2 * y), (x,), (jnp.ones_like(x),))[1]

    x = np.arange(3, dtype=np.float32)
    ok, message = allclose(fn, to_onnx(fn, [("B",)]), [x])
    assert ok, message


def test_allclose_names_the_worst_element() -> None:
    def other(x: jax.Array) -> jax.Array:
        return affine(x).at[1, 2].add(0.5)

    x = np.ones((3, 16), np.float32)
    ok, message = allclose(other, to_onnx(affine, [("B", 16)]), [x])
    assert not ok
    for word in ("MISMATCH", "'output'", "[1, 2]", "ONNX Runtime", "JAX", "float64"):
        assert word in message
    assert allclose(affine, to_onnx(affine, [("B", 16)]), [(4, 16)])[0]


def test_double_precision() -> None:
    model = to_onnx(lambda x: jnp.sin(x) * 2, [("B",)], enable_double_precision=True)
    x = np.linspace(-3, 3, 7)
    (got,) = run(session(model), [x])
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, np.sin(x) * 2, rtol=1e-15)
    ok, message = allclose(lambda x: jnp.sin(x) * 2, model, [x], enable_double_precision=True)
    assert ok, message
