"""``docs/coverage.md``: written from outcomes, and read again to see whether it still holds."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime

from tests.sweep.catalogue import MODULES, Function, functions, load_tables
from tests.sweep.measure import Outcome

PATH = Path(__file__).resolve().parents[2] / "docs" / "coverage.md"
HEAD = """\
# Coverage

<!-- Written by `make coverage`; don't edit. -->

Every public function of JAX's numerical modules: each is called at least once, exported, run in ONNX Runtime and
held against JAX. This page is about JAX {jax}, ONNX Runtime {ort}, opset 23.

{totals}

* **Status**: the file *agrees* with JAX: shapes, dtypes, integers and booleans are equal, floats are within 1e-5 (in
  float32) or no further from float64 than twice JAX's own distance; *refused*, with the reason; *apart* when the
  function computes nothing on arrays.
* **Operators**: what the first call of the function becomes: one operator of ONNX (shapes and casts beside it aren't
  named), how many operators it is composed of, or a constant, for a call without arrays.
* **Error**: the largest over all calls and values, relative to the value, and to 0.1 where the value is smaller;
  rounded up to a power of ten. Values in half precision aren't counted. **Against float64** is the error of the file
  against the same function in float64, and in brackets JAX's own.

A function is tried by a row in `tests/sweep/tables/`: its name and one call or more, in which NumPy arrays are inputs
of the graph and everything else is written into it. `make test ARGS="-k 'sweep and jax.numpy.sinc'"` tries one
function; `make coverage` writes this page anew, and `make coverage ARGS="jax.numpy.sinc jax.image"` some of its rows.
A function of JAX without a row fails the tests, and so does a row of this page that no longer says how the function
is exported; the number of operators may drift by a fifth.
"""
COLUMNS = ("Function", "Status", "Operators", "Error", "Against float64")
STATUSES = ("agrees", "refused", "apart")
DRIFT = 0.2  # by which the number of operators of a composition may differ before the page is stale


@dataclass(frozen=True)
class Page:
    """What the page says.

    Attributes:
        release: of the JAX that it is about.
        rows: the cells of each function, by path.
        apart: the paths that are listed apart.
    """

    release: str
    rows: Mapping[str, tuple[str, ...]]
    apart: Collection[str]


def power(error: float) -> str:
    """An error rounded up to a power of ten."""
    if error == 0.0:
        return "0"
    return f"1e{math.ceil(math.log10(error) - 1e-9)}" if np.isfinite(error) else "inf"


def row(function: Function, outcome: Outcome) -> tuple[str, ...]:
    name = f"`{function.name}`"
    if outcome.status == "refused":
        return (name, "refused", outcome.reason, "", "")
    oracle = "" if outcome.oracle is None else f"{power(outcome.oracle[0])} ({power(outcome.oracle[1])})"
    return (name, outcome.status, outcome.operators, power(outcome.error), oracle)


def still_holds(then: Sequence[str], now: Sequence[str]) -> bool:
    """Whether a row says what is so now. Errors differ between machines, and aren't compared."""
    old, new = (re.fullmatch(r"composition of (\d+) operators", cells[2]) for cells in (then, now))
    if old is None or new is None:
        return tuple(then[:3]) == tuple(now[:3])
    a, b = int(old[1]), int(new[1])
    return tuple(then[:2]) == tuple(now[:2]) and abs(a - b) <= max(3, DRIFT * a)


def counts(page: Page) -> dict[str, Counter[str]]:
    """How many functions of each module have which status."""
    found: dict[str, Counter[str]] = {module: Counter() for module in MODULES}
    for path, cells in page.rows.items():
        found[module_of(path)][cells[1]] += 1
    for path in page.apart:
        found[module_of(path)]["apart"] += 1
    return found


def module_of(path: str) -> str:
    """The module that the page lists a function under: the longest that its path starts with."""
    return max((m for m in MODULES if path.startswith(f"{m}.")), key=len)


def totals(by_module: Mapping[str, Counter[str]]) -> str:
    """The table at the top: one line for each module and one for all."""
    lines = [f"| Module | {' | '.join(STATUSES)} |", "|---|" + "--:|" * len(STATUSES)]
    whole: Counter[str] = Counter()
    for module, count in by_module.items():
        whole += count
        cells = " | ".join(str(count[status]) for status in STATUSES)
        lines.append(f"| [`{module}`](#{module.replace('.', '')}) | {cells} |")
    cells = " | ".join(f"**{whole[status]}**" for status in STATUSES)
    return "\n".join([*lines, f"| **all** | {cells} |"])


def write(page: Page) -> str:
    apart = load_tables().apart
    parts = [HEAD.rstrip().format(jax=page.release, ort=onnxruntime.__version__, totals=totals(counts(page)))]
    for module in MODULES:
        here = [f for f in functions() if f.module == module]
        parts += [f"\n## {module}\n", f"| {' | '.join(COLUMNS)} |", "|---|---|---|--:|--:|"]
        parts += [f"| {' | '.join(page.rows[f.path])} |" for f in here if f.path in page.rows]
        reasons: dict[str, list[str]] = {}
        for f in here:
            if f.path in page.apart:
                reasons.setdefault(apart[f.path], []).append(f"`{f.name}`")
        if reasons:
            parts.append("\nApart:\n")
            parts += [f"* {reason}: {', '.join(names)}" for reason, names in reasons.items()]
    return "\n".join([*parts, ""])


def read(text: str) -> Page:
    release = re.search(r"JAX ([^ ,]+), ONNX Runtime", text)
    assert release is not None, "docs/coverage.md doesn't say which JAX it is about"
    rows: dict[str, tuple[str, ...]] = {}
    apart = set()
    module = ""
    for line in text.splitlines():
        if line.startswith("## "):
            module = line[3:]
        elif module and line.startswith("| `"):
            cells = tuple(cell.strip() for cell in line[1:-1].split("|"))
            rows[f"{module}.{cells[0].strip('`')}"] = cells
        elif module and line.startswith("* "):
            apart |= {f"{module}.{name}" for name in re.findall(r"`([^`]+)`", line.rpartition(": ")[2])}
    return Page(release[1], rows, apart)


def is_older(release: str, other: str) -> bool:
    """Whether a release of JAX comes before another."""
    one, two = (tuple(map(int, re.findall(r"\d+", text))) for text in (release, other))
    return one < two
