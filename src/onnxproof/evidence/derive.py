"""From facts to verdicts: one pure function, used by whoever writes a record and by whoever reads one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

from onnxproof.evidence import promises
from onnxproof.evidence.record import (
    STAGES,
    Failure,
    InputCase,
    Level,
    Output,
    ParityDetail,
    Record,
    Report,
    Run,
    Runtime,
    Stages,
    Status,
    Tolerances,
)
from onnxproof.evidence.runtimes.limits import Limit, bearing
from onnxproof.evidence.strict_json import canonical

EXIT_CODES: dict[Failure, int] = {
    "missing-dependency": 10,
    "export-error": 11,
    "state-changed": 12,
    "checker-error": 13,
    "hash-mismatch": 14,
    "load-error": 15,
    "mismatch": 16,
    "input-contract": 17,
    "runtime-error": 18,
    "contract-violation": 19,
}
UNSETTLED = "0" * 64  # stands in digests until they are made


def first_run(record: Record) -> Run:
    """The run whose facts stand at the top of a record, without a verdict."""
    return Run(
        runtime=record.runtime,
        execution=record.execution,
        status="not_run",
        failure=None,
        level="none",
        input_cases=record.input_cases,
    )


def settle(record: Record) -> Record:
    """The record with every derived field made anew from the facts in it.

    Settling a settled record changes nothing; a record that settling would change contradicts itself.
    """
    primary = _settle_run(first_run(record), record)
    others = [_settle_run(run, record) for run in record.other_runs]
    stages = _settle_stages(record, [primary, *others])
    failure = next((f for _, f in _outcomes(stages) if f), None)
    contracts = None if record.contracts is None else [promises.settled(c) for c in record.contracts]
    if failure is None and any(c.status != "passed" for c in contracts or ()):
        failure = "contract-violation"
    level: Level = "none"
    if stages.check.status == "passed":
        level = "executed" if stages.parity.status == "passed" else "structural"
    settled = record.model_copy(
        update={
            "runtime": primary.runtime,
            "input_cases": primary.input_cases,
            "other_runs": [_run_verdict(run, level) for run in others],
            "stages": stages,
            "contracts": contracts,
            "status": "passed" if stages.parity.status == "passed" and failure is None else "failed",
            "failure": failure,
            "level": level,
            "exit_code": EXIT_CODES[failure] if failure else 0,
        }
    )
    settled = settled.model_copy(update={"profile_sha256": sha256_of(settings_of(settled))})
    return settled.model_copy(update={"digest": digest_of(settled)})


def settle_report(report: Report) -> Report:
    """The report with its status and exit code made anew; its records are left as they are."""
    code = exit_code(report.profiles)
    return report.model_copy(update={"status": "failed" if code else "passed", "exit_code": code})


def exit_code(records: Sequence[Record]) -> int:
    """0 when every record passed, otherwise the code of the first that failed."""
    return next((r.exit_code for r in records if r.exit_code), 0)


def digest_of(record: Record) -> str:
    """SHA-256 of the canonical text of every field but ``digest``."""
    return sha256_of(record.model_dump(mode="json", exclude={"digest"}))


def sha256_of(value: Any) -> str:
    """SHA-256 of the canonical text of a JSON value."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def settings_of(record: Record) -> dict[str, Any]:
    """What a profile fixes, as a record states it: the text behind ``profile_sha256``.

    Cases that follow from the signature are left out: they are made from the file.
    """
    runs = [record.runtime, *(run.runtime for run in record.other_runs)]
    listed = [c for c in record.input_cases if record.policy.refusals == "listed" or c.kind == "values"]
    promised = [
        {"name": c.name, "clauses": [{"kind": x.kind, "settings": x.settings} for x in c.clauses]}
        for c in record.contracts or ()
    ]
    return {
        "name": record.profile,
        "dtype": record.dtype,
        "opset": record.opset.requested,
        "model": record.artifacts.model,
        "config": record.config.model_dump(mode="json"),
        "exporter": record.exporter.model_dump(mode="json"),
        "runtimes": [{"name": r.name, "provider": r.provider, "session": dict(r.session)} for r in runs],
        "cases": [
            {
                "name": c.name,
                "kind": c.kind,
                "shapes": [list(s) for s in c.shapes],
                "seed": c.seed,
                "expect": c.expect,
            }
            for c in listed
        ],
        "tolerances": record.tolerances.model_dump(mode="json"),
        "policy": record.policy.model_dump(mode="json"),
    } | ({"contracts": promised} if promised else {})


def output_matches(output: Output, tolerances: Tolerances) -> bool:
    """Whether one output is there, of the right dtype and shape, and within tolerance everywhere."""
    want, got = output.want, output.got
    if want is None or got is None or want.dtype != got.dtype or want.shape != got.shape:
        return False
    if output.nonfinite and tolerances.nonfinite == "refused":
        return False
    return output.excess is not None and output.excess != "inf" and output.excess <= 1


