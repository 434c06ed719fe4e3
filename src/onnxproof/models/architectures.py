"""The ten architectures, each drawn from a seed in a dtype.

An argument ``key`` of one of them is for training; without it the network infers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from onnxproof.models.layers import (
    avg_pool,
    batch_norm,
    block,
    conv,
    conv_up,
    dense,
    group_norm,
    layer_norm,
    max_pool,
    split_heads,
    weighed,
)
from onnxproof.models.network import (
    CACHE,
    EXPERTS,
    HEAD,
    HEADS,
    LAYERS,
    TOP_K,
    VOCAB,
    WIDTH,
    B,
    Init,
    Network,
    Params,
    Shapes,
    T,
    floats,
    ids,
    of_floats,
    of_tokens,
)


def mlp(seed: int, dtype: Any) -> Network:
    """Two dense layers with batch normalization and dropout between: ``[B, 16]`` to ``[B, 10]``."""
    init = Init(seed, dtype)
    params = {
        "dense1": init.dense(WIDTH, 32),
        "bn": {**init.norm(32), "mean": init.array(32), "var": init.array(32, scale=0.5, shift=1.0)},
        "dense2": init.dense(32, 10),
    }

    def apply(params: Params, x: jax.Array, key: jax.Array | None = None) -> jax.Array:
        x = jax.nn.relu(batch_norm(params["bn"], dense(params["dense1"], x)))
        if key is not None:
            x = jnp.where(jax.random.bernoulli(key, 0.5, x.shape), x / 0.5, 0)
        return dense(params["dense2"], x)

    return of_floats(apply, params, (B, WIDTH), dtype)


def cnn(seed: int, dtype: Any) -> Network:
    """Plain, strided, depthwise and transposed convolutions with pooling: ``[B, 12, 12, 3]`` to ``[B, 10]``."""
    init = Init(seed, dtype)
    params = {
        "conv": init.conv(3, 3, 8),
        "strided": init.conv(3, 8, 8),
        "depthwise": init.conv(3, 1, 8),
        "norm": init.norm(8),
        "up": init.conv(4, 8, 4),
        "head": init.dense(4, 10),
    }

    def apply(params: Params, x: jax.Array) -> jax.Array:
        x = max_pool(jax.nn.relu(conv(params["conv"], x)))
        x = jax.nn.relu(conv(params["strided"], x, stride=2))
        x = jax.nn.silu(group_norm(params["norm"], conv(params["depthwise"], x, groups=8), 4))
        x = avg_pool(jax.nn.relu(conv_up(params["up"], x)))
        return dense(params["head"], x.mean((1, 2)))

    return of_floats(apply, params, (B, 12, 12, 3), dtype)


def encoder(seed: int, dtype: Any) -> Network:
    """A transformer's encoder: ``[B, T, 16]`` to the same."""
    init = Init(seed, dtype)
    params = {"blocks": [init.block() for _ in range(LAYERS)], "norm": init.norm(WIDTH)}

    def apply(params: Params, x: jax.Array) -> jax.Array:
        for p in params["blocks"]:
            x = block(p, x, causal=False)
        return layer_norm(params["norm"], x)

    return of_floats(apply, params, (B, T, WIDTH), dtype)


def decoder(seed: int, dtype: Any) -> Network:
    """A causal decoder whose embedding is its last product too: ids ``[B, T]`` to logits ``[B, T, 29]``."""
    init = Init(seed, dtype)
    params = {
        "embed": init.array(VOCAB, WIDTH, scale=0.4),
        "pos": init.array(CACHE, WIDTH),
        "blocks": [init.block() for _ in range(LAYERS)],
        "norm": init.norm(WIDTH),
    }

    def apply(params: Params, tokens: jax.Array) -> jax.Array:
        x = params["embed"][tokens] + params["pos"][jnp.arange(tokens.shape[1])]
        for p in params["blocks"]:
            x = block(p, x, causal=True)
        logits: jax.Array = layer_norm(params["norm"], x) @ params["embed"].T
        return logits

    return of_tokens(apply, params)


def decode_step(seed: int, dtype: Any) -> Network:
    """One step of a decoder: ids ``[B]``, the cache of keys and values ``[B, 16, 2, 8]`` each, and the position
    to logits ``[B, 29]`` and the cache with one entry more."""
    init = Init(seed, dtype)
    params = {
        "embed": init.array(VOCAB, WIDTH, scale=0.4),
        "block": init.block(),
        "head": init.dense(WIDTH, VOCAB),
    }

    def apply(
        params: Params, token: jax.Array, cache: dict[str, jax.Array], index: jax.Array
    ) -> tuple[jax.Array, dict[str, jax.Array]]:
        p = params["block"]
        x = params["embed"][token][:, None]
        q, k, v = split_heads(p, layer_norm(p["norm1"], x))
        keys = lax.dynamic_update_slice_in_dim(cache["k"], k, index, axis=1)
        values = lax.dynamic_update_slice_in_dim(cache["v"], v, index, axis=1)
        y = weighed(q, keys, values, jnp.arange(CACHE) <= index)
        x = x + dense(p["out"], y.reshape(x.shape))
        x = x + dense(p["down"], jax.nn.gelu(dense(p["up"], layer_norm(p["norm2"], x)), approximate=False))
        return dense(params["head"], x[:, 0]), {"k": keys, "v": values}

    def draw(shapes: Shapes, rng: np.random.Generator) -> tuple[Any, ...]:
        token, k, v, index = shapes
        cache = {"k": floats(rng, k, dtype), "v": floats(rng, v, dtype)}
        return ids(rng, token), cache, ids(rng, index, CACHE)

    cache = jax.ShapeDtypeStruct((B, CACHE, HEADS, HEAD), np.dtype(dtype))
    whole = np.dtype(np.int32)
    inputs = (jax.ShapeDtypeStruct((B,), whole), {"k": cache, "v": cache}, jax.ShapeDtypeStruct((), whole))
    return Network(apply, params, inputs, draw)


