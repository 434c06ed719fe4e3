"""``onnxproof doctor``: what a report needs, and whether the installation works."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import pytest
from typer.testing import CliRunner

from onnxproof import to_onnx, verify
from onnxproof.cli import application
from onnxproof.inspection import environment


def command(*arguments: str | Path) -> Any:
    return CliRunner().invoke(application(), [str(a) for a in arguments])


def test_a_sound_installation() -> None:
    done = command("doctor", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    assert found["check"]["passed"]
    assert found["packages"]["needed"]["jax"]
    assert "CPUExecutionProvider" in found["check"]["providers"]
    assert found["machine"]["memory"] > 2**28


@pytest.mark.parametrize(
    ("returncode", "out", "err", "stage", "message"),
    [
        (1, "", "Traceback\nImportError: no jax\n", "import", "ImportError: no jax"),
        (-4, '{"done": ["import"]}\n', "", "export", "signal 4"),
        (1, '{"done": ["import", "export", "load"]}\n', "they differ by 3\n", "compare", "differ by 3"),
    ],
)
def test_a_broken_installation(
    monkeypatch: pytest.MonkeyPatch, returncode: int, out: str, err: str, stage: str, message: str
) -> None:
    done = subprocess.CompletedProcess([], returncode, out, err)
    monkeypatch.setattr(environment.apart, "run", lambda *a, **k: done)
    found = environment.check()
    assert (found.passed, found.stage) == (False, stage)
    assert message in found.message


def test_a_bundle(tmp_path: Path) -> None:
    model, bundle = tmp_path / "m.onnx", tmp_path / "m.evidence"
    to_onnx(jnp.tanh, [("B",)], return_mode="file", output_path=model)
    verify(jnp.sin, model, {"one": [jnp.ones(3)]}, bundle_path=bundle)
    fault = environment.fault_of(bundle)
    assert (fault.stage, fault.failure) == ("parity", "mismatch")
    assert "one" in fault.message
    (bundle / "record.json").write_text("{}")
    assert environment.fault_of(bundle).stage == "read"


def test_a_wrong_place(tmp_path: Path) -> None:
    assert command("doctor", tmp_path / "nothing").exit_code == 2
