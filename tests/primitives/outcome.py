"""One case: exported, checked, run in ONNX Runtime, judged."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
import onnx

from onnxproof import to_onnx
from onnxproof.errors import UnsupportedDtype, UnsupportedParam, UnsupportedPrimitive
from tests.primitives import accuracy
from tests.primitives.choices import violation
from tests.primitives.corpus import Array, Call, Case, NotOnCpu
from tests.running import run, session

NEAR = 8  # units in the last place from JAX: right without a look at float64
TIMES = 4  # JAX's own error: what a result may be from float64, or may violate where it is free to choose
UNIT = 1.0  # error that JAX is taken to have at least
# Of float64 there is no wider type to ask: units of the largest element that two algorithms may lie apart.
FLOAT64 = 256
TWELVE_DIGITS = 4096


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a case went.

    ``kind`` is ``pass``, ``refused`` (with an error that says why), ``jax`` (JAX does not run it), or a fault:
    ``error`` (of the exporter), ``invalid`` (to the checker), ``load``, ``run``, ``type`` (shape or dtype), ``wrong``,
    ``inexact`` (only elements far smaller than the largest are wrong, or of float64 digits beyond the twelfth).
    """

    kind: str
    detail: str = ""
    call: Call | None = field(default=None, repr=False)
    got: tuple[Array, ...] = field(default=(), repr=False)


def outcome(case: Case) -> Outcome:
    """Everything that can go wrong with a case has a kind; only faults of this test raise."""
    try:
        call = case.call()
    except NotOnCpu as err:
        return Outcome("jax", str(err)[:300])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of NumPy, about the extremes that the corpus gives
        return _exported(case, call)


def _exported(case: Case, call: Call) -> Outcome:
    names = [f"in_{i}" for i in range(len(call.args))]
    try:
        with jax.enable_x64(call.x64):
            model = to_onnx(call.fn, list(call.args), input_names=names)
    except (UnsupportedPrimitive, UnsupportedParam, UnsupportedDtype) as err:
        return Outcome("refused", str(err), call)
    except Exception as err:  # whatever else it raises is a fault
        return Outcome("error", f"{type(err).__name__}: {err}", call)
    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as err:
        return Outcome("invalid", str(err), call)
    try:
        sess = session(model)
    except Exception as err:  # ONNX Runtime's own classes
        return Outcome("load", str(err), call)
    try:
        got = tuple(run(sess, call.args))
    except Exception as err:
        return Outcome("run", str(err), call)
    got = tuple(_complex(g, w) for g, w in zip(got, call.want, strict=True))
    kind, detail = _judge(case, call, got)
    return Outcome(kind, detail, call, got)


def _complex(got: Array, want: Array) -> Array:
    """Pairs of reals as complex numbers, where JAX gives those."""
    if want.dtype.kind == "c" and got.dtype == want.real.dtype and got.shape == (*want.shape, 2):
        return np.ascontiguousarray(got).view(want.dtype)[..., 0]
    return got


def _judge(case: Case, call: Call, got: Sequence[Array]) -> tuple[str, str]:
    for i, (g, w) in enumerate(zip(got, call.want, strict=True)):
        if (g.shape, g.dtype) != (w.shape, w.dtype):
            return "type", f"output {i} is {g.dtype}{g.shape}, JAX gives {w.dtype}{w.shape}"
    params: dict[str, Any] = case.harness.params
    if case.group == "cholesky":  # the other triangle is left undefined
        got, want = [np.tril(g) for g in got], [np.tril(w) for w in call.want]
    else:
        want = list(call.want)
    far = [i for i, (g, w) in enumerate(zip(got, want, strict=True)) if not _near(g, w)]
    if not far:
        return "pass", ""
    ours, theirs = (violation(case.group, params, call, out) for out in (got, want))
    if _allowed(ours, theirs):
        return "pass", ""
    if any(want[i].dtype.kind in "iub" for i in far):
        return "wrong", f"outputs {far} differ from JAX"
    if all(w.dtype.name in accuracy.NARROW for i, w in enumerate(want) if i in far):
        reference, sums = accuracy.exact(call)
        ours, theirs = (accuracy.errors(out, reference, sums) for out in (got, want))
        if _allowed(ours, theirs):
            return "pass", ""
        small = max(accuracy.error(got[i], _wide(want[i]), sums=True) for i in far) <= NEAR
        return "inexact" if small else "wrong", f"{ours:.3g} units from float64, JAX {theirs:.3g}"
    apart = max(accuracy.error(got[i], _wide(want[i]), sums=True) for i in far)
    if apart <= FLOAT64:
        return "pass", ""
    return (
        "inexact" if apart <= TWELVE_DIGITS else "wrong",
        f"{apart:.3g} units of the largest element from JAX",
    )


def _allowed(ours: float, theirs: float) -> bool:
    """Two infinite errors say nothing, and allow nothing."""
    return np.isfinite(ours) and ours <= TIMES * max(theirs, UNIT)


def _near(got: Array, want: Array) -> bool:
    if got.dtype.kind in "iub":
        return np.array_equal(got, want)
    return accuracy.error(got, _wide(want), sums=False) <= NEAR


def _wide(x: Array) -> Array:
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
