"""Where nodes come from, kept through tools that make new ones."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir


def restore(model: ir.Model, original: ir.Model) -> None:
    """Give the nodes of ``model`` the metadata that those of ``original`` have, and the model its producer.

    A node that the tool made has the metadata of the node whose value it now computes, or of the node that it
    serves: the next one downstream, or else the one upstream.
    """
    known = {v.name: node.metadata_props for node in _nodes(original) for v in node.outputs}
    nodes = list(_nodes(model))
    for node in nodes:
        if not node.metadata_props:
            _give(node, (known.get(v.name, {}) for v in node.outputs))
    for node in reversed(nodes):
        if not node.metadata_props:
            _give(node, (user.metadata_props for v in node.outputs for user, _ in v.uses()))
    for node in nodes:
        if not node.metadata_props:
            makers = (v.producer() for v in node.inputs if v is not None)
            _give(node, (maker.metadata_props for maker in makers if maker is not None))
    for key, value in original.metadata_props.items():
        model.metadata_props.setdefault(key, value)
    model.producer_name, model.producer_version = original.producer_name, original.producer_version


def _nodes(model: ir.Model) -> Iterator[ir.Node]:
    return iter(ir.traversal.RecursiveGraphIterator(model.graph))


def _give(node: ir.Node, candidates: Iterator[dict[str, str]]) -> None:
    node.metadata_props.update(next((c for c in candidates if c), {}))
