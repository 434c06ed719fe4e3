"""Parts of a graph: what computes some of its values from others, and the body of a loop in the place of the loop."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import onnx

Array = np.ndarray[Any, Any]


def cut(
    model: onnx.ModelProto, outputs: Mapping[str, Array], known: Mapping[str, Array]
) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """The part of ``model`` that computes ``outputs`` from values in ``known``, and those values.

    Args:
        outputs: arrays of the dtype and shape that each has; those that are also ``known`` are computed all the same.
    """
    from onnx import helper

    producers = {o: n for n in model.graph.node for o in n.output if o}
    weights = {t.name: t for t in model.graph.initializer}
    wanted: dict[str, None] = {}
    inputs: dict[str, Array] = {}
    stack = list(outputs)
    seen: set[str] = set()
    while stack:
        name = stack.pop()
        if name in seen or not name:
            continue
        seen.add(name)
        if name in known and name not in outputs:
            inputs[name] = known[name]
        elif name in producers:
            node = producers[name]
            wanted.update(dict.fromkeys(node.output))
            stack += [*node.input, *_captured(node)]
    nodes = [n for n in model.graph.node if any(o in wanted for o in n.output)]
    used = {i for n in nodes for i in (*n.input, *_captured(n))}
    graph = helper.make_graph(
        nodes,
        f"{model.graph.name}_part",
        [_declared(model, name, array) for name, array in inputs.items()],
        [_declared(model, name, array) for name, array in outputs.items()],
        [weights[name] for name in sorted(used & set(weights))],
    )
    part = helper.make_model(graph, opset_imports=model.opset_import, functions=model.functions)
    part.ir_version = model.ir_version
    return part, inputs


def behind(graph: onnx.GraphProto, names: Collection[str]) -> set[str]:
    """What nodes of a graph compute on the way to ``names``, themselves included."""
    producers = {o: n for n in graph.node for o in n.output if o}
    stack, found = list(names), set()
    while stack:
        name = stack.pop()
        if name not in found and name in producers:
            found.update(producers[name].output)
            stack += [*producers[name].input, *_captured(producers[name])]
    return found


def enclosing(graph: onnx.GraphProto, names: Collection[str]) -> list[onnx.GraphProto]:
    """The graphs around the first one whose own nodes compute one of ``names``, outermost first; empty for none."""
    if any(o in names for node in graph.node for o in node.output):
        return [graph]
    for body in (b for node in graph.node for b in bodies(node)):
        if found := enclosing(body, names):
            return [graph, *found]
    return []


def flattened(model: onnx.ModelProto, graphs: Sequence[onnx.GraphProto]) -> onnx.ModelProto:
    """``model`` with the nodes of ``graphs`` beside its own: bodies in which what they are given is free."""
    import onnx

    flat = onnx.ModelProto()
    flat.CopyFrom(model)
    for graph in graphs:
        flat.graph.node.extend(graph.node)
        flat.graph.initializer.extend(graph.initializer)
        flat.graph.value_info.extend([*graph.value_info, *graph.input, *graph.output])
    return flat


def loop_inputs(graphs: Sequence[onnx.GraphProto]) -> list[str]:
    """The inputs of the innermost of ``graphs`` where that is the body of a Loop, else none."""
    *outer, last = graphs
    nodes = [
        n
        for g in outer
        for n in g.node
        if n.op_type == "Loop" and any(b is last or b == last for b in bodies(n))
    ]
    return [i.name for i in last.input] if nodes else []


def computed(graph: onnx.GraphProto) -> set[str]:
    """Names of what nodes compute, in a graph and in those within."""
    names = {o for node in graph.node for o in node.output}
    for node in graph.node:
        for body in bodies(node):
            names |= computed(body)
    return names


def bodies(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    """The graphs among the attributes of a node."""
    return [attribute.g for attribute in node.attribute if attribute.HasField("g")]


def _captured(node: onnx.NodeProto) -> list[str]:
    """Names of outer values that the bodies of a node use."""
    free: list[str] = []
    for graph in bodies(node):
        own = {i.name for i in graph.input} | {t.name for t in graph.initializer}
        own |= {o for n in graph.node for o in n.output}
        used = [i for n in graph.node for i in (*n.input, *_captured(n))]
        used += [o.name for o in graph.output]
        free += [name for name in used if name and name not in own]
    return free


def _element_type(model: onnx.ModelProto, name: str) -> int:
    for value in (*model.graph.value_info, *model.graph.output, *model.graph.input):
        if value.name == name:
            return int(value.type.tensor_type.elem_type)
    return 0


def _declared(model: onnx.ModelProto, name: str, array: Array) -> onnx.ValueInfoProto:
    from onnx import helper

    kind = _element_type(model, name) or helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, kind, array.shape)
