"""The architectures in plain JAX: functions of a dictionary of parameters."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.frameworks.model import (
    CACHE,
    EXPERTS,
    FEATURES,
    HEADS,
    IMAGE,
    LAYERS,
    SEQUENCE,
    TOKENS,
    TOP_K,
    VOCAB,
    WIDTH,
    B,
    Model,
    features,
    floats,
    ids,
    image,
    paths,
    sequence,
    tokens,
)

Params = dict[str, Any]
HEAD = WIDTH // HEADS


class Init:
    """Draws parameters one after another."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def array(self, *shape: int, scale: float = 0.1, shift: float = 0.0) -> jax.Array:
        return jnp.asarray(self.rng.normal(size=shape) * scale + shift, jnp.float32)

    def dense(self, n_in: int, n_out: int) -> Params:
        return {"w": self.array(n_in, n_out, scale=n_in**-0.5), "b": self.array(n_out)}

    def conv(self, k: int, n_in: int, n_out: int) -> Params:
        return {"w": self.array(k, k, n_in, n_out, scale=(k * k * n_in) ** -0.5), "b": self.array(n_out)}

    def norm(self, n: int) -> Params:
        return {"scale": self.array(n, shift=1.0), "bias": self.array(n)}

    def block(self) -> Params:
        return {
            "norm1": self.norm(WIDTH),
            "qkv": self.dense(WIDTH, 3 * WIDTH),
            "out": self.dense(WIDTH, WIDTH),
            "norm2": self.norm(WIDTH),
            "up": self.dense(WIDTH, 2 * WIDTH),
            "down": self.dense(2 * WIDTH, WIDTH),
        }


def dense(p: Params, x: jax.Array) -> jax.Array:
    return x @ p["w"] + p["b"]


def layer_norm(p: Params, x: jax.Array) -> jax.Array:
    mean = x.mean(-1, keepdims=True)
    var = jnp.square(x - mean).mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(var + 1e-6) * p["scale"] + p["bias"]


def conv(p: Params, x: jax.Array, stride: int = 1, groups: int = 1) -> jax.Array:
    y = lax.conv_general_dilated(
        x,
        p["w"],
        (stride, stride),
        "SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=groups,
    )
    return y + p["b"]


