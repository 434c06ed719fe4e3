"""Scans over stacked weights, such as the layers of a deep network, as one layer after another.

Every layer then reads a weight of its own: ONNX Runtime packs it once, folds what it can into it and sees patterns
across layers, none of which it does inside the body of a Scan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from onnxproof.capture.program import Atom, Aval, Eqn, Lit, Param, Program, Var
from onnxproof.capture.simplify import map_bodies

UnrollScans = Literal["auto", "always", "never"]

# benchmarks/unrolling.py: the file and its load time grow with every trip, what is gained per trip does not.
_MAX_TRIPS = 64
_MAX_EQUATIONS = 8192


def unroll(program: Program, choice: UnrollScans) -> Program:
    """The program without the scans that are better spelled out.

    Args:
        choice: ``"auto"`` takes scans of known length over weights that are matrices or larger in each trip, up to
            a size; ``"always"`` every scan of known length; ``"never"`` none.
    """
    if choice == "never" or not any(eqn.has_bodies for eqn in program.eqns):
        return program
    return _Unroller(program, choice == "always").run(program)


class _Unroller:
    def __init__(self, program: Program, always: bool) -> None:
        self.always = always
        self.params = dict(program.params)
        self.uses: Counter[Var] = Counter()
        self.uses.update(a for a in program.outputs if isinstance(a, Var))
        for eqn in program.walk():
            read = [*eqn.inputs, *(a for body in eqn.bodies() for a in body.outputs)]
            self.uses.update(a for a in read if isinstance(a, Var))

    def run(self, program: Program) -> Program:
        unrolled = self.program(program)
        return replace(unrolled, params=self.params)

    def program(self, program: Program) -> Program:
        eqns: list[Eqn] = []
        known: dict[Var, Atom] = {}
        for eqn in program.eqns:
            eqn = map_bodies(_renamed(eqn, known), self.program)
            if eqn.primitive == "scan" and self.wanted(eqn):
                known.update(zip(eqn.outputs, self.unrolled(eqn, eqns), strict=True))
            else:
                eqns.append(eqn)
        outputs = tuple(_read(a, known) for a in program.outputs)
        return replace(program, eqns=tuple(eqns), outputs=outputs)

    def wanted(self, eqn: Eqn) -> bool:
        length, body = eqn.params["length"], eqn.params["body"]
        if not isinstance(length, int) or length < 2:
            return False
        if self.always:
            return True
        stacked = [x for x in eqn.inputs[eqn.params["num_carry"] :] if x in self.params]
        if not any(x.aval.ndim > 2 for x in stacked) or length > _MAX_TRIPS:
            return False
        return length * sum(1 for _ in body.walk()) <= _MAX_EQUATIONS

    def unrolled(self, eqn: Eqn, eqns: list[Eqn]) -> Sequence[Atom]:
        """The results; what computes them is added to ``eqns``."""
        body, n, length = eqn.params["body"], eqn.params["num_carry"], eqn.params["length"]
        carry, xs = list(eqn.inputs[:n]), eqn.inputs[n:]
        ys: list[Sequence[Atom]] = []
        for trip in reversed(range(length)) if eqn.params["reverse"] else range(length):
            parts = [self.part(x, trip, length, eqn, eqns) for x in xs]
            results = instantiate(body, [*carry, *parts], eqns)
            carry, stacked = list(results[:n]), results[n:]
            ys.append(stacked)
        if eqn.params["reverse"]:
            ys.reverse()
        stacks = [
            _stack(column, out, eqn, eqns)
            for column, out in zip(zip(*ys, strict=True), eqn.outputs[n:], strict=True)
        ]
        return [*carry, *stacks]

    def part(self, x: Atom, trip: int, length: int, eqn: Eqn, eqns: list[Eqn]) -> Atom:
        """What a trip reads of a stack: of a weight that only this scan reads, a weight of its own."""
        aval = Aval(x.aval.shape[1:], x.aval.dtype)
        param = self.params.get(x) if isinstance(x, Var) else None
        if param is not None and self.uses[x] == 1:  # type: ignore[index]  # x is a Var there
            out = Var(aval)
            # NumPy's view of a JAX array on the CPU shares its memory.
            self.params[out] = Param(
                f"{param.name}.{trip}",
                np.asarray(param.array)[trip],
                tuple(f"{a}.{trip}" for a in param.aliases),
            )
            if trip == (0 if eqn.params["reverse"] else length - 1):
                del self.params[x]  # type: ignore[arg-type]
            return out
        row, out = Var(Aval((1, *aval.shape), aval.dtype)), Var(aval)
        rest = x.aval.shape[1:]
        cut = {
            "start_indices": (trip, *(0 for _ in rest)),
            "limit_indices": (trip + 1, *rest),
            "strides": None,
        }
        eqns.append(Eqn("slice", (x,), (row,), cut, eqn.site))
        eqns.append(Eqn("squeeze", (row,), (out,), {"dimensions": (0,)}, eqn.site))
        return out


def _stack(column: Sequence[Atom], out: Var, eqn: Eqn, eqns: list[Eqn]) -> Atom:
    rows = []
    for y in column:
        row = Var(Aval((1, *y.aval.shape), y.aval.dtype))
        params = {"new_sizes": row.aval.shape, "dimensions": None, "sharding": None}
        eqns.append(Eqn("reshape", (y,), (row,), params, eqn.site))
        rows.append(row)
    whole = Var(out.aval)
    eqns.append(Eqn("concatenate", tuple(rows), (whole,), {"dimension": 0}, eqn.site))
    return whole


def instantiate(program: Program, operands: Sequence[Atom], eqns: list[Eqn]) -> Sequence[Atom]:
    """The results of a body at ``operands``; copies of its equations, with Vars of their own, go to ``eqns``."""
    known: dict[Var, Atom] = dict(zip(program.inputs, operands, strict=True))
    return _copied(program, known, eqns)


def _copied(program: Program, known: dict[Var, Atom], eqns: list[Eqn]) -> Sequence[Atom]:
    for eqn in program.eqns:
        outputs = tuple(Var(v.aval) for v in eqn.outputs)
        inputs = tuple(_read(a, known) for a in eqn.inputs)
        copy = map_bodies(eqn, lambda body: _body(body, dict(known)))
        eqns.append(replace(copy, inputs=inputs, outputs=outputs))
        known.update(zip(eqn.outputs, outputs, strict=True))
    return [_read(a, known) for a in program.outputs]


def _body(body: Program, known: dict[Var, Atom]) -> Program:
    inputs = tuple(Var(v.aval) for v in body.inputs)
    known.update(zip(body.inputs, inputs, strict=True))
    eqns: list[Eqn] = []
    outputs = _copied(body, known, eqns)
    return replace(body, inputs=inputs, eqns=tuple(eqns), outputs=tuple(outputs))


def _renamed(eqn: Eqn, known: Mapping[Var, Atom]) -> Eqn:
    """The equation reading what stands for the results of scans that are gone."""
    if not known:
        return eqn
    eqn = map_bodies(eqn, lambda body: _renamed_body(body, known))
    return replace(eqn, inputs=tuple(_read(a, known) for a in eqn.inputs))


def _renamed_body(body: Program, known: Mapping[Var, Atom]) -> Program:
    eqns = tuple(_renamed(e, known) for e in body.eqns)
    return replace(body, eqns=eqns, outputs=tuple(_read(a, known) for a in body.outputs))


def _read(atom: Atom, known: Mapping[Var, Atom]) -> Atom:
    return atom if isinstance(atom, Lit) else known.get(atom, atom)
