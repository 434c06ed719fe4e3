"""Keras on JAX: it reads the name of its backend once, when it is imported."""

import os

os.environ["KERAS_BACKEND"] = "jax"

import keras

__all__ = ["keras"]
