"""``onnxproof inspect``: what a file holds, where a node of it comes from, and the way into a viewer."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onnxproof.cli.app import Debug, Json, app
from onnxproof.cli.console import human_bytes, reporting
from onnxproof.cli.examples import examples
from onnxproof.cli.places import there
from onnxproof.errors import OnnxProofError

if TYPE_CHECKING:
    from onnxproof.inspection.facts import ModelFacts
    from onnxproof.inspection.provenance import NodeOrigin, ValueOrigin

_MAX_ROWS = 20  # of a list on the screen
_NOT_SAID = "the file does not say"


@app.command(epilog=examples("inspect"))
def inspect(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL|BUNDLE", help="An ONNX file, or a bundle.", show_default=False)
    ],
    node: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Where this node comes from: its line, scope and primitive."),
    ] = None,
    value: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Where this value or weight comes from, and what reads it."),
    ] = None,
    depth: Annotated[int, typer.Option(min=1, help="Levels of the tree of weights on the screen.")] = 2,
    netron: Annotated[bool, typer.Option("--netron", help="Open the file in Netron.")] = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Show what a model holds: signature, operators, weights by path, functions, metadata.

    Weights that lie in a file of their own are counted, never loaded.
    """
    with reporting(debug):
        if sum((node is not None, value is not None, netron)) > 1:
            raise typer.BadParameter("ask for one thing at a time", param_hint="--node, --value, --netron")
        there(model, "MODEL|BUNDLE")
        if netron:
            _open(model)
        elif node is not None or value is not None:
            _explain(model, node, value, as_json=as_json)
        else:
            from onnxproof.inspection.facts import inspect

            facts = inspect(model)
            if as_json:
                typer.echo(json.dumps(facts.as_dict(), indent=2))
            else:
                _show(facts, depth)


def _open(model: Path) -> None:
    from onnxproof.inspection.reading import place_of

    path = place_of(model)
    if importlib.util.find_spec("netron") is None:
        raise OnnxProofError(
            "Netron is not installed",
            way_out="Install it with: pip install netron  (or open the file on netron.app)",
        )
    import netron

    netron.start(str(path))
    typer.echo("Netron runs until you press Ctrl-C.", err=True)
    netron.wait()


def _explain(model: Path, node: str | None, value: str | None, *, as_json: bool) -> None:
    from onnxproof.inspection.provenance import node_origin, value_origin
    from onnxproof.inspection.reading import place_of, read

    proto = read(place_of(model))
    found = node_origin(proto, node) if node is not None else value_origin(proto, value or "")
    if as_json:
        typer.echo(json.dumps(found.as_dict(), indent=2))
        return
    from onnxproof.inspection.provenance import NodeOrigin

    rows = _node_rows(found) if isinstance(found, NodeOrigin) else _value_rows(found)
    width = max(len(label) for label, _ in rows)
    for label, text in rows:
        typer.echo(f"{label:{width}}  {text}")


def _node_rows(found: NodeOrigin) -> list[tuple[str, str]]:
    rows = [
        ("node", found.name),
        ("operator", found.operator),
        ("source", found.source or _NOT_SAID),
        ("scope", found.scope or "none"),
        ("primitive", found.primitive or _NOT_SAID),
    ]
    if found.graph:
        rows.append(("inside", found.graph))
    if found.passes:
        rows.append(("changed by", ", ".join(found.passes)))
    rows += [("input", name or "(left out)") for name in found.inputs]
    rows += [("output", name) for name in found.outputs]
    return rows + [("attribute", f"{name} = {text}") for name, text in found.attributes.items()]


def _value_rows(found: ValueOrigin) -> list[tuple[str, str]]:
    kind = {"weight": "weight", "input": "input of the graph", "node": "computed"}[found.kind]
    rows = [("value", found.name), ("what", f"{kind}  {found.type}".rstrip())]
    if found.is_output:
        rows.append(("", "output of the graph"))
    if found.file is not None:
        rows.append(("kept in", found.file))
    if found.aliases:
        rows.append(("also at", ", ".join(found.aliases)))
    if found.node is None and found.passes:
        rows.append(("derived by", ", ".join(found.passes)))
    rows += [("read by", name) for name in found.readers] or [("read by", "nothing")]
    return rows + ([] if found.node is None else _node_rows(found.node))


def _show(facts: ModelFacts, depth: int) -> None:
    from rich.console import Console
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")

    def rows(label: str, lines: Iterable[Any]) -> None:
        said = [str(line) for line in lines]
        more = len(said) - _MAX_ROWS
        said = [*said[:_MAX_ROWS], f"and {more} more, which --json lists"] if more > 0 else said
        for i, line in enumerate(said):
            table.add_row(label if i == 0 else "", Text(line))

    files = facts.files.items()
    rows("file", (f"{p}, {'missing' if n is None else human_bytes(n)}" for p, n in files))
    rows("about", facts.description.splitlines())
    rows("producer", [facts.producer or _NOT_SAID])
    opsets = ", ".join(f"{domain} {version}" for domain, version in facts.opsets.items())
    rows("opset", [f"{opsets}; IR version {facts.ir_version}"])
    rows("inputs", map(_port, facts.inputs))
    rows("outputs", map(_port, facts.outputs))
    rows("varying", [", ".join(facts.dimensions)] if facts.dimensions else [])
    said = f", {facts.with_provenance} with their source line" if facts.nodes else ""
    rows("nodes", [f"{facts.nodes}{said}"])
    rows("operators", [" ".join(f"{op} {n}" for op, n in facts.operators.items())] if facts.operators else [])
    rows("functions", (f"{f.name}  {f.nodes} nodes, called {f.calls} times" for f in facts.functions))
    rows("weights", _weights(facts, depth))
    rows("metadata", (f"{key} = {value}" for key, value in facts.metadata.items()))
    title = Text(facts.name or "a model without a name")
    Console().print(Panel(table, title=title, title_align="left", expand=False))


def _port(port: Any) -> str:
    return f"{port}  {port.description}".rstrip()


def _weights(facts: ModelFacts, depth: int) -> Iterable[str]:
    from onnxproof.inspection.tree import rows, tree

    root = tree(facts.weights)
    yield f"{root.count}, {root.elements:,} elements, {human_bytes(root.bytes)}"
    for level, branch in rows(root, depth):
        held = branch.tensor
        shape = "" if held is None else f"  {held.dtype}[{', '.join(map(str, held.shape))}]"
        below = f"  {branch.count} weights" if branch.children else ""
        yield f"{'  ' * (level + 1)}{branch.name}{shape}{below}  {human_bytes(branch.bytes)}"
