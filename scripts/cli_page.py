"""Write docs/cli.md anew from the application: ``python scripts/cli_page.py``; ``--check`` says whether it is stale."""

from __future__ import annotations

import argparse
import inspect
import itertools
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from onnxproof.cli import application
from onnxproof.cli.examples import EXAMPLES

PAGE = Path(__file__).resolve().parent.parent / "docs" / "cli.md"
MARK = "<!-- From here on scripts/cli_page.py writes this page. -->"
# What stands in the page's source before a block of examples; tests/documents.py, which runs the blocks, reads it.
DIRECTIVES = {
    "onnxproof demo -o demo-output": "not run: it trains a network; tests/test_demo.py and `make test-wheel` run it",
    "onnxproof verify scores.onnx --runtime onnxruntime --runtime openvino --bundle scores.evidence": (
        "not run: needs the extra `openvino`; `make test-extras` proves on four runtimes"
    ),
    "onnxproof verify scores.evidence --device-record scores.device.json": (
        "not run: the record comes from a browser; tests/test_page.py and `make test-web` judge such records"
    ),
    "onnxproof conform --profile jax --executor processes": "not run: it takes minutes; `make test-extras` runs it",
    "onnxproof diff old.onnx new.onnx --run": "exits with 1",
    "onnxproof diff old.onnx new.onnx --cases old.evidence": "exits with 1",
    "onnxproof page scores.evidence -o site": (
        "not run: it needs the npm package; `make test-web` builds pages and opens them"
    ),
    "onnxproof sign scores.evidence --key private.pem": (
        "not run: needs the extra `sign` and a key; `make test-extras` runs it"
    ),
    "onnxproof weights swap scores.onnx step-9000.safetensors -o scores-9000.onnx": (
        "not run: needs the extra `safetensors`; `make test-extras` swaps weights of such files"
    ),
}


def commands(group: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every command with its whole name, in the order of the help."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", command


def section(name: str, command: Any) -> Iterator[str]:
    """What the page says of a command."""
    yield f"## onnxproof {name}\n"
    yield f"{inspect.cleandoc(command.help or '')}\n"
    for directive, lines in itertools.groupby(EXAMPLES.get(name, ()), lambda line: DIRECTIVES.get(line, "")):
        if directive:
            yield f"<!-- {directive} -->"
        yield "```console"
        yield from (f"$ {line}" for line in lines)
        yield "```\n"
    yield "| argument or option | what |"
    yield "|---|---|"
    for param in command.params:
        if param.name != "help":
            yield f"| {_name(param)} | {_text(param)} |"
    yield ""


def _name(param: Any) -> str:
    if param.param_type_name == "argument":
        name = param.metavar or param.name.upper()
        return f"`{name}`".replace("|", "\\|") + (" (required)" if param.required else "")
    names = [*param.opts, *param.secondary_opts]
    value = (
        ""
        if getattr(param, "is_flag", False)
        else f" {param.metavar or _choices(param) or param.name.upper()}"
    )
    shown = ", ".join(f"`{n}{value if n.startswith('--') else ''}`" for n in sorted(names, key=len)).replace(
        "|", "\\|"
    )
    return shown + (" (required)" if param.required else "")


def _choices(param: Any) -> str:
    """The words that an option takes, where it takes no others; their place differs between releases of typer."""
    kind = getattr(param, "type_descriptor", None) or getattr(param, "type", None)
    return "|".join(map(str, getattr(kind, "choices", None) or ()))


def _text(param: Any) -> str:
    text = " ".join((param.help or "").split()).replace("|", "\\|")
    default = param.default
    shown = default is not None and not callable(default) and default is not False and default != []
    if shown and param.show_default and "Default" not in text and not getattr(param, "is_flag", False):
        text = f"{text} Default: `{default}`.".strip()
    return text


def page() -> str:
    """The page as it should be: what was written by hand, then a section for each command."""
    group = typer.main.get_command(application())
    written = PAGE.read_text().partition(MARK)[0]
    sections = "\n".join(line for name, command in commands(group) for line in section(name, command))
    return f"{written}{MARK}\n\n{re.sub(chr(10) + '{3,}', chr(10) * 2, sections).strip()}\n"


def main() -> None:
    """Write the page, or check it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit with 1 when the page is stale"
    )
    found = page()
    if not parser.parse_args().check:
        PAGE.write_text(found)
    elif PAGE.read_text() != found:
        sys.exit("docs/cli.md is stale; write it anew with: python scripts/cli_page.py")


if __name__ == "__main__":
    main()
