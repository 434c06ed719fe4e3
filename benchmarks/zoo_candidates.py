"""The candidates of ``benchmarks.zoo``: each tool exports every model in one process of its own.

Run as ``python -m benchmarks.zoo_candidates TOOL FOLDER MODEL...``. For each model the folder gets ``TOOL.json``
with what happened, ``TOOL.onnx``, and ``TOOL.npz`` with the inputs and JAX's outputs in the tool's own layout.
The tool ``jax.jit`` comes first: the others read its outputs.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.zoo_models import Network, network

JIT = "jax.jit"
TOOLS = ("onnxproof", "jax2onnx", "torch")
Arrays = Sequence[np.ndarray[Any, Any]]


def by_onnxproof(net: Network, name: str, path: str, want: Arrays) -> tuple[Arrays, Arrays]:
    from onnxproof import to_onnx

    to_onnx(net.fn, net.specs, model_name=name, return_mode="file", output_path=path)
    return net.feed, want


def by_jax2onnx(net: Network, name: str, path: str, want: Arrays) -> tuple[Arrays, Arrays]:
    from jax2onnx import to_onnx

    to_onnx(net.fn, net.specs, model_name=name, return_mode="file", output_path=path)
    return net.feed, want


def by_torch(net: Network, name: str, path: str, want: Arrays) -> tuple[Arrays, Arrays]:
    import torch

    from benchmarks.zoo_torch import twin

    pair = twin(name, net)
    feed, want = pair.inputs(net.feed), pair.outputs(want)
    args = tuple(torch.from_numpy(np.array(x)) for x in feed)
    with torch.no_grad():
        torch.onnx.export(pair.module, args, path, dynamo=True, external_data=False, verbose=False)
    return feed, want


def by_jax(net: Network, name: str, path: str, want: Arrays) -> tuple[Arrays, Arrays]:
    """Nothing to export; the outputs that the others are held against."""
    import jax

    return net.feed, [np.asarray(y) for y in jax.tree.leaves(jax.jit(net.fn)(*net.feed))]


EXPORTERS = {JIT: by_jax, "onnxproof": by_onnxproof, "jax2onnx": by_jax2onnx, "torch": by_torch}


def load(path: Path) -> tuple[Arrays, Arrays]:
    """The inputs and the outputs that a candidate was written with."""
    with np.load(path) as arrays:
        inputs = [arrays[f"in{i}"] for i in range(sum(k.startswith("in") for k in arrays))]
        outputs = [arrays[f"out{i}"] for i in range(sum(k.startswith("out") for k in arrays))]
    return inputs, outputs


def save(path: Path, inputs: Arrays, outputs: Arrays) -> None:
    arrays = {f"in{i}": np.asarray(x) for i, x in enumerate(inputs)}
    np.savez(path, **arrays, **{f"out{i}": np.asarray(y) for i, y in enumerate(outputs)})


def count(nodes: Any) -> int:
    """Nodes, with those of the bodies of loops and branches."""
    return len(nodes) + sum(count(a.g.node) for n in nodes for a in n.attribute if a.HasField("g"))


def facts(path: Path) -> dict[str, Any]:
    import onnx

    model = onnx.load(path)
    return {
        "nodes": count(model.graph.node) + sum(count(f.node) for f in model.functions),
        "file_bytes": sum(f.stat().st_size for f in path.parent.glob(f"{path.name}*")),  # with data beside it
        "opset": max(o.version for o in model.opset_import if o.domain in ("", "ai.onnx")),
    }


def export(tool: str, name: str, folder: Path) -> dict[str, Any]:
    """Write one candidate; the reason where it can't be."""
    path = folder / f"{tool}.onnx"
    start = time.perf_counter()
    try:
        want = [] if tool == JIT else load(folder / f"{JIT}.npz")[1]
        inputs, outputs = EXPORTERS[tool](network(name), name, str(path), want)
        result = {"export_s": time.perf_counter() - start, **(facts(path) if tool != JIT else {})}
        save(folder / f"{tool}.npz", inputs, outputs)
    except Exception as err:  # whatever a tool raises is an outcome of the comparison
        lines = str(err).strip().splitlines()
        result = {"error": f"{type(err).__name__}: {lines[0] if lines else ''}"[:200]}
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tool", choices=EXPORTERS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("models", nargs="+")
    options = parser.parse_args()
    for name in options.models:
        folder = options.folder / name
        folder.mkdir(exist_ok=True)
        result = export(options.tool, name, folder)
        (folder / f"{options.tool}.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main()
