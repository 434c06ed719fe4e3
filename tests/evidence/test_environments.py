"""What evidence needs, and what happens where it is not there: fresh interpreters, some without packages."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from onnxproof.evidence import run_profile, validate_report
from tests.evidence.faulty import profile

ROOT = Path(__file__).resolve().parent.parent.parent
# Imports of these names fail as those of a package that is not installed do, in this process and in its workers.
BLOCK = """
import sys

BLOCKED = {blocked!r}


class Finder:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BLOCKED:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)


sys.meta_path.insert(0, Finder())
"""


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


def bare(tmp_path: Path, blocked: Collection[str], arguments: Sequence[str]) -> Done:
    """Run Python with ``arguments`` where the packages ``blocked`` can't be imported."""
    site = tmp_path / "site"
    site.mkdir(exist_ok=True)
    (site / "sitecustomize.py").write_text(BLOCK.format(blocked=sorted(blocked)))
    path = f"{site}:{ROOT / 'src'}:{ROOT}"
    done = subprocess.run(
        ["env", f"PYTHONPATH={path}", sys.executable, *arguments],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=300,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


HEAVY = ("jax", "jaxlib", "onnx", "onnx_ir", "onnxruntime", "torch", "ml_dtypes")


def test_import_needs_none_of_them(tmp_path: Path) -> None:
    code = "import onnxproof.evidence as e; print(e.Record, e.execute, e.validate_record, e.run_profile)"
    done = bare(tmp_path, HEAVY, ["-c", code])
    assert done.code == 0, done.err


def test_import_is_lazy() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT / 'src')!r}); import onnxproof.evidence\n"
        "print(sorted({'jax', 'numpy', 'onnx', 'onnxruntime', 'torch', 'pydantic'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


SCRIPT = str(ROOT / "scripts" / "check_export_conformance.py")
MISSING = [
    (("onnx",), {"onnx"}),
    (("onnxruntime",), {"onnxruntime"}),
    (("onnx", "onnxruntime", "onnxscript", "torch", "jax", "ml_dtypes"), {"onnx", "onnxruntime"}),
]


@pytest.mark.parametrize(("blocked", "named"), MISSING)
def test_missing_packages(tmp_path: Path, blocked: tuple[str, ...], named: set[str]) -> None:
    """A missing dependency is a failure of its stage, with exit code 10, and leaves no folder behind."""
    done = bare(tmp_path, blocked, [SCRIPT, "--output", "out/report.json"])
    assert done.code == 10, done.err
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert validate_report(report) == []
    assert [r["failure"] for r in report["profiles"]] == ["missing-dependency"] * 2
    for record in report["profiles"]:
        detail = record["stages"]["dependencies"]["detail"]
        assert named <= {name for name, version in detail.items() if version is None}
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["report.json"]


def test_replay_with_onnxruntime_only(tmp_path: Path) -> None:
    """A record made here replays where neither the framework nor the onnx package is."""
    run_profile(profile(), tmp_path)
    without = set(HEAVY) - {"onnxruntime"}
    done = bare(tmp_path, without, ["-m", "onnxproof", "verify", "affine-fp32", "--json"])
    assert done.code == 0, done.err
    record = json.loads(done.out)
    assert (record["level"], record["stages"]["parity"]["detail"]["compared"]) == ("executed", 2)


def test_replay_without_the_runtime(tmp_path: Path) -> None:
    run_profile(profile(), tmp_path)
    done = bare(tmp_path, ["onnxruntime"], ["-m", "onnxproof", "verify", "affine-fp32"])
    assert done.code == 15, done.out + done.err
    assert "No module named 'onnxruntime'" in done.out
