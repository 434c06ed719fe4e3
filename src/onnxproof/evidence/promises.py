"""What a file promises, as records hold it: clauses, what was found of each, and the verdicts that follow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

from pydantic import Field

from onnxproof.evidence.terms import Count, Name, Options, Status, Strict, Text, Value


class Measure(Strict):
    """A number that was measured, and what it may be; None is no bound."""

    name: Name
    value: Value
    low: Value | None
    high: Value | None


class ClauseFacts(Strict):
    """One clause. *Derived*: status.

    ``kind`` and ``settings`` say what is demanded, ``demand`` the same in words. ``examined`` is how many things
    were looked at, None where the clause was not tried.
    """

    kind: Name
    settings: Options
    demand: Text
    status: Status
    examined: Count | None
    measures: Annotated[list[Measure], Field(max_length=256)]
    offences: Annotated[list[Text], Field(max_length=64)]


class ContractFacts(Strict):
    """One contract. *Derived*: status, and in its clauses."""

    name: Name
    status: Status
    clauses: Annotated[list[ClauseFacts], Field(min_length=1, max_length=256)]


def settled(contract: ContractFacts) -> ContractFacts:
    """The contract with its verdicts made anew from the facts."""
    clauses = [c.model_copy(update={"status": _verdict(c)}) for c in contract.clauses]
    found = [c.status for c in clauses]
    status: Status = "failed" if "failed" in found else "not_run" if "not_run" in found else "passed"
    return contract.model_copy(update={"status": status, "clauses": clauses})


def untried(contract: ContractFacts) -> ContractFacts:
    """The contract without anything that was found."""
    clauses = [
        c.model_copy(update={"examined": None, "measures": [], "offences": []}) for c in contract.clauses
    ]
    return settled(contract.model_copy(update={"clauses": clauses}))


def problems(contracts: Sequence[ContractFacts], *, ran: bool) -> Iterator[str]:
    """What of these facts can't be.

    Args:
        ran: whether the cases were run: contracts are tried exactly then.
    """
    from onnxproof.contracts.clause import make
    from onnxproof.contracts.errors import ContractError
    from onnxproof.contracts.own import Own

    names = [c.name for c in contracts]
    if len(set(names)) != len(names):
        yield "two contracts have one name"
    for i, contract in enumerate(contracts):
        for j, clause in enumerate(contract.clauses):
            place = f"{i}.clauses.{j}"
            if (clause.examined is not None) != ran:
                yield f"{place}: is tried exactly when the cases ran, but says otherwise"
            if clause.examined is None and (clause.measures or clause.offences):
                yield f"{place}: something was found, though nothing was tried"
            if clause.kind == Own.kind:
                continue
            try:
                demanded = make(clause.kind, clause.settings)
            except ContractError as err:
                yield f"{place}: {err.what}"
                continue
            if demanded.demand() != clause.demand:
                yield f"{place}.demand: is not what the settings say"
            for measure in clause.measures:
                limits = demanded.limits(measure.name)
                if (measure.low, measure.high) != (limits.low, limits.high):
                    yield f"{place}: the limits of {measure.name!r} are not those of the settings"


def _verdict(clause: ClauseFacts) -> Status:
    if clause.examined is None:
        return "not_run"
    kept = clause.examined > 0 and not clause.offences and all(_within(m) for m in clause.measures)
    return "passed" if kept else "failed"


def _within(measure: Measure) -> bool:
    value = float(measure.value)  # of "nan" and "inf" as well
    low = float("-inf") if measure.low is None else float(measure.low)
    high = float("inf") if measure.high is None else float(measure.high)
    return low <= value <= high
