"""The architectures in Flax NNX: modules that hold their own weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

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
    sequence,
    tokens,
)


def start(cls: Any) -> Any:
    """A module in evaluation mode, its parameters and statistics drawn."""
    module = nnx.eval_shape(lambda: cls(nnx.Rngs(0)))
    module.eval()
    graphdef, state = nnx.split(module)
    return nnx.merge(graphdef, drawn(state))


def weights(module: Any) -> dict[str, Any]:
    state = nnx.to_flat_state(nnx.state(module, (nnx.Param, nnx.BatchStat)))
    return {".".join(map(str, path)): variable[...] for path, variable in state}


class Mlp(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.dense1 = nnx.Linear(WIDTH, 32, rngs=rngs)
        self.bn = nnx.BatchNorm(32, rngs=rngs)
        self.dropout = nnx.Dropout(0.5, rngs=rngs)
        self.dense2 = nnx.Linear(32, 10, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = nnx.relu(self.bn(self.dense1(x)))
        return self.dense2(self.dropout(x))


class Cnn(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.conv = nnx.Conv(3, 8, (3, 3), rngs=rngs)
        self.bn = nnx.BatchNorm(8, rngs=rngs)
        self.strided = nnx.Conv(8, 8, (3, 3), strides=(2, 2), rngs=rngs)
        self.depthwise = nnx.Conv(8, 8, (3, 3), feature_group_count=8, rngs=rngs)
        self.norm = nnx.GroupNorm(8, num_groups=4, rngs=rngs)
        self.up = nnx.ConvTranspose(8, 4, (4, 4), strides=(2, 2), rngs=rngs)
        self.head = nnx.Linear(36, 10, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = nnx.max_pool(nnx.relu(self.bn(self.conv(x))), (2, 2), strides=(2, 2))
        x = nnx.relu(self.strided(x))
        x = nnx.silu(self.norm(self.depthwise(x)))
        x = nnx.avg_pool(nnx.relu(self.up(x)), (2, 2), strides=(2, 2))
        return self.head(x.reshape(x.shape[0], -1))


class Block(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.norm1 = nnx.LayerNorm(WIDTH, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(
            num_heads=HEADS, in_features=WIDTH, dropout_rate=0.1, decode=False, rngs=rngs
        )
        self.norm2 = nnx.LayerNorm(WIDTH, rngs=rngs)
        self.up = nnx.Linear(WIDTH, 2 * WIDTH, rngs=rngs)
        self.down = nnx.Linear(2 * WIDTH, WIDTH, rngs=rngs)
        self.dropout = nnx.Dropout(0.1, rngs=rngs)

    def __call__(self, x: jax.Array, mask: jax.Array | None = None) -> jax.Array:
        x = x + self.dropout(self.attention(self.norm1(x), mask=mask))
        return x + self.dropout(self.down(nnx.gelu(self.up(self.norm2(x)))))


class Encoder(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.blocks = nnx.List([Block(rngs) for _ in range(LAYERS)])
        self.norm = nnx.LayerNorm(WIDTH, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


class Decoder(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.embed = nnx.Embed(VOCAB, WIDTH, rngs=rngs)
        self.pos = nnx.Embed(CACHE, WIDTH, rngs=rngs)
        self.blocks = nnx.List([Block(rngs) for _ in range(LAYERS)])
        self.norm = nnx.RMSNorm(WIDTH, rngs=rngs)

    def __call__(self, tokens: jax.Array) -> jax.Array:
        mask = nnx.make_causal_mask(tokens)
        x = self.embed(tokens) + self.pos(jnp.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x, mask)
        return self.embed.attend(self.norm(x))


class Step(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.embed = nnx.Embed(VOCAB, WIDTH, rngs=rngs)
        self.norm = nnx.LayerNorm(WIDTH, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(num_heads=HEADS, in_features=WIDTH, decode=True, rngs=rngs)
        self.head = nnx.Linear(WIDTH, VOCAB, rngs=rngs)

    def __call__(self, token: jax.Array) -> jax.Array:
        x = self.embed(token)[:, None]
        x = x + self.attention(self.norm(x))
        return self.head(x[:, 0])


class Lstm(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.forward = nnx.RNN(nnx.LSTMCell(WIDTH, 8, rngs=rngs), rngs=rngs)
        self.backward = nnx.RNN(
            nnx.OptimizedLSTMCell(WIDTH, 8, rngs=rngs), reverse=True, keep_order=True, rngs=rngs
        )

    def __call__(self, x: jax.Array) -> jax.Array:
        return jnp.concatenate([self.forward(x), self.backward(x)], -1)


class Gru(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.rnn = nnx.RNN(nnx.GRUCell(WIDTH, 8, rngs=rngs), return_carry=True, rngs=rngs)

    def __call__(self, x: jax.Array, h: jax.Array) -> tuple[jax.Array, jax.Array]:
        carry, y = self.rnn(x, initial_carry=h)
        return y, carry


class Embedding(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.table = nnx.Embed(VOCAB, WIDTH, rngs=rngs)
        self.segment = nnx.Embed(2, WIDTH, rngs=rngs)

    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = self.table(tokens) + self.segment((tokens % 2 == 0).astype(jnp.int32))
        return jnp.mean(x, axis=1, where=(tokens != VOCAB)[..., None])


class UNet(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.enter = nnx.Conv(3, 8, (3, 3), rngs=rngs)
        self.down = nnx.Conv(8, 16, (3, 3), strides=2, rngs=rngs)
        self.bn = nnx.BatchNorm(16, rngs=rngs)
        self.up = nnx.ConvTranspose(16, 8, (2, 2), strides=(2, 2), rngs=rngs)
        self.leave = nnx.Conv(16, 3, (1, 1), rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        skip = nnx.relu(self.enter(x))
        y = nnx.relu(self.bn(self.down(skip)))
        return self.leave(jnp.concatenate([skip, nnx.relu(self.up(y))], -1))


class Expert(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.up = nnx.Linear(WIDTH, 32, rngs=rngs)
        self.down = nnx.Linear(32, WIDTH, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.down(nnx.gelu(self.up(x)))


class Moe(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        @nnx.split_rngs(splits=EXPERTS)
        @nnx.vmap
        def create(rngs: nnx.Rngs) -> Expert:
            return Expert(rngs)

        self.gate = nnx.Linear(WIDTH, EXPERTS, use_bias=False, rngs=rngs)
        self.experts = create(rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        logits, chosen = jax.lax.top_k(self.gate(x), TOP_K)
        gates = jnp.einsum("btk,btke->bte", nnx.softmax(logits), nnx.one_hot(chosen, EXPERTS))
        y = nnx.vmap(lambda expert, x: expert(x), in_axes=(0, None))(self.experts, x)
        return jnp.einsum("ebtd,bte->btd", y, gates)


def _plain(
    cls: Any, inputs: Sequence[Any], make: Any, timed: bool = False, folded: str = ""
) -> Callable[[], Model]:
    """The module itself is the callable."""

    def build() -> Model:
        module = start(cls)
        return Model(module, inputs, make, weights(module), timed, folded)

    return build


def _merged(cls: Any, inputs: Sequence[Any], make: Any) -> Callable[[], Model]:
    """A module is merged for each call: NNX refuses to transform one from outside a trace."""

    def build() -> Model:
        module = start(cls)
        graphdef, state = nnx.split(module)

        def apply(*args: jax.Array) -> Any:
            return nnx.merge(graphdef, state, copy=True)(*args)

        return Model(apply, inputs, make, weights(module), timed=True)

    return build


def decode_step() -> Model:
    module = start(Step)
    module.attention.init_cache((2, CACHE, WIDTH))
    graphdef, params, cache = nnx.split(module, nnx.Param, nnx.Cache)

    def apply(token: jax.Array, cache: nnx.State) -> tuple[jax.Array, nnx.State]:
        module = nnx.merge(graphdef, params, cache)
        logits = module(token)
        return logits, nnx.state(module, nnx.Cache)

    def spec(x: jax.Array) -> Any:
        shape = (B, *x.shape[1:]) if x.ndim else ()
        return jax.ShapeDtypeStruct(shape, x.dtype)

    def make(batch: int, time: int) -> tuple[Any, ...]:
        def fill(x: jax.Array) -> Any:
            return floats(batch, *x.shape[1:]) if x.ndim else np.asarray(2 * batch, x.dtype)

        return ids(batch), jax.tree.map(fill, cache)

    token = jax.ShapeDtypeStruct((B,), jnp.int32)
    return Model(apply, (token, jax.tree.map(spec, cache)), make, weights(module))


def sequence_and_state(batch: int, time: int) -> tuple[Any, ...]:
    return (*sequence(batch, time), floats(batch, 8))


def lstm() -> Model:
    module = start(Lstm)
    cells = r"forward\.cell\..*|backward\.cell\.dense_h\.bias"
    return Model(module, SEQUENCE, sequence, weights(module), timed=True, folded=cells, compiled=False)


MODELS: dict[str, Callable[[], Model]] = {
    "mlp": _plain(Mlp, FEATURES, features, folded=r"bn\..*|dense1\.bias"),
    "cnn": _plain(Cnn, IMAGE, image, folded=r"bn\..*|conv\.bias"),
    "encoder": _plain(Encoder, SEQUENCE, sequence, timed=True),
    "decoder": _plain(Decoder, TOKENS, tokens, timed=True),
    "decode_step": decode_step,
    "lstm": lstm,
    "gru": _merged(Gru, (*SEQUENCE, (B, 8)), sequence_and_state),
    "embedding": _plain(Embedding, TOKENS, tokens, timed=True),
    "unet": _plain(UNet, IMAGE, image, folded=r"bn\..*|down\.bias"),
    "moe": _merged(Moe, SEQUENCE, sequence),
}
