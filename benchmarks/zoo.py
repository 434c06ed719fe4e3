"""How fast our exports run, beside jax2onnx's, PyTorch's of the same network, and ``jax.jit``.

Run as ``make bench-zoo``, or ``python -m benchmarks.zoo`` in an environment with jax2onnx and PyTorch. Each tool
exports all models in a process of its own; then, for each model and number of threads, every candidate is a process
with one session, and they take turns. A ratio is our median latency divided by theirs: below 1 we are faster.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks import page
from benchmarks.zoo_candidates import JIT, TOOLS
from benchmarks.zoo_models import ZOO

OURS, OTHERS = TOOLS[0], (*TOOLS[1:], JIT)
NOISE = 1.05  # a ratio above this is a loss
TOLERANCE = (
    1e-4  # relative to the largest value of an output: beyond this a candidate computes something else
)
PAUSE = 0.02  # seconds between turns, in which the threads of the last one stop spinning

Row = dict[str, dict[str, Any]]


def export_all(tool: str, folder: Path, names: Sequence[str]) -> None:
    """Export every model; after a crash go on with the next."""
    left = list(names)
    while left:
        command = [sys.executable, "-m", "benchmarks.zoo_candidates", tool, str(folder), *left]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        left = [name for name in left if not (folder / name / f"{tool}.json").exists()]
        if left:
            lines = done.stderr.strip().splitlines()
            crash = {"error": f"the process ended with {done.returncode}: {lines[-1][:160] if lines else ''}"}
            (folder / left[0]).mkdir(exist_ok=True)
            (folder / left.pop(0) / f"{tool}.json").write_text(json.dumps(crash))


class Worker:
    """A candidate in a process of its own."""

    def __init__(self, tool: str, folder: Path, name: str, threads: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.zoo_worker", tool, str(folder), name, str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.found: dict[str, Any] = self._read()
        self.turns: list[float] = []

    def _read(self) -> Any:
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        line = self.process.stdout.readline()
        if not line:
            lines = self.process.stderr.read().strip().splitlines()
            raise RuntimeError(lines[-1][:200] if lines else "the process ended")
        return json.loads(line)

    def ask(self, text: str) -> Any:
        assert self.process.stdin is not None
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()
        return self._read()

    def close(self) -> None:
        self.process.communicate()


def start(folder: Path, name: str, threads: int, row: Row) -> dict[str, Worker]:
    """The workers of every candidate that was exported, loads and gives JAX's values."""
    workers = {}
    for tool in (*TOOLS, JIT):
        if "error" in row[tool]:
            continue
        try:
            worker = Worker(tool, folder, name, threads)
        except RuntimeError as err:
            row[tool]["error"] = f"does not run: {err}"
            continue
        if worker.found["error"] > TOLERANCE:
            row[tool]["error"] = f"values differ by {worker.found['error']:.1e}"
            worker.close()
        else:
            workers[tool] = worker
    return workers


def measure(folder: Path, name: str, threads: int, row: Row, rounds: int, seconds: float) -> None:
    """Fill in load time, latency and its spread for each candidate; what losers spend their time on."""
    workers = start(folder, name, threads, row)
    order = list(workers)
    for _ in range(rounds):
        for tool in order:
            time.sleep(PAUSE)
            workers[tool].turns.append(workers[tool].ask(str(seconds)))
        order = order[1:] + order[:1]
    for tool, worker in workers.items():
        low, median, high = quartiles(worker.turns)
        row[tool].setdefault("difference", worker.found["error"])
        row[tool].setdefault("load_s", worker.found["load_s"])
        row[tool][f"latency_{threads}"] = {
            "median_s": median,
            "spread": (high - low) / median,
            "turns": worker.turns,
        }
    if any((ratio(row, tool, threads) or 0) > NOISE for tool in OTHERS):
        for tool in set(workers) - {JIT}:
            row[tool].setdefault("operators_us", workers[tool].ask("profile"))
    for worker in workers.values():
        worker.close()


def quartiles(times: Sequence[float]) -> tuple[float, float, float]:
    if len(times) < 2:
        return times[0], times[0], times[0]
    low, median, high = statistics.quantiles(times, n=4, method="inclusive")
    return low, median, high


def ratio(row: Row, tool: str, threads: int) -> float | None:
    """Our latency divided by a tool's."""
    ours, theirs = row[OURS].get(f"latency_{threads}"), row[tool].get(f"latency_{threads}")
    if ours is None or theirs is None:
        return None
    value: float = ours["median_s"] / theirs["median_s"]
    return value


# -- the report --------------------------------------------------------------------------------------


def worst(row: Row, threads: Sequence[int]) -> float:
    """The largest ratio of a row; infinite where we have no file that runs."""
    if "error" in row[OURS]:
        return math.inf
    return max((ratio(row, tool, t) or 0.0 for tool in OTHERS for t in threads), default=0.0)


