"""Transformers: an encoder, decoders with and without a cache, a mixture of experts."""

from __future__ import annotations

from typing import Any

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from flax import nnx
from jax import lax

from benchmarks.zoo_models.entry import Network, drawn, floats, haiku, ids, linen, nnx_weights, paths
from benchmarks.zoo_models.entry import nnx as network

VOCAB, LENGTH, CACHE = 1000, 64, 256


class BertBlock(nn.Module):
    """Post-normalization, as in the original."""

    heads: int

    @nn.compact
    def __call__(self, x: jax.Array, mask: jax.Array) -> jax.Array:
        width = x.shape[-1]
        h = nn.MultiHeadDotProductAttention(self.heads, name="attention")(x, mask=mask)
        x = nn.LayerNorm(epsilon=1e-12, name="norm1")(x + h)
        h = nn.gelu(nn.Dense(4 * width, name="up")(x), approximate=False)
        return nn.LayerNorm(epsilon=1e-12, name="norm2")(x + nn.Dense(width, name="down")(h))


class Bert(nn.Module):
    """Tokens and their padding mask to hidden states and a pooled vector."""

    width: int = 128
    heads: int = 4
    depth: int = 3

    @nn.compact
    def __call__(self, tokens: jax.Array, mask: jax.Array) -> tuple[jax.Array, jax.Array]:
        position = self.param("position", nn.initializers.normal(0.02), (LENGTH, self.width))
        x = nn.Embed(VOCAB, self.width, name="embed")(tokens) + position
        x = nn.LayerNorm(epsilon=1e-12, name="norm")(x)
        attended = (mask != 0)[:, None, None, :]
        for i in range(self.depth):
            x = BertBlock(self.heads, name=f"block{i}")(x, attended)
        return x, nn.tanh(nn.Dense(self.width, name="pooler")(x[:, 0]))


def bert() -> Network:
    mask = (np.arange(LENGTH) < np.array([[LENGTH], [40]])).astype(np.int32)
    return linen(Bert(), ids(2, LENGTH, below=VOCAB), mask)


