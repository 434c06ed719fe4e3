"""Work that a process of its own does: what it is told comes as JSON on stdin, what it says as lines of JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# The process finds modules where this one does, however its path came about.
_BOOT = (
    "import sys, json, importlib; sys.path[:] = json.loads(sys.argv.pop(1)); "
    "importlib.import_module(sys.argv.pop(1)).main()"
)


def run(
    module: str, request: Mapping[str, Any], seconds: float, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run ``main()`` of a module in a new process.

    Raises:
        subprocess.TimeoutExpired: it takes longer than ``seconds``.
    """
    return subprocess.run(
        [sys.executable, "-P", "-c", _BOOT, json.dumps(sys.path), module],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
        cwd=folder,
        start_new_session=True,
    )


def facts(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """What the process said, later lines over earlier ones."""
    found: dict[str, Any] = {}
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            found.update(json.loads(line))
    return found


def last_words(done: subprocess.CompletedProcess[str]) -> str:
    """Why a process ended that did not do its work."""
    if done.returncode < 0:
        return f"the process was ended by signal {-done.returncode}"
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    return lines[-1].strip()[:2000] if lines else f"the process ended with {done.returncode}"
