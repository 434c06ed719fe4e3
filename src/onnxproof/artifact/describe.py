"""What people read about a model: doc strings, labels, a card. Written in one order, so that bytes stay equal."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from onnxproof.errors import InputSpecError

RESERVED = "onnxproof."  # keys that the exporter writes itself
MAX_TEXT = 2**20


@dataclass(frozen=True)
class Metadata:
    """What a file says of itself to people.

    Attributes:
        doc: of the model, in prose: its ``doc_string``.
        inputs, outputs: what each is, by name: the ``doc_string`` of its declaration.
        labels: names of classes. Of the only output, or by name of the output; as many as its last dimension has
            elements, where that is a number. In ``metadata_props`` they are a list in JSON under ``labels``, or
            under ``labels.NAME`` for each.
        preprocessing: what has to be done to inputs before they go in.
        card: further texts by key, such as ``license``, ``author``, ``version``, ``source``.
    """

    doc: str = ""
    inputs: Mapping[str, str] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)
    labels: Sequence[str] | Mapping[str, Sequence[str]] = ()
    preprocessing: str = ""
    card: Mapping[str, str] = field(default_factory=dict)


def describe(model: ir.Model, metadata: Metadata | Mapping[str, str]) -> None:
    """Write metadata into a model; a mapping stands for the texts of a card.

    Raises:
        InputSpecError: an input or output that is not there is described, labels don't fit, or a key is reserved.
    """
    said = metadata if isinstance(metadata, Metadata) else Metadata(card=metadata)
    graph = model.graph
    _describe_ports("input", graph.inputs, said.inputs)
    _describe_ports("output", graph.outputs, said.outputs)
    if said.doc:
        model.doc_string = graph.doc_string = _text("doc", said.doc)
    props = {key: _text(key, value) for key, value in said.card.items()}
    for key in props:
        if not key or key.startswith(RESERVED):
            raise InputSpecError(
                f"the key {key!r} of metadata is the exporter's own", way_out="Give another one."
            )
    if said.preprocessing:
        props["preprocessing"] = _text("preprocessing", said.preprocessing)
    props |= _labels(graph, said.labels)
    for key in sorted(props):
        model.metadata_props[key] = props[key]


def _describe_ports(what: str, values: Sequence[ir.Value], texts: Mapping[str, str]) -> None:
    by_name = {v.name or "": v for v in values}
    for name, text in texts.items():
        _port(what, by_name, name).doc_string = _text(name, text)


def _labels(graph: ir.Graph, labels: Sequence[str] | Mapping[str, Sequence[str]]) -> dict[str, str]:
    if isinstance(labels, str):
        raise InputSpecError("labels is a string", way_out="Give a list of names.")
    outputs = {v.name or "": v for v in graph.outputs}
    if isinstance(labels, Mapping):
        named = {f"labels.{name}": (_port("output", outputs, name), given) for name, given in labels.items()}
    elif not labels:
        return {}
    elif len(outputs) != 1:
        raise InputSpecError(
            f"labels of which of {len(outputs)} outputs?",
            way_out=f"Give labels={{{next(iter(outputs))!r}: […]}}.",
        )
    else:
        named = {"labels": (next(iter(outputs.values())), labels)}
    found = {}
    for key, (value, given) in named.items():
        last = value.shape[-1] if value.shape is not None and len(value.shape) else None
        floats = (
            value.dtype is not None and value.dtype.is_floating_point()
        )  # an index has no dimension of classes
        if floats and isinstance(last, int) and last != len(given):
            raise InputSpecError(f"{value.name!r} has {last} classes, and {len(given)} labels were given")
        found[key] = json.dumps([_text(key, label) for label in given], ensure_ascii=False)
    return found


def _port(what: str, values: Mapping[str, ir.Value], name: str) -> ir.Value:
    if name not in values:
        close = difflib.get_close_matches(name, values, 1)
        there = f"did you mean {close[0]!r}?" if close else f"There are: {', '.join(values)}."
        raise InputSpecError(f"there is no {what} {name!r} to describe", way_out=there)
    return values[name]


def _text(what: str, value: str) -> str:
    if not isinstance(value, str) or len(value) > MAX_TEXT:
        raise InputSpecError(f"the metadata {what!r} is no text of at most {MAX_TEXT} characters")
    return value
