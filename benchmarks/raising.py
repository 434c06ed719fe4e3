"""What native operators gain over what they stand for: recurrent cells, normalizations, rotary embedding, attention,
images.

Run as ``python -m benchmarks.raising``. Each function is exported as usual and with raising switched off; the two
files run in turn on one thread of ONNX Runtime, and the ratio is that of the fastest runs, spelled out / native.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime as ort

from benchmarks import page
from onnxproof import to_onnx
from onnxproof.raising import composite, load_composites

FAMILIES = (
    "layer_norm",
    "rms_norm",
    "group_norm",
    "instance_norm",
    "rotary",
    "attention",
    "resize",
    "depth_to",
    "space_to",
    "pixel",
)
Row = tuple[str, Callable[..., Any], Sequence[np.ndarray[Any, Any]]]


@contextmanager
def spelled_out() -> Iterator[None]:
    """No scan becomes a recurrent operator, and no composite of the families below is looked for."""
    load_composites()
    families = [n for n in composite.COMPOSITES if n.startswith(FAMILIES)]
    kept = {n: composite.COMPOSITES.pop(n) for n in families}
    tables = (composite.REWRITES, composite.LATE_REWRITES)
    rewrites = [dict(table) for table in tables]
    for table in tables:
        table.clear()
    try:
        yield
    finally:
        composite.COMPOSITES.update(kept)
        for table, whole in zip(tables, rewrites, strict=True):
            table.update(whole)


def normal(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def cell(gates: int, hidden: int, step: Callable[..., Any], carries: int) -> Callable[[jax.Array], jax.Array]:
    """``step(joint(x), joint(h), *carry)`` scanned over x [batch, time, hidden]."""
    ih, hh = (normal(hidden, gates * hidden, seed=s) / np.float32(hidden**0.5) for s in (1, 2))
    bias = normal(gates * hidden, seed=3)

    def run(x: jax.Array) -> jax.Array:
        def body(carry: tuple[jax.Array, ...], xt: jax.Array) -> Any:
            new = step(jnp.split(xt @ ih + bias, gates, -1), jnp.split(carry[0] @ hh, gates, -1), *carry)
            return new, new[0]

        start = (jnp.zeros((x.shape[0], hidden)),) * carries
        return jax.lax.scan(body, start, x.swapaxes(0, 1))[1].swapaxes(0, 1)

    return run


def lstm_step(x: Sequence[jax.Array], r: Sequence[jax.Array], h: jax.Array, c: jax.Array) -> Any:
    i, f, g, o = (a + b for a, b in zip(x, r, strict=True))
    c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    return jax.nn.sigmoid(o) * jnp.tanh(c), c


def gru_step(x: Sequence[jax.Array], r: Sequence[jax.Array], h: jax.Array) -> Any:
    z = jax.nn.sigmoid(x[1] + r[1])
    n = jnp.tanh(x[2] + jax.nn.sigmoid(x[0] + r[0]) * r[2])
    return ((1 - z) * n + z * h,)


def rotary(x: jax.Array, cos: jax.Array, sin: jax.Array) -> jax.Array:
    a, b = jnp.split(x, 2, -1)
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def interleaved(x: jax.Array, cos: jax.Array, sin: jax.Array) -> jax.Array:
    a, b = x[..., ::2], x[..., 1::2]
    return jnp.stack([a * cos - b * sin, b * cos + a * sin], -1).reshape(x.shape)


def layer_norm(x: jax.Array) -> jax.Array:
    mean = x.mean(-1, keepdims=True)
    scale, bias = normal(x.shape[-1], seed=1), normal(x.shape[-1], seed=2)
    return (x - mean) * jax.lax.rsqrt(jnp.square(x - mean).mean(-1, keepdims=True) + 1e-5) * scale + bias


def rms_norm(x: jax.Array) -> jax.Array:
    return x * jax.lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-6) * normal(x.shape[-1], seed=1)


def grouped(channels: int, groups: int) -> Callable[[jax.Array], jax.Array]:
    """Flax's GroupNorm of [batch, height, width, channels]."""
    from flax import linen

    module = linen.GroupNorm(num_groups=groups)
    weights = {"scale": normal(channels, seed=1), "bias": normal(channels, seed=2)}
    return lambda x: module.apply({"params": weights}, x)  # type: ignore[return-value]


def repeated(x: jax.Array) -> jax.Array:
    return jnp.repeat(jnp.repeat(x, 2, 2), 2, 3)


