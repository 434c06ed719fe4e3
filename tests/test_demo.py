"""The demonstration, run whole in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from tests.test_cli import SRC, onnxproof_command


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, object]]:
    folder = tmp_path_factory.mktemp("demo")
    done = onnxproof_command(folder, "demo", "--output", "out", "--json")
    assert done.code == 0, done.out + done.err
    return folder, json.loads(done.out)


def test_demo_agrees_with_jax_and_with_float64(finished: tuple[Path, dict[str, object]]) -> None:
    _, facts = finished
    assert facts["agrees"] is True
    runs = facts["runs"]
    assert isinstance(runs, list)
    assert [run["batch"] for run in runs] == [1, 2, 7, 397]
    for run in runs:
        assert run["onnx_to_jax"] < 2e-5
        assert run["onnx_to_float64"] < 2e-5


def test_demo_learned_the_digits(finished: tuple[Path, dict[str, object]]) -> None:
    _, facts = finished
    accuracy = facts["accuracy"]
    assert isinstance(accuracy, dict)
    assert accuracy["jax"] == accuracy["onnxruntime"] > 0.95


def test_demo_writes_one_named_and_small_model(finished: tuple[Path, dict[str, object]]) -> None:
    folder, _ = finished
    assert [str(p.relative_to(folder)) for p in folder.rglob("*")] == ["out", "out/digits.onnx"]
    graph = onnx.load(folder / "out" / "digits.onnx").graph
    names = {t.name for t in graph.initializer}
    assert {"conv1.kernel", "hidden.kernel", "head.bias"} <= {n.removesuffix(".value") for n in names}
    assert [d.dim_param or d.dim_value for d in graph.input[0].type.tensor_type.shape.dim] == ["B", 8, 8, 1]


def test_demo_prints_a_table_and_what_to_do_next(tmp_path: Path) -> None:
    done = onnxproof_command(tmp_path, "demo")
    assert done.code == 0, done.out + done.err
    for text in ("train", "export", "check", "load", "run", "float64", "accuracy", "digits.onnx", "Next"):
        assert text in done.out
    assert len(done.out.splitlines()) < 40
    assert (tmp_path / "demo-output" / "digits.onnx").is_file()


WITHOUT_FLAX = """
import importlib.util, sys

found = importlib.util.find_spec
importlib.util.find_spec = lambda name: None if name in ("flax", "optax") else found(name)
sys.argv = ["onnxproof", "demo"]
from onnxproof.cli import main

main()
"""


def test_demo_says_what_is_missing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WITHOUT_FLAX]
    env = {**os.environ, "PYTHONPATH": str(SRC)}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "flax and optax" in done.stderr
    assert "pip install" in done.stderr
    assert not any(tmp_path.iterdir())
