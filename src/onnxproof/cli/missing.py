"""What to install where a record says that something is missing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from onnxproof.evidence import Record

_EXTRAS = {  # name that is imported → extra of this package
    "torch": "torch",
    "onnxscript": "torch",
    "openvino": "openvino",
    "tract": "tract",
    "playwright": "web",
    "distributed": "dask",
}


def say_missing(records: Iterable[Record]) -> None:
    """Print to stderr, as one paragraph, what the records miss and the command that brings it."""
    missing = {
        name
        for record in records
        if record.failure == "missing-dependency"
        for name, version in (record.stages.dependencies.detail or {}).items()
        if version is None
    }
    if not missing:
        return
    extras = sorted({_EXTRAS[name] for name in missing if name in _EXTRAS})
    way = (
        f"pip install 'onnxproof[{','.join(extras)}]'"
        if extras
        else f"pip install {' '.join(sorted(missing))}"
    )
    typer.echo(f"error: {', '.join(sorted(missing))} can't be imported\n  Install with: {way}", err=True)
