"""The function of the first example."""

import jax
import jax.numpy as jnp


def scores(query: jax.Array, keys: jax.Array) -> jax.Array:
    """(B, 64) and (K, 64) to probabilities (B, K)."""
    return jax.nn.softmax(query @ keys.T / jnp.sqrt(64.0))
