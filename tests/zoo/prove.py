"""Export a program, run it, and hold it against JAX; as a command, a table of all that the packages here allow."""

from __future__ import annotations

import importlib.util
import sys
import time
import warnings
from dataclasses import dataclass

import jax
import numpy as np
import onnx

from onnxproof import to_onnx
from tests.running import TOLERANCE, assert_same, run, session
from tests.zoo.program import Program, programs


@dataclass(frozen=True)
class Proof:
    """What a program that passed showed: the largest error (absolute, or relative above 1) and export seconds."""

    error: float
    seconds: float
    nodes: int


def installed(program: Program) -> bool:
    return all(importlib.util.find_spec(package) for package in program.packages)


def prove(program: Program) -> Proof:
    """Raise where the file can't be made, isn't legal, or computes something else than JAX does."""
    with jax.enable_x64(program.x64):
        built = program.build()
        start = time.perf_counter()
        spec = built.runs[0] if built.spec is None else built.spec
        model = to_onnx(built.fn, list(spec), enable_double_precision=program.x64, **program.options)
        seconds = time.perf_counter() - start
        onnx.checker.check_model(model, full_check=True)
        sess = session(model)
        worst = 0.0
        seen: set[tuple[float, ...]] = set()
        native = jax.jit(built.fn)
        for args in built.runs:
            wants = jax.tree_util.tree_leaves(native(*args))
            gots = run(sess, args)
            assert len(gots) == len(wants)
            values: list[float] = []
            for got, want in zip(gots, wants, strict=True):
                assert_same(got, want, program.rtol, tolerance(program, got))
                worst = max(worst, error(got, want))
                values += [v for v in got.astype(np.float64).ravel()[:1000].tolist() if np.isfinite(v)]
            seen.add(tuple(values if built.spec is None else sorted(set(values))))
        assert len(seen) > 1, "the program computes the same at every input, which shows nothing"
    return Proof(worst, seconds, len(model.graph.node))


def tolerance(program: Program, got: np.ndarray) -> float | None:
    """The absolute tolerance: that of the dtype, for numbers as large as the largest of the result, at most 10.

    Sums round at the size of their terms, so a small number beside large ones is no more exact than they are.
    """
    if program.atol is not None or got.dtype.name not in TOLERANCE:
        return program.atol
    finite = np.abs(got[np.isfinite(got)].astype(np.float64))
    return TOLERANCE[got.dtype.name][1] * min(max(1.0, finite.max(initial=0.0)), 10.0)


def error(got: np.ndarray, want: object) -> float:
    """The largest error of finite values, absolute below 1 and relative above; 0 for integers and keys."""
    if jax.dtypes.issubdtype(want.dtype, jax.dtypes.prng_key) or got.dtype.kind != "f":
        return 0.0
    exact = np.asarray(want)
    if exact.dtype.kind == "c":
        exact = np.stack([exact.real, exact.imag], -1)
    exact, got = exact.astype(np.float64), got.astype(np.float64)
    finite = np.isfinite(exact)
    off = np.abs(got[finite] - exact[finite]) / np.maximum(1.0, np.abs(exact[finite]))
    return float(off.max(initial=0.0))


def main(patterns: list[str]) -> None:
    for program in programs():
        if patterns and not any(p in (program.name, *program.packages) for p in patterns):
            continue
        head = f"{program.name:32} {program.packages[0]:24}"
        if not installed(program):
            print(f"{head} not installed", flush=True)
            continue
        try:
            proof = prove(program)
        except Exception as err:  # a table has a row for every program
            first = f"{type(err).__name__}: " + " ".join(str(err).split())[:300]
            print(f"{head} {'expected' if program.fails else 'FAILED'} {first}", flush=True)
        else:
            print(
                f"{head} passed {proof.error:9.1e} {proof.seconds:6.1f} s {proof.nodes:6} nodes", flush=True
            )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(sys.argv[1:])
