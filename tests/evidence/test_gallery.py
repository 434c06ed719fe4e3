"""The gallery's command, over two of its models."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.gallery.__main__ import main
from onnxproof.errors import ConformanceError
from onnxproof.evidence import read_record, verify_artifacts

MODELS = {"mlp": "jax", "gru": "equinox"}


def test_gallery(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = [argument for name in MODELS for argument in ("--model", name)]
    assert main([str(tmp_path), *chosen]) == 0
    index = (tmp_path / "index.md").read_text()
    assert capsys.readouterr().out == index
    for name, framework in MODELS.items():
        record = read_record((tmp_path / f"{name}-{framework}" / "record.json").read_bytes())
        assert (record.level, record.failure) == ("executed", None)
        assert [run.runtime.name for run in record.other_runs] == ["onnxruntime", "onnx-reference"]
        assert all(case.outcome == "match" for case in record.input_cases if case.kind == "values")
        verify_artifacts(record, tmp_path)
        assert f"{name}-{framework}" in index
    assert (tmp_path / "report.html").is_file()


def test_an_earlier_gallery_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "mlp-jax").mkdir()
    (tmp_path / "mlp-jax" / "notes.txt").touch()
    with pytest.raises(ConformanceError, match="holds files already"):
        main([str(tmp_path), "--model", "mlp"])
