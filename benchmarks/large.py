"""Export a model with two gibibytes of weights; report peak memory, and that ONNX Runtime agrees.

Run as ``python -m benchmarks.large``. The export runs in a process of its own, so that its peak memory is its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import page

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
    parser = argparse.ArgumentParser(description=__doc__)
    page.add_option(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "large.onnx")
        made = _child("export", path)
        checked = _child("verify", path)
    mib = 2**20
    lines = [
        "| what | |",
        "|---|---|",
        f"| weights | {made['weights'] / mib:,.0f} MiB |",
        f"| export | {made['seconds']:.1f} s |",
        f"| memory before the export began | {made['before'] / mib:,.0f} MiB |",
        f"| most memory, the weights counted | {made['peak'] / mib:,.0f} MiB |",
        f"| beyond the weights | {(made['peak'] - made['weights']) / mib:.0f} MiB |",
        f"| largest difference between ONNX Runtime and JAX | {checked['max_abs']:.1e} |",
    ]
    print("\n".join(lines))
    if made["peak"] > made["weights"] + ALLOWANCE or not checked["matches"]:
        sys.exit(f"the large model is outside its bounds: {ALLOWANCE / mib:.0f} MiB beyond, equal values")
    if options.write:
        page.write("large", "\n".join([f"{page.conditions('jax', 'onnxruntime')}.", "", *lines]))


if __name__ == "__main__":
    main()
