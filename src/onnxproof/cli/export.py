"""``onnxproof export``: load, export, write, summarize."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from onnxproof.cli.console import progress
from onnxproof.cli.metadata import Texts
from onnxproof.cli.metadata import write as write_texts
from onnxproof.cli.places import to_write
from onnxproof.errors import OnnxProofError

if TYPE_CHECKING:
    from onnxproof._api import Functions, Weights
    from onnxproof.artifact.save import ExportMode
    from onnxproof.capture.unroll import UnrollScans
    from onnxproof.raising.gate import NormalizationMode


@dataclass(frozen=True, slots=True)
class Options:
    """The command line of one export."""

    target: str
    inputs: tuple[str, ...]
    output: Path | None
    fixed: tuple[str, ...]
    opset: int
    double: bool
    output_names: tuple[str, ...]
    inputs_as_nchw: tuple[int, ...]
    outputs_as_nchw: tuple[int, ...]
    constraints: tuple[str, ...]
    drop_effects: tuple[str, ...]
    unroll_scans: UnrollScans
    model_name: str | None
    normalization: NormalizationMode
    runtime: str | None
    web: bool
    external_data: bool | None
    strip_provenance: bool | None
    prove: bool
    as_json: bool
    functions: Functions = "marked"
    weights: Weights | None = None
    texts: Texts = Texts()  # noqa: RUF009  # it can't be changed

    def exporter_options(self) -> dict[str, Any]:
        """What a record keeps of them: those that the exporter takes, but for what it has elsewhere."""
        elsewhere = ("target", "output", "opset", "prove", "as_json", "texts")
        kept = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in elsewhere}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in kept.items()}


def run(options: Options) -> None:
    """Export what ``options`` name, prove the file, and print a summary; exits with the class of a failure."""
    if options.web and options.external_data:
        raise typer.BadParameter(
            "a file for the browser has its weights inside", param_hint="--external-data"
        )
    if options.weights is not None and options.external_data is not None:
        raise typer.BadParameter(
            "both say where weights go; give one", param_hint="--weights, --external-data"
        )
    with progress("importing JAX") as doing:
        from onnxproof import to_onnx
        from onnxproof.artifact.save import save
        from onnxproof.cli import inputs as parsing
        from onnxproof.cli.summary import show, summarize
        from onnxproof.cli.target import build, load
        from onnxproof.passes.weight_inputs import HELD

        specs = [parsing.parse(text, options.double) for text in options.inputs]
        fixed = parsing.parse_fixed(options.fixed)
        mode: ExportMode = "web" if options.web else "standard"
        name = options.target.rpartition(":")[2]
        doing(f"loading {options.target}")
        obj = load(options.target)
        fn = build(obj, options.target, [s.name.partition(".")[0] or "-" for s in specs])
        arguments = parsing.arrange(fn, specs)
        parsing.check_call(fn, arguments, fixed)
        path = to_write(options.output or Path(f"{name}.onnx"), "-o", ".onnx")
        if options.prove:  # what stands in the way of a proof is said before a file is written
            from onnxproof.cli import prove

            prove.folder_of(path)
        doing(f"exporting {name}")
        model = to_onnx(
            fn,
            arguments.inputs,
            input_params={**arguments.input_params, **fixed},
            model_name=options.model_name,
            opset=options.opset,
            return_mode="ir",
            enable_double_precision=options.double,
            input_names=arguments.input_names,
            output_names=options.output_names or None,
            inputs_as_nchw=options.inputs_as_nchw,
            outputs_as_nchw=options.outputs_as_nchw,
            export_mode=mode,
            normalization_mode=options.normalization,
            target=options.runtime,
            constraints=options.constraints,
            drop_effects=options.drop_effects,
            unroll_scans=options.unroll_scans,
            strip_provenance=options.strip_provenance,
            weights=options.weights,
            functions=options.functions,
        )
        write_texts(model, options.texts)
        cases = prove.sizes([s.spec for s in specs], options.constraints) if options.prove else []
        doing(f"writing {path}")
        files = save(
            model,
            path,
            mode=mode,
            external_data=options.external_data if options.weights is None else options.weights == "external",
        )
        summary = summarize(model, files)
        record = None
        if options.prove:
            doing("running JAX and ONNX Runtime")
            call = prove.Call(fn, arguments, fixed, options)
            try:
                held = [tensor.numpy() for tensor in model.meta.get(HELD, {}).values()]
                record = prove.prove(call, arguments, cases, path, options, held)
            except KeyboardInterrupt as err:
                err.add_note(f"{path} is whole, and nothing of it is proven.")
                raise
            except MemoryError as err:
                raise OnnxProofError(
                    f"there is too little memory to run both sides; {path} is whole, and nothing of it is proven",
                    way_out="Leave the proof out with --no-prove, or name large dimensions, as in x=B,16.",
                ) from err
            summary = replace(summary, proof=prove.line(record, path))
        elif (earlier := path.with_suffix(".evidence")).is_dir():
            typer.echo(f"note: {earlier} is of an earlier file, and proves nothing of this one", err=True)
    if options.as_json:
        typer.echo(json.dumps(summary.as_dict(), indent=2))
    else:
        show(summary)
    if record is not None and record.exit_code:
        from onnxproof.evidence import summary_lines

        typer.echo("\n".join(summary_lines(record)), err=True)
        raise typer.Exit(record.exit_code)
