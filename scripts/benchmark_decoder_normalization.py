"""Time a small Flax NNX decoder under ``normalization_mode`` ``auto`` and ``prefer_native``, static and symbolic.

Usage: ``JAX_PLATFORMS=cpu python scripts/benchmark_decoder_normalization.py --warmup 100 --iterations 5000 --repeats 7
--output decoder-normalization.json``, on an otherwise idle machine. ``--workload rmsnorm`` times one RMSNorm.

All four cases have the same weights and inputs. The warmed latency of a case is the median over the repeats of its
mean time per run, the Python call included; within a repeat the cases take turns, so that what else the machine does
falls on all alike. Making the session and the first run are timed once each, apart from it. Optimized graphs are
collected in sessions of their own. Errors are against JAX in the same dtype, computed in float64.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime as ort
from flax import nnx

from onnxproof import to_onnx
from onnxproof.evidence.source import host, onnxproof_version, source
from onnxproof.raising.gate import NormalizationMode

FORMAT = "onnxproof.decoder-normalization/1"
MODES: tuple[NormalizationMode, ...] = ("auto", "prefer_native")
SHAPES = ("static", "symbolic")
TOLERANCE = {"float32": 1e-4, "float16": 2e-3}  # relative and absolute, against JAX
PACKAGES = ("jax", "jaxlib", "flax", "numpy", "onnx", "onnx-ir", "onnxruntime")
MODEL_SEED, INPUT_SEED = 0, 1
ALLOWED = 1.05  # auto ÷ prefer_native
TURN = 10  # runs of one case before the next has its turn

Array = np.ndarray[Any, Any]


def half_attention(
    query: jax.Array, key: jax.Array, value: jax.Array, *, mask: jax.Array | None = None, **_: Any
) -> jax.Array:
    """Attention over [B, T, H, D] in the dtype of its operands; JAX's own does not run in float16 on the CPU."""
    scores = jnp.einsum("bqhd,bkhd->bhqk", query, key) / jnp.sqrt(query.shape[-1]).astype(query.dtype)
    if mask is not None:
        scores = jnp.where(mask, scores, jnp.finfo(scores.dtype).min)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), value)


class Decoder(nnx.Module):
    """One block over targets and memory [B, T, E], [B, S, E]: a normalization after each of three residual sums."""

    def __init__(self, width: int, heads: int, hidden: int, dtype: Any, rngs: nnx.Rngs) -> None:
        common = {"dtype": dtype, "param_dtype": dtype, "rngs": rngs}
        attend = half_attention if dtype == jnp.float16 else nnx.dot_product_attention
        attending = {"decode": False, "attention_fn": attend, **common}
        self.attention = nnx.MultiHeadAttention(heads, width, **attending)
        self.cross = nnx.MultiHeadAttention(heads, width, **attending)
        self.up = nnx.Linear(width, hidden, **common)
        self.down = nnx.Linear(hidden, width, **common)
        self.norms = nnx.List([nnx.LayerNorm(width, **common) for _ in range(3)])

    def __call__(self, targets: jax.Array, memory: jax.Array) -> jax.Array:
        first, second, third = self.norms
        x = first(targets + self.attention(targets, mask=nnx.make_causal_mask(targets[..., 0])))
        x = second(x + self.cross(x, memory))
        result: jax.Array = third(x + self.down(nnx.relu(self.up(x))))
        return result


