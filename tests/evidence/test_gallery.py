"""The gallery's command, over two of its models, and the proofs that are kept with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.gallery.__main__ import HERE, MARKS, PROOFS, main, row, with_table
from examples.gallery.models import GALLERY, build, profile
from onnxproof.errors import ConformanceError
from onnxproof.evidence import Record, execute, read_record, validate_record, verify_artifacts
from onnxproof.evidence.derive import settings_of
from onnxproof.evidence.references.built import arrays_digest

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


def kept(architecture: str) -> Record:
    return read_record((PROOFS / f"{architecture}-{GALLERY[architecture]}" / "record.json").read_bytes())


@pytest.mark.parametrize("architecture", GALLERY)
def test_proofs_that_are_kept(architecture: str) -> None:
    """Each is whole and says ``executed``, of the models, weights and settings that the gallery has now."""
    record = kept(architecture)
    assert (record.status, record.level, record.source.dirty) == ("passed", "executed", False)
    verify_artifacts(record, PROOFS)
    now = profile(architecture)
    weights = arrays_digest(build(GALLERY[architecture], architecture).weights)
    config = now.config.model_copy(update={"weights_sha256": weights})
    assert settings_of(record) == now.model_copy(update={"config": config}).settings()
    line = f"| {' | '.join(row(record, PROOFS / record.artifacts.directory))} |"
    assert line in (PROOFS / "index.md").read_text()
    assert record.profile in (PROOFS / "report.html").read_text()


@pytest.mark.parametrize("architecture", ["mlp", "embedding"])
def test_proofs_run_again(architecture: str) -> None:
    again = execute(kept(architecture), PROOFS)
    assert validate_record(again) == []
    assert (again["status"], again["level"]) == ("passed", "executed")


def test_table_in_the_readme() -> None:
    text = (HERE / "README.md").read_text()
    assert all(text.count(mark) == 1 for mark in MARKS)
    assert with_table(text, (PROOFS / "index.md").read_text()) == text
