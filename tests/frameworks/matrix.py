"""Exports of the matrix, each made once, and what has to hold for every one of them."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import jax
import numpy as np
import onnx
import onnxruntime as ort

from onnxproof import to_onnx
from tests.frameworks.model import Model
from tests.running import run

FRAMEWORKS = ("jax", "nnx", "linen", "equinox", "haiku")
ARCHITECTURES = (
    "mlp",
    "cnn",
    "encoder",
    "decoder",
    "decode_step",
    "lstm",
    "gru",
    "embedding",
    "unet",
    "moe",
)
TOLERANCE = 1e-5
CONSTANT = re.compile(r"(bool|u?int\d+|b?float\d+)\.")
DERIVED = re.compile(r"(\.(T|scaled|bias|folded|reordered))?(\.\d+)?$")


@cache
def built(framework: str, architecture: str) -> Model:
    module = importlib.import_module(f"tests.frameworks.models_{framework}")
    model: Model = module.MODELS[architecture]()
    return model


@cache
def exported(framework: str, architecture: str) -> onnx.ModelProto:
    return export(built(framework, architecture), architecture)


def export(model: Model, name: str) -> onnx.ModelProto:
    proto: onnx.ModelProto = to_onnx(model.fn, list(model.inputs), model_name=name)
    return proto


def session(proto: onnx.ModelProto) -> ort.InferenceSession:
    """A session that prints every warning of ONNX Runtime's."""
    options = ort.SessionOptions()
    options.log_severity_level = 2
    options.intra_op_num_threads = 1
    return ort.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])


def errors(model: Model, sess: ort.InferenceSession) -> Iterator[tuple[tuple[int, int], float]]:
    """((batch, time), error) of every run; the error is 1 where a value is just within the tolerance.

    A model of the matrix computes finite values: NaN on either side is an infinite error.
    """
    # A lambda, since some of the callables can't be hashed.
    native = jax.jit(lambda *args: model.fn(*args)) if model.compiled else model.fn
    for size in model.sizes:
        args = model.make(*size)
        want = [np.asarray(x) for x in jax.tree_util.tree_leaves(native(*args))]
        got = run(sess, args)
        assert [(g.shape, g.dtype) for g in got] == [(w.shape, w.dtype) for w in want]
        worst = 0.0
        for g, w in zip(got, want, strict=True):
            wide = w.astype(np.float64)
            off = np.abs(g.astype(np.float64) - wide) / (TOLERANCE + TOLERANCE * np.abs(wide))
            worst = max(worst, float(np.nan_to_num(off, nan=np.inf).max(initial=0.0)))
        yield size, worst


def used_names(graph: onnx.GraphProto) -> set[str]:
    """Names that nodes of ``graph`` and of the graphs within read, and its outputs."""
    names = {v.name for v in graph.output}
    for node in graph.node:
        names.update(node.input)
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                names |= used_names(inner)
    return names


def unknown_names(proto: onnx.ModelProto, weights: Mapping[str, Any]) -> list[str]:
    """Initializers that are neither a weight, nor derived from one, nor a constant under its own value."""
    return sorted(
        t.name
        for t in proto.graph.initializer
        if not CONSTANT.match(t.name) and DERIVED.sub("", t.name) not in weights and t.name not in weights
    )


def lost_names(proto: onnx.ModelProto, model: Model) -> list[str]:
    """Weights that are neither an initializer nor of those that may be folded into others."""
    names = {t.name for t in proto.graph.initializer}
    return sorted(w for w in model.weights if w not in names and not re.fullmatch(model.folded, w))


def derived_names(proto: onnx.ModelProto) -> set[str]:
    """Initializers that a pass made from weights."""
    return {
        v.name for v in proto.graph.value_info if any(p.key == "onnxproof.passes" for p in v.metadata_props)
    }


def same_values(tensor: onnx.TensorProto, weight: Any) -> bool:
    """Whether an initializer holds exactly the array of a weight."""
    return np.array_equal(onnx.numpy_helper.to_array(tensor), weight)
