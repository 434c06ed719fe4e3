"""What evidence costs: ``allclose`` and ``verify`` beside a bare ONNX Runtime run, and a large bundle verified again.

Run as ``python -m benchmarks.evidence``; ``--gib 0`` leaves the large bundle out. The standard tools that hashing is
held against are ``sha256sum``, and ``openssl`` which uses the processor's instructions as Python does.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from onnx import TensorProto, helper

from benchmarks import page
from onnxproof import allclose, to_onnx, verify
from onnxproof.evidence import execute, verify_artifacts
from onnxproof.evidence.proof import Recorded
from onnxproof.evidence.runtimes.ort import OrtSession

BATCH, WIDTH, RUNS = 64, 512, 5


def seconds(fn: Callable[[], object], runs: int = RUNS) -> float:
    """The median time of a call."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        fn()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def overhead() -> list[str]:
    """Rows of the table: one small model, run, compared, proven."""
    weight = jnp.asarray(np.random.default_rng(0).normal(size=(WIDTH, WIDTH)) / WIDTH**0.5, jnp.float32)

    def model(x: jax.Array) -> jax.Array:
        for _ in range(8):
            x = jnp.tanh(x @ weight)
        return x

    with tempfile.TemporaryDirectory() as folder:
        path = to_onnx(model, [("B", WIDTH)], return_mode="file", output_path=f"{folder}/model.onnx")
        x = np.random.default_rng(1).normal(size=(BATCH, WIDTH)).astype(np.float32)
        loaded = OrtSession(path)
        bare = seconds(lambda: loaded.run([x]))
        once = seconds(lambda: OrtSession(path).run([x]))
        compared = seconds(lambda: allclose(model, path, [x]))
        proven = seconds(lambda: verify(model, path, [x]), 3)
    return [
        f"| a bare run | {bare * 1e3:.2f} ms |",
        f"| loading and running | {once * 1e3:.1f} ms |",
        f"| `allclose`: JAX, JAX in float64, ONNX Runtime | {compared * 1e3:.0f} ms |",
        f"| `verify`: a process for each of two optimization levels | {proven:.2f} s |",
    ]


def large(folder: Path, gib: float) -> tuple[Path, list[np.ndarray], list[np.ndarray]]:
    """A model that looks rows up in tables of ``gib`` GiB beside it, with an input and what it gives."""
    tables = 8
    rows = int(gib * 2**30) // (tables * WIDTH * 4)
    block = np.random.default_rng(0).normal(size=(rows, WIDTH)).astype(np.float32)
    index = np.array([0, rows // 2, rows - 1], np.int64)
    weights, nodes = [], []
    with (folder / "large.onnx.data").open("wb") as out:
        for i in range(tables):
            weight = TensorProto(name=f"table_{i}", data_type=TensorProto.FLOAT, dims=block.shape)
            weight.data_location = TensorProto.EXTERNAL
            for key, value in (
                ("location", "large.onnx.data"),
                ("offset", out.tell()),
                ("length", block.nbytes),
            ):
                weight.external_data.add(key=key, value=str(value))
            out.write(block + np.float32(i))
            weights.append(weight)
            nodes.append(helper.make_node("Gather", [weight.name, "index"], [f"rows_{i}"]))
    nodes.append(helper.make_node("Sum", [f"rows_{i}" for i in range(tables)], ["y"]))
    graph = helper.make_graph(
        nodes,
        "large",
        [helper.make_tensor_value_info("index", TensorProto.INT64, ["N"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", WIDTH])],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    (folder / "large.onnx").write_bytes(model.SerializeToString())
    want = sum((block[index] + np.float32(i) for i in range(1, tables)), block[index])
    return folder / "large.onnx", [index], [want]


def verifying(gib: float) -> list[str]:
    """Rows of the table: a large bundle's files, and the whole of it, beside reading and standard tools."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        model, inputs, want = large(folder, gib)
        record = verify(
            Recorded({"rows": want}), model, {"rows": inputs}, bundle_path=folder / "bundle", rtol=1e-5
        )
        assert record.level == "executed", record.failure
        for file in folder.glob("large.*"):
            file.unlink()
        files = [str(folder / "bundle" / f.path) for f in record.artifacts.files]
        times: dict[str, list[float]] = {}
        calls: dict[str, Callable[[], object]] = {
            "reading": lambda: subprocess.run(["cat", *files], check=True, stdout=subprocess.DEVNULL),
            "sha256sum": lambda: subprocess.run(["sha256sum", *files], check=True, capture_output=True),
            "openssl": lambda: subprocess.run(
                ["openssl", "dgst", "-sha256", *files], check=True, capture_output=True
            ),
            "verify_artifacts": lambda: verify_artifacts(record, folder),
            "execute": lambda: execute(record, folder),
        }
        for _ in range(3):
            for name, call in calls.items():
                times.setdefault(name, []).append(seconds(call, 1))
    found = {name: statistics.median(values) for name, values in times.items()}
    rows = [f"| {gib:g} GiB: {name} | {value:.2f} s |" for name, value in found.items()]
    for name in ("verify_artifacts", "execute"):
        for tool in ("sha256sum", "openssl"):
            part = found[name] / (found["reading"] + found[tool])
            rows.append(f"| {name} ÷ (reading + {tool}) | {part:.2f} |")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gib", type=float, default=2.0)
    page.add_option(parser)
    options = parser.parse_args()
    lines = ["| what | median |", "|---|---|", *overhead(), *(verifying(options.gib) if options.gib else [])]
    print("\n".join(lines))
    if options.write:
        page.write("evidence", "\n".join([f"{page.conditions('jax', 'onnxruntime')}.", "", *lines]))


if __name__ == "__main__":
    main()
