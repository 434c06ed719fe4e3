"""Both PyTorch profiles reach ``executed``, as the script runs them and from Python."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from onnxproof.evidence import (
    execute,
    exit_code,
    run_profile,
    summary_lines,
    validate_record,
    validate_report,
    verify,
    verify_artifacts,
)

NAMES = ("feedfwd-fp32-torchscript", "feedfwd-fp32-dynamo")
SCRIPT = Path(__file__).resolve().parent.parent.parent / "scripts" / "check_export_conformance.py"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    """The report of the script, and its folder of bundles."""
    folder = tmp_path_factory.mktemp("conformance")
    path = f"PYTHONPATH={SCRIPT.parent.parent / 'src'}"
    command = ["env", path, sys.executable, str(SCRIPT), "--output", str(folder / "report.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads((folder / "report.json").read_text()), folder / "conformance-artifacts"


def record_of(made: tuple[dict[str, Any], Path], name: str) -> dict[str, Any]:
    return next(r for r in made[0]["profiles"] if r["profile"] == name)


def test_report(made: tuple[dict[str, Any], Path]) -> None:
    assert validate_report(made[0]) == []
    assert sorted(r["profile"] for r in made[0]["profiles"]) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_executed(made: tuple[dict[str, Any], Path], name: str) -> None:
    record = record_of(made, name)
    assert (record["status"], record["failure"], record["level"], exit_code(record)) == (
        "passed",
        None,
        "executed",
        0,
    )
    assert record["model_state"] == {"parameters": True, "gradients": True, "modes": True}
    assert record["opset"] == {"requested": 17, "model": {"ai.onnx": 17}}
    check = record["stages"]["check"]["detail"]
    assert check["inputs"] == [{"name": "features", "dtype": "float", "shape": ["batch", 4]}]
    assert check["outputs"] == [{"name": "logits", "dtype": "float", "shape": ["batch", 2]}]
    for cases in (record["input_cases"], record["other_runs"][0]["input_cases"]):
        found = [(c["name"], c["shape"], c["seed"], c["outcome"]) for c in cases]
        assert found == [
            ("batch-1", [1, 4], 1001, "match"),
            ("batch-2", [2, 4], 1002, "match"),
            ("batch-3", [3, 4], 1003, "match"),
            ("batch-7", [7, 4], 1007, "match"),
            ("width-5", [3, 5], 2000, "rejected"),
        ]
        assert all(c["max_abs_error"] < 1e-6 for c in cases[:4])
        assert cases[4]["detail"].startswith("InvalidArgument: [ONNXRuntimeError] : 2 : INVALID_ARGUMENT")
    versions = record["versions"]
    assert set(versions) >= {"python", "platform", "onnxproof", "torch", "numpy", "onnx", "onnxruntime"}


@pytest.mark.parametrize("name", NAMES)
def test_again(made: tuple[dict[str, Any], Path], name: str) -> None:
    record = record_of(made, name)
    verify_artifacts(record, made[1])
    again = execute(record, made[1])
    assert again["level"] == "executed"
    assert validate_record(again) == []
    assert summary_lines(again)[0].startswith(f"{name}: passed, level executed")


def test_sidecar_of_dynamo(made: tuple[dict[str, Any], Path]) -> None:
    """The empty file that the exporter leaves for no tensor."""
    files = {f["path"]: f for f in record_of(made, "feedfwd-fp32-dynamo")["artifacts"]["files"]}
    side = files["model.onnx.data"]
    assert (side["role"], side["bytes"]) == ("sidecar", 0)


@pytest.mark.parametrize("name", NAMES)
def test_second_run_needs_force(made: tuple[dict[str, Any], Path], name: str) -> None:
    from onnxproof.errors import ConformanceError

    with pytest.raises(ConformanceError, match="holds files already"):
        run_profile(name, made[1])


def test_verify_module(tmp_path: Path) -> None:
    """A module of the user's, in training mode: its evaluation mode is the reference, and it is left as it is."""
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Dropout(0.5), torch.nn.Tanh())
    path = tmp_path / "model.onnx"
    example = (torch.zeros(2, 3),)
    axes = {"x": {0: "batch"}, "y": {0: "batch"}}
    names: dict[str, Any] = {"input_names": ["x"], "output_names": ["y"]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the exporter that is tested is deprecated
        torch.onnx.export(module.eval(), example, str(path), dynamo=False, dynamic_axes=axes, **names)
    module.train()
    x = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    record = verify(module, path, {"arrays": [x], "tensors": [torch.from_numpy(x)]})
    assert record.level == "executed"
    assert record.config.model_dump()["reference"] == "torch"
    assert module.training
    worst = record.input_cases[0].outputs[0]
    assert worst.oracle is not None
