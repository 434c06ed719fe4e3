"""Policies as they are deployed: a continuous, a discrete and a recurrent one, each with its contract.

Run it with ``python -m examples.policies``. It exports each, checks its contract in ONNX Runtime, and prints what was
found. What only training needs (the standard deviation, the value, the key that actions are drawn with) stays out of
the file because the callable that is exported leaves it out.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx

from onnxproof import to_onnx
from onnxproof.contracts import Bounds, Continuous, Contract, Discrete, Monotone, SumsToOne, check, policy

OBS, HIDDEN, LIMIT = 8, 64, 2.0
LOW, HIGH = (-LIMIT, -LIMIT, 0.0), (LIMIT, LIMIT, LIMIT)  # of three motors, the last of which only pushes

Tree = Any


def weights(seed: int, *sizes: int) -> list[Tree]:
    """Layers of a perceptron: kernels [in, out] and biases [out], float32."""
    rng = np.random.default_rng(seed)
    return [
        {
            "kernel": rng.normal(size=(n, m), scale=n**-0.5).astype(np.float32),
            "bias": np.zeros(m, np.float32),
        }
        for n, m in pairwise(sizes)
    ]


MEAN, VAR = np.linspace(-1, 1, OBS, dtype=np.float32), np.full(OBS, 4.0, np.float32)
TORSO, HEAD = weights(0, OBS, HIDDEN, HIDDEN), weights(1, HIDDEN, 3)
GATES = weights(2, HIDDEN + HIDDEN, HIDDEN)


def features(obs: jax.Array) -> jax.Array:
    """Observations (B, 8), as the environment gives them, to features (B, 64)."""
    x = jnp.clip((obs - MEAN) / jnp.sqrt(VAR), -10, 10)  # the running statistics of training, now constants
    for layer in TORSO:
        x = jnp.tanh(x @ layer["kernel"] + layer["bias"])
    return x


def head(x: jax.Array) -> jax.Array:
    return x @ HEAD[0]["kernel"] + HEAD[0]["bias"]


def continuous(obs: jax.Array) -> jax.Array:
    """The mean of a tanh-Gaussian policy, scaled to the motors: (B, 8) to (B, 3)."""
    low, high = jnp.array(LOW), jnp.array(HIGH)
    return low + (high - low) * (jnp.tanh(head(features(obs))) + 1) / 2


def discrete(obs: jax.Array) -> jax.Array:
    """The likeliest of three actions: (B, 8) to (B,)."""
    return jnp.argmax(head(features(obs)), -1).astype(jnp.int32)


def recurrent(obs: jax.Array, carry: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Observations (B, 8) and the state (B, 64) to actions (B, 3) in [-1, 1] and the next state."""
    joined = jnp.concatenate([features(obs), carry], -1)
    carry = 0.9 * carry + 0.1 * jnp.tanh(joined @ GATES[0]["kernel"] + GATES[0]["bias"])
    return jnp.tanh(head(carry)), carry


def value(obs: jax.Array) -> jax.Array:
    """Probabilities of three outcomes, of which the first rises with the first observation: no policy at all."""
    return jax.nn.softmax(jnp.stack([obs[:, 0], 0 * obs[:, 1], jnp.minimum(obs[:, 2], 0)], -1))


POLICIES: dict[str, tuple[Any, list[Any], list[str], Contract]] = {
    "continuous": (
        continuous,
        [("B", OBS)],
        ["action"],
        policy(Continuous(LOW, HIGH), obs_shape=(OBS,), obs_dtype="float32"),
    ),
    "discrete": (discrete, [("B", OBS)], ["action"], policy(Discrete(3), obs_shape=(OBS,))),
    "recurrent": (
        recurrent,
        [("B", OBS), ("B", HIDDEN)],
        ["action", "next_carry"],
        policy(Continuous(size=3), obs_shape=(OBS,), state={"carry": "next_carry"}),
    ),
    "outcome": (
        value,
        [("B", OBS)],
        ["probability"],
        Contract(
            "outcome",
            (
                SumsToOne("probability"),
                Bounds("probability", 0, 1),
                Monotone("probability", "obs", component=0, output_component=0),
            ),
        ),
    ),
}


def export(name: str) -> onnx.ModelProto:
    """The model of one policy."""
    function, inputs, outputs, _ = POLICIES[name]
    return to_onnx(function, inputs, output_names=outputs, model_name=name)


def main() -> None:
    for name, (*_, contract) in POLICIES.items():
        print(check(export(name), contract).require())


if __name__ == "__main__":
    main()
