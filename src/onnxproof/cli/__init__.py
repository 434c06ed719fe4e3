"""The command line: ``onnxproof export`` and ``onnxproof demo``."""

from __future__ import annotations


def main() -> None:
    """Entry point of the ``onnxproof`` command."""
    from onnxproof.cli import convert, quantize  # noqa: F401  # they add their commands
    from onnxproof.cli.app import app

    app()
