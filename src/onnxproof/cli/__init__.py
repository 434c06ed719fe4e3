"""The command line: ``onnxproof COMMAND``. A command is a file here, and adds itself to the application."""

from __future__ import annotations

import atexit
import gc
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    import typer

OBJECTS = 1_000_000  # more than a package makes when it is imported, and all of that stays


def main() -> NoReturn:
    """Entry point of the ``onnxproof`` command."""
    gc.set_threshold(OBJECTS)
    atexit.register(gc.disable)  # what ends need not be searched for cycles: a tenth of an export's time
    from onnxproof.cli.console import run

    run(application())


def application() -> typer.Typer:
    """The application with every command."""
    from onnxproof.cli import (  # noqa: F401  # they add their commands
        bench,
        conform,
        convert,
        diff,
        doctor,
        inspect,
        page,
        quantize,
        report,
        sign,
        weights,
    )
    from onnxproof.cli.app import app

    return app
