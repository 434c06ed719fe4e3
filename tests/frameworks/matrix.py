"""Exports of the matrix, each made once, and what has to hold for every one of them."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import jax
import numpy as np
import onnx
import onnxruntime as ort

from onnxproof import to_onnx
from tests.frameworks.model import Model
from tests.running import run

FRAMEWORKS = {"jax": "jax", "nnx": "flax", "linen": "flax", "equinox": "equinox", "haiku": "haiku"}
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
    """((batch, time), error) of every run; the error is 1 where a value is just within the tolerance."""
    native = jax.jit(lambda *args: model.fn(*args))  # some of the callables can't be hashed
    for size in model.sizes:
        args = model.make(*size)
        want = [np.asarray(x) for x in jax.tree_util.tree_leaves(native(*args))]
        got = run(sess, args)
        assert [(g.shape, g.dtype) for g in got] == [(w.shape, w.dtype) for w in want]
        worst = 0.0
        for g, w in zip(got, want, strict=True):
            wide = w.astype(np.float64)
            off = np.abs(g.astype(np.float64) - wide) / (TOLERANCE + TOLERANCE * np.abs(wide))
            worst = max(worst, float(off.max(initial=0.0)))
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


def same_values(tensor: onnx.TensorProto, weight: Any) -> bool:
    """Whether an initializer holds the values of a weight, in whatever order of axes."""
    return np.array_equal(np.sort(onnx.numpy_helper.to_array(tensor), None), np.sort(weight, None))
