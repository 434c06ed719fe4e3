"""The accuracy gate of ``normalization_mode``: the committed table is what the program measures here."""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from onnxproof import to_onnx
from onnxproof.raising import load_composites
from onnxproof.raising.composite import COMPOSITES
from onnxproof.raising.gate import admits, table
from scripts.measure_normalization import FAMILIES, OPSETS, REPORT, measured, verdicts
from tests.running import run, session

MODES = ("auto", "prefer_native", "force_decomposed")


def test_the_table_is_what_is_measured() -> None:
    """In short: the newest schemas and the widest rows, at which every form that is refused fails."""
    for (composite, dtype), opsets in verdicts(measured(opsets=(23,), widths=slice(-1, None))).items():
        assert opsets[23] == (23 in table()[composite][dtype]), f"{composite} in {dtype}"


def test_the_table_holds_every_normalization() -> None:
    load_composites()
    assert {f.composite for f in FAMILIES} == {n for n, c in COMPOSITES.items() if c.normalization}
    assert {f.composite: set(f.dtypes) for f in FAMILIES} == {n: set(d) for n, d in table().items()}
    assert all(o in OPSETS for dtypes in table().values() for opsets in dtypes.values() for o in opsets)


def test_the_report_says_what_the_table_says() -> None:
    rows = re.findall(r"^\| (\w+) \| (\w+) \| ([\d, ]+|none) \|$", REPORT.read_text(), re.MULTILINE)
    told = {(c, d): [int(o) for o in text.split(", ") if o != "none"] for c, d, text in rows}
    assert told == {(c, d): list(opsets) for c, dtypes in table().items() for d, opsets in dtypes.items()}


def test_modes() -> None:
    assert [admits(m, "layer_norm", "float32", 23) for m in MODES] == [True, True, False]
    assert [admits(m, "layer_norm", "float64", 23) for m in MODES] == [False, True, False]
    assert [admits(m, "layer_norm", "float8_e5m2", 23) for m in MODES] == [False, True, False]


def _operators(mode: str, fn: Any, *specs: Any, **options: Any) -> list[str]:
    return [n.op_type for n in to_onnx(fn, list(specs), normalization_mode=mode, **options).graph.node]


@pytest.mark.parametrize(
    ("mode", "native"), [("auto", False), ("prefer_native", True), ("force_decomposed", False)]
)
def test_float64_is_decomposed_unless_asked_for(mode: str, native: bool) -> None:
    def norm(x: Any) -> Any:
        mean = jnp.mean(x, -1, keepdims=True)
        var = jnp.var(x, -1, keepdims=True)
        scale, bias = jnp.linspace(0.5, 1.5, 8), jnp.linspace(-1.0, 1.0, 8)
        return (x - mean) * lax.rsqrt(var + 2.0**-17) * scale + bias

    spec = jax.ShapeDtypeStruct((3, 8), np.float64)
    found = _operators(mode, norm, spec, enable_double_precision=True)
    assert ("LayerNormalization" in found) == native


def test_a_residual_sum_is_not_fused_into_a_kernel_that_cancels() -> None:
    """Mean 1000, variance 1: E[x²] - E[x]² leaves errors of 1e-3."""
    scale, bias = np.linspace(0.5, 1.5, 16, dtype=np.float32), np.linspace(-1.0, 1.0, 16, dtype=np.float32)

    def block(x: Any, y: Any) -> Any:
        z = x + y
        mean = jnp.mean(z, -1, keepdims=True)
        return (z - mean) * lax.rsqrt(jnp.var(z, -1, keepdims=True) + 1e-5) * scale + bias

    model = to_onnx(block, [("B", 5, 16), ("B", 5, 16)])
    assert sorted(n.op_type for n in model.graph.node) == ["LayerNormalization", "Sum"]
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=(2, 5, 16)).astype(np.float32) + np.float32(500) for _ in range(2))
    (got,) = run(session(model), [x, y])
    z = (x + y).astype(np.float64)
    normal = (z - z.mean(-1, keepdims=True)) / np.sqrt(z.var(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(got, normal * scale + bias, rtol=0, atol=2e-4)


def test_a_sum_that_is_read_again_stays_an_add() -> None:
    def block(x: Any, y: Any) -> Any:
        z = x + y
        mean = jnp.mean(z, -1, keepdims=True)
        normal = (z - mean) * lax.rsqrt(jnp.var(z, -1, keepdims=True) + 1e-5)
        return z + normal * jnp.linspace(0.5, 1.5, 16) + jnp.linspace(-1.0, 1.0, 16)

    assert "Sum" not in _operators("auto", block, (2, 5, 16), (2, 5, 16))
