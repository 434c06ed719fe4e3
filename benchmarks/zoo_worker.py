"""Runs one candidate of ``benchmarks.zoo`` in a process of its own, a turn at a time.

Run as ``python -m benchmarks.zoo_worker TOOL FOLDER MODEL THREADS``. The first line printed says how long loading
took and how far the outputs are from JAX's. Then each line read is a number of seconds: the candidate runs for so
long, and the median time of one inference is printed; or ``profile``: the microseconds that each operator takes.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.zoo_candidates import JIT, Arrays, load

LOADS, PROFILED_RUNS = 5, 20
Run = Callable[[], Any]


def pin(threads: int) -> None:
    """Let this process use as many processors as threads: XLA has no other way to be told."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads:])


def error(got: Arrays, want: Arrays) -> float:
    """The largest difference, relative to the largest value of the same output."""
    worst = 0.0
    for a, b in zip(got, want, strict=True):
        if a.shape != b.shape:
            return float("inf")
        scale = float(np.max(np.abs(b), initial=0)) or 1.0
        difference = float(np.max(np.abs(a.astype(np.float64) - b), initial=0))
        worst = max(worst, difference / scale) if np.isfinite(difference) else float("inf")
    return worst


def session(path: Path, threads: int, profile: str | None = None) -> Any:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    if profile is not None:
        options.enable_profiling = True
        options.profile_file_prefix = profile
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def feed_of(loaded: Any, inputs: Arrays) -> dict[str, Any]:
    return {i.name: x for i, x in zip(loaded.get_inputs(), inputs, strict=True)}


def onnx_candidate(path: Path, inputs: Arrays, want: Arrays, threads: int) -> tuple[Run, dict[str, Any]]:
    loads = []
    for _ in range(LOADS):
        start = time.perf_counter()
        loaded = session(path, threads)
        loads.append(time.perf_counter() - start)
    feed = feed_of(loaded, inputs)
    found = {"load_s": statistics.median(loads), "error": error(loaded.run(None, feed), want)}
    return lambda: loaded.run(None, feed), found


def jax_candidate(name: str, want: Arrays) -> tuple[Run, dict[str, Any]]:
    import jax

    from benchmarks.zoo_models import network

    net = network(name)
    arrays = [jax.device_put(x) for x in net.feed]
    compiled = jax.jit(net.fn)
    start = time.perf_counter()
    got = [np.asarray(y) for y in jax.tree.leaves(jax.block_until_ready(compiled(*arrays)))]
    found = {"load_s": time.perf_counter() - start, "error": error(got, want)}
    return lambda: jax.block_until_ready(compiled(*arrays)), found


def turn(run: Run, seconds: float) -> float:
    """The median time of one inference over ``seconds``, three inferences at least; one before it is not counted."""
    run()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def profile(path: Path, inputs: Arrays) -> dict[str, float]:
    """Microseconds of one inference that each operator takes, by its type, on one thread."""
    with tempfile.TemporaryDirectory() as place:
        loaded = session(path, 1, f"{place}/profile")
        feed = feed_of(loaded, inputs)
        for _ in range(PROFILED_RUNS):
            loaded.run(None, feed)
        events = json.loads(Path(loaded.end_profiling()).read_text())
    durations: dict[tuple[str, str], list[float]] = defaultdict(list)
    for event in events:
        if event.get("cat") != "Node" or not event["name"].endswith("_kernel_time"):
            continue
        if event["args"]["op_name"] not in ("If", "Loop", "Scan"):  # they count what is in their bodies again
            durations[event["args"]["op_name"], event["name"]].append(event["dur"])
    spent: dict[str, float] = defaultdict(float)
    for (op, _), times in durations.items():
        spent[op] += statistics.median(times) * len(times) / PROFILED_RUNS
    return dict(spent)


def main() -> None:
    tool, place, name, count = sys.argv[1:]
    threads, folder = int(count), Path(place) / name
    pin(threads)
    inputs, want = load(folder / f"{tool}.npz")
    if tool == JIT:
        run, found = jax_candidate(name, want)
    else:
        run, found = onnx_candidate(folder / f"{tool}.onnx", inputs, want, threads)
    print(json.dumps(found), flush=True)
    for line in sys.stdin:
        if line.strip() == "profile":
            print(json.dumps(profile(folder / f"{tool}.onnx", inputs)), flush=True)
        else:
            print(json.dumps(turn(run, float(line))), flush=True)


if __name__ == "__main__":
    main()
