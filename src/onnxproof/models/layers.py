"""Layers as functions of their parameters. They compute in the dtype of what they are given."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from onnxproof.models.network import HEAD, HEADS, Params


def dense(p: Params, x: jax.Array) -> jax.Array:
    y: jax.Array = x @ p["w"] + p["b"]
    return y


def layer_norm(p: Params, x: jax.Array) -> jax.Array:
    mean = x.mean(-1, keepdims=True)
    var = jnp.square(x - mean).mean(-1, keepdims=True)
    y: jax.Array = (x - mean) * lax.rsqrt(var + 1e-6) * p["scale"] + p["bias"]
    return y


def batch_norm(p: Params, x: jax.Array) -> jax.Array:
    """Inference: with the statistics that training left."""
    y: jax.Array = (x - p["mean"]) / jnp.sqrt(p["var"] + 1e-5) * p["scale"] + p["bias"]
    return y


def group_norm(p: Params, x: jax.Array, groups: int) -> jax.Array:
    n, h, w, c = x.shape
    g = x.reshape(n, h, w, groups, c // groups)
    mean = g.mean((1, 2, 4), keepdims=True)
    var = g.var((1, 2, 4), keepdims=True)
    y: jax.Array = ((g - mean) / jnp.sqrt(var + 1e-5)).reshape(x.shape) * p["scale"] + p["bias"]
    return y


def conv(p: Params, x: jax.Array, stride: int = 1, groups: int = 1) -> jax.Array:
    """``[batch, height, width, channels]`` to the same with ``height / stride``."""
    y = lax.conv_general_dilated(
        x,
        p["w"],
        (stride, stride),
        "SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=groups,
    )
    out: jax.Array = y + p["b"]
    return out


def conv_up(p: Params, x: jax.Array) -> jax.Array:
    """``[batch, height, width, channels]`` to the same with twice the height and width."""
    y = lax.conv_transpose(x, p["w"], (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    out: jax.Array = y + p["b"]
    return out


def max_pool(x: jax.Array) -> jax.Array:
    y: jax.Array = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return y


def avg_pool(x: jax.Array) -> jax.Array:
    y: jax.Array = lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") / 4
    return y


def split_heads(p: Params, x: jax.Array) -> list[jax.Array]:
    """Queries, keys and values, each ``[batch, time, HEADS, HEAD]``."""
    batch, time, _ = x.shape
    return [h.reshape(batch, time, HEADS, HEAD) for h in jnp.split(dense(p["qkv"], x), 3, -1)]


def weighed(q: jax.Array, k: jax.Array, v: jax.Array, seen: jax.Array | None) -> jax.Array:
    """Values by how well their keys fit each query: ``[batch, queries, HEADS, HEAD]``.

    ``seen`` says which keys a query may see, None means all. JAX's own function would compute weights in float32.
    """
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / HEAD**0.5
    if seen is not None:
        scores = jnp.where(seen, scores, -jnp.inf)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, -1), v)


def attention(p: Params, x: jax.Array, causal: bool) -> jax.Array:
    time = x.shape[1]
    q, k, v = split_heads(p, x)
    y = weighed(q, k, v, jnp.tril(jnp.ones((time, time), bool)) if causal else None)
    return dense(p["out"], y.reshape(x.shape))


def block(p: Params, x: jax.Array, causal: bool) -> jax.Array:
    """A transformer's block, normalized before each part."""
    x = x + attention(p, layer_norm(p["norm1"], x), causal)
    return x + dense(p["down"], jax.nn.gelu(dense(p["up"], layer_norm(p["norm2"], x))))