def _settle_run(run: Run, record: Record) -> Run:
    detail = record.stages.check.detail
    ports = [*(detail.inputs or ()), *(detail.outputs or ())] if detail else []
    limits = bearing(
        run.runtime.name,
        (p.dtype for p in ports),
        (c.kind for c in run.input_cases),
        nan=any(o.lost_nan for c in run.input_cases for o in c.outputs),
    )
    cases = [_settle_case(case, record.tolerances, limits) for case in run.input_cases]
    runtime: Runtime = run.runtime.model_copy(update={"limits": [x.name for x in limits]})
    return run.model_copy(update={"runtime": runtime, "input_cases": cases})


def _settle_case(case: InputCase, tolerances: Tolerances, limits: Sequence[Limit]) -> InputCase:
    outcome: str = case.answer
    failure: Failure | None = None
    if case.answer == "outputs" and case.expect == "match":
        matches = bool(case.outputs) and all(output_matches(o, tolerances) for o in case.outputs)
        outcome, failure = ("match", None) if matches else ("mismatch", "mismatch")
    elif case.answer == "outputs":
        outcome, failure = "accepted", "input-contract"
    elif case.answer == "invalid-argument":
        outcome, failure = "rejected", None if case.expect == "rejected" else "input-contract"
    elif case.answer != "not_run":
        failure = "runtime-error"
    limit: str | None = None
    if failure and case.expect == "rejected" and case.answer in ("outputs", "error"):
        limit = next((x.name for x in limits if case.kind in x.unrefused), None)
        failure = failure if limit is None else None
    elif failure == "mismatch":
        limit = next((x.name for x in limits if x.dtypes or (x.nan and _only_nan(case, tolerances))), None)
    return case.model_copy(
        update={
            "outcome": outcome,
            "failure": failure,
            "limit": limit,
            "passed": failure is None and limit is None and outcome != "not_run",
            "max_abs_error": _largest([o.max_abs_error for o in case.outputs]),
            "max_rel_error": _largest([o.max_rel_error for o in case.outputs]),
        }
    )


def _only_nan(case: InputCase, tolerances: Tolerances) -> bool:
    """Whether a case differs in nothing but NaN that the runtime lost."""
    wrong = [o for o in case.outputs if not output_matches(o, tolerances)]
    return all(
        o.lost_nan is not None and o.lost_nan.excess != "inf" and o.lost_nan.excess <= 1 for o in wrong
    )


def _largest(errors: Sequence[float | str | None]) -> float | str | None:
    known = [e for e in errors if e is not None]
    if "inf" in known:
        return "inf"
    return max((float(e) for e in known), default=None)


def _settle_stages(record: Record, runs: Sequence[Run]) -> Stages:
    found: dict[str, Any] = {}
    failed = False
    for name in STAGES:
        stage = record.stages.of(name)
        failure = None if failed or stage.detail is None else _failure(name, record, runs)
        status: Status = "not_run" if failed or stage.detail is None else "failed" if failure else "passed"
        update: dict[str, Any] = {"status": status, "failure": failure}
        if name == "parity" and stage.detail is not None:
            cases = [case for run in runs for case in run.input_cases]
            compared = sum(c.answer == "outputs" and c.expect == "match" for c in cases)
            update["detail"] = ParityDetail(cases=len(cases), compared=compared)
        found[name] = stage.model_copy(update=update)
        failed = failed or status != "passed"
    return Stages(**found)


def _failure(stage: str, record: Record, runs: Sequence[Run]) -> Failure | None:
    stages, state = record.stages, record.model_state
    if stage == "dependencies" and stages.dependencies.detail is not None:
        return "missing-dependency" if None in stages.dependencies.detail.values() else None
    if stage == "export" and stages.export.detail is not None:
        if stages.export.detail.error is not None:
            return "export-error"
        return "state-changed" if False in (state.parameters, state.gradients, state.modes) else None
    if stage == "check" and stages.check.detail is not None:
        sound = stages.check.detail.checker_error is None
        return None if sound and stages.check.detail.shape_inference.status == "passed" else "checker-error"
    if stage == "load" and stages.load.detail is not None:
        if stages.load.detail.problems:
            return "hash-mismatch"
        return None if all(run.execution.load == "loaded" for run in runs) else "load-error"
    return next((c.failure for run in runs for c in run.input_cases if c.failure), None)


def _run_verdict(run: Run, level: Level) -> Run:
    """A run's own verdict; ``level`` is the record's, which no run of it passes when the check failed."""
    failure = next((c.failure for c in run.input_cases if c.failure), None)
    load = run.execution.load
    if load not in ("loaded", "not_run"):
        failure = "load-error"
    ran = any(c.answer != "not_run" for c in run.input_cases)
    status: Status = "failed" if failure else "passed" if ran else "not_run"
    own: Level = level if level == "none" else "executed" if status == "passed" else "structural"
    return run.model_copy(update={"status": status, "failure": failure, "level": own})


def _outcomes(stages: Stages) -> Iterator[tuple[Status, Failure | None]]:
    for name in STAGES:
        stage = stages.of(name)
        yield stage.status, stage.failure
