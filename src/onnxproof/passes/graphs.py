"""Walks over all graphs of a model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import onnx_ir as ir

GraphLike = ir.Graph | ir.Function
Root = TypeVar("Root", ir.Graph, ir.Function, GraphLike)


def graphs(model: ir.Model) -> Iterator[GraphLike]:
    """The main graph, every function, and the graphs inside their nodes, outer ones first."""
    roots: list[GraphLike] = [model.graph, *model.functions.values()]
    for root in roots:
        yield from nested(root)


def nested(root: Root) -> Iterator[Root | ir.Graph]:
    """A graph and the graphs inside its nodes, outer ones first; its nodes are read after it was given."""
    stack: list[Root | ir.Graph] = [root]
    while stack:
        graph = stack.pop()
        yield graph
        for node in graph:
            for attr in node.attributes.values():
                if attr.type == ir.AttributeType.GRAPH:
                    stack.append(attr.as_graph())
                elif attr.type == ir.AttributeType.GRAPHS:
                    stack.extend(attr.as_graphs())
