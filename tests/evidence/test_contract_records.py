"""Contracts in evidence: facts are kept, verdicts follow from them, and a bundle is held to them again."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from examples.policies import POLICIES, continuous, discrete, export
from onnxproof import to_onnx, verify
from onnxproof.contracts import Bounds, Contract, ContractError, Own, Subject, policy
from onnxproof.evidence import attest, execute, summary_lines, validate_record
from onnxproof.evidence.annotations import github_lines
from onnxproof.evidence.conform import execute_in
from onnxproof.evidence.junit import junit_xml
from onnxproof.evidence.record import Record
from onnxproof.evidence.report import html

OBS = np.random.default_rng(0).normal(size=(3, 8)).astype(np.float32)


def never(subject: Subject) -> str | None:
    """A demand of the user's own."""
    return None


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Record, Path]:
    folder = tmp_path_factory.mktemp("kept")
    contract = POLICIES["continuous"][3]
    record = verify(continuous, export("continuous"), [OBS], contracts=[contract], bundle_path=folder / "b")
    return record, folder


def test_a_contract_that_is_kept(kept: tuple[Record, Path]) -> None:
    record, folder = kept
    assert (record.status, record.level, record.exit_code) == ("passed", "executed", 0)
    assert validate_record(record) == []
    assert record.contracts is not None
    assert [c.status for c in record.contracts] == ["passed"]
    again = execute(record, folder)
    assert again["contracts"] == record.as_dict()["contracts"]
    assert validate_record(again) == []
    assert "policy-continuous" in html([record])


def test_a_contract_that_is_broken() -> None:
    record = verify(discrete, export("discrete"), [OBS], contracts=[policy()])
    assert (record.status, record.failure, record.exit_code) == ("failed", "contract-violation", 19)
    assert record.level == "executed"  # values are right; what was promised of them is not
    assert validate_record(record) == []
    text = "\n".join(summary_lines(record))
    assert "contract policy-continuous: failed" in text
    assert "'action' has the shape [B]" in text
    assert "has the shape [B]" in html([record])
    failed = attest.test_result_statement(record)["predicate"]["failedTests"]
    assert any(name.startswith("contract policy-continuous/") for name in failed)
    assert b"contract-violation" in junit_xml([record])
    assert any("contract-violation" in line for line in github_lines([record]))


def test_nothing_is_tried_of_a_file_that_fails_before(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"no model")
    record = verify(discrete, tmp_path / "m.onnx", [OBS], contracts=[policy()])
    assert record.failure == "checker-error"
    assert record.contracts is not None
    assert {c.status for c in record.contracts} == {"not_run"}
    assert validate_record(record) == []


def changed(record: Record, path: list[Any], value: Any) -> dict[str, Any]:
    data = copy.deepcopy(record.as_dict())
    place = data["contracts"][0]
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return data


CONTRADICTIONS: list[tuple[list[Any], Any, str]] = [
    (["status"], "failed", "contracts.0.status"),
    (["clauses", 2, "status"], "failed", "contracts.0.clauses.2.status"),
    (["clauses", 2, "measures", 0, "low"], -100.0, "the limits of"),
    (["clauses", 2, "measures", 0, "value"], -100.0, "status"),
    (["clauses", 2, "settings", "high"], 7.0, "demand"),
    (["clauses", 2, "kind"], "limits", "there is no clause"),
    (["clauses", 0, "examined"], None, "tried exactly when"),
    (["clauses", 0, "examined"], 0, "status"),
    (["clauses", 0, "offences"], ["it lies"], "status"),
    (["name"], "", "name"),
    (["clauses"], [], "clauses"),
]


@pytest.mark.parametrize(("path", "value", "told"), CONTRADICTIONS, ids=[str(c[0]) for c in CONTRADICTIONS])
def test_contradictions(kept: tuple[Record, Path], path: list[Any], value: Any, told: str) -> None:
    problems = validate_record(changed(kept[0], path, value))
    assert any(told in p for p in problems), problems


def test_a_record_names_no_code(tmp_path: Path) -> None:
    own = Contract("own", (Own(never), Bounds("action", 0, 2)))
    record = verify(discrete, export("discrete"), [OBS], contracts=[own], bundle_path=tmp_path / "b")
    assert record.status == "passed"
    assert validate_record(record) == []
    with pytest.raises(ContractError, match="can't name code"):
        execute(record, tmp_path)
    again = execute_in(record, tmp_path / "b", {}, contracts=[own])
    assert again.status == "passed"


def test_two_contracts_of_one_name() -> None:
    with pytest.raises(ContractError, match="two contracts have the name"):
        verify(discrete, export("discrete"), [OBS], contracts=[policy(), policy()])


def test_float16_is_measured_against_its_limit() -> None:
    """A residual that reaches 65,000 passes, and its record says how near to overflow it is."""

    def residual(x: Any) -> Any:
        return x + jnp.float16(2) * x * x

    x = np.full((2, 4), 180, np.float16)  # 2 * 180² + 180 is 64,980
    record = verify(residual, to_onnx(residual, [np.zeros((2, 4), np.float16)]), [x])
    assert record.status == "passed", "\n".join(summary_lines(record))
    assert record.contracts is not None
    (contract,) = record.contracts
    measures = {m.name: m.value for m in contract.clauses[0].measures}
    assert float(measures["largest"]) == pytest.approx(64_980, rel=1e-3)
    assert 0.99 < float(measures["share of the greatest"]) < 1
    assert "share of the greatest" in "\n".join(summary_lines(record))
