"""Export one call, run it, and measure how far it is from JAX and from float64."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import ml_dtypes
import numpy as np
import onnx

from onnxproof import to_onnx
from onnxproof.errors import UnsupportedError
from tests.running import run, session
from tests.sweep.call import Array, Call
from tests.sweep.catalogue import Function, load_tables

# The largest error of a result that counts as JAX's own: at 1e-5 of float32, rtol is 1e-5 and atol 1e-6.
LIMIT = {"float64": 1e-11, "float32": 1e-5, "float16": 2e-3, "bfloat16": 1.6e-2}
FLOOR = 0.1
# Errors of half precision are compared, and not shown: they would hide those of float32.
HALF = (np.float16, ml_dtypes.bfloat16)
# Where JAX's own float32 is this far from float64, the function is about the dtype itself, as ``nextafter`` is.
SENSIBLE = 1e-2
# Moves, shapes and casts: a graph with one operator besides these is called by that operator.
PLUMBING = frozenset(
    "Cast Concat Constant ConstantOfShape Expand Identity Reshape Shape Slice Squeeze Transpose Unsqueeze".split()
)


class WrongResult(AssertionError):
    """ONNX Runtime gives something else than JAX."""


@dataclass(frozen=True)
class Outcome:
    """What became of a function.

    Attributes:
        status: ``agrees`` with JAX, or ``refused``.
        operators: the operator it became, or how many it is composed of.
        error: the largest error against JAX, half precision left out, relative to values above 0.1 and to 0.1 below.
        oracle: the same against float64, of ONNX Runtime and of JAX; None where float64 says nothing.
        reason: why it is refused.
    """

    status: str
    operators: str = ""
    error: float = 0.0
    oracle: tuple[float, float] | None = None
    reason: str = ""


def is_input(leaf: Any) -> bool:
    return isinstance(leaf, np.ndarray | np.generic | jax.Array)


def bind(fn: Callable[..., Any], call: Call) -> tuple[Callable[..., Any], list[Any]]:
    """The call as a function of its arrays, and the arrays."""
    leaves, tree = jax.tree_util.tree_flatten((call.args, call.kwargs), is_leaf=lambda x: x is None)
    places = [i for i, leaf in enumerate(leaves) if is_input(leaf)]

    def bound(*arrays: Any) -> Any:
        filled = list(leaves)
        for place, value in zip(places, arrays, strict=True):
            filled[place] = value
        args, kwargs = jax.tree_util.tree_unflatten(tree, filled)
        return fn(*args, **kwargs) if call.using is None else call.using(fn, *args, **kwargs)

    return bound, [leaves[i] for i in places]


def results(call: Call, outputs: Sequence[Any]) -> list[Array]:
    arrays = [as_array(out) for out in outputs]
    if call.result is None:
        return arrays
    return [np.asarray(a) for a in jax.tree_util.tree_leaves(call.result(arrays))]


def as_array(value: Any) -> Array:
    if hasattr(value, "dtype") and jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
        value = jax.random.key_data(value)
    return np.asarray(value)


def joined(got: Array, want: Array) -> Array:
    """Complex numbers from the pairs that the graph gives."""
    if want.dtype.kind == "c" and got.dtype == want.real.dtype and got.shape == (*want.shape, 2):
        return np.ascontiguousarray(got).view(want.dtype)[..., 0]
    return got


def errors(got: Array, want: Array) -> Array:
    """The error of each value; inf where one of the two is NaN or infinite and the other isn't the same."""
    if got.dtype.kind == "c" or want.dtype.kind == "c":
        return np.maximum(errors(got.real, want.real), errors(got.imag, want.imag))
    got, want = got.astype(np.float64), want.astype(np.float64)
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    with np.errstate(invalid="ignore", over="ignore"):
        apart = np.abs(got - want) / (FLOOR + np.abs(want))
    return np.where(same, 0.0, np.where(np.isfinite(apart) & np.isfinite(got), apart, np.inf))


def error(got: Array, want: Array, where: Array | None = None) -> float:
    """The largest error, of those values that are finite in ``where``."""
    found = errors(got, want)
    return float(found.max(initial=0.0, where=True if where is None else np.isfinite(where)))


def near(got: Array, want: Array) -> bool:
    """Whether two results differ by no more than rounding, and not at all where they aren't floats."""
    return error(got, want) <= LIMIT.get(want.real.dtype.name, 0.0)


