"""Blocks that repeat become ONNX functions: nodes of one scope, where another scope holds the same.

Scopes are those of the program (``Net/Block_0``), kept in the ``namespace`` of each node. Bodies are equal when they
have the same operators, attributes and wiring and take values of the same dtypes and shapes; weights are inputs.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

DOMAIN = "onnxproof.functions"
LEAST_NODES = 2  # of a body: a function around one operator only hides it
SMALL = 8  # elements of a constant that a body keeps; larger ones are inputs


@dataclass(frozen=True)
class Block:
    """Nodes of one call of a scope, in order, with what they take and give."""

    scope: str
    nodes: tuple[ir.Node, ...]
    inputs: tuple[ir.Value, ...]
    outputs: tuple[ir.Value, ...]
    constants: tuple[ir.Value, ...]


def functions_of_scopes(model: ir.Model) -> None:
    """Replace blocks that repeat by calls of one function each, outermost scopes first."""
    circle = _Circle(model.graph)
    taken = {f.name for f in model.functions.values()}
    calls: list[tuple[Block, str]] = []
    for scopes in _levels(model.graph):
        for blocks in _alike(scopes, circle, model.graph):
            apart = [block for block in blocks if circle.take(block)]
            if len(apart) < 2:
                for block in apart:
                    circle.leave(block)
                continue
            name = _free(_label(apart[0].scope), taken)
            model.functions[(DOMAIN, name, "")] = _function(name, apart[0], model.opset_imports[""])
            calls += [(block, name) for block in apart]
    if calls:
        model.opset_imports[DOMAIN] = 1
        _replace(model.graph, calls)


def _alike(scopes: dict[str, list[ir.Node]], circle: _Circle, graph: ir.Graph) -> list[list[Block]]:
    """Blocks with equal bodies, two or more of each."""
    found: dict[Hashable, list[Block]] = defaultdict(list)
    for scope, nodes in scopes.items():
        for part in _components([n for n in nodes if n not in circle.owner]):
            block = _block(scope, part, graph)
            if block is not None:
                found[_fingerprint(block)].append(block)
    return [blocks for blocks in found.values() if len(blocks) > 1]


class _Circle:
    """Which nodes belong to which block, and whether the blocks can each be one node."""

    def __init__(self, graph: ir.Graph) -> None:
        self.owner: dict[ir.Node, Block] = {}
        self._outer = {inner: node for node in graph for inner in _inside(node)}

    def take(self, block: Block) -> bool:
        """Take a block, unless something outside lies between two nodes of it: no call could take its place."""
        self.owner.update(dict.fromkeys(block.nodes, block))
        stack = self._after(block.nodes)
        seen: set[ir.Node] = set(block.nodes)
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            other = self.owner.get(node)
            whole = (node,) if other is None else other.nodes
            seen.update(whole)
            following = self._after(whole)
            if any(self.owner.get(n) is block for n in following):
                self.leave(block)
                return False
            stack += following
        return True

    def leave(self, block: Block) -> None:
        """Undo what was taken."""
        for node in block.nodes:
            del self.owner[node]

    def _after(self, nodes: Sequence[ir.Node]) -> list[ir.Node]:
        """Nodes of the main graph outside ``nodes`` that read what they give, themselves or inside."""
        own = set(nodes)
        readers = (self._outer.get(u, u) for n in nodes for v in n.outputs for u in v.consumers())
        return [n for n in readers if n not in own]


def _inside(node: ir.Node) -> Iterator[ir.Node]:
    """The nodes of all graphs inside a node."""
    for attr in node.attributes.values():
        graphs = attr.as_graphs() if attr.type == ir.AttributeType.GRAPHS else ()
        for graph in (attr.as_graph(),) if attr.type == ir.AttributeType.GRAPH else graphs:
            for inner in graph:
                yield inner
                yield from _inside(inner)


def _levels(graph: ir.Graph) -> Iterator[dict[str, list[ir.Node]]]:
    """Scopes of one depth with their nodes, and those below, from the outermost inwards."""
    paths = {node: _scope(node).split("/") for node in graph if _scope(node)}
    for depth in range(1, 1 + max(map(len, paths.values()), default=0)):
        found: dict[str, list[ir.Node]] = defaultdict(list)
        for node, path in paths.items():
            if len(path) >= depth:
                found["/".join(path[:depth])].append(node)
        yield found


def _components(nodes: Sequence[ir.Node]) -> Iterator[tuple[ir.Node, ...]]:
    """The nodes in parts that no value connects, each in order: calls of a layer that is called several times."""
    group = {node: node for node in nodes}

    def root(node: ir.Node) -> ir.Node:
        while group[node] is not node:
            group[node] = group[group[node]]
            node = group[node]
        return node

    for node in nodes:
        for value in node.inputs:
            maker = None if value is None else value.producer()
            if maker is not None and maker in group:
                group[root(maker)] = root(node)
    parts: dict[ir.Node, list[ir.Node]] = defaultdict(list)
    for node in nodes:
        parts[root(node)].append(node)
    yield from (tuple(part) for part in parts.values())


def _block(scope: str, nodes: tuple[ir.Node, ...], graph: ir.Graph) -> Block | None:
    """The block of these nodes; None where they are too few, or hold graphs of their own, which see outer values."""
    if len(nodes) < LEAST_NODES or any(
        attr.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)
        for n in nodes
        for attr in n.attributes.values()
    ):
        return None
    inside = set(nodes)
    given = set(graph.outputs)
    inputs: dict[ir.Value, None] = {}
    constants: dict[ir.Value, None] = {}
    for node in nodes:
        for value in node.inputs:
            if value is not None and value.producer() not in inside:
                (constants if _is_small(value) else inputs)[value] = None
    outputs = [
        v
        for node in nodes
        for v in node.outputs
        if v in given or any(user not in inside for user in v.consumers())
    ]
    return Block(scope, nodes, tuple(inputs), tuple(outputs), tuple(constants)) if outputs else None


def _is_small(value: ir.Value) -> bool:
    """Whether a constant belongs to the program rather than to its weights: one element, or a few integers."""
    tensor = value.const_value
    if not value.is_initializer() or tensor is None or isinstance(tensor, ir.LazyTensor):
        return False  # a lazy tensor is a weight, which keeps its place and name
    whole = value.dtype is not None and not value.dtype.is_floating_point()
    return tensor.size <= (SMALL if whole else 1)


def _fingerprint(block: Block) -> Hashable:
    """Equal for blocks that one body serves."""
    numbers: dict[ir.Value | None, Hashable] = {None: None}
    for i, value in enumerate(block.inputs):
        numbers[value] = ("input", i, value.dtype, str(value.shape))
    for value in block.constants:
        array = value.const_value.numpy() if value.const_value is not None else np.zeros(0)
        numbers[value] = ("constant", value.dtype, array.shape, array.tobytes())
    lines: list[Hashable] = []
    for i, node in enumerate(block.nodes):
        for j, value in enumerate(node.outputs):
            numbers[value] = (i, j)
        attributes = tuple(
            (name, ir.to_proto(attr).SerializeToString(deterministic=True))
            for name, attr in sorted(node.attributes.items())
        )
        lines.append(
            (node.domain, node.op_type, attributes, tuple(numbers[v] for v in node.inputs), len(node.outputs))
        )
    return tuple(lines), tuple((numbers[v], v.dtype, str(v.shape)) for v in block.outputs)


def _function(name: str, block: Block, opset: int) -> ir.Function:
    """The body, made of copies of a block's nodes; names lose the scope that the call has."""
    values: dict[ir.Value | None, ir.Value | None] = {None: None}
    used: set[str] = set()
    for value in block.inputs:
        values[value] = ir.Value(
            name=_free(_local(value, block.scope), used), type=value.type, shape=value.shape
        )
    inputs = [v for v in map(values.get, block.inputs) if v is not None]
    nodes = []
    for value in block.constants:
        node = ir.node(
            "Constant", [], {"value": ir.Attr("value", ir.AttributeType.TENSOR, value.const_value)}
        )
        node.outputs[0].name = _free(value.name or "constant", used)
        node.outputs[0].type, node.outputs[0].shape = value.type, value.shape
        values[value] = node.outputs[0]
        nodes.append(node)
    for old in block.nodes:
        new = ir.Node(
            old.domain,
            old.op_type,
            [values[v] for v in old.inputs],
            attributes=list(old.attributes.values()),
            num_outputs=len(old.outputs),
            name=_stripped(old.name or "", block.scope),
            metadata_props=dict(old.metadata_props),
        )
        inner = _stripped(_scope(old), block.scope)
        new.metadata_props.pop("namespace", None)
        if inner:
            new.metadata_props["namespace"] = inner
        for before, after in zip(old.outputs, new.outputs, strict=True):
            after.name = _free(_local(before, block.scope), used)
            after.type, after.shape = before.type, before.shape
            values[before] = after
        nodes.append(new)
    outputs = [v for v in map(values.get, block.outputs) if v is not None]
    body = ir.Graph(inputs, outputs, nodes=nodes, name=name, opset_imports=_imports(block, opset))
    return ir.Function(DOMAIN, name, graph=body, attributes=())


