"""``make coverage``: try every function, then write ``docs/coverage.md``.

With ``ARGS="jax.lax.reduce jax.image"`` only what lies under these names is tried, and other rows stay as they are.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import jax

from tests.sweep import page
from tests.sweep.catalogue import Function, functions, load_tables
from tests.sweep.measure import Outcome, measure


def attempt(function: Function) -> Outcome | str:
    try:
        return measure(function, always_oracle=True)
    except Exception as fault:  # each is reported, with its function
        return f"{type(fault).__name__}: {fault}"


def main(names: Sequence[str]) -> int:
    tables = load_tables()
    rows: dict[str, tuple[str, ...]] = {}
    if page.PATH.exists():
        old = page.read(page.PATH.read_text())
        if page.is_older(jax.__version__, old.release):
            print(f"docs/coverage.md is about JAX {old.release}, this is {jax.__version__}", file=sys.stderr)
            return 1
        rows = dict(old.rows) if names else {}
    listed = [f for f in functions() if f.path in tables.calls]
    tried = [f for f in listed if not names or any(f"{f.path}.".startswith(f"{name}.") for name in names)]
    faults = 0
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        for function, outcome in zip(tried, pool.map(attempt, tried, chunksize=4), strict=True):
            rows.pop(function.path, None)
            if isinstance(outcome, Outcome):
                rows[function.path] = page.row(function, outcome)
            else:
                faults += 1
                print(f"{function.path}: {outcome}", file=sys.stderr)
    apart = {f.path for f in functions() if f.path in tables.apart}
    present = {f.path: rows[f.path] for f in listed if f.path in rows}
    page.PATH.write_text(page.write(page.Page(jax.__version__, present, apart)))
    if faults:
        print(f"{faults} functions fail, and docs/coverage.md leaves them out", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