def conv_up(p: Params, x: jax.Array) -> jax.Array:
    y = lax.conv_transpose(x, p["w"], (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return y + p["b"]


def group_norm(p: Params, x: jax.Array, groups: int) -> jax.Array:
    n, h, w, c = x.shape
    g = x.reshape(n, h, w, groups, c // groups)
    mean = g.mean((1, 2, 4), keepdims=True)
    var = g.var((1, 2, 4), keepdims=True)
    return ((g - mean) / jnp.sqrt(var + 1e-5)).reshape(x.shape) * p["scale"] + p["bias"]


def max_pool(x: jax.Array) -> jax.Array:
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def avg_pool(x: jax.Array) -> jax.Array:
    return lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") / 4


def mlp() -> Model:
    init = Init(1)
    params = {
        "dense1": init.dense(WIDTH, 32),
        "bn": {**init.norm(32), "mean": init.array(32), "var": init.array(32) ** 2 + 0.5},
        "dense2": init.dense(32, 10),
    }

    @jax.jit
    def apply(params: Params, x: jax.Array, key: jax.Array | None = None) -> jax.Array:
        bn = params["bn"]
        x = dense(params["dense1"], x)
        x = (x - bn["mean"]) / jnp.sqrt(bn["var"] + 1e-5) * bn["scale"] + bn["bias"]
        x = jax.nn.relu(x)
        if key is not None:
            x = jnp.where(jax.random.bernoulli(key, 0.5, x.shape), x / 0.5, 0)
        return dense(params["dense2"], x)

    return Model(partial(apply, params), FEATURES, features, paths(params), folded=r"bn\..*|dense1\.b")


def cnn() -> Model:
    init = Init(2)
    params = {
        "conv": init.conv(3, 3, 8),
        "strided": init.conv(3, 8, 8),
        "depthwise": init.conv(3, 1, 8),
        "norm": init.norm(8),
        "up": init.conv(4, 8, 4),
        "head": init.dense(4, 10),
    }

    def apply(x: jax.Array) -> jax.Array:
        x = max_pool(jax.nn.relu(conv(params["conv"], x)))
        x = jax.nn.relu(conv(params["strided"], x, stride=2))
        x = jax.nn.silu(group_norm(params["norm"], conv(params["depthwise"], x, groups=8), 4))
        x = avg_pool(jax.nn.relu(conv_up(params["up"], x)))
        return dense(params["head"], x.mean((1, 2)))

    return Model(apply, IMAGE, image, paths(params))


def attention(p: Params, x: jax.Array, causal: bool) -> jax.Array:
    batch, time, _ = x.shape
    q, k, v = (h.reshape(batch, time, HEADS, HEAD) for h in jnp.split(dense(p["qkv"], x), 3, -1))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / jnp.sqrt(HEAD)
    if causal:
        scores = jnp.where(jnp.tril(jnp.ones((time, time), bool)), scores, -jnp.inf)
    y = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, -1), v)
    return dense(p["out"], y.reshape(batch, time, WIDTH))


def block(p: Params, x: jax.Array, causal: bool) -> jax.Array:
    x = x + attention(p, layer_norm(p["norm1"], x), causal)
    return x + dense(p["down"], jax.nn.gelu(dense(p["up"], layer_norm(p["norm2"], x))))


def encoder() -> Model:
    init = Init(3)
    params = {"blocks": [init.block() for _ in range(LAYERS)], "norm": init.norm(WIDTH)}

    def apply(x: jax.Array) -> jax.Array:
        for p in params["blocks"]:
            x = block(p, x, causal=False)
        return layer_norm(params["norm"], x)

    return Model(apply, SEQUENCE, sequence, paths(params), timed=True)


def decoder() -> Model:
    init = Init(4)
    params = {
        "embed": init.array(VOCAB, WIDTH, scale=1.0),
        "pos": init.array(CACHE, WIDTH),
        "blocks": [init.block() for _ in range(LAYERS)],
        "norm": init.norm(WIDTH),
    }

    def apply(params: Params, tokens: jax.Array) -> jax.Array:
        x = params["embed"][tokens] + params["pos"][jnp.arange(tokens.shape[1])]
        for p in params["blocks"]:
            x = block(p, x, causal=True)
        return layer_norm(params["norm"], x) @ params["embed"].T  # the table is tied to the output product

    return Model(partial(apply, params), TOKENS, tokens, paths(params), timed=True)


def decode_step() -> Model:
    init = Init(5)
    params = {
        "embed": init.array(VOCAB, WIDTH, scale=1.0),
        "block": init.block(),
        "head": init.dense(WIDTH, VOCAB),
    }

    def apply(
        token: jax.Array, cache: dict[str, jax.Array], index: jax.Array
    ) -> tuple[jax.Array, dict[str, jax.Array]]:
        p = params["block"]
        x = params["embed"][token][:, None]
        batch = token.shape[0]
        q, k, v = (
            h.reshape(batch, 1, HEADS, HEAD)
            for h in jnp.split(dense(p["qkv"], layer_norm(p["norm1"], x)), 3, -1)
        )
        keys = lax.dynamic_update_slice_in_dim(cache["k"], k, index, axis=1)
        values = lax.dynamic_update_slice_in_dim(cache["v"], v, index, axis=1)
        y = jax.nn.dot_product_attention(q, keys, values, mask=(jnp.arange(CACHE) <= index)[None, None, None])
        x = x + dense(p["out"], y.reshape(batch, 1, WIDTH))
        x = x + dense(p["down"], jax.nn.gelu(dense(p["up"], layer_norm(p["norm2"], x)), approximate=False))
        return dense(params["head"], x[:, 0]), {"k": keys, "v": values}

    cache = jax.ShapeDtypeStruct((B, CACHE, HEADS, HEAD), jnp.float32)
    spec = (
        jax.ShapeDtypeStruct((B,), jnp.int32),
        {"k": cache, "v": cache},
        jax.ShapeDtypeStruct((), jnp.int32),
    )

    def make(batch: int, time: int) -> tuple[Any, ...]:
        shape = (batch, CACHE, HEADS, HEAD)
        return ids(batch), {"k": floats(*shape), "v": floats(*shape)}, np.int32(2 * batch)

    return Model(apply, spec, make, paths(params))


def lstm() -> Model:
    init = Init(6)
    params = {
        "ih": init.array(WIDTH, 4 * WIDTH, scale=0.25),
        "hh": init.array(WIDTH, 4 * WIDTH, scale=0.25),
        "b": init.array(4 * WIDTH),
    }

    def apply(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        def step(carry: tuple[jax.Array, jax.Array], xt: jax.Array) -> Any:
            h, c = carry
            i, f, g, o = jnp.split(xt @ params["ih"] + h @ params["hh"] + params["b"], 4, -1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        zero = jnp.zeros((x.shape[0], WIDTH))
        (h, _), ys = lax.scan(step, (zero, zero), x.swapaxes(0, 1))
        return ys.swapaxes(0, 1), h

    return Model(apply, SEQUENCE, sequence, paths(params), timed=True)


def gru() -> Model:
    init = Init(7)
    params = {
        "ih": init.dense(WIDTH, 3 * WIDTH),
        "hh": init.dense(WIDTH, 3 * WIDTH),
    }

    def apply(x: jax.Array) -> jax.Array:
        def step(h: jax.Array, xt: jax.Array) -> Any:
            ri, zi, ni = jnp.split(dense(params["ih"], xt), 3, -1)
            rh, zh, nh = jnp.split(dense(params["hh"], h), 3, -1)
            z = jax.nn.sigmoid(zi + zh)
            h = (1 - z) * jnp.tanh(ni + jax.nn.sigmoid(ri + rh) * nh) + z * h
            return h, h

        _, ys = lax.scan(step, jnp.zeros((x.shape[0], WIDTH)), x.swapaxes(0, 1))
        return ys.swapaxes(0, 1)

    return Model(apply, SEQUENCE, sequence, paths(params), timed=True)


def embedding() -> Model:
    init = Init(8)
    params = {"table": init.array(VOCAB, WIDTH, scale=1.0), "segment": init.array(2, WIDTH)}

    def apply(tokens: jax.Array) -> jax.Array:
        words = jnp.take(params["table"], tokens, axis=0)
        x = words + params["segment"][(tokens % 2 == 0).astype(jnp.int32)]
        keep = (tokens != 0)[..., None]
        return jnp.where(keep, x, 0).sum(1) / jnp.maximum(keep.sum(1), 1)

    return Model(apply, TOKENS, tokens, paths(params), timed=True)


def unet() -> Model:
    init = Init(9)
    params = {
        "enter": init.conv(3, 3, 8),
        "down": init.conv(3, 8, 16),
        "middle": init.conv(3, 16, 16),
        "up": init.conv(2, 16, 8),
        "leave": init.conv(3, 16, 3),
    }

    def apply(x: jax.Array) -> jax.Array:
        skip = jax.nn.relu(conv(params["enter"], x))
        y = jax.nn.relu(conv(params["down"], skip, stride=2))
        y = jax.nn.relu(conv(params["middle"], y))
        y = jax.nn.relu(conv_up(params["up"], y))
        return conv(params["leave"], jnp.concatenate([skip, y], -1))

    return Model(apply, IMAGE, image, paths(params))


def moe() -> Model:
    init = Init(10)
    params = {
        "gate": init.array(WIDTH, EXPERTS, scale=0.5),
        "up": init.array(EXPERTS, WIDTH, 32, scale=0.25),
        "down": init.array(EXPERTS, 32, WIDTH, scale=0.2),
    }

    def apply(x: jax.Array) -> jax.Array:
        logits, chosen = lax.top_k(x @ params["gate"], TOP_K)
        gates = (jax.nn.one_hot(chosen, EXPERTS) * jax.nn.softmax(logits)[..., None]).sum(-2)
        h = jax.nn.gelu(jnp.einsum("btd,edf->btef", x, params["up"]))
        return jnp.einsum("btef,efd,bte->btd", h, params["down"], gates)

    return Model(apply, SEQUENCE, sequence, paths(params), timed=True)


MODELS: dict[str, Callable[[], Model]] = {
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
