"""Networks of dense layers: a classifier and a mixer."""

from __future__ import annotations

import haiku as hk
import jax
import jax.numpy as jnp
from flax import linen as nn

from benchmarks.zoo_models.entry import Network, floats, haiku, linen


def classifier(x: jax.Array) -> jax.Array:
    """An MLP over flat images."""
    x = hk.nets.MLP([1024, 1024, 512], activate_final=True, name="trunk")(x)
    return jax.nn.log_softmax(hk.Linear(10, name="head")(x))


def mlp() -> Network:
    return haiku(classifier, floats(16, 784))


class MixerBlock(nn.Module):
    tokens: int
    channels: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        h = jnp.swapaxes(nn.LayerNorm(name="norm_tokens")(x), 1, 2)
        h = nn.Dense(self.tokens, name="tokens_up")(h)
        h = nn.Dense(x.shape[1], name="tokens_down")(nn.gelu(h))
        x = x + jnp.swapaxes(h, 1, 2)
        h = nn.Dense(self.channels, name="channels_up")(nn.LayerNorm(name="norm_channels")(x))
        return x + nn.Dense(x.shape[-1], name="channels_down")(nn.gelu(h))


class Mixer(nn.Module):
    """MLP-Mixer: 8 x 8 patches of 4 x 4 pixels, four blocks."""

    width: int = 128
    blocks: int = 4

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = nn.Conv(self.width, (4, 4), strides=(4, 4), padding="VALID", name="stem")(x)
        x = x.reshape(x.shape[0], -1, self.width)
        for i in range(self.blocks):
            x = MixerBlock(64, 512, name=f"block{i}")(x)
        return nn.Dense(10, name="head")(jnp.mean(nn.LayerNorm(name="norm")(x), axis=1))


def mixer() -> Network:
    return linen(Mixer(), floats(1, 32, 32, 3))
