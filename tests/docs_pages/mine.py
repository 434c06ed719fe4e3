"""The reader's own model."""

import jax
import jax.numpy as jnp

_KERNEL = jax.random.normal(jax.random.key(0), (8, 3))


def model(x: jax.Array) -> jax.Array:
    """(B, 8) to (B, 3)."""
    return jnp.tanh(x) @ _KERNEL
