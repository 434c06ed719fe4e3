"""The command line: ``onnxproof COMMAND``. A command is a file here, and adds itself to the application."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import typer


def main() -> None:
    """Entry point of the ``onnxproof`` command."""
    application()()


def application() -> typer.Typer:
    """The application with every command."""
    from onnxproof.cli import convert, doctor, inspect, page, quantize  # noqa: F401  # they add their commands
    from onnxproof.cli.app import app

    return app
