"""Names for nodes and values: ``<scope>/<primitive>``, numbered where one scope repeats a primitive."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx_ir as ir

from onnxproof.passes.graphs import graphs

if TYPE_CHECKING:
    from onnxproof.passes.pipeline import PassContext


def assign_names(model: ir.Model, context: PassContext) -> None:
    """Name every node and every value that is neither an input, an output nor an initializer."""
    main = model.graph
    fixed = {v.name for v in (*main.inputs, *main.outputs)} | set(main.initializers)
    taken: set[str] = {n for n in fixed if n}
    counts: dict[str, int] = {}

    def fresh(base: str) -> str:
        while True:
            n = counts.get(base, 0)
            counts[base] = n + 1
            name = f"{base}_{n}" if n else base
            if name not in taken:
                taken.add(name)
                return name

    for graph in graphs(model):
        outputs = set(main.outputs) if graph is main else set()
        if graph is not main:
            for value in graph.inputs:
                value.name = fresh(f"{getattr(graph, 'name', 'body')}/input")
        for node in graph:
            name = fresh(_base(node))
            node.name = name
            single = len(node.outputs) == 1
            for i, value in enumerate(node.outputs):
                if value not in outputs:
                    value.name = fresh(f"{name}:0" if single else f"{name}:{i}")


def _base(node: ir.Node) -> str:
    scope = node.metadata_props.get("namespace", "")
    primitive = node.metadata_props.get("onnxproof.primitive", node.op_type)
    return f"{scope}/{primitive}" if scope else primitive
