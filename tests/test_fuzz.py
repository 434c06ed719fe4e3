"""A few random programs, the same ones each time; ``make fuzz`` tries others for as long as you like."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings

from tests.fuzz.programs import Program, programs
from tests.fuzz.verdict import judge


@settings(
    max_examples=120,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(programs())
def test_random_programs(program: Program) -> None:
    verdict = judge(program)
    assert verdict.outcome != "fault", f"{program}\n{verdict.detail}"
