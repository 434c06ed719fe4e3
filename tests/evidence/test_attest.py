"""Records as in-toto statements; what signing says where its library is missing."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from typer.testing import CliRunner

from onnxproof.cli import application
from onnxproof.evidence import Record, attest
from onnxproof.evidence.attest import STATEMENT, TEST_RESULT, evidence_statement, statement_lines
from onnxproof.evidence.bundle import RECORD


@pytest.mark.parametrize("name", ["good", "wrong", "broken", "crash"])
def test_subjects_are_the_files(made: Path, records: Mapping[str, Record], name: str) -> None:
    for statement in (evidence_statement(records[name]), attest.test_result_statement(records[name])):
        assert statement["_type"] == STATEMENT
        found = {s["name"]: s["digest"]["sha256"] for s in statement["subject"]}
        files = [p for p in (made / name).rglob("*") if p.is_file()]
        assert found == {
            p.relative_to(made / name).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest() for p in files
        }
        assert RECORD in found


def test_evidence(records: Mapping[str, Record]) -> None:
    predicate = evidence_statement(records["wrong"])["predicate"]
    assert predicate["verdict"] == {
        "status": "failed",
        "failure": "mismatch",
        "level": "structural",
        "exit_code": 16,
    }
    assert predicate["record"]["digest"]["sha256"] == records["wrong"].digest
    assert predicate["stages"]["parity"] == "failed"
    assert [run["runtime"]["name"] for run in predicate["runs"]] == ["onnxruntime"] * 2 + ["onnx-reference"]
    assert predicate["runs"][0]["cases"][0]["outcome"] == "mismatch"


def test_projection(records: Mapping[str, Record]) -> None:
    statement = attest.test_result_statement(records["good"])
    assert statement["predicateType"] == TEST_RESULT
    predicate = statement["predicate"]
    assert predicate["result"] == "WARNED"  # a limit of the reference evaluator
    assert "parity/onnxruntime CPU optimized/batch-1" in predicate["passedTests"]
    assert all(t.startswith("parity/onnx-reference numpy/") for t in predicate["warnedTests"])
    assert predicate["failedTests"] == []
    assert predicate["configuration"][0]["digest"]["sha256"] == records["good"].profile_sha256
    failed = attest.test_result_statement(records["broken"])["predicate"]
    assert (failed["result"], failed["failedTests"]) == ("FAILED", ["export"])
    assert failed["passedTests"] == ["dependencies"]


def test_lines(records: Mapping[str, Record]) -> None:
    statements = [evidence_statement(r) for r in records.values()]
    lines = statement_lines(statements).decode().splitlines()
    assert [json.loads(line) for line in lines] == statements


def test_signing_without_its_library(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "model_signing", None)  # as if it were not installed
    key = tmp_path / "key.pem"
    key.write_text("")
    for command in (["sign", str(made / "good")], ["verify", str(made / "good")]):
        done = CliRunner().invoke(application(), [*command, "--key", str(key)])
        assert done.exit_code == 1
        assert "missing-dependency: model-signing is not installed" in done.output
        assert "onnxproof[sign]" in done.output
    assert (
        CliRunner().invoke(application(), ["verify", str(made / "good"), "--signature", str(key)]).exit_code
        == 2
    )