def as_exact(got: Array, want: Array, exact: Array) -> bool:
    """Whether a result is no further from float64 than twice JAX's own, and NaN or infinite where JAX's is."""
    if want.dtype.kind not in "fc":
        return False
    alike = errors(got, want)[~np.isfinite(want)].max(initial=0.0) == 0.0
    return bool(alike) and error(got, exact, want) <= 2 * error(want, exact, want) < np.inf


def in_float64(fn: Callable[..., Any], arrays: Sequence[Any], call: Call) -> list[Array] | None:
    """The same call in float64, or None where its result isn't one of float64: with a key, other bits are drawn."""
    wide = {"f": np.float64, "c": np.complex128}
    kinds = [getattr(a.dtype, "kind", "key") for a in arrays]
    if "key" in kinds or not set(wide) & set(kinds):
        return None
    with jax.enable_x64(True):
        cast = [a.astype(wide.get(kind, a.dtype)) for a, kind in zip(arrays, kinds, strict=True)]
        outputs = [as_array(o) for o in jax.tree_util.tree_leaves(jax.jit(fn)(*cast))]
    if any(o.dtype in (np.float32, np.complex64) for o in outputs):
        return None
    return results(call, outputs)


def measure(function: Function, always_oracle: bool) -> Outcome:
    """Every call of the table. ``always_oracle`` costs time: else float64 is asked only where JAX and ONNX
    Runtime differ by more than rounding.

    Raises:
        WrongResult: a call gives another shape, dtype or value than JAX.
    """
    tables = load_tables()
    calls = tables.calls[function.path]
    reason = tables.refused.get(function.path)
    found = []
    for i, call in enumerate(calls):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                found.append(measure_call(function.load(), call, always_oracle))
        except UnsupportedError:
            if reason is None:
                raise
            return Outcome("refused", reason=reason)
        except AssertionError as wrong:
            raise WrongResult(f"{function.path}, call {i}: {wrong}") from wrong
    assert reason is None, f"{function.path} is exported now: take it out of REFUSED"
    worst = max(outcome.error for outcome in found)
    oracles = [outcome.oracle for outcome in found if outcome.oracle is not None]
    oracle = (max(a for a, _ in oracles), max(b for _, b in oracles)) if oracles else None
    return Outcome("agrees", found[0].operators, worst, oracle)


def measure_call(function: Callable[..., Any], call: Call, always_oracle: bool) -> Outcome:
    fn, arrays = bind(function, call)
    model = to_onnx(fn, arrays)
    onnx.checker.check_model(model, full_check=True)
    outputs = [as_array(o) for o in jax.tree_util.tree_leaves(jax.jit(fn)(*arrays))]
    got = run(session(model), arrays)
    assert len(got) == len(outputs), f"{len(got)} results, JAX {len(outputs)}"
    got = [joined(g, w) for g, w in zip(got, outputs, strict=True)]
    for g, w in zip(got, outputs, strict=True):
        assert g.dtype == w.dtype, f"dtype {g.dtype}, JAX {w.dtype}"
        assert g.shape == w.shape, f"shape {g.shape}, JAX {w.shape}"
    pairs = list(zip(results(call, got), results(call, outputs), strict=True))
    exact = None
    if always_oracle or not all(near(g, w) for g, w in pairs):
        exact = in_float64(fn, arrays, call)
    for i, (g, w) in enumerate(pairs):
        if not near(g, w) and (exact is None or not as_exact(g, w, exact[i])):
            raise AssertionError(f"result {i} is off by {error(g, w):.2g}\n{g}\nJAX:\n{w}")
    shown = [i for i, (_, w) in enumerate(pairs) if w.real.dtype not in HALF]
    worst = max((error(*pairs[i]) for i in shown), default=0.0)
    oracle = None
    floats = [i for i in shown if pairs[i][1].dtype.kind in "fc"]
    if exact is not None and floats:
        ours, jax_own = (max(error(pairs[i][k], exact[i], pairs[i][1]) for i in floats) for k in (0, 1))
        oracle = (ours, jax_own) if jax_own < SENSIBLE else None
    return Outcome("agrees", operators(model), worst, oracle)


def operators(model: onnx.ModelProto) -> str:
    """The operator that the graph is, or how many it is composed of, bodies included."""
    if not model.graph.input:
        return "constant"
    types: list[str] = []

    def walk(nodes: Any) -> None:
        for node in nodes:
            types.append(node.op_type)
            for attribute in node.attribute:
                walk(attribute.g.node)

    walk(model.graph.node)
    for function in model.functions:
        walk(function.node)
    working = [t for t in types if t not in PLUMBING]
    if len(working) == 1:
        return f"`{working[0]}`"
    if len(types) == 1:
        return f"`{types[0]}`"
    return f"composition of {len(types)} operators"
