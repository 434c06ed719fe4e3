"""Small edits of a graph that passes share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from onnxproof.lowering.emit import attribute
from onnxproof.passes.graphs import GraphLike

STANDS_FOR = "onnxproof.replaced_by"  # on a replaced value: the value that took its place

Dims = tuple[int | ir.SymbolicDim, ...]


def dims_of(value: ir.Value) -> Dims | None:
    """The shape of a value, None when it is not known."""
    return None if value.shape is None else tuple(value.shape)


def graph_of(node: ir.Node) -> GraphLike:
    """The graph that holds the node."""
    graph = node.graph
    assert graph is not None
    return graph


def insert_like(
    node: ir.Node,
    op: str,
    inputs: Sequence[ir.Value | None],
    shapes: Sequence[Dims | None],
    attributes: dict[str, Any] | None = None,
) -> ir.Node:
    """Insert an operator before ``node``, with its provenance and result dtypes.

    Args:
        attributes: of the new operator; those of ``node`` when None.
    """
    kept = list(node.attributes.values())
    chosen = kept if attributes is None else [attribute(k, v) for k, v in attributes.items() if v is not None]
    new = ir.Node("", op, inputs, attributes=chosen, num_outputs=len(shapes))
    new.metadata_props.update(node.metadata_props)
    for out, old, shape in zip(new.outputs, node.outputs, shapes, strict=True):
        out.type = old.type
        out.shape = None if shape is None else ir.Shape(shape, frozen=True)
    graph_of(node).insert_before(node, new)
    return new


def replace_node(node: ir.Node, values: Sequence[ir.Value]) -> None:
    """Let ``values``, results of nodes of the same graph, stand for those of ``node``; drop the node."""
    for old, new in zip(node.outputs, values, strict=True):
        if old.is_graph_output():
            new.name = old.name
        ir.convenience.replace_all_uses_with(old, new, replace_graph_outputs=True)
        old.meta[STANDS_FOR] = new
    graph_of(node).remove(node, safe=True)


def standing(value: ir.Value) -> ir.Value:
    """The value that stands in the graph for ``value`` after replacements."""
    while (new := value.meta.get(STANDS_FOR)) is not None:
        value = new
    return value


def only_user(value: ir.Value) -> ir.Node | None:
    """The one node that needs ``value``, if it reads it once and in the graph that computes it."""
    uses = value.uses()
    producer = value.producer()
    if len(uses) != 1 or producer is None or value.is_graph_output():
        return None
    (use,) = uses
    return use.node if use.node.graph is producer.graph else None
