"""The clause of recurrent models: state goes in and comes out, in one form, and matters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from onnxproof.contracts.clause import MAX_OFFENCES, Clause, Finding
from onnxproof.contracts.subject import ROWS, Subject


@dataclass(frozen=True)
class State(Clause):
    """An output is the next value of an input: the same dtype and shape, fed back without harm, and used.

    Attributes:
        into, out: names of the input and of the output.
        steps: how often the output is fed back.
    """

    kind: ClassVar[str] = "state"
    into: str
    out: str
    steps: int = 8

    def demand(self) -> str:
        return (
            f"{self.out!r} is the next {self.into!r}: of its dtype and shape, finite when fed back, and used"
        )

    def examine(self, subject: Subject) -> Finding:
        before, after = subject.input(self.into), subject.output(self.out)
        offences = []
        if before.dtype != after.dtype:
            offences.append(f"{self.into!r} is {before.dtype}, {self.out!r} is {after.dtype}")
        if before.shape != after.shape:
            offences.append(f"{self.into!r} is of {before.shape}, {self.out!r} of {after.shape}")
        if offences:
            return Finding(1, {}, tuple(offences))
        offences += self._unused(subject)
        feed = subject.draw(ROWS)
        for step in range(self.steps):
            state = subject.run(feed)[self.out]
            if not np.isfinite(state.astype(np.float64)).all():
                offences.append(f"{self.out!r} is not finite after {step + 1} steps")
                break
            feed = {**feed, self.into: state}
        return Finding(self.steps, {}, tuple(offences[:MAX_OFFENCES]))

    def _unused(self, subject: Subject) -> list[str]:
        """Whether nothing but the state's own output depends on the state, or the state never changes."""
        feed = subject.draw(ROWS)
        base = subject.run(feed)
        moved, kept = False, bool((base[self.out] == feed[self.into]).all())
        for salt, scale in enumerate((1.0, 10.0, 1000.0), start=1):
            other = {**feed, self.into: subject.draw(ROWS, scale=scale, salt=salt)[self.into]}
            got = subject.run(other)
            changed = [
                n for n in base if not np.array_equal(got[n], base[n], equal_nan=got[n].dtype.kind == "f")
            ]
            moved = moved or any(n != self.out for n in changed)
        found = [] if moved else [f"no output but {self.out!r} depends on {self.into!r}"]
        return [*found, f"{self.out!r} is {self.into!r} as it came in"] if kept else found