@dataclass
class Case:
    """One export, its session, and what was measured of it."""

    shapes: str
    mode: NormalizationMode
    model: onnx.ModelProto
    session: ort.InferenceSession
    feed: Mapping[str, Array]
    initialization: float
    first_run: float
    result: Array
    spent: float = 0.0
    means: list[float] = field(default_factory=list)

    def turn(self, runs: int) -> None:
        """Run ``runs`` times and add the time to that of the repeat."""
        run, feed = self.session.run, self.feed
        start = time.perf_counter()
        for _ in range(runs):
            run(None, feed)
        self.spent += time.perf_counter() - start


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    count = {"type": int, "metavar": "N"}
    parser.add_argument("--warmup", default=100, help="runs of each case before any is timed", **count)
    parser.add_argument("--iterations", default=5000, help="timed runs of each case in a repeat", **count)
    parser.add_argument("--repeats", default=7, help="means that the median is taken of", **count)
    parser.add_argument("--output", type=Path, help="where the JSON report goes; standard output by default")
    parser.add_argument("--workload", choices=("decoder", "rmsnorm"), default="decoder")
    parser.add_argument(
        "--dtype", choices=tuple(TOLERANCE), default="float32", help="of parameters and inputs"
    )
    parser.add_argument("--embed-dim", default=16, help="the width that is normalized", **count)
    parser.add_argument("--num-heads", default=4, help="of both attentions; divides --embed-dim", **count)
    parser.add_argument("--ff-dim", default=32, help="the inner width of the feed-forward part", **count)
    parser.add_argument("--batch-size", default=2, **count)
    parser.add_argument("--target-length", default=8, **count)
    parser.add_argument("--memory-length", default=4, **count)
    parser.add_argument("--opset", default=23, **count)
    parser.add_argument("--intra-op-threads", default=1, help="0: as many as ONNX Runtime likes", **count)
    options = parser.parse_args(arguments)
    least = {"intra_op_threads": 0, "warmup": 0}
    for name, value in vars(options).items():
        if isinstance(value, int) and value < least.get(name, 1):
            parser.error(f"--{name.replace('_', '-')} is {value}")
    if options.workload == "decoder" and options.embed_dim % options.num_heads:
        parser.error(f"--embed-dim {options.embed_dim} is not divisible by --num-heads {options.num_heads}")
    return options


def workload(options: argparse.Namespace) -> tuple[Any, list[Array]]:
    """The module with its deterministic weights, and its inputs."""
    dtype, rngs = jnp.dtype(options.dtype), nnx.Rngs(MODEL_SEED)
    width = options.embed_dim
    lengths = [options.target_length]
    if options.workload == "rmsnorm":
        module: Any = nnx.RMSNorm(width, dtype=dtype, param_dtype=dtype, rngs=rngs)
    else:
        module = Decoder(width, options.num_heads, options.ff_dim, dtype, rngs)
        lengths.append(options.memory_length)
    rng = np.random.default_rng(INPUT_SEED)
    return module, [rng.normal(size=(options.batch_size, n, width)).astype(dtype) for n in lengths]


def session_options(threads: int) -> ort.SessionOptions:
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = 3
    return options


def prepared(
    module: Any, arrays: Sequence[Array], shapes: str, mode: NormalizationMode, options: argparse.Namespace
) -> Case:
    """Export, make the session, run once."""
    names = ("T", "S")
    specs = [
        jax.ShapeDtypeStruct(a.shape if shapes == "static" else ("B", names[i], a.shape[-1]), a.dtype)
        for i, a in enumerate(arrays)
    ]
    model = to_onnx(module, specs, opset=options.opset, normalization_mode=mode)
    data, settings = model.SerializeToString(), session_options(options.intra_op_threads)
    start = time.perf_counter()
    session = ort.InferenceSession(data, settings, providers=["CPUExecutionProvider"])
    made = time.perf_counter()
    feed = dict(zip((i.name for i in session.get_inputs()), arrays, strict=True))
    ready = time.perf_counter()
    (result,) = session.run(None, feed)
    ran = time.perf_counter()
    return Case(shapes, mode, model, session, feed, made - start, ran - ready, result)


