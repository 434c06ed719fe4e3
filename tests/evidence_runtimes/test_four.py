"""One export, proven on four runtimes by one call, with the matrix in the report: ``make test-extras``."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from onnxproof import to_onnx
from onnxproof.cli import application
from onnxproof.evidence import read_record, validate_record, verify
from onnxproof.evidence.court import runs_of
from onnxproof.evidence.report import html
from onnxproof.models import build

RUNTIMES = ["onnxruntime", "onnx-reference", "openvino", "tract"]
SIZES = [(1, 1), (2, 5), (3, 16)]


@pytest.mark.parametrize("architecture", ["moe", "mlp"])
def test_four_runtimes(tmp_path: Path, architecture: str) -> None:
    built = build(architecture, "float32", seed=3)
    path = tmp_path / "model.onnx"
    to_onnx(built.fn, built.inputs, return_mode="file", output_path=path)
    rng = np.random.default_rng(0)
    timed = architecture == "moe"
    cases = {
        f"batch-{b}-time-{t}": [rng.normal(size=(b, t, 16) if timed else (b, 16)).astype(np.float32)]
        for b, t in SIZES
    }
    record = verify(built.fn, path, cases, runtimes=RUNTIMES, bundle_path=tmp_path / "bundle")
    assert validate_record(record) == []
    assert (record.status, record.level) == ("passed", "executed")
    runs = runs_of(record)
    assert [run.runtime.name for run in runs] == ["onnxruntime", *RUNTIMES]
    for run in runs:
        values = [case for case in run.input_cases if case.kind == "values"]
        assert [case.outcome for case in values] == ["match"] * len(SIZES), run.runtime.name
        assert run.runtime.version is not None
    page = html([record])
    for name in RUNTIMES:
        assert name in page


def test_command(tmp_path: Path) -> None:
    """The same from the command line, against the reference evaluator, without the callable."""
    built = build("mlp", "float32", seed=3)
    path = tmp_path / "model.onnx"
    to_onnx(built.fn, [(2, 16)], return_mode="file", output_path=path)
    chosen = [argument for name in RUNTIMES if name != "onnx-reference" for argument in ("--runtime", name)]
    report = tmp_path / "report.json"
    done = CliRunner().invoke(application(), ["verify", str(path), *chosen, "--report", str(report)])
    assert done.exit_code == 0, done.output
    record = read_record(json.dumps(json.loads(report.read_text())["profiles"][0]))
    assert {run.runtime.name for run in runs_of(record)} == set(RUNTIMES) - {"onnx-reference"}
    assert record.level == "executed"
