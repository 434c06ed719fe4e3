"""Unification of a small reference program with a place in the user's program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from onnxproof.capture.program import Atom, Eqn, Lit, Program, Var

COMMUTATIVE = frozenset({"add", "add_any", "mul", "max", "min", "and", "or", "xor", "eq", "ne"})
Makers = Mapping[Var, Eqn]
Bindings = dict[Var, Atom]


@dataclass(frozen=True, slots=True, eq=False)
class Pattern:
    """A reference program with one result, ready to be unified."""

    program: Program
    makers: Makers
    root: Eqn

    @staticmethod
    def of(program: Program) -> Pattern | None:
        """The pattern of ``program``; None when its result is not one equation's only result."""
        (result,) = program.outputs
        makers = {v: e for e in program.eqns for v in e.outputs}
        if not isinstance(result, Var) or result not in makers:
            return None
        return Pattern(program, makers, makers[result])

    @property
    def size(self) -> int:
        return len(self.program.eqns)


def unify(pattern: Pattern, root: Eqn, makers: Makers) -> Bindings | None:
    """Bind every Var of the pattern so that its root becomes ``root``; None when they differ."""
    start = (pattern.root.outputs[0], root.outputs[0])
    return _unify(pattern, makers, [start], {})


def unify_results(program: Program, results: Sequence[Atom], makers: Makers) -> Bindings | None:
    """Bind every Var of a reference program so that its results become ``results``; None when they differ."""
    pattern = Pattern(program, {v: e for e in program.eqns for v in e.outputs}, program.eqns[-1])
    return _unify(pattern, makers, list(zip(program.outputs, results, strict=True)), {})


def _unify(
    pattern: Pattern, makers: Makers, todo: list[tuple[Atom, Atom]], bound: Bindings
) -> Bindings | None:
    while todo:
        ref, user = todo.pop()
        if isinstance(ref, Lit):
            if not (isinstance(user, Lit) and _same_literal(ref, user)):
                return None
            continue
        known = bound.get(ref)
        if known is not None:
            if known is user or _both_literal(known, user):
                continue
            return None
        if ref.aval != user.aval:
            return None
        eqn = pattern.makers.get(ref)
        bound[ref] = user
        if eqn is None:  # an operand of the composite
            continue
        other = makers.get(user) if isinstance(user, Var) else None
        if other is None or not _same_application(eqn, ref, other, user):
            return None
        if eqn.primitive in COMMUTATIVE and len(eqn.inputs) == 2:
            swapped = [*todo, *zip(eqn.inputs, reversed(other.inputs), strict=True)]
            first = _unify(pattern, makers, [*todo, *zip(eqn.inputs, other.inputs, strict=True)], dict(bound))
            return first if first is not None else _unify(pattern, makers, swapped, bound)
        todo.extend(zip(eqn.inputs, other.inputs, strict=True))
    return bound


def _same_application(eqn: Eqn, ref: Var, other: Eqn, user: Atom) -> bool:
    return (
        eqn.primitive == other.primitive
        and len(eqn.inputs) == len(other.inputs)
        and eqn.outputs.index(ref) == next(i for i, v in enumerate(other.outputs) if v is user)
        and _same_params(eqn.params, other.params)
    )


def _same_params(a: Mapping[str, object], b: Mapping[str, object]) -> bool:
    """Equal parameters; one that a release of JAX adds with the value None is the same as an absent one."""
    if any(isinstance(v, (Program, np.ndarray)) for v in a.values()):
        return False
    return all(a.get(k) == b.get(k) for k in {**a, **b})


def _same_literal(a: Lit, b: Lit) -> bool:
    return a.aval == b.aval and a.value.tobytes() == b.value.tobytes()


def _both_literal(a: Atom, b: Atom) -> bool:
    return isinstance(a, Lit) and isinstance(b, Lit) and _same_literal(a, b)


def above(root: Eqn, makers: Makers, limit: int = 40) -> Sequence[Eqn]:
    """``root`` and the equations that it rests on, nearest first, at most ``limit``."""
    queue, seen = [root], {id(root)}
    for eqn in queue:
        for atom in eqn.inputs:
            if type(atom) is Var and (maker := makers.get(atom)) is not None and id(maker) not in seen:
                seen.add(id(maker))
                queue.append(maker)
                if len(queue) == limit:
                    return queue
    return queue


def interior(pattern: Pattern, bound: Bindings) -> Sequence[Var]:
    """The user's Vars that the pattern computes, its result left out."""
    result = pattern.root.outputs[0]
    return [
        v for ref, v in bound.items() if ref in pattern.makers and ref is not result and isinstance(v, Var)
    ]
