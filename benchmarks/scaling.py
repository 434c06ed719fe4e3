"""Export time against the length of the program, and against the time JAX takes to trace it.

Run as ``python -m benchmarks.scaling``. Linear growth shows as a constant number of microseconds per equation.
"""

from __future__ import annotations

import argparse
import time

import jax
import jax.numpy as jnp

from benchmarks import page
from onnxproof import to_onnx

LENGTHS = (1_000, 2_000, 5_000, 10_000, 50_000)


def chain(equations: int) -> object:
    """A function of ``equations`` equations: sine, product and sum in turn."""

    def fn(x: jax.Array) -> jax.Array:
        for _ in range(equations // 3):
            x = jnp.sin(x) * 1.5 + 0.5
        return x

    return fn


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lengths", type=int, nargs="*", default=LENGTHS)
    page.add_option(parser)
    options = parser.parse_args()
    spec = jax.ShapeDtypeStruct((4,), jnp.float32)
    to_onnx(chain(30), [spec])  # imports and caches are not what is measured
    lines = ["| equations | trace | export | export / trace | per equation |", "|---|---|---|---|---|"]
    for length in options.lengths:
        fn = chain(length)
        start = time.perf_counter()
        count = len(jax.make_jaxpr(fn)(spec).eqns)
        trace = time.perf_counter() - start
        fresh = chain(length)  # JAX keeps the trace of a function; a new one is traced anew
        start = time.perf_counter()
        to_onnx(fresh, [spec])
        export = time.perf_counter() - start
        each = export / count * 1e6
        lines.append(f"| {count:,} | {trace:.2f} s | {export:.2f} s | {export / trace:.2f} | {each:.0f} µs |")
        print(lines[-1], flush=True)
    if options.write:
        page.write("scaling", "\n".join([f"{page.conditions('jax')}.", "", *lines]))


if __name__ == "__main__":
    main()
