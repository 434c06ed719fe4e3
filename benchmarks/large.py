"""Export a model with two gibibytes of weights; report peak memory, and that ONNX Runtime agrees.

Run as ``python -m benchmarks.large``. The export runs in a process of its own, so that its peak memory is its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

LAYERS, WIDTH = 32, 4096  # 32 * 4096 * 4096 * 4 bytes = 2 GiB
ALLOWANCE = 512 * 2**20


def build() -> tuple[Any, int]:
    """The model, ``tanh`` layers on the residual, and the bytes of its weights."""
    import jax
    import jax.numpy as jnp

    def weight(i: int) -> jax.Array:
        kernel = jnp.zeros((WIDTH, WIDTH), jnp.float32) + (i + 1) / (WIDTH * LAYERS)
        return kernel.block_until_ready()

    params = {"layers": [{"kernel": weight(i)} for i in range(LAYERS)]}

    def forward(x: jax.Array) -> jax.Array:
        for layer in params["layers"]:
            x = x + jnp.tanh(x @ layer["kernel"])
        return x

    return forward, LAYERS * WIDTH * WIDTH * 4


def export(path: str) -> dict[str, Any]:
    """Export in this process; peak memory in bytes before and after."""
    import resource
    import time

    import numpy as np

    from onnxproof import to_onnx

    forward, weights = build()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    start = time.perf_counter()
    to_onnx(forward, [("B", WIDTH)], return_mode="file", output_path=path)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    x = np.random.default_rng(0).normal(size=(3, WIDTH)).astype(np.float32)
    np.savez(Path(path).with_suffix(".npz"), x=x, want=np.asarray(forward(x)))
    return {"weights": weights, "before": before, "peak": peak, "seconds": seconds}


def verify(path: str) -> dict[str, Any]:
    """Load in ONNX Runtime in this process and compare."""
    import numpy as np

    from onnxproof.evidence.compare import difference
    from onnxproof.evidence.runtimes.ort import OrtSession

    data = np.load(Path(path).with_suffix(".npz"))
    (got,) = OrtSession(path).run([data["x"]])
    result = difference(got, data["want"], rtol=1e-5, atol=1e-5)
    return {"matches": result.matches, "max_abs": result.max_abs}


def _child(step: str, path: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.large", step, path]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"{step} failed")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def main() -> None:
    if len(sys.argv) == 3:
        step = {"export": export, "verify": verify}[sys.argv[1]]
        print(json.dumps(step(sys.argv[2])))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "large.onnx")
        made = _child("export", path)
        checked = _child("verify", path)
        sizes = {p.name: p.stat().st_size for p in sorted(Path(folder).glob("large.onnx*"))}
    mib = 2**20
    print(f"weights {made['weights'] / mib:.0f} MiB, export {made['seconds']:.1f} s")
    print(f"peak {made['peak'] / mib:.0f} MiB ({made['before'] / mib:.0f} before the export began)")
    print(
        f"beyond the weights {(made['peak'] - made['weights']) / mib:.0f} MiB, allowed {ALLOWANCE / mib:.0f}"
    )
    print(f"files {sizes}")
    print(f"ONNX Runtime matches: {checked['matches']}, max absolute error {checked['max_abs']:.3g}")
    if made["peak"] > made["weights"] + ALLOWANCE or not checked["matches"]:
        sys.exit("the large model is outside its bounds")


if __name__ == "__main__":
    main()
