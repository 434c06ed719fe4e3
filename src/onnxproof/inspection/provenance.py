"""Where a node, a value or a weight of a file comes from, and what reads it."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from onnxproof.errors import InputSpecError
from onnxproof.inspection.facts import port_facts
from onnxproof.inspection.reading import graphs, metadata_of, operator_of, tensor_facts

if TYPE_CHECKING:
    import onnx

MAX_TEXT = 200


@dataclass(frozen=True, slots=True)
class NodeOrigin:
    """A node: what made it in the program, and its place in the file. None is what the file does not say."""

    name: str
    operator: str
    graph: str  # the path of the graph that it is in; empty for the main one
    primitive: str | None
    source: str | None
    scope: str | None
    passes: tuple[str, ...]  # of the exporter, that changed it
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, str]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class ValueOrigin:
    """A value: an ``input``, a ``weight``, or what a ``node`` computes, with the nodes that read it."""

    name: str
    kind: str
    type: str
    node: NodeOrigin | None
    readers: tuple[str, ...]
    is_output: bool
    aliases: tuple[str, ...]  # other paths of the same array in the program
    passes: tuple[str, ...]  # that derived a weight from others
    file: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def node_origin(model: onnx.ModelProto, name: str) -> NodeOrigin:
    """Where the node of that name comes from, in whatever graph it stands.

    Raises:
        InputSpecError: there is none.
    """
    for path, node in _nodes(model):
        if node.name == name:
            return _origin(path, node)
    raise _unknown("node", name, [node.name for _, node in _nodes(model)])


def value_origin(model: onnx.ModelProto, name: str) -> ValueOrigin:
    """Where the value of that name comes from, and what reads it.

    Raises:
        InputSpecError: there is none.
    """
    readers = tuple(node.name or operator_of(node) for _, node in _nodes(model) if name in node.input)
    is_output = any(o.name == name for o in model.graph.output)
    found = ValueOrigin(name, "input", "", None, readers, is_output, (), ())
    for tensor in model.graph.initializer:
        if tensor.name == name:
            return _weight(found, tensor, {**metadata_of(tensor), **_value_metadata(model, name)})
    for value in model.graph.input:
        if value.name == name:
            return replace(found, type=_type(value))
    for path, node in _nodes(model):
        if name in node.output:
            types = [v for v in (*model.graph.value_info, *model.graph.output) if v.name == name]
            return replace(
                found, kind="node", type=_type(types[0]) if types else "", node=_origin(path, node)
            )
    known = [out for _, node in _nodes(model) for out in node.output]
    known += [v.name for v in model.graph.input] + [t.name for t in model.graph.initializer]
    raise _unknown("value", name, known)


def _weight(found: ValueOrigin, tensor: onnx.TensorProto, said: dict[str, str]) -> ValueOrigin:
    facts = tensor_facts(tensor)
    return replace(
        found,
        kind="weight",
        type=f"{facts.dtype}[{', '.join(map(str, facts.shape))}]",
        aliases=tuple(said.get("onnxproof.aliases", "").split()),
        passes=tuple(said.get("onnxproof.passes", "").split()),
        file=facts.file,
    )


def _nodes(model: onnx.ModelProto) -> Iterator[tuple[str, onnx.NodeProto]]:
    for path, graph in graphs(model):
        for node in graph.node:
            yield path, node


def _origin(path: str, node: onnx.NodeProto) -> NodeOrigin:
    said = metadata_of(node)
    return NodeOrigin(
        name=node.name,
        operator=operator_of(node),
        graph=path,
        primitive=said.get("onnxproof.composite") or said.get("onnxproof.primitive"),
        source=said.get("onnxproof.source"),
        scope=said.get("namespace"),
        passes=tuple(said.get("onnxproof.passes", "").split()),
        inputs=tuple(node.input),
        outputs=tuple(node.output),
        attributes={a.name: _text(a) for a in node.attribute},
    )


def _text(attribute: onnx.AttributeProto) -> str:
    import onnx

    if attribute.type == onnx.AttributeProto.TENSOR:
        facts = tensor_facts(attribute.t)
        return f"{facts.dtype}[{', '.join(map(str, facts.shape))}]"
    if attribute.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS):
        return "a graph"
    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode(errors="replace")[:MAX_TEXT]
    return str(list(value) if not isinstance(value, (int, float, str)) else value)[:MAX_TEXT]


def _value_metadata(model: onnx.ModelProto, name: str) -> dict[str, str]:
    """What the file says of a value in its ``value_info``, where weights have their metadata too."""
    found = [v for v in (*model.graph.value_info, *model.graph.input) if v.name == name]
    return {entry.key: entry.value for v in found for entry in v.metadata_props}


def _type(value: onnx.ValueInfoProto) -> str:
    return str(port_facts(value)).partition("  ")[2]


def _unknown(kind: str, name: str, known: Sequence[str]) -> InputSpecError:
    close = difflib.get_close_matches(name, [k for k in known if k], 3, 0.5)
    hint = f"Did you mean {' or '.join(map(repr, close))}?" if close else f"It has {len(known)} of them."
    return InputSpecError(f"the model has no {kind} {name!r}", way_out=hint)