def resized(x: jax.Array) -> jax.Array:
    return jax.image.resize(x, (*x.shape[:2], 2 * x.shape[2], 2 * x.shape[3]), "nearest")


def shuffled(x: jax.Array) -> jax.Array:
    b, c, h, w = x.shape
    y = x.reshape(b, c // 4, 2, 2, h, w).transpose(0, 1, 4, 2, 5, 3)
    return y.reshape(b, c // 4, 2 * h, 2 * w)


def unshuffled(x: jax.Array) -> jax.Array:
    b, c, h, w = x.shape
    y = x.reshape(b, c, h // 2, 2, w // 2, 2).transpose(0, 3, 5, 1, 2, 4)
    return y.reshape(b, 4 * c, h // 2, w // 2)


def rows() -> Iterator[Row]:
    for fn in (repeated, resized, shuffled, unshuffled):
        for size in ((1, 32, 28, 28), (1, 64, 56, 56)):
            yield f"{fn.__name__} {'x'.join(map(str, size))}", fn, [normal(*size)]
    for name, gates, step, carries in (("lstm", 4, lstm_step, 2), ("gru", 3, gru_step, 1)):
        for hidden in (8, 32, 128, 512):
            for batch in (1, 16, 64):
                yield (
                    f"{name} {hidden=} {batch=}",
                    cell(gates, hidden, step, carries),
                    [normal(batch, 16, hidden)],
                )
    for size in ((2, 8, 16), (8, 128, 768)):
        for fn in (layer_norm, rms_norm):
            yield f"{fn.__name__} {'x'.join(map(str, size))}", fn, [normal(*size)]
    for size in ((2, 8, 8, 32), (1, 64, 64, 128), (8, 32, 32, 64)):
        for groups in (8, size[-1]):
            yield (
                f"group norm {'x'.join(map(str, size))}, {groups} groups",
                grouped(size[-1], groups),
                [normal(*size)],
            )
    for batch, length, heads, width in ((1, 1, 12, 64), (1, 128, 8, 64), (4, 128, 8, 64)):
        args = [normal(batch, length, heads, width), *(normal(length, 1, width // 2, seed=s) for s in (1, 2))]
        for fn in (rotary, interleaved):
            yield f"{fn.__name__} {batch}x{length}x{heads}x{width}", fn, args
    for batch, length, keys, heads, groups in ((2, 32, 32, 8, 8), (1, 128, 128, 12, 12), (1, 1, 128, 12, 12),
                                               (1, 128, 128, 8, 2)):  # fmt: skip
        q, k, v = (normal(batch, n, h, 64) for n, h in ((length, heads), (keys, groups), (keys, groups)))
        yield (
            f"attention {batch}x{length}x{keys} heads {heads}/{groups}",
            jax.nn.dot_product_attention,
            [q, k, v],
        )


def session(model: onnx.ModelProto) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def fastest(sessions: Sequence[ort.InferenceSession], args: Sequence[Any], seconds: float) -> list[float]:
    """The fastest run of each, the sessions in turn."""
    feeds = [dict(zip((i.name for i in s.get_inputs()), args, strict=True)) for s in sessions]
    best = [float("inf")] * len(sessions)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for at, (sess, feed) in enumerate(zip(sessions, feeds, strict=True)):
            start = time.perf_counter()
            sess.run(None, feed)
            best[at] = min(best[at], time.perf_counter() - start)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0, help="for each row")
    page.add_option(parser)
    options = parser.parse_args()
    lines = ["| case | spelled out | native | ratio | largest difference |", "|---|---|---|---|---|"]
    for name, fn, args in rows():
        spec = [tuple(a.shape) for a in args]
        native = session(to_onnx(fn, spec))
        with spelled_out():
            other = session(to_onnx(fn, spec))
        slow, fast = fastest([other, native], args, options.seconds)
        feed = dict(zip((i.name for i in native.get_inputs()), args, strict=True))
        off = float(np.abs(native.run(None, feed)[0] - np.asarray(jax.jit(fn)(*args))).max())
        lines.append(
            f"| {name} | {slow * 1e6:.0f} µs | {fast * 1e6:.0f} µs | {slow / fast:.2f} | {off:.0e} |"
        )
        print(lines[-1], flush=True)
    if options.write:
        page.write(
            "raising", "\n".join([f"{page.conditions('jax', 'onnxruntime')}; one thread.", "", *lines])
        )


if __name__ == "__main__":
    main()
