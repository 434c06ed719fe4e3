"""Weights as inputs of the graph: whoever runs it gives them, under the names of their paths."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import onnx_ir as ir

WEIGHT_INPUTS = "onnxproof.weight_inputs"  # metadata: the names, as a JSON list, in the order of the inputs
HELD = "onnxproof.weights"  # of the model in memory: their tensors by name


def weights_as_inputs(model: ir.Model, weights: Iterable[ir.Value]) -> None:
    """Make inputs of ``weights``, after those of the callable.

    It runs before the passes: nothing is folded into what is not known, so that any weights of these shapes are
    right. The tensors stay in ``model.meta``, which is not written.
    """
    graph, held = model.graph, dict[str, Any]()
    for value in weights:
        name = str(value.name)
        if graph.initializers.get(name) is not value or not value.uses():
            continue
        held[name] = value.const_value
        del graph.initializers[name]
        value.const_value = None
        graph.inputs.append(value)
    if held:
        model.metadata_props[WEIGHT_INPUTS] = json.dumps(list(held))
    model.meta[HELD] = held
