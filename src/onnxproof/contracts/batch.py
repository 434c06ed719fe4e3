"""Clauses on rows: any number of them, each by itself, the same every time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from onnxproof.contracts.clause import MAX_OFFENCES, Clause, Finding, Limits, Unmet
from onnxproof.contracts.subject import Subject
from onnxproof.evidence.compare import DEFAULT_TOLERANCE, difference
from onnxproof.evidence.tensors import Array

ROWS = 5  # of the batch whose rows are run alone


@dataclass(frozen=True)
class Batch(Clause):
    """A first dimension varies, all inputs and outputs have it, and batches of these sizes run."""

    kind: ClassVar[str] = "batch"
    sizes: tuple[int, ...] = (1, 2, 7)

    def demand(self) -> str:
        return f"batches of {', '.join(map(str, self.sizes))} run"

    def examine(self, subject: Subject) -> Finding:
        batch = subject.batch
        offences = [
            f"{what} {port.name!r} of {port.shape} has no dimension {batch!r}"
            for what, ports in (("input", subject.inputs), ("output", subject.outputs))
            for port in ports
            if subject.axis(port) is None
        ]
        for size in self.sizes:
            try:
                results = subject.run(subject.draw(size))
            except Unmet as err:
                offences.append(f"at {size}: {err}")
                continue
            for port in subject.outputs:
                axis = subject.axis(port)
                got = results[port.name].shape
                if axis is not None and (len(got) <= axis or got[axis] != size):
                    offences.append(f"at {size}: {port.name!r} has the shape {list(got)}")
        return Finding(len(self.sizes), {}, tuple(offences[:MAX_OFFENCES]))


@dataclass(frozen=True)
class IndependentRows(Clause):
    """A row gives what it gives alone, whatever the rows beside it are.

    Attributes:
        tolerance: how many times the tolerance of the dtype a row may differ by. A product may add in another
            order when there are more rows.
    """

    kind: ClassVar[str] = "independent-rows"
    tolerance: float = 1.0

    def demand(self) -> str:
        return "each row gives what it gives alone, whatever is beside it"

    def limits(self, measure: str) -> Limits:
        return Limits(high=self.tolerance)

    def examine(self, subject: Subject) -> Finding:
        subject.batch  # noqa: B018  # a file without a batch has no rows
        together = subject.draw(ROWS)
        results = subject.run(together)
        others = _joined(subject, together, subject.draw(ROWS, scale=10.0, salt=1))
        beside = subject.run(others)
        worst, offences = 0.0, []
        compared = 0
        for row in range(ROWS):
            alone = subject.run(_rows(subject, together, row))
            for port in subject.outputs:
                axis = subject.axis(port)
                if axis is None:
                    continue
                want = np.take(results[port.name], [row], axis)
                for how, got in (("alone", alone[port.name]), ("beside others", None)):
                    if got is None:
                        if row:
                            continue  # others keep row 0 only
                        got = np.take(beside[port.name], [0], axis)
                    rtol, atol = DEFAULT_TOLERANCE.get(want.dtype.name, (0.0, 0.0))
                    found = difference(got, want, rtol, atol)
                    compared += want.size
                    excess = 0.0 if found.matches and not found.excess else float(found.excess)
                    worst = max(worst, excess)
                    if not excess <= self.tolerance:
                        offences.append(
                            f"row {row} of {port.name!r} {how}: {found.got} at {list(found.worst)},"
                            f" in the batch {found.want}"
                        )
        return Finding(compared, {"largest difference, in tolerances": worst}, tuple(offences[:MAX_OFFENCES]))


@dataclass(frozen=True)
class Repeatable(Clause):
    """The same inputs give the same bits, time after time."""

    kind: ClassVar[str] = "repeatable"
    runs: int = 3

    def demand(self) -> str:
        return f"{self.runs} runs on the same inputs give the same bits"

    def examine(self, subject: Subject) -> Finding:
        feed = subject.draw(ROWS)
        first = subject.run(feed)
        offences = []
        for run in range(1, self.runs):
            again = subject.run(feed)
            offences += [
                f"{name!r} differs in run {run + 1}"
                for name in first
                if first[name].tobytes() != again[name].tobytes()
            ]
        return Finding(self.runs, {}, tuple(offences[:MAX_OFFENCES]))


def _rows(subject: Subject, feed: Mapping[str, Array], row: int) -> dict[str, Array]:
    """Inputs with one row only."""
    return {
        p.name: feed[p.name] if (axis := subject.axis(p)) is None else np.take(feed[p.name], [row], axis)
        for p in subject.inputs
    }


def _joined(subject: Subject, first: Mapping[str, Array], rest: Mapping[str, Array]) -> dict[str, Array]:
    """Row 0 of ``first`` and the other rows of ``rest``; inputs without rows are those of ``first``."""
    joined = {}
    for port in subject.inputs:
        axis = subject.axis(port)
        if axis is None:
            joined[port.name] = first[port.name]
            continue
        kept = np.take(first[port.name], [0], axis)
        others = np.take(rest[port.name], range(1, rest[port.name].shape[axis]), axis)
        joined[port.name] = np.concatenate([kept, others], axis)
    return joined
