"""Export ten models for the web with onnxproof and with jax2onnx, and compare size and start in ONNX Runtime Web.

Run as ``python -m benchmarks.web`` in an environment that has both, in a folder where ``onnxruntime-web`` is installed.
Node is started anew for every figure, the two files in turn; first inference is from the file's bytes to the first
result, with the compilation of WebAssembly in it, and the least of some starts. Files are as a public page has them:
ours without source lines, which jax2onnx does not write. The result goes into ``docs/web.md``.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from benchmarks.page import DOCS, write
from onnxproof.evidence.runtimes.ort_web import OrtWebNode
from onnxproof.evidence.source import host
from tests.running import to_feed
from tests.web.models import MODELS, expected, subject

TOOLS = ("onnxproof", "jax2onnx")


@dataclass
class Found:
    """One file: its bytes, the seconds of each start, and the error against JAX; or why there is none."""

    size: int
    seconds: list[float]
    error: float
    why: str = ""


def export(tool: str, name: str, path: Path) -> None:
    found = subject(name)
    to_onnx: Any = importlib.import_module(tool).to_onnx
    to_onnx(
        found.fn,
        list(found.inputs),
        model_name=name,
        return_mode="file",
        output_path=str(path),
        export_mode="web",
    )


def start(path: Path, name: str) -> tuple[float, float]:
    """Seconds to the first result in a fresh Node, and its largest error."""
    import time

    case, args = list(subject(name).cases.items())[1]
    arrays = [to_feed(v) for v in jax.tree_util.tree_leaves(list(args))]
    adapter = OrtWebNode()
    try:
        began = time.perf_counter()
        adapter.load(path, "wasm", {"numThreads": 1})
        got = adapter.run(arrays)
        seconds = time.perf_counter() - began
    finally:
        adapter.close()
    pairs = zip((array for _, array in got), expected(name)[case], strict=True)
    return seconds, max(float(np.abs(g.astype(np.float64) - w).max(initial=0)) for g, w in pairs)


def compare(name: str, starts: int) -> dict[str, Found]:
    with tempfile.TemporaryDirectory() as folder:
        paths = {tool: Path(folder) / f"{tool}.onnx" for tool in TOOLS}
        found: dict[str, Found] = {}
        for tool, path in paths.items():
            try:
                export(tool, name, path)
                found[tool] = Found(sum(p.stat().st_size for p in path.parent.glob(f"{tool}.*")), [], 0.0)
            except Exception as err:  # another package's exporter may raise anything
                found[tool] = Found(0, [], 0.0, f"no export: {type(err).__name__}")
        for _ in range(starts):
            for tool, path in paths.items():
                if found[tool].why:
                    continue
                try:
                    seconds, error = start(path, name)
                except Exception as err:  # its file may be refused
                    found[tool].why = f"no run: {type(err).__name__}"
                    continue
                found[tool].seconds.append(seconds)
                found[tool].error = error
    return found


def page(rows: dict[str, dict[str, Found]], starts: int) -> str:
    machine = host()
    versions = ", ".join(f"{tool} {importlib.metadata.version(tool)}" for tool in TOOLS[1:])
    lines = [
        f"{versions}, ONNX Runtime Web {OrtWebNode().version()}, least of {starts} starts, on {machine.cpu}:",
        "",
        "| model | kB, onnxproof | kB, jax2onnx | ms to first result, onnxproof | jax2onnx |",
        "|---|---|---|---|---|",
    ]
    for name, found in rows.items():
        sizes = [f"{f.size / 1000:.1f}" if f.size else f.why for f in found.values()]
        times = [f.why or f"{1000 * min(f.seconds):.0f}" for f in found.values()]
        lines.append(f"| {name} | {' | '.join(sizes)} | {' | '.join(times)} |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--starts", type=int, default=7)
    options = parser.parse_args(arguments)
    rows = {}
    for name in MODELS:
        rows[name] = compare(name, options.starts)
        print(name, rows[name], file=sys.stderr, flush=True)
    text = page(rows, options.starts)
    write("compared", text, DOCS / "web.md")
    print(text)


if __name__ == "__main__":
    main()
