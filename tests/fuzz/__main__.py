"""Random programs for as long as you like: ``python -m tests.fuzz --seconds 3600``.

Each fault is shrunk, printed once with the line that differs, and the search goes on with another seed.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections import Counter
from dataclasses import dataclass, field

import jax
from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.fuzz.programs import Program, programs
from tests.fuzz.verdict import Verdict, judge

ROUND = 100  # programs of one seed


class Fault(AssertionError):
    """A program that ONNX Runtime computes otherwise than JAX."""


@dataclass
class Search:
    """What was tried, and the last program that failed."""

    x64: bool
    counts: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    last: tuple[Program, Verdict] | None = None

    def look(self, program: Program) -> None:
        try:
            verdict = judge(program)
        except Exception as err:  # whatever a runtime or an exporter throws is a finding
            verdict = Verdict("fault", f"{type(err).__name__}: {str(err)[:600]}")
        self.counts[verdict.outcome] += 1
        if verdict.outcome == "refused":
            self.refused[verdict.detail.splitlines()[0][:160]] += 1
        if verdict.outcome == "fault":
            self.last = program, verdict
            raise Fault(verdict.detail)

    def round(self, number: int) -> bool:
        """A hundred programs of one seed; whether one of them failed."""
        self.last = None
        options = settings(
            max_examples=ROUND,
            deadline=None,
            database=None,
            print_blob=False,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate, Phase.shrink],
        )
        try:
            seed(number)(options(given(programs(self.x64))(self.look)))()
        except (Fault, BaseExceptionGroup):  # the group: what failed once and not again
            if self.last is None:
                raise
        return self.last is not None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--x64", action="store_true", help="with 64-bit types")
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", options.x64)
    search, faults, end = Search(options.x64), 0, time.monotonic() + options.seconds
    for number in itertools.count(options.seed):
        if time.monotonic() > end:
            break
        if search.round(number) and search.last is not None:
            faults += 1
            program, verdict = search.last
            print(f"--- fault {faults}, seed {number}\n{program}\n{verdict.detail}\n", flush=True)
    print(f"{search.counts.total()} programs: {dict(search.counts)}; {faults} faults")
    for reason, times in search.refused.most_common(20):
        print(f"  refused {times} times: {reason}")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