def lstm(seed: int, dtype: Any) -> Network:
    """``[B, T, 16]`` to the hidden states of every time, and the last."""
    init = Init(seed, dtype)
    params = {
        "ih": init.array(WIDTH, 4 * WIDTH, scale=0.4),
        "hh": init.array(WIDTH, 4 * WIDTH, scale=0.4),
        "b": init.array(4 * WIDTH),
    }

    def apply(params: Params, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        def step(carry: tuple[jax.Array, jax.Array], xt: jax.Array) -> Any:
            h, c = carry
            i, f, g, o = jnp.split(xt @ params["ih"] + h @ params["hh"] + params["b"], 4, -1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        zero = jnp.zeros((x.shape[0], WIDTH), x.dtype)
        (h, _), ys = lax.scan(step, (zero, zero), x.swapaxes(0, 1))
        return ys.swapaxes(0, 1), h

    return of_floats(apply, params, (B, T, WIDTH), dtype)


def gru(seed: int, dtype: Any) -> Network:
    """``[B, T, 16]`` to the hidden states of every time."""
    init = Init(seed, dtype)
    params = {"ih": init.dense(WIDTH, 3 * WIDTH), "hh": init.dense(WIDTH, 3 * WIDTH)}

    def apply(params: Params, x: jax.Array) -> jax.Array:
        def step(h: jax.Array, xt: jax.Array) -> Any:
            ri, zi, ni = jnp.split(dense(params["ih"], xt), 3, -1)
            rh, zh, nh = jnp.split(dense(params["hh"], h), 3, -1)
            z = jax.nn.sigmoid(zi + zh)
            h = (1 - z) * jnp.tanh(ni + jax.nn.sigmoid(ri + rh) * nh) + z * h
            return h, h

        _, ys = lax.scan(step, jnp.zeros((x.shape[0], WIDTH), x.dtype), x.swapaxes(0, 1))
        hidden: jax.Array = ys.swapaxes(0, 1)
        return hidden

    return of_floats(apply, params, (B, T, WIDTH), dtype)


def embedding(seed: int, dtype: Any) -> Network:
    """The mean of the embeddings of all ids but 0: ``[B, T]`` to ``[B, 16]``."""
    init = Init(seed, dtype)
    params = {"table": init.array(VOCAB, WIDTH, scale=3**0.5), "segment": init.array(2, WIDTH)}

    def apply(params: Params, tokens: jax.Array) -> jax.Array:
        words = jnp.take(params["table"], tokens, axis=0)
        x = words + params["segment"][(tokens % 2 == 0).astype(jnp.int32)]
        keep = (tokens != 0)[..., None]
        mean: jax.Array = jnp.where(keep, x, 0).sum(1) / jnp.maximum(keep.sum(1), 1)
        return mean

    return of_tokens(apply, params)


def unet(seed: int, dtype: Any) -> Network:
    """One level of a U-Net: ``[B, 12, 12, 3]`` to the same."""
    init = Init(seed, dtype)
    params = {
        "enter": init.conv(3, 3, 8),
        "down": init.conv(3, 8, 16),
        "middle": init.conv(3, 16, 16),
        "up": init.conv(2, 16, 8),
        "leave": init.conv(3, 16, 3),
    }

    def apply(params: Params, x: jax.Array) -> jax.Array:
        skip = jax.nn.relu(conv(params["enter"], x))
        y = jax.nn.relu(conv(params["down"], skip, stride=2))
        y = jax.nn.relu(conv(params["middle"], y))
        y = jax.nn.relu(conv_up(params["up"], y))
        return conv(params["leave"], jnp.concatenate([skip, y], -1))

    return of_floats(apply, params, (B, 12, 12, 3), dtype)


def moe(seed: int, dtype: Any) -> Network:
    """A mixture of the two best of four experts: ``[B, T, 16]`` to the same.

    Which experts are best is found in float32 at least: in a narrower dtype two of them would often be equal.
    """
    init = Init(seed, dtype)
    params = {
        "gate": init.array(WIDTH, EXPERTS, scale=0.9),
        "up": init.array(EXPERTS, WIDTH, 32, scale=0.4),
        "down": init.array(EXPERTS, 32, WIDTH, scale=0.35),
    }

    def apply(params: Params, x: jax.Array) -> jax.Array:
        wide = jnp.promote_types(x.dtype, jnp.float32)
        logits, chosen = lax.top_k(x.astype(wide) @ params["gate"].astype(wide), TOP_K)
        gates = (jax.nn.one_hot(chosen, EXPERTS, dtype=wide) * jax.nn.softmax(logits)[..., None]).sum(-2)
        h = jax.nn.gelu(jnp.einsum("btd,edf->btef", x, params["up"]))
        return jnp.einsum("btef,efd,bte->btd", h, params["down"], gates.astype(x.dtype))

    return of_floats(apply, params, (B, T, WIDTH), dtype)


ARCHITECTURES: dict[str, Callable[[int, Any], Network]] = {
    "mlp": mlp,
    "cnn": cnn,
    "encoder": encoder,
    "decoder": decoder,
    "decode_step": decode_step,
    "lstm": lstm,
    "gru": gru,
    "embedding": embedding,
    "unet": unet,
    "moe": moe,
}