def optimized(model: onnx.ModelProto, threads: int) -> onnx.ModelProto:
    """The graph that ONNX Runtime runs."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "optimized.onnx"
        settings = session_options(threads)
        settings.log_severity_level = 4  # that the file fits this processor only is what it is for
        settings.optimized_model_filepath = str(path)
        ort.InferenceSession(model.SerializeToString(), settings, providers=["CPUExecutionProvider"])
        return onnx.load(path)


def operators(model: onnx.ModelProto) -> dict[str, int]:
    names = [f"{n.domain}.{n.op_type}" if n.domain else n.op_type for n in model.graph.node]
    return dict(sorted(Counter(names).items()))


def measure(cases: Sequence[Case], options: argparse.Namespace) -> None:
    for case in cases:
        case.turn(options.warmup)
    for _ in range(options.repeats):
        for case in cases:
            case.spent = 0.0
        order = list(cases)
        for done in range(0, options.iterations, TURN):
            for case in order:
                case.turn(min(TURN, options.iterations - done))
            order.reverse()
        for case in cases:
            case.means.append(case.spent / options.iterations)


def described(case: Case, want: Array, options: argparse.Namespace) -> dict[str, Any]:
    """The case as the report has it; times in milliseconds."""
    got, known = case.result.astype(np.float64), want.astype(np.float64)
    tolerance = TOLERANCE[options.dtype]
    off = np.abs(got - known)
    least = np.finfo(np.float64).tiny
    return {
        "shapes": case.shapes,
        "normalization_mode": case.mode,
        "input_dtypes": [a.dtype.name for a in case.feed.values()],
        "input_shapes": [list(a.shape) for a in case.feed.values()],
        "output_dtypes": [case.result.dtype.name],
        "initialization_ms": case.initialization * 1e3,
        "first_run_ms": case.first_run * 1e3,
        "warmed_latency_ms": statistics.median(case.means) * 1e3,
        "repeat_means_ms": [m * 1e3 for m in case.means],
        "max_absolute_error": float(off.max()),
        "max_relative_error": float((off / np.maximum(np.abs(known), least)).max()),
        "matches_jax": bool(
            got.shape == known.shape and (off <= tolerance + tolerance * np.abs(known)).all()
        ),
        "exported_operators": operators(case.model),
        "optimized_operators": operators(optimized(case.model, options.intra_op_threads)),
    }


def compared(cases: Sequence[Case]) -> list[dict[str, Any]]:
    """For each way of giving shapes: auto ÷ prefer_native, and whether the gate made the two differ at all."""
    found = []
    for shapes in SHAPES:
        auto, native = (next(c for c in cases if (c.shapes, c.mode) == (shapes, mode)) for mode in MODES)
        ratio = statistics.median(auto.means) / statistics.median(native.means)
        found.append(
            {
                "shapes": shapes,
                "auto_over_prefer_native": ratio,
                "within_5_percent": ratio <= ALLOWED,
                "same_graph": auto.model == native.model,
            }
        )
    return found


def report(options: argparse.Namespace) -> dict[str, Any]:
    """Measure, and everything that the JSON report holds."""
    module, arrays = workload(options)
    want = np.asarray(nnx.jit(module)(*arrays))
    cases = [prepared(module, arrays, s, m, options) for s, m in product(SHAPES, MODES)]
    measure(cases, options)
    tolerance = TOLERANCE[options.dtype]
    rows = [described(case, want, options) for case in cases]
    return {
        "format": FORMAT,
        "options": {k: v for k, v in vars(options).items() if k != "output"},
        "seeds": {"model": MODEL_SEED, "inputs": INPUT_SEED},
        "tolerance": {"rtol": tolerance, "atol": tolerance},
        "versions": {
            "python": platform.python_version(),
            "onnxproof": onnxproof_version(),
            **{p: version(p) for p in PACKAGES},
        },
        "cpu": host().cpu,
        "cores": host().cores,
        "platform": platform.platform(),
        "source_revision": source().model_dump(mode="json"),
        "cases": rows,
        "comparison": compared(cases),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    options = parsed(arguments)
    result = report(options)
    text = json.dumps(result, indent=2) + "\n"
    if options.output is None:
        print(text, end="")
    else:
        options.output.write_text(text)
        for case in result["cases"]:
            label = f"{case['shapes']:9}{case['normalization_mode']:14}"
            print(f"{label}{case['warmed_latency_ms']:.4f} ms, error {case['max_absolute_error']:.2e}")
        for pair in result["comparison"]:
            same = ", of one graph" if pair["same_graph"] else ""
            print(f"{pair['shapes']}: auto / prefer_native = {pair['auto_over_prefer_native']:.3f}{same}")
    return 0 if all(case["matches_jax"] for case in result["cases"]) else 1


if __name__ == "__main__":
    sys.exit(main())
