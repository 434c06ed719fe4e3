"""The architectures in plain JAX: those that ship with the package, holding their parameters in several ways."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np

from onnxproof.models import ARCHITECTURES
from tests.frameworks.model import CACHE, HEADS, WIDTH, Model, features, floats, ids, image, sequence, tokens
from tests.frameworks.model import paths as weights_of

FOLDED = {"mlp": r"bn\..*|dense1\.b", "lstm": "b", "gru": r"(ih|hh)\.b"}
IMAGES = ("cnn", "unet")
TOKENS = ("decoder", "embedding")
TIMED = ("encoder", "decoder", "lstm", "gru", "embedding", "moe")
# Held by a partial, or by a partial under jit; the parameters of all others are in a closure.
BOUND = ("decoder",)
JITTED = ("mlp",)


def step(batch: int, time: int) -> tuple[Any, ...]:
    shape = (batch, CACHE, HEADS, WIDTH // HEADS)
    return ids(batch), {"k": floats(*shape), "v": floats(*shape)}, np.int32(2 * batch)


def maker(name: str) -> Callable[[int, int], tuple[Any, ...]]:
    if name in IMAGES:
        return image
    if name in TOKENS:
        return tokens
    return {"mlp": features, "decode_step": step}.get(name, sequence)


def model(name: str, seed: int) -> Model:
    network = ARCHITECTURES[name](seed, np.float32)
    params = network.params

    def closure(*args: Any) -> Any:
        return network.apply(params, *args)

    fn: Callable[..., Any] = closure
    if name in BOUND:
        fn = partial(network.apply, params)
    elif name in JITTED:
        fn = partial(jax.jit(network.apply), params)
    return Model(
        fn, network.inputs, maker(name), weights_of(params), timed=name in TIMED, folded=FOLDED.get(name, "")
    )


MODELS: dict[str, Callable[[], Model]] = {
    name: partial(model, name, seed) for seed, name in enumerate(ARCHITECTURES, start=1)
}
