"""``onnxproof convert``: half precision, and what it costs."""

from __future__ import annotations

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


@app.command(epilog=examples("convert"))
def convert(
    target: Target,
    dtype: Annotated[
        Literal["float16", "bfloat16"],
        typer.Option(
            "--to", help="float16 is computed with, where an operator can; bfloat16 is for weights."
        ),
    ] = "float16",
    output: Output = None,
    weights_only: Annotated[
        bool, typer.Option("--weights-only", help="Store weights so, and compute in float32.")
    ] = False,
    cases: Cases = None,
    limit: Limit = None,
    runtime: Runtimes = None,
    seed: Seed = 0,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Write a model in half precision, and prove by running what is left of its accuracy.

    Inputs and outputs keep their dtype. Exits with 10 to 18 by the class of the failure when more is lost than the
    limit allows.
    """
    with reporting(debug):
        given = cases_of(target, cases, seed)
        with progress(f"converting {target}"):
            import onnxproof

            done = onnxproof.convert(
                target,
                output_of(target, output, dtype),
                dtype,
                weights_only=weights_only,
                cases=given,
                limit=limit,
                runtimes=runtime or ("onnxruntime",),
            )
        finish(done, as_json=as_json)
