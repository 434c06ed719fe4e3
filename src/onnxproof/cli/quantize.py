"""``onnxproof quantize``: weights of 8 or 4 bits, and what they cost."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from onnxproof.cli.app import Debug, Json, app
from onnxproof.cli.console import progress, reporting
from onnxproof.cli.examples import examples
from onnxproof.cli.narrow import (
    Cases,
    Limit,
    Output,
    Runtimes,
    Seed,
    Target,
    cases_of,
    finish,
    output_of,
)

Mode = Literal["int8", "int8-static", "int4"]


@app.command(epilog=examples("quantize"))
def quantize(
    target: Target,
    mode: Annotated[
        Mode,
        typer.Option(
            help="8 bits with ranges found in each run, or in calibration; or 4 bits for the weights of products."
        ),
    ] = "int8",
    output: Output = None,
    cases: Cases = None,
    calibrate: Annotated[
        Path | None,
        typer.Option(
            metavar="PLACE",
            help="Calibration cases for int8-static, as --cases takes them. Default: the cases themselves.",
            show_default=False,
        ),
    ] = None,
    operator: Annotated[
        list[str] | None,
        typer.Option(metavar="TYPE", help="An operator type to quantize to 8 bits. Default: by mode."),
    ] = None,
    full_range: Annotated[
        bool,
        typer.Option(
            "--full-range", help="All 8 bits of weights; sums then saturate on processors without VNNI."
        ),
    ] = False,
    block_size: Annotated[int, typer.Option(help="Weights that share a scale in int4.")] = 32,
    limit: Limit = None,
    runtime: Runtimes = None,
    seed: Seed = 0,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Write a model with weights of 8 or 4 bits, and prove by running what is left of its accuracy.

    Exits with 10 to 18 by the class of the failure when more is lost than the limit allows.
    """
    with reporting(debug):
        given = cases_of(target, cases, seed)
        if mode == "int8-static" and calibrate is None and isinstance(given, dict):
            raise typer.BadParameter(
                "ranges can't be found on drawn numbers: give calibration cases, or a bundle",
                param_hint="--calibrate",
            )
        with progress(f"quantizing {target}"):
            import onnxproof

            done = onnxproof.quantize(
                target,
                output_of(target, output, mode),
                mode,
                cases=given,
                calibration=calibrate,
                limit=limit,
                runtimes=runtime or ("onnxruntime",),
                operators=operator or None,
                full_range=full_range,
                block_size=block_size,
            )
        finish(done, as_json=as_json)
