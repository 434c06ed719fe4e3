"""Complex values in the graph: reals with a trailing axis of two, the real and the imaginary part.

A rule is spelled in one of two ways. What does the same to both parts is the rule of reals on one more axis
(:func:`like_real`). Arithmetic is a JAX function of parts (:func:`by_parts`): :class:`Z` for complex operands and
results, plain arrays for real ones. The parts that arithmetic gives are remembered, so that a chain of it joins
them only where the pair itself is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, wraps
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np
import onnx_ir as ir

from onnxproof.capture.program import Atom, Aval, Eqn, Lit, Program, Shape, Var
from onnxproof.capture.trace import program_of
from onnxproof.capture.trailing import with_trailing
from onnxproof.lowering.emit import I64, Ctx
from onnxproof.lowering.registry import COMPLEX_RULES, RULES, Lowering, R, Registration, lowers_complex


class Z(NamedTuple):
    """A complex array as JAX arrays of its parts."""

    re: Any
    im: Any


PartsFunction = Callable[..., Any]
F = TypeVar("F", bound=PartsFunction)
_BY_PARTS: dict[str, PartsFunction] = {}


# -- values -----------------------------------------------------------------------------------------


def parts(ctx: Ctx, value: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The real and the imaginary part of a complex value."""
    known = ctx.module.parts.get(value)
    if known is not None:
        return known
    array = ctx.constant_value(value)
    if array is not None:
        return ctx.const(array[..., 0]), ctx.const(array[..., 1])
    taken = ctx.module.taken.setdefault(id(ctx.nodes), (ctx.nodes, {}))[1]
    if value not in taken:
        shape = ctx.shape(value)
        assert shape is not None
        re, im = (ctx.op("Gather", value, ctx.const(i, I64), axis=-1, shape=shape[:-1]) for i in (0, 1))
        taken[value] = re, im
    return taken[value]


def has_parts(ctx: Ctx, value: ir.Value) -> bool:
    """Whether the parts of a value are there already."""
    taken = ctx.module.taken.get(id(ctx.nodes))
    there = value in ctx.module.parts or (taken is not None and value in taken[1])
    return there or ctx.constant_value(value) is not None


def pack(ctx: Ctx, re: ir.Value, im: ir.Value, shape: Shape) -> ir.Value:
    """The complex value of ``shape`` with these parts, which may be smaller as long as they broadcast to it."""
    a, b = ctx.constant_value(re), ctx.constant_value(im)
    if a is not None and b is not None and a.shape == b.shape == shape:
        return ctx.const(np.stack([a, b], -1))
    columns = [ctx.unsqueeze(ctx.expand(part, shape), [-1]) for part in (re, im)]
    pair = ctx.op("Concat", *columns, axis=-1, shape=(*shape, 2))
    ctx.module.parts[pair] = (re, im)
    return pair


def whole_parts(
    ctx: Ctx, operands: Sequence[ir.Value], avals: Sequence[Aval]
) -> tuple[list[ir.Value], list[Aval]]:
    """Operands and avals with the parts of complex ones in their place, each of the whole shape."""
    values: list[ir.Value] = []
    for value, aval in zip(operands, avals, strict=True):
        if aval.is_complex:
            values += (ctx.expand(part, aval.shape) for part in parts(ctx, value))
        else:
            values.append(value)
    return values, flat_avals(avals)


def flat_avals(avals: Sequence[Aval]) -> list[Aval]:
    """Avals with those of the two parts in the place of complex ones."""
    return [a.part for a in avals for _ in range(1 + a.is_complex)]


def joined(ctx: Ctx, values: Sequence[ir.Value], avals: Sequence[Aval]) -> list[ir.Value]:
    """Results from their parts: the inverse of :func:`whole_parts`, but parts may broadcast."""
    rest = iter(values)
    return [
        pack(ctx, next(rest), next(rest), a.shape) if a.is_complex else ctx.expand(next(rest), a.shape)
        for a in avals
    ]


# -- rules by parts -----------------------------------------------------------------------------------


def by_parts(*primitives: str, **neutral: Any) -> Callable[[F], F]:
    """Register an element-wise JAX function of parts as the rule of primitives.

    Its keyword-only arguments are the parameters that it understands, as those of any rule.
    """

    def decorate(fn: F) -> F:
        _rule_of(fn, primitives, neutral, elementwise=True)
        _BY_PARTS.update(dict.fromkeys(primitives, fn))
        return fn

    return decorate


def in_computations(*primitives: str) -> Callable[[F], F]:
    """Declare what primitives, which have rules of their own, are on the parts of scalars in a computation."""

    def decorate(fn: F) -> F:
        _BY_PARTS.update(dict.fromkeys(primitives, fn))
        return fn

    return decorate


def by_whole_parts(*primitives: str, **neutral: Any) -> Callable[[F], F]:
    """Register any JAX function of parts as the rule of primitives, as :func:`by_parts` does."""

    def decorate(fn: F) -> F:
        _rule_of(fn, primitives, neutral, elementwise=False)
        return fn

    return decorate


def _rule_of(
    fn: PartsFunction, primitives: tuple[str, ...], neutral: Mapping[str, Any], elementwise: bool
) -> None:
    @wraps(fn)  # the registry reads the parameters of ``fn``
    def rule(ctx: Ctx, *operands: ir.Value, **params: Any) -> list[ir.Value]:
        return apply(ctx, fn, operands, params, elementwise)

    lowers_complex(*primitives, **neutral)(rule)


