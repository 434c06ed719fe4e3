"""A clause that is a function of the user's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from onnxproof.contracts.clause import MAX_OFFENCES, Clause, Finding, Unmet
from onnxproof.contracts.errors import ContractError
from onnxproof.contracts.subject import Subject

Check = Callable[[Subject], str | Iterable[str] | None]


@dataclass(frozen=True)
class Own(Clause):
    """A function that looks at the file and says what is wrong: one text, several, or none.

    It gets a :class:`Subject`: ``run`` runs inputs, ``draw`` makes some, ``probes`` are runs made already. What it
    asserts counts as well. A record keeps its name and what it found; a record can't name code to run, so that
    whoever checks the record again has to give the contract.
    """

    kind: ClassVar[str] = "own"
    function: Check
    says: str | None = None

    def demand(self) -> str:
        return self.says or (self.function.__doc__ or self.reference).strip().splitlines()[0]

    @property
    def reference(self) -> str:
        """``module:name`` of the function."""
        name = getattr(self.function, "__qualname__", type(self.function).__qualname__)
        return f"{getattr(self.function, '__module__', '?')}:{name}"

    def examine(self, subject: Subject) -> Finding:
        try:
            said = self.function(subject)
        except AssertionError as err:
            raise Unmet(str(err) or f"an assertion of {self.reference} failed") from err
        offences = (said,) if isinstance(said, str) else tuple(said or ())
        return Finding(1, {}, tuple(o[:500] for o in offences[:MAX_OFFENCES]))

    def settings(self) -> dict[str, Any]:
        return {"function": self.reference} | ({} if self.says is None else {"says": self.says})

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Clause:
        raise ContractError(
            f"the contract has a check of its own, {settings.get('function')}, and a record can't name code to run",
            way_out="Give the contract that it was made with, as --contract module:name or contracts=[…].",
        )
