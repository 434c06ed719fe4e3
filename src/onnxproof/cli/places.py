"""Files and folders that a command line names."""

from __future__ import annotations

from pathlib import Path

import typer

# Suffixes of files that people would miss: what is written never takes the place of one of another kind.
_KINDS = frozenset(
    """
    .csv .html .ipynb .json .key .md .msgpack .npy .npz .onnx .pem .pt .py .safetensors .toml .txt .xml .yaml .yml
    """.split()
)


def there(place: Path, hint: str, kind: str = "file or folder") -> Path:
    """``place``, which the argument or option ``hint`` names.

    Raises:
        typer.BadParameter: there is nothing.
    """
    if not place.exists():
        raise typer.BadParameter(f"there is no {kind} {str(place)!r}", param_hint=hint)
    return place


def to_write(place: Path, hint: str, *suffixes: str) -> Path:
    """``place``, which the option ``hint`` names as a file to write, where none of another kind than ``suffixes`` is.

    Raises:
        typer.BadParameter: it has no name, or is a file of another kind, such as a program or a checkpoint.
    """
    if not place.name:
        raise typer.BadParameter(f"{str(place)!r} is no name of a file", param_hint=hint)
    if place.is_file() and place.suffix.lower() in _KINDS.difference(suffixes):
        raise typer.BadParameter(
            f"{str(place)!r} is there, and is a file of another kind: it is not replaced; give another name",
            param_hint=hint,
        )
    return place
