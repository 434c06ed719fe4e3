"""Options of the tests, and which of them need what is not always installed."""

from __future__ import annotations

import importlib.util

import pytest

# A lane of its own has torch (make test-torch); pytest fails there when it finds no tests.
collect_ignore = [] if importlib.util.find_spec("torch") else ["evidence_torch"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--mutations", type=int, default=200, help="how many mutations of each kind to try")
