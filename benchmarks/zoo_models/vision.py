"""Convolutional networks and a vision transformer."""

from __future__ import annotations

import equinox as eqx
import haiku as hk
import jax
import jax.numpy as jnp
from flax import linen as nn
from flax import nnx

from benchmarks.zoo_models.entry import Network, equinox, floats, haiku, linen
from benchmarks.zoo_models.entry import nnx as network


class Residual(nnx.Module):
    """The basic block: two 3 x 3 convolutions, with a projection where the shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int, *, rngs: nnx.Rngs) -> None:
        self.conv1 = nnx.Conv(inputs, outputs, (3, 3), strides=stride, use_bias=False, rngs=rngs)
        self.bn1 = nnx.BatchNorm(outputs, rngs=rngs)
        self.conv2 = nnx.Conv(outputs, outputs, (3, 3), use_bias=False, rngs=rngs)
        self.bn2 = nnx.BatchNorm(outputs, rngs=rngs)
        self.project = (
            nnx.Conv(inputs, outputs, (1, 1), strides=stride, use_bias=False, rngs=rngs)
            if inputs != outputs
            else None
        )
        self.bn3 = nnx.BatchNorm(outputs, rngs=rngs) if inputs != outputs else None

    def __call__(self, x: jax.Array) -> jax.Array:
        y = nnx.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        if self.project is not None and self.bn3 is not None:
            x = self.bn3(self.project(x))
        return nnx.relu(x + y)


class ResNet(nnx.Module):
    """ResNet of six basic blocks over 64 x 64 images, channels last."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.stem = nnx.Conv(3, 32, (7, 7), strides=2, use_bias=False, rngs=rngs)
        self.bn = nnx.BatchNorm(32, rngs=rngs)
        widths = [(32, 32, 1), (32, 32, 1), (32, 64, 2), (64, 64, 1), (64, 128, 2), (128, 128, 1)]
        self.blocks = nnx.List([Residual(*w, rngs=rngs) for w in widths])
        self.head = nnx.Linear(128, 100, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = nnx.relu(self.bn(self.stem(x)))
        x = nnx.max_pool(x, window_shape=(3, 3), strides=(2, 2), padding="SAME")
        for block in self.blocks:
            x = block(x)
        return self.head(jnp.mean(x, axis=(1, 2)))


def resnet() -> Network:
    return network(ResNet, floats(1, 64, 64, 3))


class ConvNeXtBlock(nn.Module):
    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        width = x.shape[-1]
        h = nn.Conv(width, (7, 7), feature_group_count=width, name="depthwise")(x)
        h = nn.Dense(4 * width, name="up")(nn.LayerNorm(epsilon=1e-6, name="norm")(h))
        h = nn.Dense(width, name="down")(nn.gelu(h, approximate=False))
        return x + h * self.param("gamma", nn.initializers.constant(1e-6), (width,))


class ConvNeXt(nn.Module):
    """A patch stem, three blocks, a downsampling layer, three blocks, a head."""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = nn.Conv(64, (4, 4), strides=(4, 4), padding="VALID", name="stem")(x)
        x = nn.LayerNorm(epsilon=1e-6, name="stem_norm")(x)
        for i in range(3):
            x = ConvNeXtBlock(name=f"block{i}")(x)
        x = nn.LayerNorm(epsilon=1e-6, name="down_norm")(x)
        x = nn.Conv(128, (2, 2), strides=(2, 2), padding="VALID", name="down")(x)
        for i in range(3, 6):
            x = ConvNeXtBlock(name=f"block{i}")(x)
        x = nn.LayerNorm(epsilon=1e-6, name="norm")(x.mean(axis=(1, 2)))
        return nn.Dense(100, name="head")(x)


def convnext() -> Network:
    return linen(ConvNeXt(), floats(1, 56, 56, 3))


class Double(eqx.Module):
    """Two 3 x 3 convolutions, each with group normalization and relu."""

    conv1: eqx.nn.Conv2d
    norm1: eqx.nn.GroupNorm
    conv2: eqx.nn.Conv2d
    norm2: eqx.nn.GroupNorm

    def __init__(self, inputs: int, outputs: int, key: jax.Array) -> None:
        key1, key2 = jax.random.split(key)
        self.conv1 = eqx.nn.Conv2d(inputs, outputs, 3, padding=1, key=key1)
        self.norm1 = eqx.nn.GroupNorm(8, outputs)
        self.conv2 = eqx.nn.Conv2d(outputs, outputs, 3, padding=1, key=key2)
        self.norm2 = eqx.nn.GroupNorm(8, outputs)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = jax.nn.relu(self.norm1(self.conv1(x)))
        return jax.nn.relu(self.norm2(self.conv2(x)))


class UNet(eqx.Module):
    """Segmentation of one image [3, 64, 64]: two levels down, two up, with skip connections."""

    enter: Double
    down1: Double
    down2: Double
    up1: eqx.nn.ConvTranspose2d
    merge1: Double
    up2: eqx.nn.ConvTranspose2d
    merge2: Double
    leave: eqx.nn.Conv2d
    pool: eqx.nn.MaxPool2d

    def __init__(self, key: jax.Array) -> None:
        keys = jax.random.split(key, 8)
        self.enter = Double(3, 16, keys[0])
        self.down1 = Double(16, 32, keys[1])
        self.down2 = Double(32, 64, keys[2])
        self.up1 = eqx.nn.ConvTranspose2d(64, 32, 2, stride=2, key=keys[3])
        self.merge1 = Double(64, 32, keys[4])
        self.up2 = eqx.nn.ConvTranspose2d(32, 16, 2, stride=2, key=keys[5])
        self.merge2 = Double(32, 16, keys[6])
        self.leave = eqx.nn.Conv2d(16, 4, 1, key=keys[7])
        self.pool = eqx.nn.MaxPool2d(2, 2)

    def __call__(self, x: jax.Array) -> jax.Array:
        top = self.enter(x)
        middle = self.down1(self.pool(top))
        y = self.up1(self.down2(self.pool(middle)))
        y = self.up2(self.merge1(jnp.concatenate([middle, y])))
        return self.leave(self.merge2(jnp.concatenate([top, y])))


def unet() -> Network:
    return equinox(UNet, floats(1, 3, 64, 64))


class ViTBlock(eqx.Module):
    norm1: eqx.nn.LayerNorm
    attention: eqx.nn.MultiheadAttention
    norm2: eqx.nn.LayerNorm
    up: eqx.nn.Linear
    down: eqx.nn.Linear

    def __init__(self, width: int, heads: int, key: jax.Array) -> None:
        keys = jax.random.split(key, 3)
        self.norm1 = eqx.nn.LayerNorm(width)
        self.attention = eqx.nn.MultiheadAttention(
            heads,
            width,
            use_query_bias=True,
            use_key_bias=True,
            use_value_bias=True,
            use_output_bias=True,
            key=keys[0],
        )
        self.norm2 = eqx.nn.LayerNorm(width)
        self.up = eqx.nn.Linear(width, 4 * width, key=keys[1])
        self.down = eqx.nn.Linear(4 * width, width, key=keys[2])

    def __call__(self, x: jax.Array) -> jax.Array:
        h = jax.vmap(self.norm1)(x)
        x = x + self.attention(h, h, h)
        h = jax.nn.gelu(jax.vmap(self.up)(jax.vmap(self.norm2)(x)))
        return x + jax.vmap(self.down)(h)


class ViT(eqx.Module):
    """Classifies one image [3, 32, 32]: patches of 4 x 4 pixels and a class token, four blocks."""

    patch: eqx.nn.Conv2d
    token: jax.Array
    position: jax.Array
    blocks: list[ViTBlock]
    norm: eqx.nn.LayerNorm
    head: eqx.nn.Linear

    def __init__(self, key: jax.Array, width: int = 128, heads: int = 4, depth: int = 4) -> None:
        keys = jax.random.split(key, depth + 4)
        self.patch = eqx.nn.Conv2d(3, width, 4, stride=4, key=keys[0])
        self.token = jax.random.normal(keys[1], (1, width))
        self.position = jax.random.normal(keys[2], (65, width))
        self.blocks = [ViTBlock(width, heads, k) for k in keys[4:]]
        self.norm = eqx.nn.LayerNorm(width)
        self.head = eqx.nn.Linear(width, 10, key=keys[3])

    def __call__(self, x: jax.Array) -> jax.Array:
        x = self.patch(x)
        x = x.reshape(x.shape[0], -1).T
        x = jnp.concatenate([self.token, x]) + self.position
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x[0]))


