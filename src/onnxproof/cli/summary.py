"""What was exported, on one screen or as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx_ir as ir

from onnxproof.artifact.save import weight_bytes
from onnxproof.cli.console import human_bytes
from onnxproof.passes.graphs import graphs
from onnxproof.passes.placement import FALLBACK

if TYPE_CHECKING:
    from rich.table import Table

    from onnxproof.cli.prove import Proof

_MAX_ROWS = 12


@dataclass(frozen=True, slots=True)
class TensorLine:
    """A graph input or output: dtype as NumPy names it, dimensions as ints or text."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class Summary:
    """The facts of an export."""

    name: str
    opset: int
    inputs: tuple[TensorLine, ...]
    outputs: tuple[TensorLine, ...]
    operators: dict[str, int]
    weights: int
    weight_bytes: int
    files: dict[str, int]  # path → bytes
    dropped_effects: tuple[str, ...]
    fallback: tuple[str, ...]  # operators that the target's accelerator does not run
    proof: Proof | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def summarize(model: ir.Model, files: Sequence[Path]) -> Summary:
    """The facts of ``model`` and of the files it was written to."""
    graph = model.graph
    counts = Counter(node.op_type for part in graphs(model) for node in part)
    dropped = model.metadata_props.get("onnxproof.dropped_effects", "")
    return Summary(
        name=graph.name or "",
        opset=model.opset_imports[""],
        inputs=tuple(map(_line, graph.inputs)),
        outputs=tuple(map(_line, graph.outputs)),
        operators=dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))),
        weights=len(graph.initializers),
        weight_bytes=weight_bytes(model),
        files={str(file): file.stat().st_size for file in files},
        dropped_effects=tuple(filter(None, dropped.split("; "))),
        fallback=tuple(filter(None, model.metadata_props.get(FALLBACK, "").split("; "))),
    )


def _line(value: ir.Value) -> TensorLine:
    dtype = "" if value.dtype is None else value.dtype.numpy().name
    dims = (
        () if value.shape is None else tuple(d if isinstance(d, int) else str(d.value) for d in value.shape)
    )
    return TensorLine(value.name or "", dtype, dims)


def show(summary: Summary) -> None:
    """Print ``summary`` on one screen."""
    from rich.console import Console
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    _rows(table, "inputs", summary.inputs)
    _rows(table, "outputs", summary.outputs)
    nodes = sum(summary.operators.values())
    head = list(summary.operators.items())[:_MAX_ROWS]
    more = len(summary.operators) - len(head)
    ops = " ".join(f"{op} {n}" for op, n in head) + (f" and {more} more operators" if more else "")
    table.add_row("opset", str(summary.opset))
    table.add_row("nodes", Text(f"{nodes}: {ops}" if nodes else "none"))
    table.add_row("weights", f"{summary.weights}, {human_bytes(summary.weight_bytes)}")
    for i, (path, size) in enumerate(summary.files.items()):
        table.add_row("file" if i == 0 else "", Text(f"{path}, {human_bytes(size)}"))
    for i, effect in enumerate(summary.dropped_effects):
        table.add_row("left out" if i == 0 else "", Text(effect))
    for i, operator in enumerate(summary.fallback):
        table.add_row("not on WebGPU" if i == 0 else "", Text(operator))
    if summary.proof is not None:
        table.add_row("proof", Text(str(summary.proof)))
    Console().print(Panel(table, title=Text(summary.name), title_align="left", expand=False))


def _rows(table: Table, label: str, lines: Sequence[TensorLine]) -> None:
    from rich.text import Text

    for i, line in enumerate(lines[:_MAX_ROWS]):
        dims = ", ".join(map(str, line.shape))
        table.add_row(label if i == 0 else "", Text(f"{line.name}  {line.dtype}[{dims}]"))
    if len(lines) > _MAX_ROWS:
        table.add_row("", f"and {len(lines) - _MAX_ROWS} more")
