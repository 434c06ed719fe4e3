"""``onnxproof weights``: the weights of a model by path, and those of a checkpoint in their place."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onnxproof.cli.app import Debug, Json, app
from onnxproof.cli.console import human_bytes, progress, reporting
from onnxproof.cli.examples import examples
from onnxproof.cli.places import there, to_write

if TYPE_CHECKING:
    from onnxproof.inspection.weights import Swapped, Weight

group = typer.Typer(no_args_is_help=True)
app.add_typer(
    group, name="weights", help="List the weights of a model, or put those of a checkpoint in their place."
)


@group.command("list", epilog=examples("weights list"))
def list_weights(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL|BUNDLE", help="An ONNX file, or a bundle.", show_default=False)
    ],
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """List the weights of a model by path, with what each was derived from."""
    with reporting(debug):
        from onnxproof.inspection.weights import weights

        found = weights(there(model, "MODEL|BUNDLE"))
        if as_json:
            typer.echo(json.dumps([w.as_dict() for w in found], indent=2))
        else:
            typer.echo("\n".join(lines(found)))


@group.command("swap", epilog=examples("weights swap"))
def swap_weights(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL|BUNDLE", help="An ONNX file, or a bundle.", show_default=False)
    ],
    checkpoint: Annotated[
        Path,
        typer.Argument(
            metavar="CHECKPOINT",
            help="A .safetensors, .npz or .msgpack file, or a folder of Orbax's.",
            show_default=False,
        ),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="The file to write.", show_default=False)],
    allow_missing: Annotated[
        bool, typer.Option("--allow-missing", help="Keep weights that the checkpoint does not have.")
    ] = False,
    allow_unexpected: Annotated[
        bool,
        typer.Option(
            "--allow-unexpected", help="Leave out what the model does not have, such as an optimizer's."
        ),
    ] = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Write a model with the weights of a checkpoint, matched by path, without a new export.

    What was derived from a weight is computed anew, or refused. The file is not proven: verify it.
    """
    with reporting(debug):
        there(model, "MODEL|BUNDLE")
        there(checkpoint, "CHECKPOINT")
        to_write(output, "-o", ".onnx")
        if output.resolve() == model.resolve():
            raise typer.BadParameter("the model itself would be replaced; name another file", param_hint="-o")
        with progress(f"reading {checkpoint}") as doing:
            from onnxproof.inspection.checkpoint import read_checkpoint
            from onnxproof.inspection.weights import swap

            arrays = read_checkpoint(checkpoint)
            doing(f"writing {output}")
            done = swap(
                model,
                arrays,
                output,
                named=str(checkpoint),
                allow_missing=allow_missing,
                allow_unexpected=allow_unexpected,
            )
        typer.echo(json.dumps(done.as_dict(), indent=2) if as_json else "\n".join(swapped_lines(done)))


def lines(found: Sequence[Weight]) -> Iterator[str]:
    """A line for each weight, and their sum."""
    for weight in found:
        tensor = weight.tensor
        said = (
            f"{tensor.name}  {tensor.dtype}[{', '.join(map(str, tensor.shape))}]  {human_bytes(tensor.bytes)}"
        )
        if weight.derived:
            how = "not to be made anew" if weight.steps is None else " ".join(str(s[0]) for s in weight.steps)
            said += f"  of {', '.join(weight.sources)} ({how or 'as it is'})"
        if weight.aliases:
            said += f"  also {', '.join(weight.aliases)}"
        yield said
    yield f"{len(found)} weights, {human_bytes(sum(w.tensor.bytes for w in found))}"


def swapped_lines(done: Swapped) -> Iterator[str]:
    """What came of a swap."""
    yield f"{done.files[0]}: {len(done.taken)} weights taken from the checkpoint"
    if done.computed:
        yield f"  computed anew: {', '.join(done.computed)}"
    if done.missing:
        yield f"  kept as they were: {', '.join(done.missing)}"
    if done.unexpected:
        yield f"  left out: {', '.join(done.unexpected)}"
    if done.constants:
        yield f"  arrays without a path, which stay: {', '.join(done.constants)}"
