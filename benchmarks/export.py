"""Export the models of the framework matrix with onnxproof and with jax2onnx, and compare what each costs.

Run as ``python -m benchmarks.export`` in an environment that has both. Every figure comes from one run; each
export happens in a process of its own, the two exporters in turn. Ratios are theirs divided by ours.
"""

from __future__ import annotations

import argparse
import compileall
import importlib
import json
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks import page

FRAMEWORKS = ("jax", "nnx", "linen", "equinox", "haiku")
TOOLS = ("onnxproof", "jax2onnx")
BATCH, TIME = 2, 16
WARM_RUNS, LATENCY_RUNS = 3, 200


def model_of(name: str) -> Any:
    """The model ``framework.architecture`` of the matrix."""
    framework, _, architecture = name.partition(".")
    module = importlib.import_module(f"tests.frameworks.models_{framework}")
    return module.MODELS[architecture]()


def names() -> Iterator[str]:
    """Every model of the matrix."""
    for framework in FRAMEWORKS:
        module = importlib.import_module(f"tests.frameworks.models_{framework}")
        for architecture in module.MODELS:
            yield f"{framework}.{architecture}"


def exporter(tool: str) -> Callable[[Any, str], None]:
    """``export(model, path)`` of a tool; imports it."""
    to_onnx = importlib.import_module(tool).to_onnx

    def export(model: Any, path: str) -> None:
        to_onnx(model.fn, list(model.inputs), return_mode="file", output_path=path)

    return export


def child(tool: str, name: str, path: str, warm: int) -> dict[str, Any]:
    """Build the model, export it cold, then warm."""
    import resource

    model = model_of(name)
    built = time.perf_counter()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    export = exporter(tool)
    export(model, path)
    cold = time.perf_counter() - built
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    warmed = []
    for _ in range(warm):
        start = time.perf_counter()
        export(model, path)
        warmed.append(time.perf_counter() - start)
    return {
        "export_s": cold,
        "warm_s": min(warmed, default=None),
        "peak_bytes": peak - before,
    }


def spawn(tool: str, name: str, path: str, warm: int) -> dict[str, Any]:
    """Run :func:`child` in a fresh process; ``cold_s`` is from its start to the file written."""
    command = [sys.executable, "-m", "benchmarks.export", "--child", tool, name, path, str(warm)]
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - start
    if done.returncode:
        return {"error": done.stderr.strip().splitlines()[-1][:160] if done.stderr else "crashed"}
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    if warm == 0:
        result["cold_s"] = seconds
    return result


def facts(path: str, feed: Sequence[Any]) -> dict[str, Any]:
    """Size, nodes (bodies and functions included), load time and latency of a file."""
    import numpy as np
    import onnx
    import onnxruntime as ort

    model = onnx.load(path)

    def count(nodes: Any) -> int:
        inner = sum(count(a.g.node) for n in nodes for a in n.attribute if a.HasField("g"))
        return len(nodes) + inner

    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    loads = []
    for _ in range(5):
        start = time.perf_counter()
        session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        loads.append(time.perf_counter() - start)
    inputs = {i.name: np.asarray(v) for i, v in zip(session.get_inputs(), feed, strict=True)}
    times = []
    for _ in range(LATENCY_RUNS):
        start = time.perf_counter()
        session.run(None, inputs)
        times.append(time.perf_counter() - start)
    return {
        "nodes": count(model.graph.node) + sum(count(f.node) for f in model.functions),
        "initializers": len(model.graph.initializer),
        "file_bytes": Path(path).stat().st_size,
        "load_s": statistics.median(loads),
        "latency_s": statistics.median(times),
    }


def measure(name: str, repeats: int, folder: Path) -> dict[str, dict[str, Any]]:
    """All figures of one model, for both tools."""
    import jax

    feed = jax.tree_util.tree_leaves(list(model_of(name).make(BATCH, TIME)))
    out: dict[str, dict[str, Any]] = {tool: {} for tool in TOOLS}
    colds: dict[str, list[float]] = {tool: [] for tool in TOOLS}
    for turn in range(repeats):
        for tool in TOOLS:
            path = str(folder / f"{tool}.onnx")
            if "error" not in out[tool]:
                result = spawn(tool, name, path, 0)
                colds[tool].append(result.pop("cold_s", 0.0))
                out[tool].update(result)
            if turn == repeats - 1 and "error" not in out[tool]:
                out[tool]["cold_s"] = statistics.median(colds[tool])
                out[tool].update({"warm_s": spawn(tool, name, path, WARM_RUNS).get("warm_s")})
                try:
                    out[tool].update(facts(path, feed))
                except Exception as err:  # a file that does not load or run is an outcome of the comparison
                    out[tool]["error"] = f"{type(err).__name__}: {err}"[:160]
    return out


