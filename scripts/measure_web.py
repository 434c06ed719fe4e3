"""Run ten models in Node and in Chromium, and write what came of it into ``docs/web.md``.

Usage: ``python -m scripts.measure_web``, in an environment with the extra ``web`` and in a folder where
``onnxruntime-web`` is installed (``web/`` of this repository, with this repository on ``PYTHONPATH``).

Each model is one file with free dimensions for WebAssembly and one for WebGPU; each runs at four or five sizes.
Errors are the largest over all sizes. Latency is the least of several runs at the second size, measured in
JavaScript around ``session.run``.
"""

from __future__ import annotations

import sys

from benchmarks.page import DOCS, write
from onnxproof.evidence.runtimes.ort_web import WEBGPU
from onnxproof.evidence.source import host
from tests.web.models import MODELS, PLACES, Place, Running, subject

RUNS = {"wasm": 20, "webgpu": 3}
Cell = tuple[float, float, float, str]  # error, part of what is allowed, seconds, what fell back


def measured(place: Place) -> tuple[str, dict[str, Cell]]:
    """The version of a runtime, and what each model came to there."""
    cells = {}
    with Running(place) as running:
        for name in MODELS:
            facts = running.load(name)
            outcomes = list(running.outcomes(name, RUNS[running.adapter.provider]))
            second = min(outcomes[1].seconds[1:])
            placed = facts["placement"] or {}
            beside = sum(n for provider, n in placed.items() if provider != WEBGPU)
            told = f"{beside} of {sum(placed.values())}" if WEBGPU in placed else ""
            cells[name] = max(o.error for o in outcomes), max(o.excess for o in outcomes), second, told
            print(f"{place.name}: {name}: {cells[name]}", file=sys.stderr, flush=True)
        adapter = facts["adapter"]
        version = running.adapter.version()
    if adapter is not None:
        kind = ", a software adapter" if adapter["software"] else ""
        version += f", WebGPU on {adapter['vendor']} {adapter['architecture']}{kind}"
    return version, cells


def page(found: dict[str, tuple[str, dict[str, Cell]]]) -> str:
    """The part of the page that is measured."""
    machine = host()
    versions = "; ".join(dict.fromkeys(version for version, _ in found.values()))
    lines = [
        f"ONNX Runtime Web {versions}; on {machine.cpu}, {machine.cores} cores.",
        "Every case of every model is within `rtol = atol = 1e-5` of JAX, in WebGPU too.",
        "",
        "Largest absolute error against JAX, over all sizes:",
        "",
        "| model | sizes | " + " | ".join(found) + " | of its nodes in WebAssembly |",
        "|---|---|" + "---|" * (len(found) + 1),
    ]
    gpu = next(name for name in found if "WebGPU" in name)
    for name in MODELS:
        errors = " | ".join(f"{cells[name][0]:.1e}" for _, cells in found.values())
        lines.append(f"| {name} | {len(subject(name).cases)} | {errors} | {found[gpu][1][name][3]} |")
    lines += [
        "",
        "Milliseconds of one run at the second size:",
        "",
        "| model | size | " + " | ".join(found) + " |",
        "|---|---|" + "---|" * len(found),
    ]
    for name in MODELS:
        size = list(subject(name).cases)[1]
        times = " | ".join(f"{1000 * cells[name][2]:.2f}" for _, cells in found.values())
        lines.append(f"| {name} | {size} | {times} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    found = {}
    for place in PLACES:
        version, cells = measured(place)
        worst = max(cells, key=lambda name: cells[name][1])
        if cells[worst][1] > 1:
            sys.exit(f"{place.name}: {worst} is off by {cells[worst][0]}")
        found[place.name] = version, cells
    write("measured", page(found), DOCS / "web.md")


if __name__ == "__main__":
    main()
