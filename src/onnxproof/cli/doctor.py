"""``onnxproof doctor``: text to paste into a report of a fault, and a check of the installation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onnxproof.cli.app import Debug, Json, app
from onnxproof.cli.console import FAILED, human_bytes, progress, reporting
from onnxproof.cli.examples import examples
from onnxproof.cli.places import there

if TYPE_CHECKING:
    from onnxproof.inspection.environment import Environment

_ABSENT = "not found"


@app.command(epilog=examples("doctor"))
def doctor(
    bundle: Annotated[
        Path | None,
        typer.Argument(
            metavar="[BUNDLE]", help="A bundle: tell which of its stages failed, and why.", show_default=False
        ),
    ] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Check the installation, and print everything that a report of a fault needs.

    A small function is exported and run. Exits with 1 when that fails.
    """
    with reporting(debug):
        if bundle is not None:
            there(bundle, "BUNDLE")
        with progress("checking the installation"):
            from onnxproof.inspection.environment import environment

            found = environment(bundle)
        if as_json:
            typer.echo(json.dumps(found.as_dict(), indent=2))
        else:
            typer.echo("\n".join(lines(found)))
        if not found.check.passed:
            raise typer.Exit(FAILED)


def lines(found: Environment) -> Iterator[str]:
    """The facts as text to paste."""
    here = found.machine
    yield f"onnxproof  {found.onnxproof}"
    yield f"Python     {found.python}"
    yield f"system     {here.system}"
    features = f" ({' '.join(here.features)})" if here.features else ""
    yield f"processor  {here.cpu}, {here.cores} cores{features}"
    yield f"memory     {_ABSENT if here.memory is None else human_bytes(here.memory)}"
    for group, versions in found.packages.items():
        if versions:
            yield f"{group:11}" + ", ".join(f"{name} {version}" for name, version in versions.items())
    yield f"devices    {', '.join(found.check.devices) or _ABSENT}"
    yield f"providers  {', '.join(found.check.providers) or _ABSENT}"
    yield f"node       {found.web['node'] or _ABSENT}"
    yield f"web        onnxruntime-web {found.web['onnxruntime-web'] or _ABSENT}"
    yield f"browser    {found.web['browser'] or _ABSENT}"
    check = found.check
    if check.passed:
        yield f"check      passed: a small export, run in ONNX Runtime, in {check.seconds:.1f} seconds"
    else:
        yield f"check      FAILED at {check.stage}: {check.message}"
    if found.bundle is not None:
        stage = found.bundle.stage
        verdict = "no stage failed" if stage is None else f"FAILED at {stage}: {found.bundle.failure}"
        yield f"bundle     {found.bundle.bundle}: {verdict}"
        yield from (f"  {line}" for line in found.bundle.message.splitlines())
