"""Walks over all graphs of a model."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

GraphLike = ir.Graph | ir.Function


def graphs(model: ir.Model) -> Iterator[GraphLike]:
    """The main graph, every function, and the graphs inside their nodes, outer ones first."""
    stack: list[GraphLike] = [*reversed(list(model.functions.values())), model.graph]
    while stack:
        graph = stack.pop()
        yield graph
        for node in graph:
            for attr in node.attributes.values():
                if attr.type == ir.AttributeType.GRAPH:
                    stack.append(attr.as_graph())
                elif attr.type == ir.AttributeType.GRAPHS:
                    stack.extend(attr.as_graphs())
