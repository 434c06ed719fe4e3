"""Composites: a reference function in plain JAX, and the native form of what it computes.

The reference is the specification. It is traced with the installed JAX at the shapes of a candidate and unified
with the user's program; where they agree, one equation with the composite's name takes the place of the pattern
and lowers by the composite's own rule. A miss leaves the program as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from onnxproof.capture.program import Atom, Aval, Eqn, Lit, Program, Var
from onnxproof.capture.simplify import drop_dead, map_bodies
from onnxproof.capture.trace import program_of
from onnxproof.errors import InternalError
from onnxproof.lowering.registry import Rule, lowers
from onnxproof.raising.gate import NormalizationMode, admits
from onnxproof.raising.match import Makers, Pattern, above, interior, unify

Params = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Variant:
    """One way a candidate may read: the avals of the operands, and parameters of reference and rule."""

    operands: tuple[Aval, ...]
    params: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Candidate:
    """The equation that may be the root of a composite, with a way to look above it.

    Attributes:
        near: the root and the equations nearest above it.
    """

    root: Eqn
    makers: Makers
    near: Sequence[Eqn]

    @property
    def out(self) -> Aval:
        return self.root.outputs[0].aval

    def maker(self, atom: Atom, primitive: str) -> Eqn | None:
        """The equation that made ``atom``, when it is an application of ``primitive``."""
        eqn = self.makers.get(atom) if isinstance(atom, Var) else None
        return eqn if eqn is not None and eqn.primitive == primitive else None


Specs = Callable[[Candidate], Iterable[Variant]]
Bind = Callable[[Sequence[Atom], Params], tuple[Sequence[Atom], Params] | None]


@dataclass(frozen=True, slots=True)
class Composite:
    """A native form with its reference programs.

    Attributes:
        references: JAX functions ``f(*operands, **params)``, the spellings that occur.
        root: the primitives that the last equation of a reference may be.
        anchor: a rarer primitive that every reference holds; candidates without it are not traced.
        specs: the variants under which a candidate is tried.
        bind: turns bound operands and parameters into those of the rule, or refuses them.
        min_opset, max_opset: the opsets at which the native form exists and is the fast one.
        normalization: whether ``normalization_mode`` decides over it.
    """

    name: str
    references: tuple[Callable[..., Any], ...]
    root: tuple[str, ...]
    anchor: str
    specs: Specs
    bind: Bind
    min_opset: int = 0
    normalization: bool = False
    max_opset: int = 99


COMPOSITES: dict[str, Composite] = {}


def same_as_output(candidate: Candidate) -> Iterable[Variant]:
    """One operand with the aval of the result; floating point only."""
    if candidate.out.dtype.kind not in "iub":
        yield Variant((candidate.out,))


def keep(operands: Sequence[Atom], params: Params) -> tuple[Sequence[Atom], Params]:
    """Bind every operand as it is."""
    return operands, params


def literal_scalars(*names: str) -> Bind:
    """Bind the last operands, which have to be literal scalars, as float parameters of these names.

    An attribute of ONNX is float32: a float64 that it can't hold stays an operand.
    """

    def bind(operands: Sequence[Atom], params: Params) -> tuple[Sequence[Atom], Params] | None:
        split = len(operands) - len(names)
        values = [v for v in operands[split:] if isinstance(v, Lit) and v.value.ndim == 0]
        exact = all(v.value.dtype != np.float64 or np.float32(v.value) == v.value for v in values)
        if len(values) < len(names) or not exact:
            return None
        scalars = {n: float(v.value) for n, v in zip(names, values, strict=True)}
        return operands[:split], {**params, **scalars}

    return bind


def composite(
    name: str,
    *,
    references: Sequence[Callable[..., Any]],
    root: str | tuple[str, ...],
    anchor: str,
    specs: Specs = same_as_output,
    bind: Bind = keep,
    min_opset: int = 0,
    normalization: bool = False,
    max_opset: int = 99,
) -> Callable[[Rule], Rule]:
    """Register a composite; the decorated rule is its native form (see :class:`Composite`)."""

    def decorate(rule: Rule) -> Rule:
        if name in COMPOSITES:
            raise InternalError(f"two composites are named {name}")
        roots = (root,) if isinstance(root, str) else root
        COMPOSITES[name] = Composite(
            name, tuple(references), roots, anchor, specs, bind, min_opset, normalization, max_opset
        )
        return lowers(name)(rule)

    return decorate


Rewrite = Callable[[Eqn, Makers, Collection[Var], Collection[Var]], Sequence[Eqn]]
REWRITES: dict[str, Rewrite] = {}
LATE_REWRITES: dict[str, Rewrite] = {}


def rewrites(root: str, *, late: bool = False) -> Callable[[Rewrite], Rewrite]:
    """Register what may replace applications of ``root`` where one reference program is not enough.

    ``late``: of what composites leave.

    It is called with the equation, the makers of what is around it, the weights of the program and the Vars that
    anything uses; it returns the equations to put in place, or none.
    """

    def decorate(rewrite: Rewrite) -> Rewrite:
        (LATE_REWRITES if late else REWRITES)[root] = rewrite
        return rewrite

    return decorate


def _rewritten(program: Program, table: Mapping[str, Rewrite], present: Collection[str]) -> Program:
    if table.keys().isdisjoint(present):
        return program
    return drop_dead(_replaced(program, table, {}, program.params.keys(), _used(program)))


def _replaced(
    program: Program,
    table: Mapping[str, Rewrite],
    outer: Makers,
    weights: Collection[Var],
    used: Collection[Var],
) -> Program:
    makers = {**outer, **{v: e for e in program.eqns for v in e.outputs}}
    eqns: list[Eqn] = []
    for eqn in program.eqns:
        eqn = map_bodies(eqn, lambda body: _replaced(body, table, makers, weights, used))
        rewrite = table.get(eqn.primitive)
        eqns += (rewrite(eqn, makers, weights, used) if rewrite else ()) or (eqn,)
    return replace(program, eqns=tuple(eqns))


def _used(program: Program) -> Collection[Var]:
    """Vars that an equation or a result reads."""
    bodies = [program, *(b for e in program.walk() for b in e.bodies())]
    read = [a for e in program.walk() for a in e.inputs] + [a for b in bodies for a in b.outputs]
    return {a for a in read if isinstance(a, Var)}


@lru_cache(maxsize=1024)
def _pattern(reference: Callable[..., Any], variant: Variant) -> Pattern | None:
    fn = partial(reference, **dict(variant.params)) if variant.params else reference
    return Pattern.of(program_of(fn, variant.operands))


@dataclass(slots=True)
class _Raiser:
    by_root: Mapping[str, Sequence[Composite]]
    opset: int
    normalization: NormalizationMode
    found: dict[str, int] = field(default_factory=dict)

    def run(self, program: Program, outer: Makers) -> Program:
        makers = {**outer, **{v: e for e in program.eqns for v in e.outputs}}
        covered: set[Var] = set()
        eqns: list[Eqn] = []
        for eqn in reversed(program.eqns):
            eqn = map_bodies(eqn, lambda body: self.run(body, makers))
            eqns.append(self.raised(eqn, makers, covered))
        return replace(program, eqns=tuple(reversed(eqns)))

    def raised(self, eqn: Eqn, makers: Makers, covered: set[Var]) -> Eqn:
        if eqn.outputs[0] in covered:
            return eqn
        composites = self.by_root.get(eqn.primitive)
        if not composites or eqn.outputs[0].aval.is_complex:
            return eqn
        candidate = Candidate(eqn, makers, above(eqn, makers))
        near = {e.primitive for e in candidate.near}
        for composite in composites:
            if composite.anchor not in near or not self.admitted(composite, candidate.out.dtype.name):
                continue
            for variant in composite.specs(candidate):
                for reference in composite.references:
                    new = self._try(composite, reference, variant, candidate, covered)
                    if new is not None:
                        self.found[composite.name] = self.found.get(composite.name, 0) + 1
                        return new
        return eqn

    def admitted(self, composite: Composite, dtype: str) -> bool:
        mode = self.normalization if composite.normalization else "prefer_native"
        return admits(mode, composite.name, dtype, self.opset)

    def _try(
        self,
        composite: Composite,
        reference: Callable[..., Any],
        variant: Variant,
        candidate: Candidate,
        covered: set[Var],
    ) -> Eqn | None:
        pattern = _pattern(reference, variant)
        if pattern is None:
            return None
        bound = unify(pattern, candidate.root, candidate.makers)
        if bound is None or any(v not in bound for v in pattern.program.inputs):
            return None
        operands = [bound[v] for v in pattern.program.inputs]
        accepted = composite.bind(operands, dict(variant.params))
        if accepted is None:
            return None
        covered.update(interior(pattern, bound))
        inputs, params = accepted
        return Eqn(composite.name, tuple(inputs), candidate.root.outputs, params, candidate.root.site)


def raise_composites(program: Program, *, opset: int, normalization: NormalizationMode = "auto") -> Program:
    """Replace every pattern that a composite covers, the largest composites first.

    Args:
        normalization: where native normalization operators may be used.
    """
    usable = [c for c in COMPOSITES.values() if c.min_opset <= opset <= c.max_opset]
    present = {e.primitive for e in program.walk()}
    program = _rewritten(program, REWRITES, present)
    by_root: dict[str, list[Composite]] = {}
    for c in usable:
        if c.anchor in present:
            for root in c.root:
                by_root.setdefault(root, []).append(c)
    if by_root:
        program = drop_dead(_Raiser(by_root, opset, normalization).run(program, {}))
    return _rewritten(program, LATE_REWRITES, present)
