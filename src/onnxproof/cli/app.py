"""The typer application: one function per command, its options and nothing else. JAX is imported on use."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

import onnxproof
from onnxproof.cli.console import reporting
from onnxproof.cli.examples import examples

app = typer.Typer(
    name="onnxproof",
    help="Export JAX callables to ONNX, with proof by running.",
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Normalization = Literal["auto", "prefer_native", "force_decomposed"]
Unrolling = Literal["auto", "always", "never"]
FunctionKind = Literal["marked", "scopes"]
WeightPlace = Literal["embedded", "external", "inputs"]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document, and nothing else, on stdout.")]
Rtol = Annotated[float | None, typer.Option(min=0, help="Relative tolerance. Default: by dtype.")]
Atol = Annotated[float | None, typer.Option(min=0, help="Absolute tolerance. Default: by dtype.")]


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"onnxproof {onnxproof.__version__}")
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Export JAX callables to ONNX, with proof by running."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command(epilog=examples("export"))
def export(
    target: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:NAME",
            help="A function or module object, or something to call without arguments that returns one:"
            " pkg.module:fn, pkg.module:Model.method, path/to/file.py:build.",
            show_default=False,
        ),
    ],
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "-i",
            "--input",
            metavar="[NAME=]SHAPE[:DTYPE]",
            help="One per argument: x=B,16, mask=B,T:bool, step=:int32 (a scalar), batch.image=B,28,28,1"
            " (an entry of a dict). Letters are dimensions that vary. Default dtype float32.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="The file to write. Default: NAME.onnx.", show_default=False),
    ] = None,
    fix: Annotated[
        list[str] | None,
        typer.Option(
            "--fix", metavar="NAME=VALUE", help="A keyword argument fixed in the file, such as train=False."
        ),
    ] = None,
    opset: Annotated[int, typer.Option(help="The ONNX opset to write.")] = 23,
    double: Annotated[bool, typer.Option("--double", help="Compute in 64 bits.")] = False,
    output_name: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="One per output, in order.")
    ] = None,
    input_nchw: Annotated[
        list[int] | None,
        typer.Option(metavar="POSITION", help="An input that the file takes with channels first."),
    ] = None,
    output_nchw: Annotated[
        list[int] | None,
        typer.Option(metavar="POSITION", help="An output that the file gives with channels first."),
    ] = None,
    constraint: Annotated[
        list[str] | None, typer.Option(metavar="EXPR", help="A fact about dimensions, such as 'T >= 2'.")
    ] = None,
    drop_effect: Annotated[
        list[str] | None, typer.Option(metavar="KIND", help="Leave out side effects: debug, checks.")
    ] = None,
    unroll_scans: Annotated[
        Unrolling, typer.Option(help="Spell out scans over stacked weights: auto, always, never.")
    ] = "auto",
    model_name: Annotated[str | None, typer.Option(metavar="NAME", help="The name of the graph.")] = None,
    normalization: Annotated[
        Normalization, typer.Option(help="Whether to use native normalization operators.")
    ] = "auto",
    runtime: Annotated[
        str | None,
        typer.Option(
            "--target",
            metavar="TARGET",
            help="The runtime to write for: ort-cpu, ort-web-wasm (default with --web), ort-web-webgpu.",
            show_default=False,
        ),
    ] = None,
    web: Annotated[bool, typer.Option("--web", help="One self-contained file for the browser.")] = False,
    external_data: Annotated[
        bool | None,
        typer.Option(
            "--external-data/--no-external-data",
            help="Weights in a file of their own. Default: when they pass 1.5 GiB.",
            show_default=False,
        ),
    ] = None,
    strip_provenance: Annotated[
        bool | None,
        typer.Option(
            "--strip-provenance/--keep-provenance",
            help="Leave out source lines and scopes. Default: of files for the browser.",
            show_default=False,
        ),
    ] = None,
    functions: Annotated[
        FunctionKind,
        typer.Option(help="ONNX functions: of what is marked, or of scopes that repeat as well."),
    ] = "marked",
    weights: Annotated[
        WeightPlace | None,
        typer.Option(help="Weights in the file, beside it, or as inputs of the graph by their paths."),
    ] = None,
    doc: Annotated[str, typer.Option(metavar="TEXT", help="What the model is.", show_default=False)] = "",
    describe: Annotated[
        list[str] | None, typer.Option(metavar="NAME=TEXT", help="What an input or output is.")
    ] = None,
    labels: Annotated[
        list[str] | None,
        typer.Option(metavar="[NAME=]FILE", help="Names of the classes of an output, one a line."),
    ] = None,
    meta: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="More to say, such as license=MIT.")
    ] = None,
    prove: Annotated[
        bool,
        typer.Option(
            "--prove/--no-prove",
            help="Run the file against JAX at a few sizes, and leave the evidence beside it in NAME.evidence.",
        ),
    ] = True,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Write a JAX function or model to an ONNX file, and prove by running what it computes.

    Exits with 10 to 18 by the class of the failure when the file does not compute what JAX does.
    """
    with reporting(debug):
        from onnxproof.cli.export import Options, run
        from onnxproof.cli.metadata import Texts

        run(
            Options(
                target=target,
                inputs=tuple(inputs or ()),
                output=output,
                fixed=tuple(fix or ()),
                opset=opset,
                double=double,
                output_names=tuple(output_name or ()),
                inputs_as_nchw=tuple(input_nchw or ()),
                outputs_as_nchw=tuple(output_nchw or ()),
                constraints=tuple(constraint or ()),
                drop_effects=tuple(drop_effect or ()),
                unroll_scans=unroll_scans,
                model_name=model_name,
                normalization=normalization,
                runtime=runtime,
                web=web,
                external_data=external_data,
                strip_provenance=strip_provenance,
                functions=functions,
                weights=weights,
                texts=Texts(doc, tuple(describe or ()), tuple(labels or ()), tuple(meta or ())),
                prove=prove,
                as_json=as_json,
            )
        )


