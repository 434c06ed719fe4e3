"""The profiles of the gallery: models of the framework matrix, at the sizes that the matrix runs them at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from onnxproof.evidence import Built, Profile
from onnxproof.evidence.compare import DEFAULT_TOLERANCE
from onnxproof.evidence.profile import ProfileCase
from onnxproof.evidence.proof import DEFAULT_POLICY, RUNS
from onnxproof.evidence.record import BuilderConfig, Exporter, Tolerances
from tests.frameworks import matrix

# Architecture → framework: every framework twice.
GALLERY = {
    "encoder": "linen",
    "decoder": "equinox",
    "decode_step": "nnx",
    "cnn": "nnx",
    "lstm": "haiku",
    "gru": "equinox",
    "unet": "linen",
    "moe": "jax",
    "mlp": "jax",
    "embedding": "haiku",
}
RUNTIMES = ("onnxruntime", "onnx-reference")


def build(framework: str, architecture: str) -> Built:
    """The builder that the profiles name. The shapes of a case say its batch size and its length."""
    model = matrix.built(framework, architecture)

    def make(shapes: Sequence[Sequence[int]], seed: int) -> Sequence[Any]:
        return next(args for args in (model.make(*size) for size in model.sizes) if _shapes(args) == shapes)

    return Built(model.fn, model.inputs, make, weights=model.weights)


def profile(architecture: str, runtimes: Sequence[str] = RUNTIMES) -> Profile:
    """The profile of one model of the gallery: float32, within ``1e-5``, and no value that is not finite."""
    framework = GALLERY[architecture]
    model = matrix.built(framework, architecture)
    rtol, atol = DEFAULT_TOLERANCE["float32"]
    return Profile(
        name=f"{architecture}-{framework}",
        dtype="float32",
        opset=23,
        config=BuilderConfig(
            net="builder",
            builder=f"{__name__}:build",
            arguments={"framework": framework, "architecture": architecture},
            weights_sha256=None,
        ),
        exporter=Exporter(name="onnxproof", options={"model_name": architecture}),
        runtimes=[spec for name in runtimes for spec in RUNS[name]],
        cases=[
            ProfileCase(
                name=f"batch-{batch}-time-{time}" if model.timed else f"batch-{batch}",
                kind="values",
                shapes=_shapes(model.make(batch, time)),
                seed=None,
                expect="match",
            )
            for batch, time in model.sizes
        ],
        tolerances=Tolerances(rtol=rtol, atol=atol, nonfinite="refused"),
        policy=DEFAULT_POLICY,
    )


def _shapes(args: Sequence[Any]) -> list[list[int]]:
    return [list(np.shape(leaf)) for leaf in jax.tree_util.tree_leaves(args)]