def apply(
    ctx: Ctx,
    fn: PartsFunction,
    operands: Sequence[ir.Value],
    params: Mapping[str, Any],
    elementwise: bool,
) -> list[ir.Value]:
    """Lower a function of parts on the operands of the equation."""
    spelled = _flat(fn, tuple(a.is_complex for a in ctx.ins), tuple(sorted(params.items())))
    if elementwise:  # parts that are constants keep their size
        pairs = zip(operands, ctx.ins, strict=True)
        values = [v for x, a in pairs for v in (parts(ctx, x) if a.is_complex else (x,))]
        avals = [
            Aval(a.shape if (known := ctx.shape(v)) is None else known, a.dtype)
            for v, a in zip(values, flat_avals(ctx.ins), strict=True)
        ]
    else:
        values, avals = whole_parts(ctx, operands, ctx.ins)
    return joined(ctx, ctx.jax(spelled, *values, avals=avals), ctx.outs)


@lru_cache(maxsize=1024)
def _flat(
    fn: PartsFunction, is_complex: tuple[bool, ...], params: tuple[tuple[str, Any], ...]
) -> Callable[..., Any]:
    """``fn`` as a function of arrays that returns a list of arrays."""

    def spelled(*arrays: Any) -> Any:
        rest = iter(arrays)
        operands = [Z(next(rest), next(rest)) if pair else next(rest) for pair in is_complex]
        return jax.tree_util.tree_leaves(fn(*operands, **dict(params)))

    return spelled


def split_program(ctx: Ctx, program: Program) -> Program:
    """An element-wise program with the two parts in the place of each complex value.

    Raises:
        UnsupportedParam: it holds a primitive on complex values that is not arithmetic.
    """
    env: dict[Var, tuple[Atom, ...]] = {}
    eqns: list[Eqn] = []

    def read(atom: Atom) -> tuple[Atom, ...]:
        if isinstance(atom, Var):
            return env.get(atom, (atom,))
        if not atom.aval.is_complex:
            return (atom,)
        return Lit(atom.value.real, atom.aval.part), Lit(atom.value.imag, atom.aval.part)

    def define(var: Var) -> tuple[Var, ...]:
        return tuple(map(Var, flat_avals([var.aval]))) if var.aval.is_complex else (var,)

    inputs = [define(v) for v in program.inputs]
    env.update(zip(program.inputs, inputs, strict=True))
    for eqn in program.eqns:
        operands = tuple(part for atom in eqn.inputs for part in read(atom))
        avals = [a.aval for a in (*eqn.inputs, *eqn.outputs)]
        if not any(a.is_complex for a in avals):
            eqns.append(replace(eqn, inputs=operands))
            continue
        fn, lowering = _BY_PARTS.get(eqn.primitive), COMPLEX_RULES.get(eqn.primitive)
        if fn is None or lowering is None:
            raise ctx.unsupported(f"its computation, which holds {eqn.primitive} on complex values")
        kinds = tuple(a.aval.is_complex for a in eqn.inputs)
        spelled = _flat(fn, kinds, tuple(sorted(lowering.params_of(eqn).items())))
        inner = program_of(spelled, [a.aval for a in operands])
        known: dict[Atom, Atom] = dict(zip(inner.inputs, operands, strict=True))
        for e in inner.eqns:
            eqns.append(replace(e, inputs=tuple(known.get(a, a) for a in e.inputs)))
        results = iter(known.get(a, a) for a in inner.outputs)
        for var in eqn.outputs:
            env[var] = tuple(next(results) for _ in range(1 + var.aval.is_complex))
    return Program(
        tuple(v for pair in inputs for v in pair),
        tuple(eqns),
        tuple(part for atom in program.outputs for part in read(atom)),
    )


# -- rules of reals ---------------------------------------------------------------------------------


def under_contract_of(*primitives: str) -> Registration:
    """Register a rule for complex values that takes the parameters which the rule of reals takes."""

    def decorate(rule: R) -> R:
        for primitive in primitives:
            real = RULES[primitive]
            COMPLEX_RULES[primitive] = Lowering(rule, real.named, real.neutral)
        return rule

    return decorate


def like_real(*primitives: str) -> None:
    """Register for primitives their rule of reals, with the parts on a trailing axis."""
    under_contract_of(*primitives)(trailing)


def trailing(ctx: Ctx, *operands: ir.Value, **params: Any) -> Any:
    """The rule of reals on operands whose last axis holds the parts."""
    name = ctx.eqn.primitive
    adapted = with_trailing(name, params, (2,), [a.ndim for a in ctx.ins], ctx.out.ndim)
    if adapted is None:
        raise ctx.unsupported("this form on complex values")
    view = ctx.viewed([a.stored for a in ctx.ins], [a.stored for a in ctx.outs], adapted)
    return RULES[name].rule(view, *operands, **adapted)


def as_stored(ctx: Ctx, *operands: ir.Value, **params: Any) -> Any:
    """The rule of reals with the parameters as they are: that of control flow, whose bodies hold complex values."""
    view = ctx.viewed([a.stored for a in ctx.ins], [a.stored for a in ctx.outs], params)
    return RULES[ctx.eqn.primitive].rule(view, *operands, **params)
