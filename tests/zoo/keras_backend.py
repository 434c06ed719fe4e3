"""Keras on JAX."""

from __future__ import annotations

import os
from typing import Any


def keras_on_jax() -> Any:
    """The module ``keras``, which reads the name of its backend once, when it is imported."""
    os.environ["KERAS_BACKEND"] = "jax"
    import keras

    return keras
