"""What evidence costs: ``allclose`` and ``verify`` beside a bare ONNX Runtime run, and hashing a large bundle.

Run as ``python -m benchmarks.evidence``; ``--gib 0`` leaves the large bundle out. The standard tool that hashing is
held against is ``sha256sum``.
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

from onnxproof import allclose, to_onnx, verify
from onnxproof.evidence.files import hash_inside
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


def overhead() -> None:
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
    print(f"bare run {bare * 1e3:.2f} ms, load and run {once * 1e3:.1f} ms")
    print(f"allclose {compared * 1e3:.0f} ms, verify (a process, two optimization levels) {proven:.2f} s")


def hashing(gib: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.onnx.data"
        block = np.random.default_rng(0).bytes(2**24)
        with file.open("wb") as out:
            for _ in range(int(gib * 2**30) // len(block)):
                out.write(block)
        command = ["sha256sum", str(file)]
        tool, ours = [], []
        for _ in range(3):
            tool.append(seconds(lambda: subprocess.run(command, check=True, capture_output=True), 1))
            ours.append(seconds(lambda: hash_inside(Path(folder), file.name), 1))
    ratio = statistics.median(ours) / statistics.median(tool)
    print(
        f"{gib} GiB: sha256sum {statistics.median(tool):.2f} s, ours {statistics.median(ours):.2f} s, ratio {ratio:.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gib", type=float, default=2.0)
    options = parser.parse_args()
    overhead()
    if options.gib:
        hashing(options.gib)


if __name__ == "__main__":
    main()
