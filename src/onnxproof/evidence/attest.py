"""Records as in-toto statements: which files, by digest, and what was found of them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from onnxproof.evidence.bundle import RECORD
from onnxproof.evidence.court import runs_of
from onnxproof.evidence.findings import run_label
from onnxproof.evidence.record import STAGES, Record
from onnxproof.evidence.strict_json import canonical, pretty

STATEMENT = "https://in-toto.io/Statement/v1"
EVIDENCE = "urn:onnxproof:evidence:1"
TEST_RESULT = "https://in-toto.io/attestation/test-result/v0.1"


def evidence_statement(record: Record) -> dict[str, Any]:
    """The statement with our own predicate: the verdict, the conditions, and every run and case."""
    return _statement(record, EVIDENCE, _evidence(record))


def test_result_statement(record: Record) -> dict[str, Any]:
    """The statement that in-toto's own test-result predicate has room for: names of tests and how they went.

    A case that a known limit of its runtime explains is a warning.
    """
    tests: dict[str, list[str]] = {"passedTests": [], "warnedTests": [], "failedTests": []}
    for stage in STAGES[:-1]:
        status = record.stages.of(stage).status
        if status != "not_run":
            tests["passedTests" if status == "passed" else "failedTests"].append(stage)
    for run in runs_of(record):
        for case in run.input_cases:
            if case.outcome != "not_run":
                kind = "failedTests" if case.failure else "warnedTests" if case.limit else "passedTests"
                tests[kind].append(f"parity/{run_label(run.runtime)}/{case.name}")
    for contract in record.contracts or ():
        for clause in contract.clauses:
            if clause.status != "not_run":
                kind = "passedTests" if clause.status == "passed" else "failedTests"
                tests[kind].append(f"contract {contract.name}/{clause.demand}")
    result = "FAILED" if record.status == "failed" else "WARNED" if tests["warnedTests"] else "PASSED"
    configuration = [{"name": f"profile {record.profile}", "digest": {"sha256": record.profile_sha256}}]
    return _statement(record, TEST_RESULT, {"result": result, "configuration": configuration, **tests})


def statement_lines(statements: Sequence[dict[str, Any]]) -> bytes:
    """Statements as canonical JSON, one on each line."""
    return "".join(f"{canonical(s)}\n" for s in statements).encode()


def _statement(record: Record, kind: str, predicate: dict[str, Any]) -> dict[str, Any]:
    files = [(f.path, f.sha256) for f in record.artifacts.files]
    written = hashlib.sha256(pretty(record.as_dict()).encode()).hexdigest()  # as ``bundle.write_record`` does
    subjects = [*files, (RECORD, written)]
    return {
        "_type": STATEMENT,
        "subject": [{"name": name, "digest": {"sha256": sha256}} for name, sha256 in subjects],
        "predicateType": kind,
        "predicate": predicate,
    }


def _evidence(record: Record) -> dict[str, Any]:
    data = record.as_dict()
    kept = ("source", "config", "exporter", "opset", "versions", "host", "dtype", "tolerances", "model_state")
    return {
        "format": record.format,
        "profile": {"name": record.profile, "digest": {"sha256": record.profile_sha256}},
        "record": {"name": RECORD, "digest": {"sha256": record.digest}},
        "verdict": {
            "status": record.status,
            "failure": record.failure,
            "level": record.level,
            "exit_code": record.exit_code,
        },
        "stages": {name: data["stages"][name]["status"] for name in STAGES},
        **{key: data[key] for key in kept},
        "runs": [
            {
                "runtime": run.runtime.model_dump(mode="json"),
                "cases": [
                    {
                        key: getattr(case, key)
                        for key in (
                            "name",
                            "expect",
                            "outcome",
                            "passed",
                            "failure",
                            "limit",
                            "max_abs_error",
                        )
                    }
                    for case in run.input_cases
                ],
            }
            for run in runs_of(record)
        ],
    }