Rows = dict[str, dict[str, dict[str, Any]]]
FIGURES = (
    "cold_s",
    "export_s",
    "warm_s",
    "nodes",
    "initializers",
    "file_bytes",
    "load_s",
    "latency_s",
    "peak_bytes",
)


def table(rows: Rows) -> str:
    """A Markdown table: ours, and theirs divided by ours in parentheses."""
    heads = ["model", *(f.rpartition("_")[0] or f for f in FIGURES)]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for name, row in rows.items():
        ours, theirs = (row[tool] for tool in TOOLS)
        note = " ¹" if "error" in theirs else ""
        lines.append(f"| {name}{note} | " + " | ".join(_cell(ours, theirs, f) for f in FIGURES) + " |")
    return "\n".join(lines)


def _cell(ours: dict[str, Any], theirs: dict[str, Any], key: str) -> str:
    value, other = ours.get(key), theirs.get(key)
    if value is None:
        return "-"
    shown = f"{value / 1024:.0f} KiB" if key.endswith("bytes") else str(value)
    if key.endswith("_s"):
        shown = (
            f"{value * 1e6:.0f} µs"
            if value < 1e-4
            else f"{value * 1e3:.3g} ms"
            if value < 1
            else f"{value:.2f} s"
        )
    return f"{shown} ({other / value:.2f})" if other is not None and value > 0 else shown


def means(rows: Rows) -> str:
    """How many models each tool exported, and of those that both did the geometric means and least ratios."""
    both = {name: r for name, r in rows.items() if all("error" not in r[t] for t in TOOLS)}
    ours = [name for name, r in rows.items() if "error" not in r[TOOLS[0]]]
    lines = [
        f"onnxproof exported {len(ours)} of {len(rows)} models, jax2onnx {len(both)}. Theirs divided by ours, where",
        "both have a file that runs:",
        "",
        "| figure | geometric mean | least |",
        "|---|---|---|",
    ]
    for key in FIGURES:
        ratios = {
            name: r[TOOLS[1]][key] / r[TOOLS[0]][key]
            for name, r in both.items()
            if r[TOOLS[0]].get(key, 0) > 0 and r[TOOLS[1]].get(key) is not None
        }
        if ratios:
            least = min(ratios, key=lambda name: ratios[name])
            mean = statistics.geometric_mean(ratios.values())
            lines.append(f"| {key.rpartition('_')[0] or key} | {mean:.2f} | {ratios[least]:.2f}, {least} |")
    return "\n".join(lines)


def _compile_sources() -> None:
    """Compile our sources to bytecode, as installing a package does, so that no process compiles them again."""
    import onnxproof
    import tests.frameworks

    for package in (onnxproof, tests.frameworks):
        compileall.compile_dir(Path(package.__path__[0]), quiet=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", help="comma-separated; all by default")
    parser.add_argument("--repeats", type=int, default=3, help="cold exports of each model by each tool")
    parser.add_argument("--output", help="write the figures as JSON here")
    page.add_option(parser)
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        tool, name, path, warm = options.child
        print(json.dumps(child(tool, name, path, int(warm))))
        return
    _compile_sources()
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in options.models.split(",") if options.models else list(names()):
            rows[name] = measure(name, options.repeats, Path(folder))
            print(table({name: rows[name]}).splitlines()[-1], flush=True)
    text = f"{means(rows)}\n\n{table(rows)}\n\n¹ jax2onnx gives no file, or one that does not run."
    print("\n" + text)
    if options.write:
        page.write("export", f"One run; {page.conditions('jax', 'jax2onnx', 'onnxruntime')}.\n\n{text}")
    if options.output:
        document = {"python": platform.python_version(), "machine": platform.processor(), "models": rows}
        Path(options.output).write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
