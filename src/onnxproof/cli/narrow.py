"""What ``onnxproof quantize`` and ``onnxproof convert`` share: cases, and the summary on one screen or as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onnxproof.cli.places import there, to_write

if TYPE_CHECKING:
    from onnxproof.precision.cases import Inputs
    from onnxproof.precision.loss import Loss
    from onnxproof.precision.narrow import Narrowed

Target = Annotated[
    Path,
    typer.Argument(
        metavar="BUNDLE|MODEL",
        help="A bundle, whose recorded outputs are then the reference, or an ONNX file, which is run itself.",
        show_default=False,
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--output",
        help="The file to write; its evidence goes to NAME.evidence. Default: NAME.DTYPE.onnx.",
        show_default=False,
    ),
]
Cases = Annotated[
    Path | None,
    typer.Option(
        metavar="PLACE",
        help="What to run on: an .npz file, a folder of them, or a bundle. Default: the bundle's cases, or arrays"
        " drawn for a model.",
        show_default=False,
    ),
]
Limit = Annotated[
    float | None,
    typer.Option(
        metavar="PART",
        help="The largest error that passes, as a part of the largest value of its output. Default: by dtype.",
        show_default=False,
    ),
]
Runtimes = Annotated[
    list[str] | None,
    typer.Option(
        "--runtime",
        metavar="NAME",
        help="A runtime to prove it in, as verify takes them. Default: onnxruntime.",
        show_default=False,
    ),
]
Seed = Annotated[int, typer.Option(help="Seed of the inputs drawn for a model.")]
SHOWN = 5  # names of weights on the screen


def output_of(target: Path, output: Path | None, suffix: str) -> Path:
    """The file to write: ``net.int8.onnx`` of ``net.onnx`` or of ``net.evidence``.

    Raises:
        BadParameter: a file of another kind is there.
    """
    return to_write(output or Path(f"{target.resolve().stem}.{suffix}.onnx"), "-o", ".onnx")


def cases_of(target: Path, cases: Path | None, seed: int) -> Path | Inputs | None:
    """The cases to run on: those given, those of a bundle, or arrays drawn for a model.

    Raises:
        BadParameter: there is no such file or folder.
        InputSpecError: nothing can be drawn for an input.
    """
    there(target, "BUNDLE|MODEL")
    if cases is not None:
        there(cases, "--cases")
    if cases is not None or target.is_dir():
        return cases
    from onnxproof.evidence.model import unchecked
    from onnxproof.inspection.drawing import SIZES, draw
    from onnxproof.inspection.reading import read

    ports = unchecked(read(target), None).inputs or []
    return {f"size-{n}": draw(ports, n, seed) for n in SIZES}


def finish(done: Narrowed, *, as_json: bool) -> None:
    """Print what came of it; exits with the class of the failure."""
    if as_json:
        typer.echo(json.dumps(done.as_dict(), indent=2))
    else:
        typer.echo("\n".join(lines(done)))
    if done.record.exit_code:
        from onnxproof.evidence import summary_lines

        typer.echo("\n".join(summary_lines(done.record)), err=True)
        raise typer.Exit(done.record.exit_code)


def lines(done: Narrowed) -> list[str]:
    """The facts in a few lines of text."""
    from onnxproof.cli.console import human_bytes

    verdict = done.record.level if done.record.failure is None else f"failed: {done.record.failure}"
    weights = ", ".join(f"{dtype} {human_bytes(n)}" for dtype, n in done.weights.items())
    found = [
        f"{done.files[0]}: {human_bytes(done.bytes_after)}, before {human_bytes(done.bytes_before)}",
        f"  {done.mode.name} by {done.mode.tool}",
        f"  weights: {weights}",
    ]
    if done.wide_weights:
        more = len(done.wide_weights) - SHOWN
        named = ", ".join(done.wide_weights[:SHOWN]) + (f" and {more} more" if more > 0 else "")
        found.append(f"  in float32 as before: {named}")
    if done.wide_nodes:
        found.append("  computing in float32: " + ", ".join(f"{op} {n}" for op, n in done.wide_nodes.items()))
    found += [f"  lost in {loss.name}: {_said(loss)}" for loss in done.losses]
    found.append(f"  proof: {verdict}, limit {done.limit:g} of the largest value, in {done.evidence}")
    return found


def _said(loss: Loss) -> str:
    if loss.changed is not None:
        return f"{loss.changed:.1%} of its elements are others"
    parts = [
        f"{loss.of_scale:.2g} of its largest value {loss.scale:.3g}",
        f"absolute {loss.max_abs_error:.2g}",
        f"relative {loss.max_rel_error:.2g}",
        f"root mean square {loss.rms:.2g}",
    ]
    if loss.cosine is not None:
        parts.append(f"cosine {loss.cosine:.6f}")
    if loss.argmax_agreement is not None:
        parts.append(f"the same arg-max in {loss.argmax_agreement:.1%} of rows")
    return ", ".join(parts)
