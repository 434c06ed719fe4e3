"""docs/cli.md and the application are in step."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest
import typer

from onnxproof.cli import application
from onnxproof.cli.examples import EXAMPLES
from onnxproof.evidence.derive import EXIT_CODES

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "cli_page.py"))
COMMANDS: dict[str, Any] = dict(SCRIPT["commands"](typer.main.get_command(application())))


def test_the_page_is_that_of_the_application() -> None:
    """After a change of options: ``python scripts/cli_page.py``."""
    assert SCRIPT["page"]() == (ROOT / "docs" / "cli.md").read_text()


def test_every_exit_code_is_documented() -> None:
    page = (ROOT / "docs" / "cli.md").read_text()
    assert [f"| {code} | `{name}`: " in page for name, code in EXIT_CODES.items()] == [True] * len(EXIT_CODES)


@pytest.mark.parametrize("name", COMMANDS)
def test_what_every_command_has(name: str) -> None:
    options = {option for param in COMMANDS[name].params for option in param.opts}
    assert {"--json", "--debug"} <= options
    assert name in EXAMPLES, f"{name} has no example"
    assert all(f"onnxproof {name} " in f"{line} " for line in EXAMPLES[name])
    assert COMMANDS[name].epilog


def test_examples_are_of_commands() -> None:
    assert set(EXAMPLES) <= set(COMMANDS)
    for lines in EXAMPLES.values():
        for line in lines:
            words = line.split()[1:]
            name = " ".join(words[:2]) if words[0] == "weights" else words[0]
            known = {o for p in COMMANDS[name].params for o in (*p.opts, *p.secondary_opts)}
            assert {w for w in words if w.startswith("-")} <= known, line
