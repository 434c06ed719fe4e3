"""The architectures in Equinox: modules of one example, mapped over the batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from equinox import nn
from jax import lax

from tests.frameworks.model import (
    CACHE,
    EXPERTS,
    FEATURES,
    HEADS,
    IMAGE_NCHW,
    LAYERS,
    SEQUENCE,
    TOKENS,
    TOP_K,
    VOCAB,
    WIDTH,
    B,
    Model,
    drawn,
    features,
    floats,
    ids,
    image_nchw,
    paths,
    sequence,
    tokens,
)

HEAD = WIDTH // HEADS


class Mlp(eqx.Module):
    dense1: nn.Linear
    bn: nn.BatchNorm
    dropout: nn.Dropout
    dense2: nn.Linear

    def __init__(self, key: jax.Array) -> None:
        key1, key2 = jax.random.split(key)
        self.dense1 = nn.Linear(WIDTH, 32, key=key1)
        self.bn = nn.BatchNorm(32, axis_name="batch", mode="batch")
        self.dropout = nn.Dropout(0.5)
        self.dense2 = nn.Linear(32, 10, key=key2)

    def __call__(self, x: jax.Array, state: nn.State) -> tuple[jax.Array, nn.State]:
        x, state = self.bn(self.dense1(x), state)
        return self.dense2(self.dropout(jax.nn.relu(x))), state


class Cnn(eqx.Module):
    layers: nn.Sequential
    head: nn.Linear

    def __init__(self, key: jax.Array) -> None:
        keys = jax.random.split(key, 5)
        self.layers = nn.Sequential(
            [
                nn.Conv2d(3, 8, 3, padding=1, key=keys[0]),
                nn.Lambda(jax.nn.relu),
                nn.MaxPool2d(2, 2),
                nn.Conv2d(8, 8, 3, stride=2, padding="SAME", key=keys[1]),
                nn.Lambda(jax.nn.leaky_relu),
                nn.Conv2d(8, 8, 3, padding=1, groups=8, key=keys[2]),
                nn.GroupNorm(4, 8),
                nn.Lambda(jax.nn.silu),
                nn.ConvTranspose2d(8, 4, 4, stride=2, padding=1, key=keys[3]),
                nn.Lambda(jax.nn.relu),
                nn.AvgPool2d(2, 2),
            ]
        )
        self.head = nn.Linear(36, 10, key=keys[4])

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.head(jnp.ravel(self.layers(x)))


class Block(eqx.Module):
    norm1: nn.LayerNorm
    attention: nn.MultiheadAttention
    norm2: nn.LayerNorm
    mlp: nn.MLP
    dropout: nn.Dropout

    def __init__(self, key: jax.Array) -> None:
        key1, key2 = jax.random.split(key)
        self.norm1 = nn.LayerNorm(WIDTH)
        self.attention = nn.MultiheadAttention(HEADS, WIDTH, use_output_bias=True, dropout_p=0.1, key=key1)
        self.norm2 = nn.LayerNorm(WIDTH)
        self.mlp = nn.MLP(WIDTH, WIDTH, 2 * WIDTH, depth=1, activation=jax.nn.gelu, key=key2)
        self.dropout = nn.Dropout(0.1)

    def __call__(self, x: jax.Array, mask: jax.Array | None = None) -> jax.Array:
        h = jax.vmap(self.norm1)(x)
        x = x + self.dropout(self.attention(h, h, h, mask=mask))
        return x + self.dropout(jax.vmap(self.mlp)(jax.vmap(self.norm2)(x)))


class Encoder(eqx.Module):
    blocks: list[Block]
    norm: nn.LayerNorm

    def __init__(self, key: jax.Array) -> None:
        self.blocks = [Block(k) for k in jax.random.split(key, LAYERS)]
        self.norm = nn.LayerNorm(WIDTH)

    def __call__(self, x: jax.Array) -> jax.Array:
        for block in self.blocks:
            x = block(x)
        return jax.vmap(self.norm)(x)


class Decoder(eqx.Module):
    embed: nn.Embedding
    blocks: list[Block]
    norm: nn.RMSNorm
    head: nn.Linear
    pos: nn.Embedding

    def __init__(self, key: jax.Array) -> None:
        key1, key2, key3, key4 = jax.random.split(key, 4)
        self.embed = nn.Embedding(VOCAB, WIDTH, key=key1)
        self.blocks = [Block(k) for k in jax.random.split(key2, LAYERS)]
        self.norm = nn.RMSNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCAB, use_bias=False, key=key3)
        self.pos = nn.Embedding(CACHE, WIDTH, key=key4)

    def __call__(self, tokens: jax.Array) -> jax.Array:
        time = tokens.shape[0]
        mask = jnp.tril(jnp.ones((time, time), dtype=bool))
        x = jax.vmap(self.embed)(tokens) + jax.vmap(self.pos)(jnp.arange(time))
        for block in self.blocks:
            x = block(x, mask)
        return jax.vmap(self.head)(jax.vmap(self.norm)(x))


class Step(eqx.Module):
    embed: nn.Embedding
    query: nn.Linear
    key: nn.Linear
    value: nn.Linear
    out: nn.Linear
    head: nn.Linear

    def __init__(self, key: jax.Array) -> None:
        keys = jax.random.split(key, 6)
        self.embed = nn.Embedding(VOCAB, WIDTH, key=keys[0])
        self.query = nn.Linear(WIDTH, WIDTH, key=keys[1])
        self.key = nn.Linear(WIDTH, WIDTH, key=keys[2])
        self.value = nn.Linear(WIDTH, WIDTH, key=keys[3])
        self.out = nn.Linear(WIDTH, WIDTH, key=keys[4])
        self.head = nn.Linear(WIDTH, VOCAB, key=keys[5])

    def __call__(
        self, token: jax.Array, keys: jax.Array, values: jax.Array, index: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        x = self.embed(token)
        keys = lax.dynamic_update_index_in_dim(keys, self.key(x).reshape(HEADS, HEAD), index, axis=0)
        values = lax.dynamic_update_index_in_dim(values, self.value(x).reshape(HEADS, HEAD), index, axis=0)
        query = self.query(x).reshape(HEADS, HEAD)
        scores = jnp.einsum("hd,khd->hk", query, keys) / jnp.sqrt(HEAD)
        scores = jnp.where(jnp.arange(CACHE) <= index, scores, -jnp.inf)
        y = jnp.einsum("hk,khd->hd", jax.nn.softmax(scores, axis=-1), values)
        return self.head(x + self.out(y.reshape(WIDTH))), keys, values


class Lstm(eqx.Module):
    cell: nn.LSTMCell
    head: nn.Linear

    def __init__(self, key: jax.Array) -> None:
        key1, key2 = jax.random.split(key)
        self.cell = nn.LSTMCell(WIDTH, 8, key=key1)
        self.head = nn.Linear(8, 3, key=key2)

    def __call__(self, xs: jax.Array) -> tuple[jax.Array, jax.Array]:
        def step(carry: tuple[jax.Array, jax.Array], x: jax.Array) -> Any:
            h, c = self.cell(x, carry)
            return (h, c), h

        zero = jnp.zeros(self.cell.hidden_size)
        (h, _), ys = lax.scan(step, (zero, zero), xs)
        return ys, self.head(h)


class Gru(eqx.Module):
    cell: nn.GRUCell

    def __init__(self, key: jax.Array) -> None:
        self.cell = nn.GRUCell(WIDTH, 8, key=key)

    def __call__(self, xs: jax.Array) -> jax.Array:
        def step(h: jax.Array, x: jax.Array) -> Any:
            h = self.cell(x, h)
            return h, h

        return lax.scan(step, jnp.zeros(self.cell.hidden_size), xs)[1]


class Embedding(eqx.Module):
    table: nn.Embedding
    segment: nn.Embedding

    def __init__(self, key: jax.Array) -> None:
        key1, key2 = jax.random.split(key)
        self.table = nn.Embedding(VOCAB, WIDTH, key=key1)
        self.segment = nn.Embedding(2, WIDTH, key=key2)

    def __call__(self, tokens: jax.Array) -> jax.Array:
        words = jax.vmap(self.table)(tokens)
        return (words + jax.vmap(self.segment)((tokens % 2 == 0).astype(jnp.int32))).mean(0)


class UNet(eqx.Module):
    enter: nn.Conv2d
    down: nn.Conv2d
    up: nn.ConvTranspose2d
    leave: nn.Conv2d

    def __init__(self, key: jax.Array) -> None:
        keys = jax.random.split(key, 4)
        self.enter = nn.Conv2d(3, 8, 3, padding=1, key=keys[0])
        self.down = nn.Conv2d(8, 16, 3, stride=2, padding=1, key=keys[1])
        self.up = nn.ConvTranspose2d(16, 8, 3, stride=2, padding=1, output_padding=1, key=keys[2])
        self.leave = nn.Conv2d(16, 3, 1, key=keys[3])

    def __call__(self, x: jax.Array) -> jax.Array:
        skip = jax.nn.relu(self.enter(x))
        y = jax.nn.relu(self.up(jax.nn.relu(self.down(skip))))
        return self.leave(jnp.concatenate([skip, y]))


class Moe(eqx.Module):
    gate: nn.Linear
    experts: nn.MLP

    def __init__(self, key: jax.Array) -> None:
        key1, key2 = jax.random.split(key)
        self.gate = nn.Linear(WIDTH, EXPERTS, use_bias=False, key=key1)
        self.experts = eqx.filter_vmap(
            lambda key: nn.MLP(WIDTH, WIDTH, 32, depth=1, activation=jax.nn.gelu, key=key)
        )(jax.random.split(key2, EXPERTS))

    def __call__(self, x: jax.Array) -> jax.Array:
        best, chosen = lax.top_k(self.gate(x), TOP_K)
        gates = jax.nn.softmax(best) @ jax.nn.one_hot(chosen, EXPERTS)
        run = eqx.filter_vmap(lambda expert, x: expert(x), in_axes=(eqx.if_array(0), None))
        return gates @ run(self.experts, x)


def _moved(cls: Any) -> Any:
    return nn.inference_mode(drawn(eqx.filter_eval_shape(cls, jax.random.key(0))))


def mlp() -> Model:
    module, state = nn.make_with_state(Mlp)(jax.random.key(0))
    module, state = nn.inference_mode(drawn(module)), drawn(state)
    state = jax.tree_util.tree_map(lambda x: jnp.exp(x).astype(x.dtype), state)  # a variance is positive

    def predict(x: jax.Array) -> jax.Array:
        return jax.vmap(module, axis_name="batch", in_axes=(0, None), out_axes=(0, None))(x, state)[0]

    weights = {f"module.{k}": v for k, v in paths(module).items()}
    weights |= {f"state.{k}": v for k, v in paths(state).items()}
    return Model(predict, FEATURES, features, weights, folded=r"state\..*|module\.bn\..*|.*dense1\.bias")


def cnn() -> Model:
    module = _moved(Cnn)
    return Model(jax.vmap(module), IMAGE_NCHW, image_nchw, paths(module))


def encoder() -> Model:
    module = _moved(Encoder)
    return Model(eqx.filter_jit(eqx.filter_vmap(module)), SEQUENCE, sequence, paths(module), timed=True)


def decoder() -> Model:
    module = _moved(Decoder)
    return Model(jax.jit(jax.vmap(module)), TOKENS, tokens, paths(module), timed=True)


def decode_step() -> Model:
    module = _moved(Step)
    cache = (B, CACHE, HEADS, HEAD)
    ints = jax.ShapeDtypeStruct((B,), jnp.int32)

    def make(batch: int, time: int) -> tuple[Any, ...]:
        shape = (batch, CACHE, HEADS, HEAD)
        return ids(batch), floats(*shape), -floats(*shape), (5 * np.arange(batch) % CACHE).astype(np.int32)

    return Model(jax.vmap(module), (ints, cache, cache, ints), make, paths(module))


def lstm() -> Model:
    module = _moved(Lstm)
    return Model(jax.vmap(module), SEQUENCE, sequence, paths(module), timed=True, folded=r"cell\.bias")


def gru() -> Model:
    module = _moved(Gru)
    return Model(lambda x: jax.vmap(module)(x), SEQUENCE, sequence, paths(module), True, r"cell\.bias(_n)?")


def embedding() -> Model:
    module = _moved(Embedding)
    return Model(eqx.filter_vmap(module), TOKENS, tokens, paths(module), timed=True)


def unet() -> Model:
    module = _moved(UNet)

    @eqx.filter_jit
    def predict(x: jax.Array) -> jax.Array:
        return jax.vmap(module)(x)

    return Model(predict, IMAGE_NCHW, image_nchw, paths(module))


def moe() -> Model:
    module = _moved(Moe)
    return Model(jax.vmap(jax.vmap(module)), SEQUENCE, sequence, paths(module), timed=True)


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
