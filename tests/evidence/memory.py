"""A model that is small, and for one of its inputs needs more memory than a process may have."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper

from onnxproof.evidence import Record
from onnxproof.evidence.proof import Recorded, verify
from onnxproof.evidence.record import Policy

BOUND = 2**32  # of a process, in bytes; the large case needs 4 TB for each of its values
SIZES = {"before": 3, "large": 10_000, "after": 4}


def cubic() -> ModelProto:
    """``sum(sin(x))`` with ``x`` [1] expanded to the cube of the length of ``n``."""
    info = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Shape", ["n"], ["s"]),
        helper.make_node("Concat", ["s", "s", "s"], ["c"], axis=0),
        helper.make_node("Expand", ["x", "c"], ["e"]),
        helper.make_node("Sin", ["e"], ["w"]),
        helper.make_node("ReduceSum", ["w"], ["y"], keepdims=0),
    ]
    inputs = [info("x", TensorProto.FLOAT, [1]), info("n", TensorProto.FLOAT, ["N"])]
    graph = helper.make_graph(nodes, "cubic", inputs, [info("y", TensorProto.FLOAT, [])])
    model: ModelProto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    model.ir_version = 10
    return model


def blow_up(*runtimes: str, **options: Any) -> Record:
    """The record of three cases, of which no runtime has the memory for the second."""
    x = np.ones(1, np.float32)
    inputs = {name: [x, np.ones(n, np.float32)] for name, n in SIZES.items()}
    outputs = {name: [np.float32(n**3 * np.sin(1.0))] for name, n in SIZES.items()}
    policy = Policy(refusals="listed", load_seconds=60.0, case_seconds=60.0, memory_bytes=BOUND)
    options = {"policy": policy, **options}
    return verify(Recorded(outputs), cubic(), inputs, runtimes=runtimes, rtol=1e-5, **options)
