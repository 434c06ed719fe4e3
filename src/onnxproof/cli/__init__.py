"""The command line: ``onnxproof COMMAND``. A command is a file here, and adds itself to the application."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    import typer


def main() -> NoReturn:
    """Entry point of the ``onnxproof`` command."""
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
