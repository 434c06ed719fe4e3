"""``onnxproof bench``: it runs, at the sizes asked for; no time is judged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import pytest
from typer.testing import CliRunner

from onnxproof import to_onnx
from onnxproof.cli import application

MODEL = """
import jax.numpy as jnp


def model(x, mask):
    return jnp.where(mask, jnp.tanh(x), 0)
"""


def command(*arguments: str | Path) -> Any:
    return CliRunner().invoke(application(), [str(a) for a in arguments])


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "benched.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)

    def fn(x: Any, mask: Any) -> Any:
        return jnp.where(mask, jnp.tanh(x), 0)

    import jax

    mask = jax.ShapeDtypeStruct(("T",), bool)
    to_onnx(fn, [("B", "T"), mask], return_mode="file", output_path=tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def test_rows(model: Path) -> None:
    done = command(
        "bench", model, "--batch", "1", "--batch", "4", "--threads", "1", "--size", "T=8", "--seconds", "0.01",
        "--against", "benched:model", "--json",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    rows = json.loads(done.output)["rows"]
    assert [(r["runner"], r["options"], r["batch"]) for r in rows] == [
        ("onnxruntime", "default", 1),
        ("onnxruntime", "default", 4),
        ("onnxruntime", "recommended", 1),
        ("onnxruntime", "recommended", 4),
        ("jax", "", 1),
        ("jax", "", 4),
    ]
    assert all(0 < r["median"] <= r["p90"] and r["runs"] >= 5 and r["load"] > 0 for r in rows)


def test_wrong_sizes(model: Path) -> None:
    assert "no dimension Z" in command("bench", model, "--size", "Z=3").output
    to_onnx(jnp.tanh, [(3,)], return_mode="file", output_path=model)
    assert "no dimension of the model varies" in command("bench", model, "--batch", "3").output
    done = command("bench", model, "--seconds", "0.01")
    assert done.exit_code == 0, done.output
    assert "fixed" in done.output


def test_a_model_that_does_not_load(tmp_path: Path) -> None:
    (tmp_path / "cut.onnx").write_bytes(b"\x08\x08\x12")
    assert command("bench", tmp_path / "cut.onnx").exit_code == 1
