"""Contracts in records: what was found, as facts, and the contract again from what a record says."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from onnxproof.contracts.check import Report, examine
from onnxproof.contracts.clause import Clause, Finding, make
from onnxproof.contracts.contract import Contract
from onnxproof.contracts.errors import ContractError
from onnxproof.evidence.bundle import read_tensors
from onnxproof.evidence.files import safe_parts
from onnxproof.evidence.profile import RuntimeSpec
from onnxproof.evidence.promises import ClauseFacts, ContractFacts, Measure, settled
from onnxproof.evidence.record import Record, Value


def untried_facts(contract: Contract) -> ContractFacts:
    """The facts of a contract that was not tried yet."""
    return settled(
        ContractFacts(
            name=contract.name, status="not_run", clauses=[_clause(c, None) for c in contract.clauses]
        )
    )


def facts(report: Report) -> ContractFacts:
    """What was found, with verdicts."""
    clauses = [_clause(clause, finding) for clause, finding in report]
    return settled(ContractFacts(name=report.contract.name, status="not_run", clauses=clauses))


def contract_of(written: ContractFacts) -> Contract:
    """The contract that a record holds.

    Raises:
        ContractError: it has a check of the user's own, or is not whole.
    """
    return Contract(written.name, tuple(make(c.kind, c.settings) for c in written.clauses))


def distinct(given: Sequence[Contract]) -> Sequence[Contract]:
    """The contracts that were given, when no two have one name.

    Raises:
        ContractError: two have.
    """
    names = [c.name for c in given]
    if len(set(names)) != len(names):
        raise ContractError(
            f"two contracts have the name {max(names, key=names.count)!r}",
            way_out="Give one of them another: contract.named('…').",
        )
    return given


def combined(record: Record, given: Sequence[Contract]) -> list[Contract]:
    """The contracts of a record with those that were given: one that was given takes the place of its namesake.

    Raises:
        ContractError: two that were given have one name, or one in the record can't be made again.
    """
    names = [c.name for c in distinct(given)]
    kept = [contract_of(c) for c in record.contracts or () if c.name not in names]
    return [*kept, *given]


def tried(record: Record, folder: Path, contracts: Sequence[Contract], adapters: Mapping[str, str]) -> Record:
    """The record, not settled, with what the file in ``folder`` keeps of contracts, in the record's first runtime.

    Nothing is tried where the cases did not run.
    """
    if not contracts:
        return record
    if record.stages.parity.detail is None:
        return record.model_copy(update={"contracts": [untried_facts(c) for c in contracts]})
    cases = {
        case.name: [a for _, a in read_tensors(folder, record.artifacts, case.name, "input")]
        for case in record.input_cases
        if case.expect == "match"
    }
    runtime = record.runtime
    spec = RuntimeSpec(name=runtime.name, provider=runtime.provider, session=runtime.session)
    found = []
    for contract in contracts:
        try:
            report = examine(
                folder.joinpath(*safe_parts(record.artifacts.model)),
                contract,
                cases,
                spec,
                adapter=adapters.get(runtime.name),
                seconds=record.policy.case_seconds,
                memory=record.policy.memory_bytes,
            )
        except ContractError as err:
            report = Report(contract, tuple(Finding(1, {}, (err.what[:500],)) for _ in contract.clauses))
        found.append(facts(report))
    return record.model_copy(update={"contracts": found})


def _clause(clause: Clause, finding: Finding | None) -> ClauseFacts:
    measures = []
    for name, value in finding.values.items() if finding else ():
        limits = clause.limits(name)
        measures.append(Measure(name=name, value=_plain(value), low=limits.low, high=limits.high))
    return ClauseFacts(
        kind=clause.kind,
        settings=clause.settings(),
        demand=clause.demand(),
        status="not_run",
        examined=None if finding is None else finding.examined,
        measures=measures,
        offences=[] if finding is None else list(finding.offences),
    )


def _plain(value: float) -> Value:
    if math.isfinite(value):
        return float(value)
    return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
