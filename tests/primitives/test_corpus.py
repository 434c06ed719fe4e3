"""JAX's own cases against ONNX Runtime: a sample of every primitive, or all with ``--whole-corpus``."""

from __future__ import annotations

import re

import pytest

from tests.primitives.corpus import corpus, sample
from tests.primitives.expected import EXPECTED
from tests.primitives.outcome import outcome

PER_PRIMITIVE = 16


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case_name" in metafunc.fixturenames:
        whole = metafunc.config.getoption("--whole-corpus")
        metafunc.parametrize("case_name", list(corpus()) if whole else sample(PER_PRIMITIVE))


def test_case(case_name: str) -> None:
    result = outcome(corpus()[case_name])
    rows = [row for row in EXPECTED if re.fullmatch(row.pattern, case_name)]
    assert len(rows) <= 1, f"{len(rows)} rows of expected.py match"
    if not rows:
        assert result.kind == "pass", result.detail
        return
    (row,) = rows
    assert result.kind != "pass", (
        f"it passes now; take it out of expected.py, where it is {row.outcome}: {row.reason}"
    )
    assert result.kind == row.outcome, result.detail


def test_every_row_is_needed() -> None:
    unused = [
        row.pattern for row in EXPECTED if not any(re.fullmatch(row.pattern, name) for name in corpus())
    ]
    assert not unused, "rows of expected.py that no case matches"
