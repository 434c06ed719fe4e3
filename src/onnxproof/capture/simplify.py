"""Clean-up of a Program: dead and duplicate equations, and what control flow does not need."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from onnxproof.capture import loops
from onnxproof.capture.program import Atom, Eqn, Lit, Program, Var


def drop_dead(program: Program) -> Program:
    """Remove the equations, also inside bodies, whose results nothing uses, and the weights only they used."""
    used: set[Var] = set()
    out = _drop(program, used)
    params = {v: p for v, p in program.params.items() if v in used}
    return replace(out, params=params)


def _drop(program: Program, used: set[Var]) -> Program:
    used.update(a for a in program.outputs if isinstance(a, Var))
    kept: list[Eqn] = []
    for eqn in reversed(program.eqns):
        if not any(v in used for v in eqn.outputs):
            continue
        eqn = loops.prune(eqn, used)
        used.update(a for a in eqn.inputs if isinstance(a, Var))
        kept.append(map_bodies(eqn, lambda body: _drop(body, used)))
    return replace(program, eqns=tuple(reversed(kept)))


def map_bodies(eqn: Eqn, fn: Callable[[Program], Program]) -> Eqn:
    """The equation with each of its bodies replaced."""
    if not eqn.has_bodies:
        return eqn

    def convert(value: Any) -> Any:
        if isinstance(value, Program):
            return fn(value)
        if isinstance(value, tuple) and any(isinstance(v, Program) for v in value):
            return tuple(convert(v) for v in value)
        return value

    return replace(eqn, params={k: convert(v) for k, v in eqn.params.items()})


def merge_equal(program: Program) -> Program:
    """Compute each value once: equations with equal primitive, operands and parameters are merged."""
    return _merge(program, {}, {})


def _merge(program: Program, seen: Mapping[Hashable, tuple[Var, ...]], env: Mapping[Var, Atom]) -> Program:
    local, names = dict(seen), dict(env)
    made_by: dict[Var, Eqn] = {}
    eqns: list[Eqn] = []
    for eqn in program.eqns:
        inputs = tuple(names.get(a, a) if isinstance(a, Var) else a for a in eqn.inputs)
        bodies = eqn.has_bodies
        key = None if bodies else _key(eqn, inputs)
        same = local.get(key) if key is not None else None
        if same is not None:
            names.update(zip(eqn.outputs, same, strict=True))
            continue
        if key is not None:
            local[key] = eqn.outputs
        new = loops.predicate(replace(eqn, inputs=inputs), made_by)
        if bodies:
            names.update(loops.constants(new))
            # The body of a function is the same wherever it is called: it shares nothing with its caller.
            outer = {} if eqn.primitive == "function" else local
            new = map_bodies(new, lambda body, outer=outer: _merge(body, outer, names))  # type: ignore[misc]
        made_by.update(dict.fromkeys(new.outputs, new))
        eqns.append(new)
    outputs = tuple(names.get(a, a) if isinstance(a, Var) else a for a in program.outputs)
    return replace(program, eqns=tuple(eqns), outputs=outputs)


def _key(eqn: Eqn, inputs: tuple[Atom, ...]) -> Hashable | None:
    atoms = tuple(_atom_key(a) for a in inputs)
    params = tuple(sorted((k, freeze(v)) for k, v in eqn.params.items()))
    key = (eqn.primitive, atoms, params, tuple(v.aval for v in eqn.outputs))
    try:
        hash(key)
    except TypeError:
        return None
    return key


def _atom_key(atom: Atom) -> Hashable:
    if isinstance(atom, Lit):
        return (atom.aval, np.ascontiguousarray(atom.value).tobytes())
    return id(atom)


def freeze(value: Any) -> Hashable:
    """A parameter as something that equal parameters equal."""
    if isinstance(value, np.ndarray):
        return (value.shape, str(value.dtype), value.tobytes())
    if isinstance(value, (int, float, bool, str, type(None))):
        return (type(value).__name__, repr(value))
    return (type(value).__name__, value)
