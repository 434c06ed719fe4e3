"""One clause of a contract, and what was found when it was tried."""

from __future__ import annotations

import abc
import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar

from onnxproof.contracts.errors import ContractError

if TYPE_CHECKING:
    from onnxproof.contracts.subject import Subject

MAX_OFFENCES = 8
CLAUSES: dict[str, type[Clause]] = {}  # by the name that contracts write down


class Unmet(Exception):
    """A clause does not hold, and nothing more can be tried of it."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a measured number may be; None is no bound."""

    low: float | None = None
    high: float | None = None

    def hold(self, value: float) -> bool:
        """Whether ``value`` lies within; NaN never does."""
        return not math.isnan(value) and (
            (self.low is None or value >= self.low) and (self.high is None or value <= self.high)
        )


@dataclass(frozen=True, slots=True)
class Finding:
    """Facts about one clause.

    Attributes:
        examined: how many things were looked at: ports, nodes, elements, runs. Nothing holds of nothing.
        values: what was measured, by name; the clause's limits say what each may be.
        offences: what is wrong, with its place.
    """

    examined: int
    values: Mapping[str, float] = field(default_factory=dict)
    offences: tuple[str, ...] = ()


@dataclass(frozen=True)
class Clause(abc.ABC):
    """A demand on a file, as a value. Subclasses are frozen dataclasses with a ``kind`` of their own."""

    kind: ClassVar[str] = ""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.kind:
            CLAUSES[cls.kind] = cls

    @abc.abstractmethod
    def demand(self) -> str:
        """What has to hold, in one line."""

    @abc.abstractmethod
    def examine(self, subject: Subject) -> Finding:
        """Look at the file, or run it.

        Raises:
            Unmet: the clause does not hold, in a way that leaves nothing to measure.
        """

    def limits(self, measure: str) -> Limits:
        """What a number that this clause measures may be."""
        return Limits()

    def settings(self) -> dict[str, Any]:
        """The clause's fields as JSON has them, without those that are as by default."""
        return {
            f.name: _listed(value) for f in fields(self) if (value := getattr(self, f.name)) != _default(f)
        }

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Clause:
        """The clause with these fields; lists become tuples."""
        return cls(**{name: _tupled(value) for name, value in settings.items()})


def make(kind: str, settings: Mapping[str, Any]) -> Clause:
    """The clause that a written contract names.

    Raises:
        ContractError: there is no such clause, or it has no such fields.
    """
    found = CLAUSES.get(kind)
    if found is None:
        raise ContractError(
            f"there is no clause {kind!r}", way_out=f"Known are: {', '.join(sorted(CLAUSES))}."
        )
    known = {f.name for f in fields(found)}
    unknown = sorted(set(settings) - known)
    if unknown:
        raise ContractError(
            f"the clause {kind!r} has no {', '.join(map(repr, unknown))}",
            way_out=f"It has: {', '.join(sorted(known)) or 'nothing to set'}.",
        )
    try:
        return found.of(settings)
    except TypeError as err:
        raise ContractError(f"the clause {kind!r} is not whole: {err}") from err


def holds(clause: Clause, finding: Finding) -> bool:
    """Whether something was looked at, nothing is wrong, and every number lies within its limits."""
    within = all(clause.limits(name).hold(value) for name, value in finding.values.items())
    return finding.examined > 0 and not finding.offences and within


def _default(described: Any) -> Any:
    return None if described.default is MISSING else described.default


def _listed(value: Any) -> Any:
    return [_listed(v) for v in value] if isinstance(value, (tuple, list)) else value


def _tupled(value: Any) -> Any:
    return tuple(_tupled(v) for v in value) if isinstance(value, (tuple, list)) else value
