"""Networks that walk over time."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from flax import linen as nn
from jax import lax

from benchmarks.zoo_models.entry import Network, drawn, equinox, floats, ids, linen, paths


class Tagger(nn.Module):
    """Two LSTM layers over tokens, and a label for each."""

    @nn.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = nn.Embed(1000, 64, name="embed")(tokens)
        x = nn.RNN(nn.OptimizedLSTMCell(128), name="lstm1")(x)
        x = nn.RNN(nn.OptimizedLSTMCell(128), name="lstm2")(x)
        return nn.Dense(20, name="head")(x)


def lstm() -> Network:
    return linen(Tagger(), ids(2, 64, below=1000))


class Keyword(eqx.Module):
    """A GRU over the frames of one sound; its last state is classified."""

    cell: eqx.nn.GRUCell
    head: eqx.nn.Linear

    def __init__(self, key: jax.Array) -> None:
        key1, key2 = jax.random.split(key)
        self.cell = eqx.nn.GRUCell(40, 128, key=key1)
        self.head = eqx.nn.Linear(128, 12, key=key2)

    def __call__(self, frames: jax.Array) -> jax.Array:
        def step(state: jax.Array, frame: jax.Array) -> tuple[jax.Array, None]:
            return self.cell(frame, state), None

        state, _ = lax.scan(step, jnp.zeros(self.cell.hidden_size), frames)
        return self.head(state)


def gru() -> Network:
    return equinox(Keyword, floats(2, 64, 40))


def mamba() -> Network:
    """A Mamba block in plain JAX: gate, causal depthwise convolution, selective scan."""
    width, inner, states, rank, taps = 64, 128, 16, 4, 4

    def shape(*dims: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(dims, jnp.float32)

    params: dict[str, Any] = drawn(
        {
            "norm": {"scale": shape(width)},
            "in_proj": shape(width, 2 * inner),
            "conv": {"kernel": shape(taps, 1, inner), "bias": shape(inner)},
            "x_proj": shape(inner, rank + 2 * states),
            "dt_proj": {"kernel": shape(rank, inner), "bias": shape(inner)},
            "a_log": shape(inner, states),
            "d": shape(inner),
            "out_proj": shape(inner, width),
        }
    )

    def apply(x: jax.Array) -> jax.Array:
        h = x * lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-5) * params["norm"]["scale"]
        u, gate = jnp.split(h @ params["in_proj"], 2, axis=-1)
        u = lax.conv_general_dilated(
            u,
            params["conv"]["kernel"],
            window_strides=(1,),
            padding=[(taps - 1, 0)],
            dimension_numbers=("NTC", "TIO", "NTC"),
            feature_group_count=inner,
        )
        u = jax.nn.silu(u + params["conv"]["bias"])
        dt, b, c = jnp.split(u @ params["x_proj"], [rank, rank + states], axis=-1)
        dt = jax.nn.softplus(dt @ params["dt_proj"]["kernel"] + params["dt_proj"]["bias"])
        decay = jnp.exp(dt[..., None] * -jnp.exp(params["a_log"]))
        drive = dt[..., None] * b[:, :, None, :] * u[..., None]

        def step(state: jax.Array, now: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
            decay, drive, c = now
            state = decay * state + drive
            return state, jnp.einsum("bdn,bn->bd", state, c)

        first = jnp.zeros((x.shape[0], inner, states), x.dtype)
        over_time = jax.tree.map(lambda a: jnp.moveaxis(a, 1, 0), (decay, drive, c))
        _, y = lax.scan(step, first, over_time)
        y = jnp.moveaxis(y, 0, 1) + params["d"] * u
        return x + (y * jax.nn.silu(gate)) @ params["out_proj"]

    return Network(apply, (floats(1, 64, width),), paths(params))