def vit() -> Network:
    return equinox(ViT, floats(2, 3, 32, 32))


class Inverted(hk.Module):
    """MobileNetV3's block: expand, depthwise, squeeze and excite, project."""

    def __init__(self, expanded: int, outputs: int, stride: int, name: str) -> None:
        super().__init__(name=name)
        self.expanded, self.outputs, self.stride = expanded, outputs, stride

    def __call__(self, x: jax.Array, training: bool) -> jax.Array:
        h = hk.Conv2D(self.expanded, 1, with_bias=False, name="expand")(x)
        h = jax.nn.hard_swish(_norm("bn1", h, training))
        h = hk.DepthwiseConv2D(1, 3, stride=self.stride, with_bias=False, name="depthwise")(h)
        h = jax.nn.hard_swish(_norm("bn2", h, training))
        s = jax.nn.relu(hk.Linear(self.expanded // 4, name="squeeze")(jnp.mean(h, axis=(1, 2))))
        s = jax.nn.hard_sigmoid(hk.Linear(self.expanded, name="excite")(s))
        h = h * s[:, None, None, :]
        h = hk.Conv2D(self.outputs, 1, with_bias=False, name="project")(h)
        h = _norm("bn3", h, training)
        return x + h if h.shape == x.shape else h


def _norm(name: str, x: jax.Array, training: bool) -> jax.Array:
    return hk.BatchNorm(True, True, 0.99, name=name)(x, is_training=training)


def mobile(x: jax.Array, training: bool = False) -> jax.Array:
    """A small MobileNetV3 over 64 x 64 images."""
    x = hk.Conv2D(16, 3, stride=2, with_bias=False, name="stem")(x)
    x = jax.nn.hard_swish(_norm("bn", x, training))
    for i, (expanded, outputs, stride) in enumerate([(64, 24, 2), (72, 24, 1), (96, 40, 2), (120, 40, 1)]):
        x = Inverted(expanded, outputs, stride, f"block{i}")(x, training)
    return hk.Linear(100, name="head")(jnp.mean(x, axis=(1, 2)))


def mobilenet() -> Network:
    return haiku(mobile, floats(1, 64, 64, 3), training=True)
