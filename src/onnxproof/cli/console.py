"""What commands share: progress on a terminal, sizes for people, and errors as one paragraph."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer

from onnxproof.errors import OnnxProofError

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")
FAILED = 1  # exit code of an error; typer's own for wrong usage is 2


class UserCodeError(OnnxProofError):
    """The user's module or builder raised before there was anything to export."""


@contextmanager
def reporting(debug: bool) -> Iterator[None]:
    """Print an error of ours to stderr and exit with 1; with ``debug``, let it through with its traceback."""
    try:
        yield
    except OnnxProofError as err:
        if debug:
            raise
        typer.echo(f"error: {err}", err=True)
        raise typer.Exit(FAILED) from None
    except (typer.Exit, typer.BadParameter):
        raise
    except Exception as err:  # a fault of ours: the last place where it can become one paragraph
        if debug:
            raise
        place = traceback.extract_tb(err.__traceback__)[-1]
        typer.echo(
            f"error: onnxproof itself failed: {type(err).__name__}: {err}\n"
            f"  at {os.path.basename(place.filename)}:{place.lineno} ({place.name})\n"
            "  This is a fault in onnxproof: please report it with the traceback that --debug shows.",
            err=True,
        )
        raise typer.Exit(FAILED) from None


@contextmanager
def progress(text: str) -> Iterator[Callable[[str], None]]:
    """A spinner with the time on stderr, when that is a terminal; gives a function that sets its text."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(text, total=None)
        yield lambda new: bar.update(task, description=new)


def human_bytes(count: int) -> str:
    """``1536`` → ``1.5 KiB``."""
    size, unit = float(count), 0
    while size >= 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{count} bytes" if unit == 0 else f"{size:.1f} {_UNITS[unit]}"
