"""The pytest plugin, inside runs of pytest of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from onnxproof.evidence import validate_record

ROOT = Path(__file__).resolve().parent.parent.parent
TESTS = """
import jax.numpy as jnp
import numpy as np
import pytest
from onnxproof import to_onnx
from onnxproof.pytest_plugin import assert_parity as plain

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
OTHER = to_onnx(lambda x: jnp.tanh(x) + 1e-3, [("B", 4)])

def fn(x):
    return jnp.tanh(x)

def test_right(assert_parity):
    record = assert_parity(fn, {"three": [X], "one": [X[:1]]}, specs=[("B", 4)])
    assert [c.name for c in record.input_cases[:2]] == ["three", "one"]

def test_wrong(assert_parity):
    assert_parity(fn, [X], model=OTHER)

@pytest.mark.onnxproof(atol=1e-2, runtimes=["onnx-reference"])
def test_marked(assert_parity):
    record = assert_parity(fn, [X], model=OTHER)
    assert record.runtime.name == "onnx-reference"
    assert record.tolerances.atol == 1e-2

@pytest.mark.onnxproof(atol=1e-2)
def test_fails_otherwise(assert_parity):
    assert_parity(fn, [X])
    assert False, "something else"

def test_plain():
    plain(fn, [X], model=OTHER)
"""


@pytest.fixture
def ran(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.RunResult:
    pytester.makepyfile(TESTS)
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    plugin = ["-p", "no:onnxproof", "-p", "onnxproof.pytest_plugin"]  # once, whether it is installed or not
    return pytester.runpytest_subprocess(
        *plugin, "--onnxproof-records=records", "--strict-markers", "--junitxml=junit.xml"
    )


def test_outcomes(ran: pytest.RunResult, pytester: pytest.Pytester) -> None:
    ran.assert_outcomes(passed=2, failed=3)
    ran.stdout.fnmatch_lines_random(
        [
            "*ParityError: ad-hoc: failed, level structural, mismatch*",
            "*onnxproof record *",
            "*something else*",
        ]
    )
    text = ran.stdout.str()
    assert text.count("- onnxproof record ") == 3
    records = sorted((pytester.path / "records").iterdir())
    assert len(records) == 4  # the plain function leaves its record in the error alone
    for path in records:
        assert validate_record(path.read_bytes()) == []
    assert "passed executed " in (pytester.path / "junit.xml").read_text()


def test_loading_is_light() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT / 'src')!r}); import onnxproof.pytest_plugin\n"
        "print(sorted({'jax', 'numpy', 'onnx', 'onnxruntime', 'pydantic', 'jinja2'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
