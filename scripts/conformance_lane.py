"""The conformance lane of CI, in four steps, in an environment of its own.

Usage: ``python3 scripts/conformance_lane.py VENV OUTPUT``.

1. The evidence package imports in an environment without ``onnx``, ``onnxruntime`` and ``onnxscript``.
2. There the conformance script fails with exit code 10: a missing dependency is a failure.
3. With PyTorch and the runtime installed both profiles pass; then their tests run, and none is skipped.
4. OUTPUT holds the report, every exported file and the report of the tests.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import environments
from environments import LEAN, ROOT

TAG = f"{sys.version_info.major}{sys.version_info.minor}"
CORE = ("jinja2", "ml_dtypes", "numpy", "pydantic", "rich", "typer")
ABSENT = ("jax", "onnx", "onnxruntime", "onnxscript", "torch")
PROFILES = ("torch==2.13.*", "onnx", "onnxruntime", "onnxscript>=0.7")
TESTS = ("pytest", "hypothesis")
MISSING_DEPENDENCY = 10


def pins() -> dict[str, str]:
    """Pinned requirements by name, of the lock file of this Python."""
    lock = ROOT / "requirements" / f"py{TAG}.txt"
    lines = [line.strip() for line in lock.read_text().splitlines()] if lock.exists() else []
    return {
        line.partition("==")[0].lower().replace("-", "_"): line
        for line in lines
        if line and not line.startswith("#")
    }


class Lane:
    def __init__(self, folder: Path, output: Path) -> None:
        self.python = environments.create(folder)
        self.output = output
        self.pins = pins()

    def install(self, *names: str) -> None:
        wanted = [self.pins.get(name.lower(), name) for name in names]
        self.run(*LEAN, *wanted)

    def run(self, *arguments: str, expect: int = 0) -> None:
        environments.run(self.python, *arguments, expect=expect)

    def script(self, expect: int) -> None:
        report = str(self.output / "conformance.json")
        self.run("scripts/check_export_conformance.py", "--output", report, "--force", expect=expect)

    def core(self) -> None:
        """Steps 1 and 2."""
        self.install(*CORE, "hatchling", "editables")
        self.run(*LEAN, "--no-deps", "--no-build-isolation", "-e", ".")
        self.run(
            "-c",
            "import importlib.util, onnxproof, onnxproof.evidence\n"
            f"found = [m for m in {ABSENT!r} if importlib.util.find_spec(m)]\n"
            "assert not found, found",
        )
        self.script(MISSING_DEPENDENCY)

    def profiles(self) -> None:
        """Step 3."""
        self.install(*PROFILES)
        self.script(0)
        report = json.loads((self.output / "conformance.json").read_text())
        levels = {r["profile"]: r["level"] for r in report["profiles"]}
        if set(levels.values()) != {"executed"} or len(levels) != 2:
            sys.exit(f"the profiles reached {levels}")
        self.install(*TESTS)
        said = environments.tests(self.python, self.output / "tests.xml", "tests/evidence_torch")
        print(f"conformance: {levels}, {said}")


def main() -> None:
    folder, output = Path(sys.argv[1]), Path(sys.argv[2])
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    lane = Lane(folder, output)
    lane.core()
    lane.profiles()
    print(f"conformance: files are in {output}")


if __name__ == "__main__":
    main()
