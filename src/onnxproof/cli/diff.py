"""``onnxproof diff``: how two models differ; exits with 1 when they do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onnxproof.cli.app import Debug, Json, app
from onnxproof.cli.console import progress, reporting
from onnxproof.cli.examples import examples
from onnxproof.cli.places import there

if TYPE_CHECKING:
    from onnxproof.inspection.diff import Difference

DIFFERENT = 1
_MAX_ROWS = 20


@app.command(epilog=examples("diff"))
def diff(
    before: Annotated[
        Path, typer.Argument(metavar="BEFORE", help="An ONNX file or a bundle.", show_default=False)
    ],
    after: Annotated[
        Path, typer.Argument(metavar="AFTER", help="An ONNX file or a bundle.", show_default=False)
    ],
    run: Annotated[
        bool, typer.Option("--run", help="Run both in ONNX Runtime on inputs that are drawn.")
    ] = False,
    cases: Annotated[
        Path | None,
        typer.Option(
            metavar="PLACE",
            help="Run both on these: a bundle, an .npz file, or a folder of them.",
            show_default=False,
        ),
    ] = None,
    rtol: Annotated[
        float | None, typer.Option(min=0, help="Relative tolerance of outputs. Default: by dtype.")
    ] = None,
    atol: Annotated[
        float | None, typer.Option(min=0, help="Absolute tolerance of outputs. Default: by dtype.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the inputs drawn.")] = 0,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Compare two models: graphs by where nodes come from, weights by path, outputs by running.

    Exits with 0 when they are the same, and with 1 when they differ.
    """
    with reporting(debug):
        there(before, "BEFORE")
        there(after, "AFTER")
        if cases is not None:
            there(cases, "--cases")
        with progress(f"comparing {before} and {after}"):
            from onnxproof.inspection import diff as comparing

            given = _cases(before, cases, seed) if run or cases is not None else None
            found = comparing.diff(before, after, given, rtol, atol)
        typer.echo(json.dumps(found.as_dict(), indent=2) if as_json else "\n".join(lines(found)))
        if found.differ:
            raise typer.Exit(DIFFERENT)


def _cases(model: Path, place: Path | None, seed: int) -> Any:
    from onnxproof.evidence.model import unchecked
    from onnxproof.inspection.drawing import SIZES, draw
    from onnxproof.inspection.reading import place_of, read
    from onnxproof.precision.cases import read_cases

    ports = unchecked(read(place_of(model)), None).inputs or []
    if place is not None:
        return read_cases(place, ports)
    return {f"size-{n}": draw(ports, n, seed) for n in SIZES}


def lines(found: Difference) -> Iterator[str]:
    """The differences as text, or that there are none."""
    if not found.differ:
        yield "the same" + ("" if found.outputs is None else ", and so are their outputs")
    yield from _listed("", (f"{c.what}: {c.before} -> {c.after}" for c in found.facts))
    yield from _listed("operators", (f"{op}: {a} -> {b}" for op, (a, b) in found.operators.items()))
    yield from _listed("from", map(_place, found.places))
    weights = found.weights
    yield from _listed("weights added", weights.added)
    yield from _listed("weights removed", weights.removed)
    yield from _listed("weights reshaped", (f"{c.what}: {c.before} -> {c.after}" for c in weights.reshaped))
    yield from _listed(
        "weights changed",
        (
            f"{c.name}: {c.changed} of {c.elements} elements, by up to {c.max_abs:.3g} (relative {c.max_rel:.3g})"
            for c in weights.changed
        ),
    )
    if weights.differ:
        yield f"weights equal: {weights.equal}"
    yield from _listed(
        "outputs",
        (
            f"{o.case}, {o.output}: {'within the tolerance' if o.matches else o.reason or 'differs'}, by up to"
            f" {o.max_abs:.3g} (relative {o.max_rel:.3g})"
            for o in found.outputs or ()
        ),
    )


def _place(place: Any) -> str:
    where = ", ".join(filter(None, (place.scope, place.primitive, *place.lines)))
    counts = (
        " ".join(f"{op} {n}" for op, n in side.items()) or "none" for side in (place.before, place.after)
    )
    return f"{where}: {' -> '.join(counts)}"


def _listed(title: str, rows: Any) -> Iterator[str]:
    found = list(rows)
    if found and title:
        yield f"{title}:"
    indent = "  " if title else ""
    yield from (f"{indent}{row}" for row in found[:_MAX_ROWS])
    if len(found) > _MAX_ROWS:
        yield f"{indent}and {len(found) - _MAX_ROWS} more, which --json lists"
