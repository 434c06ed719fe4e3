"""Compute each value once: nodes with equal operators, operands and attributes are merged.

Programs arrive without duplicates; rules make some, such as the bounds of an index that several slices share.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

import onnx_ir as ir

from onnxproof.passes.edit import STANDS_FOR
from onnxproof.passes.graphs import GraphLike, graphs

if TYPE_CHECKING:
    from onnxproof.passes.pipeline import PassContext

_RANDOM = frozenset(
    "Bernoulli Dropout Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike".split()
)
_PLAIN = frozenset(
    {
        ir.AttributeType.INT,
        ir.AttributeType.INTS,
        ir.AttributeType.FLOAT,
        ir.AttributeType.FLOATS,
        ir.AttributeType.STRING,
        ir.AttributeType.STRINGS,
    }
)


def merge_equal_nodes(model: ir.Model, context: PassContext) -> None:
    """Let the first of equal nodes of a graph stand for the others."""
    for graph in graphs(model):
        _merge(graph)


def _merge(graph: GraphLike) -> None:
    outputs = set(graph.outputs)
    first: dict[Hashable, ir.Node] = {}
    for node in graph:
        key = _key(node)
        if key is None:
            continue
        known = first.setdefault(key, node)
        if known is node or any(v in outputs for v in node.outputs):
            continue
        for old, new in zip(node.outputs, known.outputs, strict=True):
            old.replace_all_uses_with(new)
            old.meta[STANDS_FOR] = new
        graph.remove(node, safe=True)


def _key(node: ir.Node) -> Hashable | None:
    """What equal nodes have in common; None for a node that is not merged."""
    attributes = node.attributes.values()
    if node.op_type in _RANDOM or any(a.type not in _PLAIN for a in attributes):
        return None
    values = tuple(sorted((a.name, repr(a.value)) for a in attributes))
    return (node.domain, node.op_type, tuple(map(id, node.inputs)), values, _declared(node))


def _declared(node: ir.Node) -> Hashable:
    """The dtypes of the results, and how many there are."""
    return tuple(v.dtype for v in node.outputs)
