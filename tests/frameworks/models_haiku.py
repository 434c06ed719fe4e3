"""The architectures in Haiku: functions that are transformed into (init, apply) pairs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import haiku as hk
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
    drawn,
    features,
    floats,
    ids,
    image,
    paths,
    sequence,
    tokens,
)

HEAD = WIDTH // HEADS


def mlp_fn(x: jax.Array, is_training: bool = False) -> jax.Array:
    x = hk.Linear(32)(x)
    x = jax.nn.relu(hk.BatchNorm(True, True, 0.9)(x, is_training=is_training))
    if is_training:
        x = hk.dropout(hk.next_rng_key(), 0.5, x)
    return hk.Linear(10)(x)


def cnn_fn(x: jax.Array) -> jax.Array:
    x = jax.nn.relu(hk.Conv2D(8, 3)(x))
    x = hk.max_pool(x, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    x = jax.nn.relu(hk.Conv2D(8, 3, stride=2)(x))
    x = hk.DepthwiseConv2D(1, 3)(x)
    x = jax.nn.silu(hk.GroupNorm(4)(x))
    x = jax.nn.relu(hk.Conv2DTranspose(4, 4, stride=2)(x))
    x = hk.avg_pool(x, (1, 2, 2, 1), (1, 2, 2, 1), "SAME")
    return hk.Linear(10)(hk.Flatten()(x))


def layer_norm(name: str) -> hk.LayerNorm:
    return hk.LayerNorm(axis=-1, create_scale=True, create_offset=True, name=name)


class Block(hk.Module):
    def __call__(self, x: jax.Array, mask: jax.Array | None = None) -> jax.Array:
        attention = hk.MultiHeadAttention(
            HEADS, HEAD, model_size=WIDTH, w_init=hk.initializers.VarianceScaling(2 / LAYERS)
        )
        h = layer_norm("norm1")(x)
        x = x + attention(h, h, h, mask=mask)
        h = hk.Linear(2 * WIDTH, name="up")(layer_norm("norm2")(x))
        return x + hk.Linear(WIDTH, name="down")(jax.nn.gelu(h))


def encoder_fn(x: jax.Array) -> jax.Array:
    for i in range(LAYERS):
        x = Block(name=f"block{i}")(x)
    return layer_norm("norm")(x)


def decoder_fn(tokens: jax.Array) -> jax.Array:
    time = tokens.shape[1]
    embed = hk.Embed(VOCAB, WIDTH)
    pos = hk.get_parameter("pos", [CACHE, WIDTH], init=hk.initializers.TruncatedNormal(0.1))
    mask = (tokens != 0)[:, None, None] & jnp.tril(jnp.ones((1, 1, time, time), bool))
    x = embed(tokens) + jnp.take(pos, jnp.arange(time), axis=0)
    for i in range(LAYERS):
        x = Block(name=f"block{i}")(x, mask)
    return layer_norm("norm")(x) @ embed.embeddings.T


def step_fn(token: jax.Array) -> jax.Array:
    batch = token.shape[0]
    x = hk.Embed(VOCAB, WIDTH)(token)
    heads = (batch, HEADS, HEAD)
    query, key, value = (hk.Linear(WIDTH, name=name)(x).reshape(heads) for name in ("query", "key", "value"))
    empty = (batch, CACHE, HEADS, HEAD)
    index = hk.get_state("index", (), jnp.int32, init=jnp.zeros)
    keys = lax.dynamic_update_index_in_dim(hk.get_state("keys", empty, init=jnp.zeros), key, index, 1)
    values = lax.dynamic_update_index_in_dim(hk.get_state("values", empty, init=jnp.zeros), value, index, 1)
    hk.set_state("keys", keys)
    hk.set_state("values", values)
    hk.set_state("index", index + 1)
    scores = jnp.einsum("bhd,bkhd->bhk", query, keys) / np.sqrt(HEAD)
    scores = jnp.where(jnp.arange(CACHE) <= index, scores, -1e30)
    y = jnp.einsum("bhk,bkhd->bhd", jax.nn.softmax(scores), values)
    return hk.Linear(VOCAB, name="head")(x + y.reshape(batch, WIDTH))


def embedding_fn(tokens: jax.Array) -> jax.Array:
    x = hk.Embed(VOCAB, WIDTH, name="table")(tokens)
    segment = hk.Embed(2, WIDTH, lookup_style="ONE_HOT", name="segment")
    return (x + segment((tokens % 2 == 0).astype(jnp.int32))).max(1)


def unet_fn(x: jax.Array) -> jax.Array:
    skip = jax.nn.relu(hk.Conv2D(8, 3, name="enter")(x))
    y = jax.nn.relu(hk.Conv2D(16, 3, stride=2, name="down")(skip))
    y = jax.nn.relu(hk.Conv2DTranspose(8, 2, stride=2, name="up")(y))
    return hk.Conv2D(3, 1, name="leave")(jnp.concatenate([skip, y], -1))


def lstm_fn(x: jax.Array, state: hk.LSTMState) -> tuple[jax.Array, hk.LSTMState]:
    y, state = hk.DeepRNN([hk.LSTM(8), jax.nn.relu, hk.Linear(3)])(x, (state,))
    return y, state[0]


def gru_fn(x: jax.Array, state: jax.Array) -> tuple[jax.Array, jax.Array]:
    return hk.GRU(8)(x, state)


def moe_fn(x: jax.Array) -> jax.Array:
    best, chosen = lax.top_k(hk.Linear(EXPERTS, with_bias=False, name="gate")(x), TOP_K)
    gates = (jax.nn.one_hot(chosen, EXPERTS) * jax.nn.softmax(best)[..., None]).sum(-2)
    experts = [hk.nets.MLP([32, WIDTH], activation=jax.nn.gelu, name=f"expert{i}") for i in range(EXPERTS)]
    return (jnp.stack([expert(x) for expert in experts], -1) * gates[..., None, :]).sum(-1)


def mlp() -> Model:
    network = hk.transform_with_state(mlp_fn)
    init = partial(network.init, is_training=True)
    params, state = drawn(jax.eval_shape(init, jax.random.key(0), *features(1, 1)))

    def predict(x: jax.Array) -> jax.Array:
        return network.apply(params, state, None, x)[0]

    used = {f"state.{k}": v for k, v in paths(state).items() if k.endswith(".average")}
    weights = used | {f"params.{k}": v for k, v in paths(params).items()}
    return Model(predict, FEATURES, features, weights, folded=r"state\..*|.*batch_norm\..*|params\.linear\.b")


def decode_step() -> Model:
    network = hk.without_apply_rng(hk.transform_with_state(step_fn))
    params, state = jax.eval_shape(network.init, jax.random.key(0), ids(2))
    params = drawn(params)

    def step(token: jax.Array, cache: Any) -> tuple[jax.Array, Any]:
        return network.apply(params, cache, token)

    def spec(x: jax.Array) -> Any:
        shape = (B, *x.shape[1:]) if x.ndim else ()
        return jax.ShapeDtypeStruct(shape, x.dtype)

    def make(batch: int, time: int) -> tuple[Any, ...]:
        def fill(x: jax.Array) -> Any:
            return floats(batch, *x.shape[1:]) if x.ndim else np.asarray(2 * batch, x.dtype)

        return ids(batch), jax.tree.map(fill, state)

    token = jax.ShapeDtypeStruct((B,), jnp.int32)
    return Model(step, (token, jax.tree.map(spec, state)), make, paths(params))


def _recurrent(fn: Any, state: Callable[[int], Any], reverse: bool) -> Callable[[], Model]:
    """The cell is transformed and scanned; Haiku's own scan takes no symbolic length."""

    def build() -> Model:
        cell = hk.without_apply_rng(hk.transform(fn))
        params = drawn(jax.eval_shape(cell.init, jax.random.key(0), floats(1, WIDTH), state(1)))

        def unroll(x: jax.Array) -> tuple[jax.Array, Any]:
            def step(state: Any, x: jax.Array) -> tuple[Any, jax.Array]:
                y, state = cell.apply(params, x, state)
                return state, y

            last, ys = lax.scan(step, state(x.shape[0]), x.swapaxes(0, 1), reverse=reverse)
            return ys.swapaxes(0, 1), last

        return Model(unroll, SEQUENCE, sequence, paths(params), timed=True, folded=r"lstm/linear\.b|gru\.b")

    return build


