"""The blocks of pages that benchmarks write: from ``<!-- NAME: start -->`` to ``<!-- NAME: end -->``."""

from __future__ import annotations

import argparse
import importlib.metadata
import platform
from pathlib import Path

from onnxproof.evidence.source import host

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGE = DOCS / "benchmarks.md"


def marks(name: str) -> tuple[str, str]:
    """The lines around the block of that name."""
    return f"<!-- {name}: start -->\n", f"<!-- {name}: end -->\n"


def block(name: str, page: Path = PAGE) -> str:
    """What stands in a block.

    Raises:
        ValueError: the page has no such block, or more than one.
    """
    start, end = marks(name)
    text = page.read_text()
    if text.count(start) != 1 or text.count(end) != 1:
        raise ValueError(f"{page.name} has no block {name}, or more than one")
    return text.partition(start)[2].partition(end)[0]


def write(name: str, text: str, page: Path = PAGE) -> None:
    """Put ``text`` in place of what stands in a block.

    Raises:
        ValueError: the page has no such block, or more than one.
    """
    start, end = marks(name)
    old = f"{start}{block(name, page)}{end}"
    page.write_text(page.read_text().replace(old, f"{start}{text.strip()}\n{end}"))


def conditions(*packages: str) -> str:
    """What was measured with, and on what: versions of packages, the processor, its cores."""
    versions = [f"{name} {importlib.metadata.version(name)}" for name in packages]
    machine = host()
    return f"{', '.join([f'Python {platform.python_version()}', *versions])}; {machine.cpu}, {machine.cores} cores"


def add_option(parser: argparse.ArgumentParser) -> None:
    """``--write``: whether the result goes into the page."""
    parser.add_argument("--write", action="store_true", help="put the result into docs/benchmarks.md")
