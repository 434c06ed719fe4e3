"""Derivatives of the matrix's models, exported with symbolic dimensions and held against JAX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from onnxproof import to_onnx
from tests.frameworks import matrix
from tests.frameworks.derivatives import faults, objective, of_weights, weights_of
from tests.frameworks.model import Model
from tests.running import run, session


def sample(model: Model) -> Sequence[Any]:
    """Arguments at a batch of 2, and 5 steps in time."""
    return model.make(*model.sizes[1])


LEFT_OUT = {
    ("nnx", "lstm"),  # counts RNG keys while it is called, which no trace within a trace may do
    *product(("linen", "equinox", "haiku"), ("decoder",)),  # the layers of the encoder once more
}


def check(fn: Callable[..., Any], specs: Sequence[Any], args: Sequence[Any]) -> None:
    """Export ``fn`` at ``specs``, and hold it against JAX at ``args``."""
    model = to_onnx(fn, list(specs))
    names = [o.name for o in model.graph.output]
    assert faults(fn, args, names, run(session(model), args)) == []


@pytest.mark.parametrize(
    ("framework", "architecture"),
    [m for m in product(matrix.FRAMEWORKS, matrix.ARCHITECTURES) if m not in LEFT_OUT],
)
def test_value_and_grad_of_weights(framework: str, architecture: str) -> None:
    model = matrix.built(framework, architecture)
    apply = of_weights(model)

    def step(weights: Any, *args: Any) -> Any:
        return jax.value_and_grad(lambda w: objective(apply(w, *args)))(weights)

    weights = weights_of(model)
    check(step, [weights, *model.inputs], [weights, *sample(model)])


@pytest.mark.parametrize("architecture", matrix.ARCHITECTURES)
def test_vjp(architecture: str) -> None:
    """The cotangent is an input too, so that the whole transposed Jacobian is seen."""
    model = matrix.built("jax", architecture)
    apply, weights = of_weights(model), weights_of(model)

    def fn(weights: Any, args: Any, seed: Any) -> Any:
        out, pull = jax.vjp(lambda w: apply(w, *args), weights)
        return pull(jax.tree.map(lambda x: jnp.cos(seed * x).astype(x.dtype), out))

    args = [weights, list(sample(model)), np.float32(0.7)]
    check(fn, [weights, list(model.inputs), jax.ShapeDtypeStruct((), jnp.float32)], args)


@pytest.mark.parametrize("architecture", matrix.ARCHITECTURES)
def test_jvp(architecture: str) -> None:
    model = matrix.built("jax", architecture)
    apply, weights = of_weights(model), weights_of(model)
    rng = np.random.default_rng(3)
    tangents = {name: rng.normal(size=w.shape).astype(np.float32) for name, w in weights.items()}

    def fn(weights: Any, tangents: Any, *args: Any) -> Any:
        return jax.jvp(lambda w: apply(w, *args), (weights,), (tangents,))

    args = [weights, tangents, *sample(model)]
    check(fn, [weights, tangents, *model.inputs], args)


@pytest.mark.parametrize("architecture", ["mlp", "cnn", "encoder", "lstm", "gru", "unet", "moe"])
def test_grad_of_inputs(architecture: str) -> None:
    model = matrix.built("jax", architecture)
    check(
        jax.grad(lambda x: objective(model.fn(x))),
        model.inputs,
        sample(model),
    )


def test_hessian_of_inputs() -> None:
    """[B, WIDTH, WIDTH], forward over reverse, of every row of a symbolic batch."""
    model = matrix.built("jax", "mlp")
    smooth = of_weights(model)

    def fn(weights: Any, x: Any) -> Any:
        return jax.vmap(jax.hessian(lambda row: objective(smooth(weights, row[None]))))(x)

    weights = weights_of(model)
    check(fn, [weights, *model.inputs], [weights, *sample(model)])


@pytest.mark.parametrize(
    ("architecture", "weight"), [("lstm", "b"), ("gru", "hh.b"), ("moe", "gate"), ("embedding", "segment")]
)
def test_hessian_of_one_weight(architecture: str, weight: str) -> None:
    model = matrix.built("jax", architecture)
    apply, weights = of_weights(model), weights_of(model)

    def fn(value: Any, *args: Any) -> Any:
        return jax.hessian(lambda w: objective(apply({**weights, weight: w}, *args)))(value)

    check(fn, [weights[weight], *model.inputs], [weights[weight], *sample(model)])


@pytest.mark.parametrize("mode", [jax.jacfwd, jax.jacrev])
def test_jacobian(mode: Any) -> None:
    model = matrix.built("jax", "lstm")
    check(mode(lambda x: model.fn(x)[1]), [(2, 3, 16)], model.make(2, 3))


def test_hessian_vector_product() -> None:
    model = matrix.built("jax", "encoder")
    apply, weights = of_weights(model), weights_of(model)
    rng = np.random.default_rng(4)
    tangents = {name: rng.normal(size=w.shape).astype(np.float32) for name, w in weights.items()}

    def fn(weights: Any, tangents: Any, x: Any) -> Any:
        return jax.jvp(jax.grad(lambda w: objective(apply(w, x))), (weights,), (tangents,))[1]

    args = [weights, tangents, *sample(model)]
    check(fn, [weights, tangents, *model.inputs], args)
