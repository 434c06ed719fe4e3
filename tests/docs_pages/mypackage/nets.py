"""A small classifier of images, and a policy."""

import jax
import jax.numpy as jnp

_KERNEL = jax.random.normal(jax.random.key(0), (3, 3, 3, 8)) / 5
_HEAD = jax.random.normal(jax.random.key(1), (8, 10)) / 3


def classifier(image: jax.Array) -> jax.Array:
    """(B, 32, 32, 3) to probabilities (B, 10)."""
    x = jax.lax.conv_general_dilated(
        image, _KERNEL, (4, 4), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    return jax.nn.softmax(jax.nn.relu(x).mean((1, 2)) @ _HEAD)


def policy(obs: jax.Array) -> jax.Array:
    """(B, 8) to actions (B, 2) in [-1, 1]."""
    return jnp.tanh(obs[:, :2] - obs[:, 2:4])
