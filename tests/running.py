"""Run a model in ONNX Runtime and hold it against JAX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import ml_dtypes
import numpy as np
import onnx
import onnxruntime as ort

TOLERANCE = {  # (rtol, atol) of a float result
    "float64": (1e-11, 1e-12),
    "float32": (1e-5, 1e-6),
    "float16": (2e-3, 2e-3),
    "bfloat16": (1.6e-2, 1.6e-2),
    "complex64": (1e-5, 1e-6),
    "complex128": (1e-11, 1e-12),
}


def session(model: onnx.ModelProto | str, optimized: bool = True) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    if not optimized:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    source = model if isinstance(model, str) else model.SerializeToString()
    return ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def to_feed(value: Any) -> np.ndarray[Any, Any]:
    """An argument as the graph takes it: keys as words, complex numbers as pairs."""
    if hasattr(value, "dtype") and jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
        value = jax.random.key_data(value)
    array = np.asarray(value)
    if array.dtype.kind == "c":
        array = np.stack([array.real, array.imag], -1)
    return array


def run(sess: ort.InferenceSession, args: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
    """Run with flat arguments, one for each input of the graph, in order."""
    feed = {}
    for spec, value in zip(sess.get_inputs(), jax.tree_util.tree_leaves(list(args)), strict=True):
        array = to_feed(value)
        if array.dtype == ml_dtypes.bfloat16:
            feed[spec.name] = ort.OrtValue.ortvalue_from_numpy_with_onnx_type(
                array.view(np.uint16), onnx.TensorProto.BFLOAT16
            )
        else:
            feed[spec.name] = ort.OrtValue.ortvalue_from_numpy(array)
    outs = sess.run_with_ort_values([o.name for o in sess.get_outputs()], feed)
    return [from_ort(o) for o in outs]


def from_ort(value: ort.OrtValue) -> np.ndarray[Any, Any]:
    if value.data_type() == "tensor(bfloat16)":
        import ctypes

        shape = tuple(value.shape())
        count = int(np.prod(shape, dtype=np.int64))
        raw = ctypes.string_at(value.data_ptr(), 2 * count) if count else b""
        return np.frombuffer(raw, np.uint16).view(ml_dtypes.bfloat16).reshape(shape)
    return np.asarray(value.numpy())


def assert_same(
    got: np.ndarray[Any, Any], want: Any, rtol: float | None = None, atol: float | None = None
) -> None:
    """Shape and dtype equal; integers and booleans equal; floats within tolerance, NaN where NaN."""
    if hasattr(want, "dtype") and jax.dtypes.issubdtype(want.dtype, jax.dtypes.prng_key):
        want = jax.random.key_data(want)
    want = np.asarray(want)
    if want.dtype.kind == "c" and got.dtype.kind == "f":
        assert got.shape == (*want.shape, 2)
        assert got.dtype == want.real.dtype, f"parts are {got.dtype}, JAX {want.dtype}"
        got = np.ascontiguousarray(got).view(want.dtype)[..., 0]
        if got.shape == want.shape:  # an infinite number is compared part by part
            infinite = (np.isinf(want.real) | np.isinf(want.imag)) & ~np.isnan(want)
            for part in (np.real, np.imag):
                assert_same(part(got)[infinite], part(want)[infinite], rtol, atol)
            got, want = np.where(infinite, 0, got), np.where(infinite, 0, want)
    assert got.shape == want.shape, f"shape {got.shape}, JAX {want.shape}"
    assert got.dtype == want.dtype, f"dtype {got.dtype}, JAX {want.dtype}"
    name = want.dtype.name
    if name not in TOLERANCE:
        np.testing.assert_array_equal(got, want)
        return
    default = TOLERANCE[name]
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    np.testing.assert_allclose(
        got.astype(wide),
        want.astype(wide),
        rtol=default[0] if rtol is None else rtol,
        atol=default[1] if atol is None else atol,
        equal_nan=True,
    )
