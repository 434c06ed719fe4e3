"""What it gains to spell out a scan over stacked layers, and what it costs: latency, load time, size.

Run as ``python -m benchmarks.unrolling``. Transformer encoders in plain JAX, their layers scanned over stacked
weights, are exported with ``unroll_scans`` "never" and "auto"; the two files run in turn on one thread of ONNX
Runtime. A latency ratio below 1 says that the spelled-out file is faster (fastest runs of each).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime as ort

from benchmarks import page
from onnxproof import to_onnx
from onnxproof.capture.unroll import UnrollScans

# layers, width, batch, positions
SIZES = ((2, 64, 1, 16), (4, 64, 1, 1), (4, 64, 1, 16), (8, 128, 1, 64), (8, 64, 2, 32), (12, 256, 1, 1))
LARGE = ((12, 256, 1, 64), (24, 128, 1, 16), (48, 64, 1, 8), (64, 64, 1, 1))
HEADS = 4


def encoder(layers: int, width: int) -> Callable[[jax.Array], jax.Array]:
    """[batch, positions, width] to the same."""
    shapes = dict.fromkeys(("query", "key", "value", "out"), (layers, width, width))
    shapes |= {"up": (layers, width, 4 * width), "down": (layers, 4 * width, width)}
    rng = np.random.default_rng(0)
    weights: dict[str, Any] = {
        name: jnp.asarray(rng.normal(size=s).astype(np.float32) / s[1] ** 0.5) for name, s in shapes.items()
    }
    weights |= {"first": jnp.ones((layers, width)), "second": jnp.ones((layers, width))}

    def norm(x: jax.Array, scale: jax.Array) -> jax.Array:
        return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * scale

    def layer(x: jax.Array, w: dict[str, jax.Array]) -> tuple[jax.Array, None]:
        y = norm(x, w["first"])
        split = (*x.shape[:2], HEADS, width // HEADS)
        q, k, v = ((y @ w[name]).reshape(split) for name in ("query", "key", "value"))
        x = x + jax.nn.dot_product_attention(q, k, v).reshape(x.shape) @ w["out"]
        return x + jax.nn.gelu(norm(x, w["second"]) @ w["up"]) @ w["down"], None

    return lambda x: jax.lax.scan(layer, x, weights)[0]


def load(model: onnx.ModelProto) -> tuple[ort.InferenceSession, float]:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    data, began = model.SerializeToString(), time.perf_counter()
    session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    return session, time.perf_counter() - began


def row(size: tuple[int, int, int, int], rounds: int) -> str:
    layers, width, batch, positions = size
    fn = encoder(layers, width)
    choices: tuple[UnrollScans, ...] = ("never", "auto")
    models = {c: to_onnx(fn, [("B", positions, width)], unroll_scans=c) for c in choices}
    sessions = {c: load(m) for c, m in models.items()}
    x = np.random.default_rng(1).normal(size=(batch, positions, width)).astype(np.float32)
    times: dict[str, list[float]] = {c: [] for c in choices}
    for _ in range(rounds):
        for c, (session, _) in sessions.items():
            began = time.perf_counter()
            session.run(None, {session.get_inputs()[0].name: x})
            times[c].append(time.perf_counter() - began)
    scan, spelled = (min(times[c]) for c in choices)
    before, after = (sessions[c][1] * 1e3 for c in choices)
    sizes = [models[c].ByteSize() / 1024 for c in choices]
    return (
        f"| {layers} x {width}, [{batch}, {positions}] | {scan * 1e3:.2f} ms | {spelled / scan:.2f} "
        f"| {before:.0f} → {after:.0f} ms | {sizes[0]:.0f} → {sizes[1]:.0f} KiB |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=50)
    page.add_option(parser)
    options = parser.parse_args()
    lines = [
        "| layers x width, [batch, positions] | Scan | spelled out / Scan | load | file |",
        "|---|---|---|---|---|",
    ]
    for size in (*SIZES, *LARGE):
        lines.append(row(size, options.rounds))
        print(lines[-1], flush=True)
    if options.write:
        said = f"{page.conditions('jax', 'onnxruntime')}; one thread."
        page.write("unrolling", "\n".join([said, "", *lines]))


if __name__ == "__main__":
    main()