def shown(value: float | None) -> str:
    return "-" if value is None else f"**{value:.2f}**" if value > NOISE else f"{value:.2f}"


def line(name: str, row: Row, threads: Sequence[int]) -> str:
    cells = [f"{name} ({ZOO[name][1]})"]
    for t in threads:
        latency = row[OURS].get(f"latency_{t}")
        cells.append("-" if latency is None else f"{latency['median_s'] * 1e3:.3f} ±{latency['spread']:.0%}")
        cells += [shown(ratio(row, tool, t)) for tool in OTHERS]
    for key, scale in (("nodes", 1), ("load_s", 1e3), ("file_bytes", 1 / 1024)):
        values = [row[tool].get(key) for tool in TOOLS]
        cells.append(
            " / ".join(
                "-" if v is None else f"{v * scale:.3g}" if scale == 1e3 else f"{v * scale:.0f}"
                for v in values
            )
        )
    return "| " + " | ".join(cells) + " |"


def table(rows: dict[str, Row], threads: Sequence[int]) -> str:
    """Markdown, the models where we lose most first."""
    heads = ["model"]
    for t in threads:
        heads += [f"ours, {t} thread{'s' * (t > 1)} (ms)", *(f"÷ {tool}" for tool in OTHERS)]
    heads += ["nodes", "load (ms)", "file (KiB)"]
    order = sorted(rows, key=lambda name: -worst(rows[name], threads))
    body = [line(name, rows[name], threads) for name in order]
    return "\n".join(["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|", *body])


def reasons(rows: dict[str, Row]) -> str:
    """What failed, and where the losers spend their time: the operators that take most more than a rival's."""
    lines = []
    for name, row in rows.items():
        for tool in (*TOOLS, JIT):
            if "error" in row[tool]:
                lines.append(f"- {name}, {tool}: {row[tool]['error']}")
        ours = row[OURS].get("operators_us")
        for tool in TOOLS if ours else ():
            spent = row[tool].get("operators_us")
            if not spent:
                continue
            parts = sorted(spent.items(), key=lambda item: -item[1])[:5]
            lines.append(f"- {name}, {tool} spends " + ", ".join(f"{op} {us:.0f} µs" for op, us in parts))
    return "\n".join(lines)


def means(rows: dict[str, Row], threads: Sequence[int]) -> str:
    lines = []
    for t in threads:
        for tool in OTHERS:
            found = {name: r for name, row in rows.items() if (r := ratio(row, tool, t)) is not None}
            if not found:
                continue
            lost = [name for name, r in found.items() if r > NOISE]
            lines.append(
                f"- {t} thread{'s' * (t > 1)}, ours ÷ {tool}: geometric mean "
                f"{statistics.geometric_mean(found.values()):.2f} over {len(found)}, most {max(found.values()):.2f}, "
                f"slower by more than 5 %: {', '.join(lost) or 'none'}"
            )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", help="comma-separated; all by default")
    parser.add_argument("--threads", default="1,2", help="numbers of threads, comma-separated")
    parser.add_argument("--rounds", type=int, default=10, help="turns of each candidate")
    parser.add_argument("--seconds", type=float, default=0.06, help="how long a turn takes")
    parser.add_argument("--quick", action="store_true", help="one thread, two short turns: whether all works")
    parser.add_argument("--output", type=Path, help="write every figure as JSON here")
    parser.add_argument("--folder", type=Path, help="keep the files that the tools write here")
    page.add_option(parser)
    options = parser.parse_args()
    names = options.models.split(",") if options.models else list(ZOO)
    threads = [1] if options.quick else [int(t) for t in options.threads.split(",")]
    rounds, seconds = (2, 0.02) if options.quick else (options.rounds, options.seconds)
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(exist_ok=True)
        for stale in folder.glob("*/*.json"):
            stale.unlink()
        with ThreadPoolExecutor(2) as pool:
            for tools in ((JIT,), TOOLS):
                list(pool.map(lambda tool: export_all(tool, folder, names), tools))
        print(f"exported in {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
        rows: dict[str, Row] = {}
        for name in names:
            rows[name] = {t: json.loads((folder / name / f"{t}.json").read_text()) for t in (*TOOLS, JIT)}
            for t in threads:
                measure(folder, name, t, rows[name], rounds, seconds)
            print(line(name, rows[name], threads), file=sys.stderr, flush=True)
    print(table(rows, threads) + "\n\n" + means(rows, threads) + "\n\n" + reasons(rows))
    if options.write:
        packages = ("jax", "jax2onnx", "torch", "onnxruntime")
        said = f"One run; {page.conditions(*packages)}."
        page.write("zoo", f"{said}\n\n{table(rows, threads)}\n\n{means(rows, threads)}")
    print(f"took {time.perf_counter() - began:.0f} s", file=sys.stderr)
    if options.output:
        document = {"python": platform.python_version(), "machine": platform.processor(), "models": rows}
        options.output.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
