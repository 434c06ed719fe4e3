"""Virtual environments of the lanes of CI: how one is made, what is installed into it, how its tests run."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import venv
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PIP = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")
LEAN = (*PIP, "--no-compile")  # a module is compiled when it is imported: most never are


def create(folder: Path) -> Path:
    """A new environment with pip; its interpreter."""
    venv.EnvBuilder(clear=True, with_pip=True, symlinks=True).create(folder)
    return folder / "bin" / "python"


def over(main: Path, folder: Path, *extras: str) -> Path:
    """A new environment that sees the packages of ``main`` and has those of our extras beside them."""
    python = create(folder)
    (shared,) = main.glob("lib/python*/site-packages")
    (own,) = folder.glob("lib/python*/site-packages")
    # A plain path would leave out the .pth files of the main environment, and with them this package.
    (own / "main.pth").write_text(f"import site; site.addsitedir({str(shared.resolve())!r})\n")
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    run(python, *LEAN, *(requirement for extra in extras for requirement in listed[extra]))
    return python


def run(python: Path, *arguments: str, expect: int = 0) -> None:
    """Run the interpreter in the root of the project; another exit code than expected ends the lane."""
    done = subprocess.run([str(python), *arguments], cwd=ROOT, check=False)
    if done.returncode != expect:
        sys.exit(f"{' '.join(arguments[:3])} ended with {done.returncode}, not {expect}")


def tests(python: Path, junit: Path, *arguments: str) -> str:
    """Run tests of which none may be skipped, with pytest's report in ``junit``; what ran, in words."""
    run(python, "-m", "pytest", *arguments, f"--junitxml={junit}")
    ran, skipped = counts(junit)
    if skipped or not ran:
        sys.exit(f"{skipped} of {ran} tests were skipped")
    return f"{ran} tests, none skipped"


def counts(junit: Path) -> tuple[int, int]:
    """How many tests a report is about, and how many of them were skipped."""
    suite = next(ElementTree.parse(junit).getroot().iter("testsuite"))
    return int(suite.attrib["tests"]), int(suite.attrib["skipped"])
