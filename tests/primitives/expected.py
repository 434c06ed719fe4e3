"""Cases of the corpus that do not pass, and why. Whatever is not listed has to pass.

A row holds for the cases whose whole name its pattern matches. A case that does better than its row says fails its
test: the row has to go, or to be narrowed. A row that no case matches fails as well.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Expected:
    """``outcome`` of the cases that ``pattern`` matches (a kind of ``outcome.Outcome``), and why it is not ``pass``."""

    pattern: str
    outcome: str
    reason: str


EXPECTED: tuple[Expected, ...] = ()
