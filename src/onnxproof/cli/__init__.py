"""The command line: ``onnxproof COMMAND``. A command is a file here, and adds itself to the application."""

from __future__ import annotations

import atexit
import gc
import importlib
import sys
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    import typer

TOGETHER = ("export", "demo", "verify", "explain")  # in app.py
APART = tuple(
    "bench conform convert diff doctor inspect page quantize report sign weights".split()
)  # a file for each
OBJECTS = 1_000_000  # more than a package makes when it is imported, and all of that stays


def main() -> NoReturn:
    """Entry point of the ``onnxproof`` command."""
    gc.set_threshold(OBJECTS)
    atexit.register(gc.disable)  # what ends need not be searched for cycles: a tenth of an export's time
    from onnxproof.cli.console import run

    run(application("".join(sys.argv[1:2])))


def application(command: str = "") -> typer.Typer:
    """The application with every command; where ``command`` is one, those with a file of their own are left out but it.

    To describe all commands to the parser of the command line takes as long as a twentieth of an export.
    """
    from onnxproof.cli.app import app

    wanted = () if command in TOGETHER else (command,) if command in APART else APART
    for name in wanted:
        importlib.import_module(f"onnxproof.cli.{name}")
    return app
