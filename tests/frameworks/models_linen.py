"""The architectures in Flax Linen: modules apart from their variables."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

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


class Mlp(nn.Module):
    @nn.compact
    def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
        x = nn.Dense(32)(x)
        x = nn.relu(nn.BatchNorm(use_running_average=not train)(x))
        x = nn.Dropout(0.5, deterministic=not train)(x)
        return nn.Dense(10)(x)


class Cnn(nn.Module):
    @nn.compact
    def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
        x = nn.Conv(8, (3, 3))(x)
        x = nn.relu(nn.BatchNorm(use_running_average=not train)(x))
        x = nn.max_pool(x, (2, 2), strides=(2, 2))
        x = nn.relu(nn.Conv(8, (3, 3), strides=(2, 2))(x))
        x = nn.Conv(8, (3, 3), feature_group_count=8, name="depthwise")(x)
        x = nn.swish(nn.GroupNorm(num_groups=4)(x))
        x = nn.relu(nn.ConvTranspose(4, (4, 4), strides=(2, 2))(x))
        x = nn.avg_pool(x, (2, 2), strides=(2, 2))
        return nn.Dense(10)(x.reshape((x.shape[0], -1)))


class Block(nn.Module):
    @nn.compact
    def __call__(self, x: jax.Array, mask: jax.Array | None = None) -> jax.Array:
        h = nn.LayerNorm()(x)
        x = x + nn.MultiHeadDotProductAttention(HEADS, dropout_rate=0.1, deterministic=True)(h, mask=mask)
        h = nn.Dense(2 * WIDTH)(nn.LayerNorm()(x))
        return x + nn.Dropout(0.1, deterministic=True)(nn.Dense(WIDTH)(nn.gelu(h)))


class Encoder(nn.Module):
    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        for _ in range(LAYERS):
            x = Block()(x)
        return nn.LayerNorm()(x)


class Decoder(nn.Module):
    def setup(self) -> None:
        self.embed = nn.Embed(VOCAB, WIDTH)
        self.pos = self.param("pos", nn.initializers.normal(0.1), (CACHE, WIDTH))
        self.blocks = [Block() for _ in range(LAYERS)]
        self.norm = nn.LayerNorm()

    def __call__(self, tokens: jax.Array) -> jax.Array:
        mask = nn.make_causal_mask(tokens)
        x = self.embed(tokens) + jnp.take(self.pos, jnp.arange(tokens.shape[1]), axis=0)
        for block in self.blocks:
            x = block(x, mask)
        return self.embed.attend(self.norm(x))


class Step(nn.Module):
    @nn.compact
    def __call__(self, token: jax.Array) -> jax.Array:
        x = nn.Embed(VOCAB, WIDTH)(token)
        x = x + nn.MultiHeadDotProductAttention(HEADS, decode=True)(nn.LayerNorm()(x))
        return nn.Dense(VOCAB)(x[:, -1])


class Lstm(nn.Module):
    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        forward = nn.RNN(nn.LSTMCell(8))
        backward = nn.RNN(nn.OptimizedLSTMCell(8))
        return nn.Bidirectional(forward, backward)(x)


class Gru(nn.Module):
    @nn.compact
    def __call__(self, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        return nn.RNN(nn.GRUCell(8), return_carry=True)(x)


class Embedding(nn.Module):
    @nn.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = nn.Embed(VOCAB, WIDTH, name="table")(tokens)
        x = x + nn.Embed(2, WIDTH, name="segment")((tokens % 2 == 0).astype(jnp.int32))
        return jnp.sum(jnp.where((tokens != 0)[..., None], x, 0.0), axis=1)


class UNet(nn.Module):
    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        skip = nn.relu(nn.Conv(8, (3, 3), name="enter")(x))
        y = nn.relu(nn.Conv(16, (3, 3), strides=2, name="down")(skip))
        batch, height, width, channels = y.shape
        y = jax.image.resize(y, (batch, 2 * height, 2 * width, channels), "nearest")
        y = nn.relu(nn.Conv(8, (3, 3), name="up")(y))
        return nn.Conv(3, (1, 1), name="leave")(jnp.concatenate([skip, y], -1))


class Expert(nn.Module):
    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        return nn.Dense(WIDTH)(nn.gelu(nn.Dense(32)(x)))


class Moe(nn.Module):
    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        logits = nn.Dense(EXPERTS, use_bias=False, name="gate")(x)
        best, chosen = jax.lax.top_k(logits, TOP_K)
        gates = jnp.sum(nn.one_hot(chosen, EXPERTS) * nn.softmax(best)[..., None], axis=-2)
        experts = nn.vmap(
            Expert,
            variable_axes={"params": 0},
            split_rngs={"params": True},
            in_axes=None,
            out_axes=-2,
            axis_size=EXPERTS,
        )(name="experts")
        return jnp.einsum("bted,bte->btd", experts(x), gates)


def _start(module: nn.Module, example: tuple[Any, ...]) -> Any:
    return drawn(jax.eval_shape(module.init, jax.random.key(0), *example))


def mlp() -> Model:
    module = Mlp()
    variables = _start(module, features(1, 1))
    folded = r".*BatchNorm_0\..*|params\.Dense_0\.bias"
    return Model(partial(module.apply, variables), FEATURES, features, paths(variables), folded=folded)


def cnn() -> Model:
    module = Cnn()
    variables = _start(module, image(1, 1))

    @jax.jit
    def predict(x: jax.Array) -> jax.Array:
        return module.apply(variables, x, train=False)

    folded = r".*BatchNorm_0\..*|params\.Conv_0\.bias"
    return Model(predict, IMAGE, image, paths(variables), folded=folded)


def encoder() -> Model:
    module = Encoder()
    variables = _start(module, sequence(1, 4))
    return Model(module.bind(variables), SEQUENCE, sequence, paths(variables), timed=True)


def decoder() -> Model:
    module = Decoder()
    params = _start(module, tokens(1, 4))["params"]
    return Model(
        lambda tokens: module.apply({"params": params}, tokens), TOKENS, tokens, paths(params), timed=True
    )


def decode_step() -> Model:
    module = Step()
    variables = jax.eval_shape(module.init, jax.random.key(0), ids(2, CACHE))
    params, cache = drawn(variables["params"]), variables["cache"]

    def apply(token: jax.Array, cache: Any) -> tuple[jax.Array, Any]:
        logits, changed = module.apply({"params": params, "cache": cache}, token, mutable=["cache"])
        return logits, changed["cache"]

    def spec(x: jax.Array) -> Any:
        shape = (B, *x.shape[1:]) if x.ndim else ()
        return jax.ShapeDtypeStruct(shape, x.dtype)

    def make(batch: int, time: int) -> tuple[Any, ...]:
        def fill(x: jax.Array) -> Any:
            return floats(batch, *x.shape[1:]) if x.ndim else np.asarray(2 * batch, x.dtype)

        return ids(batch, 1), jax.tree.map(fill, cache)

    token = jax.ShapeDtypeStruct((B, 1), jnp.int32)
    return Model(apply, (token, jax.tree.map(spec, cache)), make, paths(params))


def _timed(cls: Any, inputs: Any, make: Any, folded: str = "") -> Callable[[], Model]:
    def build() -> Model:
        module = cls()
        variables = _start(module, make(1, 4))
        return Model(lambda x: module.apply(variables, x), inputs, make, paths(variables), True, folded)

    return build


def unet() -> Model:
    module = UNet()
    variables = _start(module, image(1, 1))
    return Model(jax.jit(partial(module.apply, variables)), IMAGE, image, paths(variables))


MODELS: dict[str, Callable[[], Model]] = {
    "mlp": mlp,
    "cnn": cnn,
    "encoder": encoder,
    "decoder": decoder,
    "decode_step": decode_step,
    "lstm": _timed(Lstm, SEQUENCE, sequence, folded=r"params\.(Optimized)?LSTMCell_0\..*"),
    "gru": _timed(Gru, SEQUENCE, sequence, folded=r"params\.GRUCell_0\..*"),
    "embedding": _timed(Embedding, TOKENS, tokens),
    "unet": unet,
    "moe": _timed(Moe, SEQUENCE, sequence),
}
