"""Every public function of the installed JAX, and the page that tells of them."""

from __future__ import annotations

from functools import cache

import jax
import pytest

from tests.sweep import page
from tests.sweep.catalogue import Function, functions, load_tables
from tests.sweep.measure import measure

TABLES = load_tables()
TRIED = [f for f in functions() if f.path in TABLES.calls]


@cache
def written() -> page.Page:
    return page.read(page.PATH.read_text())


@pytest.mark.parametrize("function", TRIED, ids=lambda f: f.path)
def test_function(function: Function) -> None:
    outcome = measure(function, always_oracle=False)
    if jax.__version__ == written().release:
        now, then = page.row(function, outcome), written().rows.get(function.path)
        assert then is not None, f"docs/coverage.md doesn't list {function.path}: make coverage"
        assert page.still_holds(then, now), f"docs/coverage.md is stale: make coverage\n{then}\n{now}"


def test_every_function_is_in_a_table() -> None:
    missing = [f.path for f in functions() if f.path not in TABLES.calls and f.path not in TABLES.apart]
    assert not missing, f"no call in tests/sweep/tables for {' '.join(missing)}"


def test_tables_do_not_contradict_themselves() -> None:
    assert not set(TABLES.calls) & set(TABLES.apart)
    assert set(TABLES.refused) <= set(TABLES.calls), "what is refused is tried"


def test_page_lists_what_there_is() -> None:
    if page.is_older(jax.__version__, written().release):
        return  # the page is about the newest JAX
    assert jax.__version__ == written().release, "docs/coverage.md is of an older JAX: make coverage"
    assert set(written().rows) == {f.path for f in TRIED}
    assert written().apart == {f.path for f in functions() if f.path in TABLES.apart}
    assert page.totals(page.counts(written())) in page.PATH.read_text(), "the totals are wrong: make coverage"
    gone = set(TABLES.calls) - {f.path for f in functions()}
    assert not gone, f"the newest JAX has no {' '.join(sorted(gone))}: take it out of tests/sweep/tables"
