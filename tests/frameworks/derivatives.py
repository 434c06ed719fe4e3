"""Models of the matrix as functions of their weights, and what their derivatives are held against."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from onnxproof.capture.evaluate import evaluate
from onnxproof.capture.program import Var
from onnxproof.capture.trace import capture
from onnxproof.lowering.driver import load_rules
from tests.frameworks.model import Model

Array = np.ndarray[Any, Any]
Weights = dict[str, Any]
JITTED = (jax.stages.Wrapped, type(eqx.filter_jit(len)))
TOLERANCE = 1e-5  # of the largest magnitude of an output
NOISE = 4  # times JAX's own error, where an output is made of rounding errors


def weights_of(model: Model) -> Weights:
    return {name: w for name, w in model.weights.items() if jnp.issubdtype(w.dtype, jnp.floating)}


def of_weights(model: Model) -> Callable[..., Any]:
    """``model.fn`` as a function of (weights, *inputs), whatever framework it is written in.

    Arrays keep their identity through tracing, so that the constants of its jaxpr are its weights.
    """
    fn = model.fn
    while isinstance(fn, JITTED):  # whose constants would stay within
        fn = fn.__wrapped__
    names = {id(w): name for name, w in weights_of(model).items()}

    def apply(weights: Weights, *args: Any) -> Any:
        closed, shape = jax.make_jaxpr(lambda *a: fn(*a), return_shape=True)(*args)
        missing = set(weights) - {names.get(id(c)) for c in closed.consts}
        assert not missing, f"weights that the trace doesn't use: {sorted(missing)}"
        consts = [weights[names[id(c)]] if id(c) in names else c for c in closed.consts]
        flat = jaxpr_as_fun(ClosedJaxpr(closed.jaxpr, consts))(*jax.tree.leaves(args))
        return jax.tree.unflatten(jax.tree.structure(shape), flat)

    return apply


def objective(result: Any) -> jax.Array:
    """A smooth scalar of every float that a model gives."""
    leaves = [x for x in jax.tree.leaves(result) if jnp.issubdtype(x.dtype, jnp.floating)]
    return sum((jnp.mean(jnp.square(jnp.sin(x + i))) for i, x in enumerate(leaves)), jnp.zeros(()))


def in_float64(fn: Callable[..., Any], args: Sequence[Any]) -> list[Array]:
    """The program computed in float64 on the same numbers, whatever dtypes a framework insists on."""
    program = capture(fn, list(args), known=load_rules()).program
    leaves = jax.tree.leaves(list(args))
    values = {**dict(zip(program.inputs, leaves, strict=True)), **evaluate(program, leaves, double=True)}
    return [np.asarray(values[a] if isinstance(a, Var) else a.value) for a in program.outputs]


def faults(
    fn: Callable[..., Any], args: Sequence[Any], names: Sequence[str], got: Sequence[Array]
) -> list[str]:
    """Outputs of ``got`` that are not what JAX computes, each with its errors.

    An output is right when it is within ``TOLERANCE`` of JAX's, relative to JAX's largest magnitude. Where JAX's own
    float32 result is further than that from float64 (a gradient that cancels to zero, such as an attention's key
    bias), it is right when its error is no more than ``NOISE`` times JAX's, or times the rounding of one number as
    large as the largest of the outputs: what is left of terms that cancel is noise, and JAX's may be small by chance.
    """
    want = [np.asarray(x) for x in jax.tree.leaves(jax.jit(fn)(*args))]
    assert [(g.shape, g.dtype) for g in got] == [(w.shape, w.dtype) for w in want]
    found, exact = [], None
    for i, (name, g, w) in enumerate(zip(names, got, want, strict=True)):
        scale = _largest(w)
        off = _largest(g.astype(np.float64) - w) / scale if scale else _largest(g)
        if off <= TOLERANCE:
            continue
        exact = exact or in_float64(fn, args)
        ours, theirs = _largest(g - exact[i]), _largest(w - exact[i])
        rounding = np.finfo(np.float32).eps * max(map(_largest, exact))
        if not (theirs > TOLERANCE * _largest(exact[i]) and ours <= NOISE * max(theirs, rounding)):
            found.append(
                f"{name}: {off:.1e} of its scale from JAX; from float64 {ours:.1e}, JAX {theirs:.1e}"
            )
    return found


def _largest(x: Array) -> float:
    return float(np.nan_to_num(np.abs(x), nan=np.inf).max(initial=0.0))
