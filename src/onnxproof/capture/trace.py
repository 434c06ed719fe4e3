"""Trace a callable with JAX and build its Program."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.export
import numpy as np

from onnxproof.capture import modules
from onnxproof.capture.effects import refuse_callbacks
from onnxproof.capture.hoist import hoist
from onnxproof.capture.inline import Inliner
from onnxproof.capture.keys import is_key, key_impl
from onnxproof.capture.marks import EXPORTING
from onnxproof.capture.normalize import normalize
from onnxproof.capture.program import Aval, Dim, Program, SymDim
from onnxproof.capture.sites import site_of_error
from onnxproof.capture.specs import (
    InputSpecs,
    output_names,
    parse_inputs,
    symbolic_avals,
)
from onnxproof.capture.unroll import UnrollScans, unroll
from onnxproof.capture.weights import WeightNames
from onnxproof.errors import NestedTraceError, OnnxProofError, TraceError, UnsupportedDimension


@dataclass(frozen=True, slots=True)
class Capture:
    """A Program and what was left out on the way to it."""

    program: Program
    specs: InputSpecs
    dropped: tuple[str, ...]


def x64(enabled: bool) -> Any:
    """A context in which JAX computes in 64 bits, or an empty one."""
    return jax.enable_x64(True) if enabled else nullcontext()


def capture(
    fn: Callable[..., Any],
    inputs: Sequence[Any] | Mapping[str, Any],
    *,
    known: Collection[str],
    input_params: Mapping[str, Any] | None = None,
    names_in: Sequence[str] | None = None,
    names_out: Sequence[str] | None = None,
    constraints: Sequence[str] = (),
    drop_effects: Collection[str] = (),
    unroll_scans: UnrollScans = "never",
) -> Capture:
    """Trace ``fn`` at ``inputs``.

    Args:
        known: names of the primitives that have a lowering; others are inlined through their ``impl``.
        unroll_scans: which scans to spell out, see :mod:`onnxproof.capture.unroll`.

    Raises:
        InputSpecError, NameCollision: the inputs are not described well.
        UnsupportedDimension: a symbolic dimension can't be used, or the program needs its value.
        NestedTraceError: called inside another transformation of JAX.
        TraceError: ``fn`` raised.
        EffectfulProgram: the program has effects.
    """
    if not callable(fn):
        raise TraceError(
            f"a {type(fn).__name__} is not callable", way_out="Pass a function, or an object with __call__."
        )
    if _inside():
        raise NestedTraceError(
            "the exporter was called inside jit, grad, vmap or another transformation of JAX",
            way_out="Call it from ordinary Python; give it the jitted function itself.",
        )
    specs = parse_inputs(fn, inputs, input_params, names_in)
    avals = symbolic_avals(specs.leaves, constraints)
    closed, shape, state = _trace(fn, specs, avals)
    if not jax.tree_util.tree_leaves(shape):
        raise TraceError("the callable returns no array", way_out="Return what the model is to compute.")
    outputs = output_names(shape, names_out, [leaf.name for leaf in specs.leaves])
    inliner = Inliner(WeightNames(fn), known, drop_effects)
    program = inliner.program(closed, [*state, *(leaf.name for leaf in specs.leaves)], outputs)
    program = modules.drop_state(hoist(normalize(unroll(program, unroll_scans))), state)
    refuse_callbacks(program)
    return Capture(program, specs, tuple(inliner.dropped))


def program_of(fn: Callable[..., Any], avals: Sequence[Aval]) -> Program:
    """The Program of a JAX function of arrays, for a lowering that is spelled in JAX."""
    scope = jax.export.SymbolicScope()

    def dim(d: Dim) -> Any:
        return jax.export.symbolic_shape(str(d), scope=scope)[0] if isinstance(d, SymDim) else d

    structs = [jax.ShapeDtypeStruct(tuple(map(dim, a.shape)), a.dtype) for a in avals]
    needs_x64 = any(a.part.dtype.itemsize == 8 and a.part.dtype.kind in "iuf" for a in avals)
    # Spellings broadcast freely, whatever the user allows in code of their own.
    with x64(needs_x64), jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        closed, shape = jax.make_jaxpr(fn, return_shape=True)(*structs)
    outputs = [str(i) for i in range(len(jax.tree_util.tree_leaves(shape)))]
    inliner = Inliner(WeightNames(None), _EVERYTHING, ())
    program = inliner.program(closed, [str(i) for i in range(len(avals))], outputs)
    return hoist(normalize(program))


class _Everything:
    """A collection that contains every name: inner programs are made of primitives that have rules."""

    def __contains__(self, name: object) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


_EVERYTHING = _Everything()


def _inside() -> bool:
    """Whether a transformation is being traced: then an operation on concrete values yields a tracer."""
    return isinstance(jax.device_put(np.float32(0)), jax.core.Tracer)


def _trace(
    fn: Callable[..., Any], specs: InputSpecs, avals: Sequence[jax.ShapeDtypeStruct]
) -> tuple[Any, Any, Sequence[str]]:
    """(jaxpr, shapes of the results, names of the inputs of state that stand before those of ``specs``)."""
    try:
        return *_jaxpr(fn, specs, avals, None), ()
    except TraceError as err:
        lifted = modules.lift(fn) if modules.is_refusal(err.__cause__) else None
        if lifted is None:
            raise
    return *_jaxpr(fn, specs, avals, lifted), lifted.paths


def _jaxpr(
    fn: Callable[..., Any],
    specs: InputSpecs,
    avals: Sequence[jax.ShapeDtypeStruct],
    lifted: modules.Lifted | None,
) -> tuple[Any, Any]:
    keys = [is_key(a.dtype) for a in avals]
    if any(keys):
        raw = [
            jax.eval_shape(jax.random.key_data, a) if key else a for a, key in zip(avals, keys, strict=True)
        ]
        impls = [key_impl(a.dtype) if k else None for a, k in zip(avals, keys, strict=True)]
    else:
        raw, impls = list(avals), [None] * len(avals)
    state = () if lifted is None else lifted.state

    def flat(*leaves: Any) -> Any:
        wrapped = [
            x if impl is None else jax.random.wrap_key_data(x, impl=impl)
            for x, impl in zip(leaves[len(state) :], impls, strict=True)
        ]
        return specs.call(fn if lifted is None else partial(lifted.call, leaves[: len(state)]), wrapped)

    try:
        with EXPORTING(True):
            closed, shape = jax.make_jaxpr(flat, return_shape=True)(*state, *raw)
            return closed, shape
    except OnnxProofError:
        raise
    except Exception as err:
        raise _explain(err) from err


def _explain(err: Exception) -> OnnxProofError:
    """The error of a failed trace, with what the kind of failure allows to say."""
    first = str(err).strip().splitlines()[0] if str(err).strip() else ""
    text = f"{type(err).__name__}: {first}"
    site = site_of_error(err)
    for applies, kind, what, way_out in (
        (
            isinstance(err, jax.errors.InconclusiveDimensionOperation),
            UnsupportedDimension,
            "needs to know more of a symbolic dimension",
            'State it with constraints, such as ("B >= 2",) or ("mod(B, 4) == 0",), or give that dimension'
            " as an integer.",
        ),
        (
            "_DimExpr" in first,
            UnsupportedDimension,
            "needs a dimension that varies as a number",
            "Give that dimension as an integer, or do without the number: jax.lax.fori_loop for range(n).",
        ),
        (
            isinstance(err, jax.errors.TracerArrayConversionError),
            TraceError,
            "needs a NumPy array of what is traced",
            "Use functions of jax.numpy in the place of NumPy's.",
        ),
        (
            isinstance(err, jax.errors.UnexpectedTracerError),
            TraceError,
            "leaked a tracer",
            "It keeps a traced value in a global, an attribute or a closure; return it instead.",
        ),
        (
            isinstance(err, jax.errors.ConcretizationTypeError),
            TraceError,
            "needs the value of an input while it is traced",
            "Use jax.lax.cond / jnp.where for branches on values; pass fixed values in input_params.",
        ),
        (
            modules.is_refusal(err) or "mutat" in first.lower(),
            TraceError,
            "changes or transforms a module of its own while it is traced",
            "Put the model in inference mode (for example model.eval()), without live RNG state;"
            " pass an NNX module itself, not a function that closes over it.",
        ),
    ):
        if applies:
            return kind(f"the callable {what}: {text}", site=site, way_out=way_out)
    _, result, what = first.partition("returned a value of type ")
    if result and "not a valid JAX type" in what:
        return TraceError(
            f"the callable {result}{what}",
            site=site,
            way_out="Return arrays, or pytrees of arrays.",
        )
    return TraceError(
        f"the callable raised while JAX traced it: {text}",
        site=site,
        way_out="Call it under jax.make_jaxpr with the same shapes to see the whole traceback.",
    )
