"""Hold the finished graph to the rule that every value is made before it is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx_ir as ir

from onnxproof.errors import InternalError
from onnxproof.passes.graphs import GraphLike

if TYPE_CHECKING:
    from onnxproof.passes.pipeline import PassContext


def require_closed(model: ir.Model, context: PassContext) -> None:
    """Check that nodes read inputs, initializers and what earlier nodes gave, in their graph or one around it.

    Raises:
        InternalError: a node reads anything else, which a runtime would refuse to load.
    """
    known = set(model.graph.initializers.values())
    _walk(model.graph, known)
    for function in model.functions.values():
        _walk(function, set())


def _walk(graph: GraphLike, known: set[ir.Value]) -> None:
    own: list[ir.Value] = list(graph.inputs)
    known.update(own)
    for node in graph:
        for value in node.inputs:
            if value is not None and value not in known:
                raise InternalError(
                    f"{node.op_type} {node.name!r} reads {value.name!r}, which nothing before it gives",
                    way_out="Please report it, with the program.",
                )
        for attribute in node.attributes.values():
            if attribute.type == ir.AttributeType.GRAPH:
                _walk(attribute.as_graph(), known)
        known.update(node.outputs)
        own.extend(node.outputs)
    lost = [value.name for value in graph.outputs if value not in known]
    if lost:
        raise InternalError(
            f"nothing gives the results {lost}", way_out="Please report it, with the program."
        )
    known.difference_update(own)
