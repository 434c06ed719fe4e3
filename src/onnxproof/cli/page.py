"""``onnxproof page``: a static folder in which a reader's own browser runs the evidence of a bundle."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from onnxproof.cli.app import Debug, Json, app
from onnxproof.cli.console import human_bytes, progress, reporting
from onnxproof.cli.examples import examples
from onnxproof.cli.places import there


@dataclass(frozen=True, slots=True)
class Options:
    """The command line of one page."""

    bundle: Path
    output: Path
    ort: Path | None
    webgpu: bool
    force: bool
    as_json: bool


@app.command(epilog=examples("page"))
def page(
    bundle: Annotated[Path, typer.Argument(metavar="BUNDLE", show_default=False)],
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder to write.")] = Path("site"),
    ort: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="The npm package onnxruntime-web. Default: node_modules, here or further up.",
            show_default=False,
        ),
    ] = None,
    webgpu: Annotated[
        bool, typer.Option("--webgpu/--no-webgpu", help="With the build for WebGPU, which is 27 MB.")
    ] = True,
    force: Annotated[bool, typer.Option("--force", help="Replace a page that is there.")] = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Write a static page in which a reader's own browser runs the evidence of a bundle."""
    with reporting(debug):
        run(Options(bundle, output, ort, webgpu, force, as_json))


def run(options: Options) -> None:
    """Write the page and say where it is."""
    from onnxproof.page.build import build
    from onnxproof.page.ort_web import find

    there(options.bundle, "BUNDLE", "folder")
    ort = find(options.ort)
    with progress(f"writing {options.output}"):
        page = build(options.bundle, options.output, ort, webgpu=options.webgpu, force=options.force)
    if options.as_json:
        sizes = {"page": page.own, "bundle": page.bundle, "runtimes": page.runtimes}
        typer.echo(json.dumps({"folder": str(options.output), "bytes": sizes}, indent=1))
        return
    runtimes = ", ".join(f"{human_bytes(size)} for {name}" for name, size in page.runtimes.items())
    typer.echo(
        f"{options.output}: a page of {human_bytes(page.own)}, a bundle of {human_bytes(page.bundle)},"
        f" ONNX Runtime Web {ort.version} ({runtimes})\n"
        f"  Look at it: python -m http.server --bind 127.0.0.1 --directory {options.output}\n"
        "  Put it on any static host, with HTTPS; docs/page.md says how."
    )
