"""Run what a document shows: ``python -m tests.documents PAGE`` runs its blocks in order, in the working folder.

* Python blocks share one namespace. A block of ``>>>`` examples has to print what it shows.
* A block whose first line is ``# name.py`` or ``# name.toml`` is that file as well.
* In ``console`` blocks the lines ``$ onnxproof ...`` are run and have to exit with 0; other commands are not run.
  Files of ``tests/docs_pages``, such as the package ``mypackage``, are there.
* In the page's source ``<!-- not run: REASON -->`` before a block leaves it out, ``<!-- exits with N -->`` names the
  exit code; ``<!-- run first:``, lines of Python, ``-->`` are run and not seen by readers.
  ``<!-- page run by FOLDER: REASON -->`` leaves all of a page to tests that have what it needs.
"""

from __future__ import annotations

import doctest
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import onnxproof

ROOT = Path(__file__).resolve().parent.parent
FIXTURES = Path(__file__).resolve().parent / "docs_pages"
PARTS = re.compile(
    r"^<!-- run first:\n(?P<hidden>.*?)^-->$"
    r"|(?:^ *<!-- (?P<directive>[^\n]*?) -->\n+)?^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^ *```$",
    re.MULTILINE | re.DOTALL,
)
SHELLS = ("console", "bash", "sh", "shell")


class Block(NamedTuple):
    """A fenced block: language, text without indentation, its first line in the page, and its directive or ``""``."""

    language: str
    text: str
    line: int
    directive: str


def runner(page: str) -> str:
    """The folder of the tests that run a page where they have what it needs, or ``""``."""
    found = re.search(r"^<!-- page run by (\S+): .+ -->$", page, re.MULTILINE)
    return found[1] if found else ""


def run_apart(document: str, folder: Path) -> None:
    """Run the blocks of a page in a process of its own, in ``folder``; its output is the error."""
    path = os.pathsep.join([str(Path(onnxproof.__file__).parent.parent), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-m", "tests.documents", document],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def blocks(page: str) -> Iterator[Block]:
    for found in PARTS.finditer(page):
        if found["hidden"] is not None:
            yield Block("python", found["hidden"], _line(page, found.start("hidden")), "")
            continue
        indent = found["indent"]
        text = "".join(line.removeprefix(indent) for line in found["text"].splitlines(keepends=True))
        yield Block(found["language"], text, _line(page, found.start("text")), found["directive"] or "")


def _line(page: str, at: int) -> int:
    return page.count("\n", 0, at) + 1


def commands(text: str) -> Iterator[list[str]]:
    """The calls of ``onnxproof`` in a console block, without comments."""
    for line in text.replace("\\\n", " ").splitlines():
        if line.startswith("$ onnxproof"):
            yield shlex.split(line.removeprefix("$ onnxproof"), comments=True)


def expected(directive: str) -> int:
    found = re.fullmatch(r"exits with (\d+)", directive)
    return int(found[1]) if found else 0


def run_page(document: str) -> None:
    page = (ROOT / document).read_text()
    shutil.copytree(FIXTURES, ".", dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    sys.path.insert(0, str(Path.cwd()))
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(page):
        place = f"{document}:{block.line}"
        if block.directive.startswith("not run:"):
            continue
        if named := re.match(r"# ([\w/]+\.(?:py|toml))\n", block.text):
            Path(named[1]).parent.mkdir(parents=True, exist_ok=True)
            Path(named[1]).write_text(block.text)
        if block.language == "python":
            run_python(block, namespace, place)
        elif block.language in SHELLS:
            for arguments in commands(block.text):
                code = run_command(arguments)
                if code != expected(block.directive):
                    sys.exit(f"{place}: onnxproof {shlex.join(arguments)} exited with {code}")


def run_python(block: Block, namespace: dict[str, Any], place: str) -> None:
    if block.text.startswith(">>>"):
        test = doctest.DocTestParser().get_doctest(block.text, namespace, place, place, block.line)
        if doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, clear_globs=False).failed:
            sys.exit(f"{place}: prints something else")
        namespace.update(test.globs)
        return
    named = re.match(r"# ([\w/]+\.py)\n", block.text)
    path = Path(named[1] if named else f"block_{block.line}.py").resolve()
    if not named:
        path.write_text(block.text)  # for what reads source lines
    namespace["__file__"] = str(path)
    print(f"-- {place}", flush=True)
    exec(compile(block.text, str(path), "exec"), namespace)


def run_command(arguments: list[str]) -> int:
    """The exit code of ``onnxproof``, run in this process, which has imported JAX already."""
    from onnxproof.cli import main

    print(f"-- $ onnxproof {shlex.join(arguments)}", flush=True)
    sys.argv = ["onnxproof", *arguments]
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)


if __name__ == "__main__":
    run_page(sys.argv[1])
