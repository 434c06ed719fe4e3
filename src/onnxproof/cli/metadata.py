"""``--doc``, ``--describe``, ``--labels`` and ``--meta``: texts of the command line into a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    import onnx_ir as ir


@dataclass(frozen=True, slots=True)
class Texts:
    """What the command line says of a model."""

    doc: str = ""
    describe: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    meta: tuple[str, ...] = ()


def write(model: ir.Model, texts: Texts) -> None:
    """Write the texts into a model.

    Raises:
        typer.BadParameter: one is not of its form, or names what is not there.
        InputSpecError: labels don't fit.
    """
    if texts == Texts():
        return
    from onnxproof.artifact.describe import Metadata, describe

    inputs, outputs = ([v.name or "" for v in values] for values in (model.graph.inputs, model.graph.outputs))
    said = dict(_pair(text, "--describe", "NAME=TEXT") for text in texts.describe)
    for name in said:
        if name not in inputs and name not in outputs:
            raise typer.BadParameter(
                f"there is no input or output {name!r}; there are: {', '.join([*inputs, *outputs])}",
                param_hint="--describe",
            )
    labels = dict(_labels(text) for text in texts.labels)
    alone = labels.get("")
    if alone is not None and len(labels) > 1:
        raise typer.BadParameter("several files of labels, and one says no output", param_hint="--labels")
    metadata = Metadata(
        doc=texts.doc,
        inputs={name: text for name, text in said.items() if name in inputs},
        outputs={name: text for name, text in said.items() if name in outputs},
        labels=labels if alone is None else alone,
        card=dict(_pair(text, "--meta", "KEY=VALUE") for text in texts.meta),
    )
    describe(model, metadata)


def _labels(text: str) -> tuple[str, Sequence[str]]:
    """``[NAME=]FILE`` → the output's name, and the lines of the file that are not empty."""
    name, equals, file = text.partition("=")
    place = Path(file if equals else text)
    try:
        lines = place.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as err:
        raise typer.BadParameter(
            f"{str(place)!r} can't be read as text: {getattr(err, 'strerror', None) or err}",
            param_hint="--labels",
        ) from err
    return (name if equals else ""), [line.strip() for line in lines if line.strip()]


def _pair(text: str, option: str, form: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise typer.BadParameter(f"{text!r} is not of the form {form}", param_hint=option)
    return key, value
