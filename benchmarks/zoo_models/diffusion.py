"""One denoising step of a diffusion model: a U-Net that is told the time."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from benchmarks.zoo_models.entry import Network, floats
from benchmarks.zoo_models.entry import nnx as network


def embedding(time: jax.Array, width: int) -> jax.Array:
    """Sines and cosines of a time at ``width // 2`` frequencies."""
    half = width // 2
    frequencies = jnp.exp(-math.log(10000.0) * jnp.arange(half) / half)
    angles = time[:, None] * frequencies[None]
    return jnp.concatenate([jnp.cos(angles), jnp.sin(angles)], axis=-1)


class Resnet(nnx.Module):
    def __init__(self, inputs: int, outputs: int, time: int, *, rngs: nnx.Rngs) -> None:
        self.norm1 = nnx.GroupNorm(inputs, num_groups=8, rngs=rngs)
        self.conv1 = nnx.Conv(inputs, outputs, (3, 3), rngs=rngs)
        self.time = nnx.Linear(time, outputs, rngs=rngs)
        self.norm2 = nnx.GroupNorm(outputs, num_groups=8, rngs=rngs)
        self.conv2 = nnx.Conv(outputs, outputs, (3, 3), rngs=rngs)
        self.skip = nnx.Conv(inputs, outputs, (1, 1), rngs=rngs) if inputs != outputs else None

    def __call__(self, x: jax.Array, t: jax.Array) -> jax.Array:
        h = self.conv1(nnx.silu(self.norm1(x)))
        h = h + self.time(nnx.silu(t))[:, None, None, :]
        h = self.conv2(nnx.silu(self.norm2(h)))
        return h + (x if self.skip is None else self.skip(x))


class Attention(nnx.Module):
    """Self-attention over the positions of an image."""

    def __init__(self, width: int, *, rngs: nnx.Rngs) -> None:
        self.norm = nnx.GroupNorm(width, num_groups=8, rngs=rngs)
        self.attend = nnx.MultiHeadAttention(num_heads=4, in_features=width, decode=False, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        flat = self.norm(x).reshape(x.shape[0], -1, x.shape[-1])
        return x + self.attend(flat).reshape(x.shape)


class Denoiser(nnx.Module):
    """Latents [B, 16, 16, 4] and times [B] to noise."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.time1 = nnx.Linear(32, 128, rngs=rngs)
        self.time2 = nnx.Linear(128, 128, rngs=rngs)
        self.enter = nnx.Conv(4, 32, (3, 3), rngs=rngs)
        self.level1 = Resnet(32, 32, 128, rngs=rngs)
        self.down = nnx.Conv(32, 32, (3, 3), strides=2, rngs=rngs)
        self.level2 = Resnet(32, 64, 128, rngs=rngs)
        self.attention = Attention(64, rngs=rngs)
        self.middle = Resnet(64, 64, 128, rngs=rngs)
        self.up = nnx.Conv(64, 32, (3, 3), rngs=rngs)
        self.merge = Resnet(64, 32, 128, rngs=rngs)
        self.norm = nnx.GroupNorm(32, num_groups=8, rngs=rngs)
        self.leave = nnx.Conv(32, 4, (3, 3), rngs=rngs)

    def __call__(self, x: jax.Array, time: jax.Array) -> jax.Array:
        t = self.time2(nnx.silu(self.time1(embedding(time, 32))))
        skip = self.level1(self.enter(x), t)
        h = self.attention(self.level2(self.down(skip), t))
        h = self.middle(h, t)
        batch, height, width, channels = h.shape
        h = self.up(jax.image.resize(h, (batch, 2 * height, 2 * width, channels), "nearest"))
        h = self.merge(jnp.concatenate([skip, h], axis=-1), t)
        return self.leave(nnx.silu(self.norm(h)))


def diffusion() -> Network:
    return network(Denoiser, floats(1, 16, 16, 4), np.array([437.0], np.float32))
