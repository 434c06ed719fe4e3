"""Files and folders that a command line names."""

from __future__ import annotations

from pathlib import Path

import typer


def there(place: Path, hint: str, kind: str = "file or folder") -> Path:
    """``place``, which the argument or option ``hint`` names.

    Raises:
        typer.BadParameter: there is nothing.
    """
    if not place.exists():
        raise typer.BadParameter(f"there is no {kind} {str(place)!r}", param_hint=hint)
    return place
