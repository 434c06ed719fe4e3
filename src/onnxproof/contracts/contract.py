"""A contract: clauses under a name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from onnxproof.contracts.clause import Clause
from onnxproof.contracts.errors import ContractError


@dataclass(frozen=True)
class Contract:
    """Clauses that a file has to keep, all of them.

    ``contract + clause`` and ``contract + contract`` give a contract with more of them, under the first one's name.
    """

    name: str
    clauses: tuple[Clause, ...]

    def __post_init__(self) -> None:
        if not self.name or len(self.name) > 100:
            raise ContractError(
                f"{self.name!r} is no name for a contract", way_out="Give 1 to 100 characters."
            )
        if not self.clauses:
            raise ContractError(f"the contract {self.name!r} demands nothing")
        for clause in self.clauses:
            if not isinstance(clause, Clause):
                raise ContractError(
                    f"the contract {self.name!r} has a {type(clause).__name__} for a clause",
                    way_out="Wrap a function of your own in Own(function).",
                )

    def __add__(self, more: Contract | Clause | Iterable[Clause]) -> Contract:
        if isinstance(more, Contract):
            added: tuple[Clause, ...] = more.clauses
        else:
            added = (more,) if isinstance(more, Clause) else tuple(more)
        kept = [c for c in self.clauses if c not in added]
        return Contract(self.name, (*kept, *added))

    def named(self, name: str) -> Contract:
        """The same clauses under another name."""
        return Contract(name, self.clauses)