def _zeros(batch: int) -> jax.Array:
    return jnp.zeros((batch, 8))


def _transformed(fn: Any, inputs: Any, make: Any, timed: bool = False) -> Callable[[], Model]:
    def build() -> Model:
        network = hk.without_apply_rng(hk.transform(fn))
        params = drawn(jax.eval_shape(network.init, jax.random.key(0), *make(1, 4)))
        return Model(partial(network.apply, params), inputs, make, paths(params), timed)

    return build


MODELS: dict[str, Callable[[], Model]] = {
    "mlp": mlp,
    "cnn": _transformed(cnn_fn, IMAGE, image),
    "encoder": _transformed(encoder_fn, SEQUENCE, sequence, timed=True),
    "decoder": _transformed(decoder_fn, TOKENS, tokens, timed=True),
    "decode_step": decode_step,
    "lstm": _recurrent(lstm_fn, lambda batch: hk.LSTMState(_zeros(batch), _zeros(batch)), reverse=False),
    "gru": _recurrent(gru_fn, _zeros, reverse=True),
    "embedding": _transformed(embedding_fn, TOKENS, tokens, timed=True),
    "unet": _transformed(unet_fn, IMAGE, image),
    "moe": _transformed(moe_fn, SEQUENCE, sequence, timed=True),
}
