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
import subprocess
import sys
import venv
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
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
        self.python = str(folder / "bin" / "python")
        self.output = output
        self.pins = pins()
        venv.EnvBuilder(clear=True, with_pip=True, symlinks=True).create(folder)

    def install(self, *names: str) -> None:
        wanted = [self.pins.get(name.lower(), name) for name in names]
        self.run("-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted)

    def run(self, *arguments: str, expect: int = 0) -> None:
        done = subprocess.run([self.python, *arguments], cwd=ROOT, check=False)
        if done.returncode != expect:
            sys.exit(f"{' '.join(arguments[:3])} ended with {done.returncode}, not {expect}")

    def script(self, expect: int) -> None:
        report = str(self.output / "conformance.json")
        self.run("scripts/check_export_conformance.py", "--output", report, "--force", expect=expect)

    def core(self) -> None:
        """Steps 1 and 2."""
        self.install(*CORE, "hatchling", "editables")
        self.run("-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "-e", ".")
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
        junit = self.output / "tests.xml"
        self.run("-m", "pytest", "tests/evidence_torch", f"--junitxml={junit}")
        suite = next(ElementTree.parse(junit).getroot().iter("testsuite"))
        ran, skipped = int(suite.attrib["tests"]), int(suite.attrib["skipped"])
        if skipped or not ran:
            sys.exit(f"{skipped} of {ran} tests were skipped")
        print(f"conformance: {levels}, {ran} tests, none skipped")


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