def _imports(block: Block, opset: int) -> dict[str, int]:
    return {"": opset, **{n.domain: 1 for n in block.nodes if n.domain}}


def _replace(graph: ir.Graph, calls: Sequence[tuple[Block, str]]) -> None:
    """Put a call in the place of each block; values keep their names."""
    made = []
    inside = {node for block, _ in calls for node in block.nodes}
    taken = {node.name for node in graph if node.name and node not in inside}
    for block, name in calls:
        parent, _, _ = block.scope.rpartition("/")
        label = _free(block.scope, taken)  # a layer that is called twice is one scope
        node = ir.Node(DOMAIN, name, block.inputs, num_outputs=len(block.outputs), name=label)
        node.metadata_props.update(
            {"onnxproof.primitive": "function"} | ({"namespace": parent} if parent else {})
        )
        graph.insert_before(block.nodes[0], node)
        made.append((block, node))
    for block, node in made:
        for before, after in zip(block.outputs, node.outputs, strict=True):
            after.name, after.type, after.shape = before.name, before.type, before.shape
            before.replace_all_uses_with(after, replace_graph_outputs=True)
    graph.remove([n for block, _ in made for n in reversed(block.nodes)], safe=True)
    graph.sort()
    for name in [n for n, v in graph.initializers.items() if not v.uses() and not v.is_graph_output()]:
        del graph.initializers[name]


def _scope(node: ir.Node) -> str:
    return node.metadata_props.get("namespace", "")


def _stripped(text: str, scope: str) -> str:
    """What is left of a name or scope inside ``scope``."""
    return text.removeprefix(scope).removeprefix("/")


def _local(value: ir.Value, scope: str) -> str:
    name = _stripped(value.name or "", scope)
    return re.sub(r"[^\w.:/]+", "_", name) or "value"


def _label(scope: str) -> str:
    """``Net/Block_0`` → ``Block``."""
    last = re.sub(r"_?\d+$", "", scope.rpartition("/")[2])
    label = re.sub(r"\W+", "_", last).strip("_")
    return label if label.isidentifier() else "block"


def _free(name: str, taken: set[str]) -> str:
    unique, n = name, 1
    while unique in taken:
        unique, n = f"{name}_{n}", n + 1
    taken.add(unique)
    return unique
