"""Remove nodes and initializers that nothing uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx_ir as ir

from onnxproof.passes.graphs import GraphLike, graphs

if TYPE_CHECKING:
    from onnxproof.passes.pipeline import PassContext


def remove_dead(model: ir.Model, context: PassContext) -> None:
    """Drop every node none of whose results is used, then every initializer without a reader."""
    for graph in reversed(
        list(graphs(model))
    ):  # inner graphs first: they hold the last readers of outer values
        _sweep(graph)
    initializers = model.graph.initializers
    outputs = set(model.graph.outputs)
    for name in [n for n, v in initializers.items() if not v.uses() and v not in outputs]:
        del initializers[name]


def _sweep(graph: GraphLike) -> None:
    outputs = set(graph.outputs)
    for node in reversed(graph):
        if any(v.uses() or v in outputs for v in node.outputs):
            continue
        inner = [a.as_graph() for a in node.attributes.values() if a.type == ir.AttributeType.GRAPH]
        for body in inner:
            for child in reversed(body):
                body.remove(child, safe=False)
                for i in range(len(child.inputs)):
                    child.replace_input_with(i, None)
        graph.remove(node, safe=True)
