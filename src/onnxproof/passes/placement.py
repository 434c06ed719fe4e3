"""What of a finished graph a target's accelerator does not run, as its kernel table has it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import onnx_ir as ir

from onnxproof import targets
from onnxproof.passes.graphs import graphs
from onnxproof.passes.pipeline import PassContext
from onnxproof.targets import Target

FALLBACK = "onnxproof.fallback"  # the key of the model's metadata


@dataclass(frozen=True, slots=True)
class Fallback:
    """Nodes of one operator and type that run beside the accelerator.

    Attributes:
        dtype: of the first operand, as NumPy names it.
        until: the newest opset at which the accelerator runs them, where an earlier one does.
    """

    operator: str
    dtype: str
    nodes: int
    accelerator: str
    until: int | None

    def __str__(self) -> str:
        count = f" x{self.nodes}" if self.nodes > 1 else ""
        way_out = f" (on {self.accelerator} up to opset {self.until})" if self.until else ""
        return f"{self.operator} {self.dtype}{count}{way_out}"


def fallbacks(model: ir.Model, target: str) -> tuple[Fallback, ...]:
    """The nodes that the accelerator of ``target`` does not run, by operator and type, most first.

    It is said of the file. The runtime may fuse nodes, and keeps arithmetic on shapes beside the accelerator.
    """
    found = targets.get(target)
    opset = model.opset_imports[""]
    counts: Counter[tuple[str, str, int | None]] = Counter()
    nodes = [node for graph in graphs(model) for node in graph] if found.accelerator else []
    for node in nodes:
        if not node.domain and node.op_type != "Constant" and not _runs(found, node, opset):
            earlier = range(opset - 1, found.min_opset - 1, -1)
            until = next((o for o in earlier if _runs(found, node, o)), None)
            counts[node.op_type, _dtype(node), until] += 1
    return tuple(
        Fallback(op, dtype, n, found.accelerator, until)
        for (op, dtype, until), n in sorted(counts.items(), key=lambda item: (-item[1], item[0][:2]))
    )


def note_fallbacks(model: ir.Model, context: PassContext) -> None:
    """Write into the metadata of a finished model what the target's accelerator does not run."""
    found = fallbacks(model, context.target)
    if found:
        model.metadata_props[FALLBACK] = "; ".join(map(str, found))


def _runs(target: Target, node: ir.Node, opset: int) -> bool:
    version = target.version(node.op_type, opset)
    if version is None:
        return False
    inputs = [None if v is None else v.dtype for v in node.inputs]
    return version.accelerates(version.bind(inputs, [v.dtype for v in node.outputs]))


def _dtype(node: ir.Node) -> str:
    operand = next((v for v in (*node.inputs, *node.outputs) if v is not None), None)
    return "" if operand is None or operand.dtype is None else operand.dtype.numpy().name
