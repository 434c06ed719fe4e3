"""scripts/web_smoke.py: what it says, and its exit codes."""

from __future__ import annotations

import runpy
import sys
from typing import Any

import pytest

from onnxproof import to_onnx
from tests.documents import ROOT


@pytest.fixture
def smoke(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(sys, "path", [str(ROOT / "scripts"), *sys.path])
    found = runpy.run_path(str(ROOT / "scripts" / "web_smoke.py"))["main"].__globals__
    found.update(packages=lambda: "", MODELS=("mlp",))  # the lane has them
    return found


def test_all_match(smoke: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert smoke["main"]("node") == 0
    assert capsys.readouterr().out.startswith("mlp: ")


@pytest.mark.parametrize("where", ["node", "chrome"])
def test_what_is_missing_is_named(
    smoke: dict[str, Any], where: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    assert smoke["main"](where) == 10
    assert "npm; as root: apt-get install" in capsys.readouterr().err


def test_a_missing_package(
    smoke: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    smoke["WEB"] = ROOT / "docs"
    assert smoke["main"]("node") == 10
    assert "npm install" in capsys.readouterr().err


def test_a_wrong_model(smoke: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    smoke["to_onnx"] = lambda fn, inputs, **named: to_onnx(lambda x: fn(x) + 1, inputs, **named)
    assert smoke["main"]("node") == 16
    assert "values differ: mlp" in capsys.readouterr().err
