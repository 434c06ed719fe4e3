"""What commands share: progress on a terminal, sizes for people, errors as one paragraph, exit codes."""

from __future__ import annotations

import errno
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import NoReturn, cast

import typer

from onnxproof.errors import OnnxProofError

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")
FAILED = 1  # exit code of an error; typer's own for wrong usage is 2
INTERRUPTED, TERMINATED = 130, 143  # 128 + the number of the signal, as shells have it
# What typer raises for wrong usage: click's own class, or that of the copy which newer releases of typer carry.
UsageError = cast("type[Exception]", typer.BadParameter.__base__)
_WAYS_OUT = {
    errno.ENOSPC: "Make room on the disk, or write to another one.",
    errno.EFBIG: "The system allows no file of that size here: write to another place.",
    errno.EACCES: "Check the permissions.",
    errno.EROFS: "Write to another place.",
}


class UserCodeError(OnnxProofError):
    """The user's module or builder raised before there was anything to export."""


def run(app: typer.Typer) -> NoReturn:
    """Run the application and end the process with its exit code; whatever goes wrong is one paragraph on stderr."""
    signal.signal(signal.SIGTERM, _end)
    try:
        code = app(prog_name="onnxproof", standalone_mode=False)
    except UsageError as err:
        code = _say_usage(err)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED  # before there was a command to say so
    try:
        if sys.stdout is not None:  # it is where a shell closed it
            sys.stdout.flush()
    except BrokenPipeError:
        _close_stdout()
    sys.exit(code)


class Terminated(KeyboardInterrupt):
    """The process was asked to end, by SIGTERM: what an interrupt cleans away, this does too."""


def _end(number: int, _: object) -> None:
    signal.signal(number, signal.SIG_DFL)  # a second one ends at once
    raise Terminated


def _say_usage(err: Exception) -> int:
    """Print wrong usage as one paragraph with the way to the help; ``err`` has what click gives its errors."""
    message = str(err.format_message())  # type: ignore[attr-defined]
    context = err.ctx  # type: ignore[attr-defined]
    if not message:  # the help was shown instead
        return int(err.exit_code)  # type: ignore[attr-defined]
    typer.echo(f"error: {message[:1].lower()}{message[1:]}", err=True)
    if context is not None:
        typer.echo(f"  See: {context.command_path} --help", err=True)
    return int(err.exit_code)  # type: ignore[attr-defined]


def _close_stdout() -> None:
    """Let nothing be written any more to a pipe that nobody reads, such as that of ``head``."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def reporting(debug: bool) -> Iterator[None]:
    """Print an error to stderr and exit with its code, mostly 1; with ``debug``, let it through with its traceback."""
    try:
        yield
    except (typer.Exit, UsageError):
        raise
    except BrokenPipeError:
        _close_stdout()
        raise typer.Exit(FAILED) from None
    except KeyboardInterrupt as err:
        if debug:
            traceback.print_exc()
        notes = "".join(f"\n  {note}" for note in getattr(err, "__notes__", ()))
        typer.echo(f"error: interrupted; nothing is left half-written{notes}", err=True)
        raise typer.Exit(TERMINATED if isinstance(err, Terminated) else INTERRUPTED) from None
    except Exception as err:  # the last place where a fault, of ours too, can become one paragraph
        if debug:
            raise
        typer.echo(f"error: {_said(err)}", err=True)
        raise typer.Exit(err.exit_code if isinstance(err, OnnxProofError) else FAILED) from None


def _said(err: Exception) -> str:
    match err:
        case OnnxProofError():
            return str(err)
        case OSError(errno=number) if number in _WAYS_OUT:
            what = f"{err.filename!r} can't be used: " if err.filename else ""
            return f"{what}{err.strerror}\n  {_WAYS_OUT[number]}"
        case MemoryError():
            return "there is too little memory\n  Close other programs, or use a larger machine."
    place = traceback.extract_tb(err.__traceback__)[-1]
    return (
        f"onnxproof itself failed: {type(err).__name__}: {err}\n"
        f"  at {os.path.basename(place.filename)}:{place.lineno} ({place.name})\n"
        "  This is a fault in onnxproof: please report it with the traceback that --debug shows, and with what"
        " onnxproof doctor prints."
    )


@contextmanager
def progress(text: str) -> Iterator[Callable[[str], None]]:
    """A spinner with the time on stderr, when that is a terminal; gives a function that sets its text.

    Whatever is printed while it runs, such as by the user's callable, is no result and goes to stderr.
    """
    if not sys.stderr.isatty():
        with redirect_stdout(sys.stderr):
            yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:  # takes stdout too
        task = bar.add_task(text, total=None)
        yield lambda new: bar.update(task, description=new)


def human_bytes(count: int) -> str:
    """``1536`` → ``1.5 KiB``."""
    size, unit = float(count), 0
    while size >= 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{count} bytes" if unit == 0 else f"{size:.1f} {_UNITS[unit]}"
