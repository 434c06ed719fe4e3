"""Control flow without dead and constant carries, unused stacks and roundabout predicates."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from onnxproof.capture.program import Atom, Eqn, Lit, Program, Var


def prune(eqn: Eqn, used: Collection[Var]) -> Eqn:
    """The equation without the results that nothing uses, nor the operands that only they needed."""
    match eqn.primitive:
        case "scan":
            return _prune_scan(eqn, used)
        case "while":
            return _prune_while(eqn, used)
        case "cond" | "function":
            keep = [i for i, v in enumerate(eqn.outputs) if v in used]
            return _keep_outputs(eqn, keep)
    return eqn


def _needed(program: Program, outputs: Sequence[int]) -> set[Var]:
    """The Vars from which the given outputs of a body are computed."""
    needed = {a for i in outputs if isinstance(a := program.outputs[i], Var)}
    for eqn in reversed(program.eqns):
        if any(v in needed for v in eqn.outputs):
            needed.update(a for a in eqn.inputs if isinstance(a, Var))
            for body in eqn.bodies():
                needed.update(body.captured())
    return needed


def _live_carries(body: Program, live: set[int], num_carry: int, more: set[int]) -> set[int]:
    """Close ``live`` under need: a carry lives when a living output of the next trip is computed from it."""
    while True:
        needed = _needed(body, sorted(live | more))
        grown = live | {i for i in range(num_carry) if body.inputs[i] in needed}
        if grown == live:
            return live
        live = grown


def _prune_scan(eqn: Eqn, used: Collection[Var]) -> Eqn:
    body, n = eqn.params["body"], eqn.params["num_carry"]
    out = {i for i, v in enumerate(eqn.outputs) if v in used}
    carries = _live_carries(body, {i for i in out if i < n}, n, {i for i in out if i >= n})
    outs = sorted(carries | {i for i in out if i >= n})
    needed = _needed(body, outs)
    ins = sorted(carries | {i for i in range(n, len(body.inputs)) if body.inputs[i] in needed})
    if len(outs) == len(eqn.outputs) and len(ins) == len(eqn.inputs):
        return eqn
    small = replace(body, inputs=_at(body.inputs, ins), outputs=_at(body.outputs, outs))
    params = {**eqn.params, "body": small, "num_carry": len(carries)}
    return replace(eqn, inputs=_at(eqn.inputs, ins), outputs=_at(eqn.outputs, outs), params=params)


def _prune_while(eqn: Eqn, used: Collection[Var]) -> Eqn:
    body, cond = eqn.params["body"], eqn.params["cond"]
    n = len(eqn.outputs)
    asked = _needed(cond, [0])
    live = {i for i in range(n) if eqn.outputs[i] in used or cond.inputs[i] in asked}
    keep = sorted(_live_carries(body, live, n, set()))
    if len(keep) == n:
        return eqn
    params = {
        **eqn.params,
        "body": replace(body, inputs=_at(body.inputs, keep), outputs=_at(body.outputs, keep)),
        "cond": replace(cond, inputs=_at(cond.inputs, keep)),
    }
    return replace(eqn, inputs=_at(eqn.inputs, keep), outputs=_at(eqn.outputs, keep), params=params)


def _keep_outputs(eqn: Eqn, keep: Sequence[int]) -> Eqn:
    if len(keep) == len(eqn.outputs):
        return eqn

    def cut(value: Any) -> Any:
        if isinstance(value, Program):
            return replace(value, outputs=_at(value.outputs, keep))
        return tuple(map(cut, value)) if isinstance(value, tuple) else value

    params = {k: cut(v) for k, v in eqn.params.items()}
    return replace(eqn, outputs=_at(eqn.outputs, keep), params=params)


def _at(items: Sequence[Any], positions: Sequence[int]) -> tuple[Any, ...]:
    return tuple(items[i] for i in positions)


def constants(eqn: Eqn) -> Mapping[Var, Atom]:
    """What can be read in place of Vars: carries that never change, results in which all branches agree."""
    match eqn.primitive:
        case "scan":
            return {**_constant_carries(eqn), **_passed_through(eqn)}
        case "while":
            return _constant_carries(eqn)
        case "cond":
            bodies = eqn.params["branches"]
            columns = zip(*(b.outputs for b in bodies), strict=True)
            inside = {v for b in bodies for e in b.eqns for v in e.outputs}
            return {
                out: atoms[0]
                for out, atoms in zip(eqn.outputs, columns, strict=True)
                if isinstance(atoms[0], Var) and all(a is atoms[0] for a in atoms) and atoms[0] not in inside
            }
    return {}


def _constant_carries(eqn: Eqn) -> Mapping[Var, Atom]:
    bodies = list(eqn.bodies())
    body = eqn.params["body"]
    found: dict[Var, Atom] = {}
    for i, result in enumerate(body.outputs[: eqn.params.get("num_carry")]):
        if result is body.inputs[i]:
            found[eqn.outputs[i]] = eqn.inputs[i]
            found.update((b.inputs[i], eqn.inputs[i]) for b in bodies)
    return found


def _passed_through(eqn: Eqn) -> Mapping[Var, Atom]:
    """Stacks that are what is scanned over."""
    body, n = eqn.params["body"], eqn.params["num_carry"]
    xs = dict(zip(body.inputs[n:], eqn.inputs[n:], strict=True))
    return {
        out: xs[result]
        for out, result in zip(eqn.outputs[n:], body.outputs[n:], strict=True)
        if isinstance(result, Var) and result in xs
    }


def predicate(eqn: Eqn, made_by: Mapping[Var, Eqn]) -> Eqn:
    """A ``cond`` that asks the boolean itself, and no index that was clamped just for it."""
    if eqn.primitive != "cond":
        return eqn
    (index,) = eqn.inputs
    source = made_by.get(index) if isinstance(index, Var) else None
    last = len(eqn.params["branches"]) - 1
    if source is not None and source.primitive == "clamp":
        low, x, high = source.inputs
        if _is(low, 0) and _is(high, last):
            return predicate(replace(eqn, inputs=(x,)), made_by)
    if (
        source is not None
        and source.primitive == "convert_element_type"
        and source.inputs[0].aval.dtype == np.bool_
        and last == 1
    ):
        return replace(eqn, inputs=(source.inputs[0],))
    return eqn


def _is(atom: Atom, value: int) -> bool:
    return isinstance(atom, Lit) and atom.value.ndim == 0 and int(atom.value) == value