@app.command(epilog=examples("demo"))
def demo(
    output: Annotated[
        Path, typer.Option("-o", "--output", help="The folder for everything that the demo writes.")
    ] = Path("demo-output"),
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Train a small digit classifier, export it, check it, and run it against JAX."""
    with reporting(debug):
        from onnxproof.cli.demo import run

        run(output, as_json=as_json)


@app.command(epilog=examples("verify"))
def verify(
    target: Annotated[
        Path,
        typer.Argument(
            metavar="BUNDLE|MODEL",
            help="A bundle to run again, or an ONNX file to hold against ONNX's reference evaluator.",
            show_default=False,
        ),
    ],
    runtime: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A runtime for a model: onnxruntime, onnxruntime-recommended, onnxruntime-cuda, openvino, tract,"
            " ort-web-node-wasm, ort-web-browser-wasm, ort-web-browser-webgpu.",
            show_default=False,
        ),
    ] = None,
    rtol: Rtol = None,
    atol: Atol = None,
    seed: Annotated[int, typer.Option(help="Seed of the inputs drawn for a model.")] = 0,
    report: Annotated[Path | None, typer.Option(help="Write a report, as JSON.", show_default=False)] = None,
    bundle: Annotated[
        Path | None, typer.Option(help="Leave a bundle of a model here.", show_default=False)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a bundle that is there.")] = False,
    key: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A public key, in PEM: the bundle's signature has to be its.",
            show_default=False,
        ),
    ] = None,
    signature: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The signature. Default: BUNDLE.sig.", show_default=False),
    ] = None,
    executor: Annotated[
        str | None,
        typer.Option(
            metavar="processes[:N]|dask:ADDRESS",
            help="Run runtimes and cases as jobs, here or on a Dask cluster. Default: one after the other.",
            show_default=False,
        ),
    ] = None,
    device_record: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="What a browser saved on the page of this bundle: compare its outputs, and run nothing here.",
            show_default=False,
        ),
    ] = None,
    contract: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME|FILE.toml|MODULE:NAME",
            help="What the file promises: policy-continuous, policy-discrete, or a contract of yours.",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Run the evidence of a bundle again, or make some for a model."""
    with reporting(debug):
        from onnxproof.cli.sign import check
        from onnxproof.cli.verify import Options, run

        check(target, key, signature)
        run(
            Options(
                target=target,
                runtimes=tuple(runtime or ()),
                rtol=rtol,
                atol=atol,
                seed=seed,
                report=report,
                bundle=bundle,
                force=force,
                executor=executor,
                as_json=as_json,
                device_record=device_record,
                contracts=tuple(contract or ()),
            )
        )


@app.command(epilog=examples("explain"))
def explain(
    target: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:NAME", help="What was exported, as export takes it.", show_default=False
        ),
    ],
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "-i", "--input", metavar="[NAME=]SHAPE[:DTYPE]", help="As export takes it.", show_default=False
        ),
    ] = None,
    fix: Annotated[
        list[str] | None, typer.Option("--fix", metavar="NAME=VALUE", help="As export takes it.")
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The file at fault. Default: a fresh export.", show_default=False),
    ] = None,
    bundle: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Take model and inputs from a bundle.", show_default=False),
    ] = None,
    case: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="The bundle's case. Default: the first that differs.", show_default=False
        ),
    ] = None,
    size: Annotated[
        list[str] | None, typer.Option(metavar="NAME=SIZE", help="The size of a dimension that varies.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the inputs drawn.")] = 0,
    opset: Annotated[int, typer.Option(help="The ONNX opset of a fresh export.")] = 23,
    double: Annotated[bool, typer.Option("--double", help="Compute in 64 bits.")] = False,
    rtol: Rtol = None,
    atol: Atol = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="A folder for the smallest part that still fails.", show_default=False
        ),
    ] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Find the first value that is wrong: its primitive, its line, and whose fault it is."""
    with reporting(debug):
        from onnxproof.cli.explain import Options, run

        run(
            Options(
                target=target,
                inputs=tuple(inputs or ()),
                fixed=tuple(fix or ()),
                model=model,
                bundle=bundle,
                case=case,
                sizes=tuple(size or ()),
                seed=seed,
                opset=opset,
                double=double,
                rtol=rtol,
                atol=atol,
                output=output,
                as_json=as_json,
            )
        )
