"""Complex values at the boundary of a model: pairs, said so in its metadata."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from jax.scipy.fft import dct, dctn, idct

from onnxproof import allclose, onnx_function, to_onnx
from tests.cases.complex import c64

KERNEL = c64(7, 40, seed=2)
SPEC = jax.ShapeDtypeStruct((3, 7), np.complex64)


def _props(model: onnx.ModelProto) -> dict[str, str]:
    return {p.key: p.value for p in model.metadata_props}


def test_metadata_names_complex_values() -> None:
    def model(z: jax.Array, x: jax.Array) -> dict[str, jax.Array]:
        return {"size": jnp.abs(z), "turned": z * x}

    exported = to_onnx(model, [SPEC, (3, 7)])
    props = _props(exported)
    assert props["onnxproof.complex_inputs"] == "z"
    assert props["onnxproof.complex_outputs"].split() == [
        o.name for o in exported.graph.output if o.type.tensor_type.shape.dim[-1].dim_value == 2
    ]
    real = _props(to_onnx(lambda x: x + 1, [(3,)]))
    assert not {"onnxproof.complex_inputs", "onnxproof.complex_outputs"} & set(real)


def test_allclose_joins_pairs() -> None:
    def model(z: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jnp.fft.fft(z), jnp.abs(z)

    matches, text = allclose(model, to_onnx(model, [SPEC]), [c64(3, 7)])
    assert matches, text
    matches, _ = allclose(lambda z: (jnp.fft.fft(z) * 1.001, jnp.abs(z)), to_onnx(model, [SPEC]), [c64(3, 7)])
    assert not matches


def test_channels_first() -> None:
    def model(z: jax.Array) -> jax.Array:
        return z * 2j

    images, first = c64(2, 4, 5, 3), {"inputs_as_nchw": [0], "outputs_as_nchw": [0]}
    exported = to_onnx(model, [images], **first)
    dims = [d.dim_value for d in exported.graph.input[0].type.tensor_type.shape.dim]
    assert dims == [2, 3, 4, 5, 2]
    assert allclose(model, exported, [images], **first)[0]


def test_complex_weights_keep_their_name() -> None:
    exported = to_onnx(lambda z: z * 2 + KERNEL[:, :7].sum(0) + (z @ KERNEL)[:, :7], [SPEC])
    assert any(t.name.startswith("KERNEL") for t in exported.graph.initializer)
    assert allclose(lambda z: z * 2 + KERNEL[:, :7].sum(0) + (z @ KERNEL)[:, :7], exported, [c64(3, 7)])[0]


def test_functions_take_complex_values() -> None:
    @onnx_function
    def helper(z: jax.Array) -> jax.Array:
        return z * z + 1j

    def model(z: jax.Array) -> jax.Array:
        return helper(helper(z))

    exported = to_onnx(model, [SPEC])
    assert exported.functions
    assert allclose(model, exported, [c64(3, 7)])[0]


def test_chains_of_arithmetic_stay_in_parts() -> None:
    """Pairs are taken apart once and joined once, whatever lies between."""
    found = [n.op_type for n in to_onnx(lambda z: jnp.exp(z * z) * z - z, [SPEC]).graph.node]
    assert found.count("Concat") == 1
    assert found.count("Gather") == 2


SQUARE, REAL = jax.ShapeDtypeStruct((4, 16), np.complex64), (4, 16)
# Operators of what is written by hand; a quotient has 16 of arithmetic, 28 for infinities and 0, 7 for its parts.
BUDGETS: dict[str, tuple[Callable[..., Any], list[Any], int]] = {
    "product with a constant": (lambda z: z * (1 + 2j), [SQUARE], 1),
    "quotient by a constant": (lambda z: z / (1 + 2j), [SQUARE], 1),
    "quotient by a real constant": (lambda z: z / 3, [SQUARE], 1),
    "quotient by reals": (lambda z, x: z / x, [SQUARE, REAL], 10),
    "reciprocal": (lambda z: 1 / z, [SQUARE], 25),
    "quotient": (lambda z, w: z / w, [SQUARE, SQUARE], 51),
    "dct": (dct, [REAL], 12),
    "idct": (idct, [REAL], 45),
    "dctn": (dctn, [REAL], 41),
}


@pytest.mark.parametrize("name", BUDGETS)
def test_node_budgets(name: str) -> None:
    fn, specs, most = BUDGETS[name]
    found = Counter(n.op_type for n in to_onnx(fn, specs).graph.node)
    assert found.total() <= most, dict(found)
