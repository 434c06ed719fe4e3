"""A small convolutional classifier in Flax NNX, trained on scikit-learn's bundled 8 by 8 digits."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from sklearn.datasets import load_digits

SEED = 0
HELD_OUT = 397  # of 1,797 images
EPOCHS = 8
BATCH = 50


class DigitClassifier(nnx.Module):
    """Two convolutions with pooling, two linear layers: images ``[B, 8, 8, 1]`` to logits ``[B, 10]``."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.conv1 = nnx.Conv(1, 16, (3, 3), rngs=rngs)
        self.conv2 = nnx.Conv(16, 32, (3, 3), rngs=rngs)
        self.hidden = nnx.Linear(2 * 2 * 32, 64, rngs=rngs)
        self.head = nnx.Linear(64, 10, rngs=rngs)

    def __call__(self, image: jax.Array) -> jax.Array:
        x = nnx.max_pool(nnx.relu(self.conv1(image)), (2, 2), strides=(2, 2))
        x = nnx.max_pool(nnx.relu(self.conv2(x)), (2, 2), strides=(2, 2))
        x = x.reshape(x.shape[0], -1)
        return self.head(nnx.relu(self.hidden(x)))


@dataclass(frozen=True, slots=True)
class Digits:
    """Images float32 ``[N, 8, 8, 1]`` in 0..1 and labels int32 ``[N]``, for training and held out."""

    images: np.ndarray[Any, Any]
    labels: np.ndarray[Any, Any]
    held_images: np.ndarray[Any, Any]
    held_labels: np.ndarray[Any, Any]


def load() -> Digits:
    """The bundled digits, shuffled with a fixed seed and split."""
    data = load_digits()
    order = np.random.default_rng(SEED).permutation(len(data.target))
    images = (data.images[order, :, :, None] / 16).astype(np.float32)
    labels = data.target[order].astype(np.int32)
    return Digits(images[HELD_OUT:], labels[HELD_OUT:], images[:HELD_OUT], labels[:HELD_OUT])


def train(digits: Digits) -> DigitClassifier:
    """A classifier trained with fixed seeds."""
    model = DigitClassifier(nnx.Rngs(SEED))
    graphdef, params = nnx.split(model)
    optimizer = optax.adam(2e-3)
    images, labels = jnp.asarray(digits.images), jnp.asarray(digits.labels)

    def loss(params: Any, picked: jax.Array) -> jax.Array:
        logits = nnx.merge(graphdef, params)(images[picked])
        losses: jax.Array = optax.softmax_cross_entropy_with_integer_labels(logits, labels[picked])
        return losses.mean()

    def step(carry: tuple[Any, Any], picked: jax.Array) -> tuple[tuple[Any, Any], None]:
        params, state = carry
        updates, state = optimizer.update(jax.grad(loss)(params, picked), state)
        return (optax.apply_updates(params, updates), state), None

    @jax.jit
    def epoch(carry: tuple[Any, Any], key: jax.Array) -> tuple[Any, Any]:
        order = jax.random.permutation(key, len(images)).reshape(-1, BATCH)
        return jax.lax.scan(step, carry, order)[0]

    carry = (params, optimizer.init(params))
    for key in jax.random.split(jax.random.key(SEED), EPOCHS):
        carry = epoch(carry, key)
    nnx.update(model, carry[0])
    return model


def in_float64(model: DigitClassifier, images: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The logits ``[B, 10]`` of the same network, its weights widened and everything computed in float64."""
    with jax.enable_x64(True):
        graphdef, params = nnx.split(model)
        wide = jax.tree.map(partial(jnp.asarray, dtype=jnp.float64), params)
        return np.asarray(nnx.merge(graphdef, wide)(jnp.asarray(images, jnp.float64)))