class GptBlock(nnx.Module):
    def __init__(self, width: int, heads: int, decode: bool, *, rngs: nnx.Rngs) -> None:
        self.norm1 = nnx.LayerNorm(width, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(num_heads=heads, in_features=width, decode=decode, rngs=rngs)
        self.norm2 = nnx.LayerNorm(width, rngs=rngs)
        self.up = nnx.Linear(width, 4 * width, rngs=rngs)
        self.down = nnx.Linear(4 * width, width, rngs=rngs)

    def __call__(self, x: jax.Array, mask: jax.Array | None = None) -> jax.Array:
        x = x + self.attention(self.norm1(x), mask=mask)
        return x + self.down(nnx.gelu(self.up(self.norm2(x))))


class Gpt(nnx.Module):
    """A decoder with learned positions and tied embeddings; ``decode`` keeps keys and values."""

    def __init__(self, rngs: nnx.Rngs, *, decode: bool = False, width: int = 192, heads: int = 6) -> None:
        self.embed = nnx.Embed(VOCAB, width, rngs=rngs)
        self.position = nnx.Embed(CACHE, width, rngs=rngs)
        self.blocks = nnx.List([GptBlock(width, heads, decode, rngs=rngs) for _ in range(3)])
        self.norm = nnx.LayerNorm(width, rngs=rngs)

    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = self.embed(tokens) + self.position(jnp.arange(tokens.shape[1]))
        mask = nnx.make_causal_mask(tokens)
        for block in self.blocks:
            x = block(x, mask)
        return self.embed.attend(self.norm(x))

    def step(self, token: jax.Array, place: jax.Array) -> jax.Array:
        """Logits after one more token [B] at a place, through the cache."""
        x = self.embed(token)[:, None] + self.position(place)
        for block in self.blocks:
            x = block(x)
        return self.embed.attend(self.norm(x))[:, 0]


def gpt_prefill() -> Network:
    return network(Gpt, ids(1, LENGTH, below=VOCAB))


def gpt_decode() -> Network:
    """One step of NNX's own cache: the arguments are the token, its place, and each layer's keys and values."""
    module = nnx.eval_shape(lambda: Gpt(nnx.Rngs(0), decode=True))
    module.eval()
    graphdef, state = nnx.split(module)
    module = nnx.merge(graphdef, drawn(state))
    for block in module.blocks:
        block.attention.init_cache((1, CACHE, 192))
    graphdef, params, cache = nnx.split(module, nnx.Param, nnx.Cache)
    tree = jax.tree.structure(cache)
    leaves = jax.tree.leaves(cache)
    places = [i for i, leaf in enumerate(leaves) if leaf.ndim == 0]

    def apply(token: jax.Array, place: jax.Array, *kept: jax.Array) -> tuple[jax.Array, ...]:
        full: list[Any] = list(kept)
        for i in places:
            full.insert(i, place)
        module = nnx.merge(graphdef, params, jax.tree.unflatten(tree, full))
        logits = module.step(token, place)
        written = jax.tree.leaves(nnx.state(module, nnx.Cache))
        return logits, *(leaf for leaf in written if leaf.ndim)

    kept = [floats(*leaf.shape, seed=i) for i, leaf in enumerate(leaves) if leaf.ndim]
    return Network(apply, (ids(1, below=VOCAB), np.array(100, np.int32), *kept), nnx_weights(module))


# -- Llama, in plain JAX -----------------------------------------------------------------------------

WIDTH, HEADS, GROUPS, HEAD, HIDDEN, DEPTH = 256, 8, 2, 32, 688, 2


def llama_params() -> dict[str, Any]:
    def shape(*dims: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(dims, jnp.float32)

    layer = {
        "attention_norm": {"scale": shape(WIDTH)},
        "wq": shape(WIDTH, HEADS * HEAD),
        "wk": shape(WIDTH, GROUPS * HEAD),
        "wv": shape(WIDTH, GROUPS * HEAD),
        "wo": shape(HEADS * HEAD, WIDTH),
        "mlp_norm": {"scale": shape(WIDTH)},
        "gate": shape(WIDTH, HIDDEN),
        "up": shape(WIDTH, HIDDEN),
        "down": shape(HIDDEN, WIDTH),
    }
    shapes = {
        "embed": shape(VOCAB, WIDTH),
        "layers": [layer] * DEPTH,
        "norm": {"scale": shape(WIDTH)},
        "head": shape(WIDTH, VOCAB),
    }
    params: dict[str, Any] = drawn(shapes)
    return params


def rms_norm(x: jax.Array, scale: jax.Array, eps: float = 1e-5) -> jax.Array:
    return x * lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + eps) * scale


def rotate(x: jax.Array, places: jax.Array) -> jax.Array:
    """Rotary embedding of [B, T, heads, HEAD], the halves rotated against each other."""
    half = HEAD // 2
    frequencies = 10000.0 ** (-jnp.arange(half, dtype=jnp.float32) / half)
    angles = places[..., None].astype(jnp.float32) * frequencies
    cos, sin = jnp.cos(angles)[..., None, :], jnp.sin(angles)[..., None, :]
    a, b = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def project(layer: dict[str, Any], x: jax.Array, places: jax.Array) -> tuple[jax.Array, ...]:
    batch, time, _ = x.shape
    q = rotate((x @ layer["wq"]).reshape(batch, time, HEADS, HEAD), places)
    k = rotate((x @ layer["wk"]).reshape(batch, time, GROUPS, HEAD), places)
    return q, k, (x @ layer["wv"]).reshape(batch, time, GROUPS, HEAD)


def feed_forward(layer: dict[str, Any], x: jax.Array) -> jax.Array:
    h = rms_norm(x, layer["mlp_norm"]["scale"])
    return x + (jax.nn.silu(h @ layer["gate"]) * (h @ layer["up"])) @ layer["down"]


def llama_prefill() -> Network:
    params = llama_params()

    def apply(tokens: jax.Array) -> jax.Array:
        x = params["embed"][tokens]
        places = jnp.arange(tokens.shape[1])[None]
        for layer in params["layers"]:
            q, k, v = project(layer, rms_norm(x, layer["attention_norm"]["scale"]), places)
            y = jax.nn.dot_product_attention(q, k, v, is_causal=True)
            x = feed_forward(layer, x + y.reshape(*x.shape[:2], -1) @ layer["wo"])
        return rms_norm(x, params["norm"]["scale"]) @ params["head"]

    return Network(apply, (ids(1, LENGTH, below=VOCAB),), paths(params))


def llama_decode() -> Network:
    params = llama_params()

    def apply(token: jax.Array, place: jax.Array, *cache: jax.Array) -> tuple[jax.Array, ...]:
        x = params["embed"][token][:, None]
        places = jnp.broadcast_to(place, (x.shape[0], 1))
        visible = (jnp.arange(CACHE) <= place)[None, None, None, :]
        written = []
        for i, layer in enumerate(params["layers"]):
            q, k, v = project(layer, rms_norm(x, layer["attention_norm"]["scale"]), places)
            keys = lax.dynamic_update_slice_in_dim(cache[2 * i], k, place, axis=1)
            values = lax.dynamic_update_slice_in_dim(cache[2 * i + 1], v, place, axis=1)
            y = jax.nn.dot_product_attention(q, keys, values, mask=visible)
            x = feed_forward(layer, x + y.reshape(*x.shape[:2], -1) @ layer["wo"])
            written += [keys, values]
        return (rms_norm(x, params["norm"]["scale"]) @ params["head"])[:, 0], *written

    cache = [floats(1, CACHE, GROUPS, HEAD, seed=i) for i in range(2 * DEPTH)]
    return Network(apply, (ids(1, below=VOCAB), np.array(100, np.int32), *cache), paths(params))


# -- A mixture of experts, in Haiku ------------------------------------------------------------------


def mixture(x: jax.Array) -> jax.Array:
    """A block whose feed-forward part sends each token to two of eight experts, all computed."""
    experts, hidden, width = 8, 256, x.shape[-1]
    h = hk.RMSNorm(-1, name="norm1")(x)
    x = x + hk.MultiHeadAttention(
        4, width // 4, model_size=width, w_init=hk.initializers.VarianceScaling(1.0), name="attention"
    )(h, h, h)
    h = hk.RMSNorm(-1, name="norm2")(x)
    chosen, index = lax.top_k(hk.Linear(experts, with_bias=False, name="router")(h), 2)
    gates = jnp.einsum("btk,btke->bte", jax.nn.softmax(chosen), jax.nn.one_hot(index, experts))
    init = hk.initializers.VarianceScaling(1.0)
    up = hk.get_parameter("up", (experts, width, hidden), init=init)
    down = hk.get_parameter("down", (experts, hidden, width), init=init)
    y = jnp.einsum("ebth,ehd->ebtd", jax.nn.silu(jnp.einsum("btd,edh->ebth", h, up)), down)
    x = x + jnp.einsum("ebtd,bte->btd", y, gates)
    return hk.Linear(VOCAB, name="head")(x)


def moe() -> Network:
    return haiku(mixture, floats(1, 32, 128))
