"""Move out of loops what need not be in them.

* What depends on nothing that changes from trip to trip is computed once, before the loop.
* What depends on the scanned inputs alone, such as the input projection of a recurrent cell, is computed
  before the scan for all trips at once.
* What no later trip needs, such as the output projection, is computed after the scan for all trips at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from onnxproof.capture.batching import batch, computes, with_axis
from onnxproof.capture.program import Atom, Dim, Eqn, Program, SymDim, Var
from onnxproof.capture.simplify import drop_dead, map_bodies, merge_equal

_SWELL = 16  # times as many elements out as in: more only while the stack is small
_MAX_STACK = 1 << 22  # elements that a sunk equation may stack where it reads more than it gives


def hoist(program: Program) -> Program:
    """The program with smaller loop bodies; every value is computed as before, some earlier or later."""
    if not any(eqn.has_bodies for eqn in program.eqns):
        return program
    return drop_dead(merge_equal(_hoist(program)))


def _hoist(program: Program) -> Program:
    eqns: list[Eqn] = []
    for eqn in program.eqns:
        if not eqn.has_bodies:
            eqns.append(eqn)
            continue
        eqn = map_bodies(eqn, _hoist)
        if eqn.primitive in ("scan", "while"):
            eqns += _out_of_loop(eqn)
        else:
            eqns.append(eqn)
    return replace(program, eqns=tuple(eqns))


def _out_of_loop(eqn: Eqn) -> list[Eqn]:
    """The loop and what is moved out of it, in order."""
    before, eqn = _invariants(eqn)
    if eqn.primitive == "while" or eqn.params["length"] in (0, 1):
        return [*before, eqn]
    early, eqn = _early(eqn)
    eqn, late = _late(eqn)
    return [*before, *early, eqn, *late]


def _invariants(eqn: Eqn) -> tuple[list[Eqn], Eqn]:
    """What depends on no operand of the bodies, and the loop without it."""
    moved: list[Eqn] = []

    def strip(body: Program) -> Program:
        changing: set[Var] = set(body.inputs)
        kept: list[Eqn] = []
        for inner in body.eqns:
            if _reads(inner) & changing or inner.primitive in _STAYING:
                changing.update(inner.outputs)
                kept.append(inner)
            else:
                moved.append(inner)
        return replace(body, eqns=tuple(kept))

    eqn = map_bodies(eqn, strip)
    return moved, eqn


# A constant that is filled in costs nothing inside a body, and memory outside; loops may never be entered.
_STAYING = frozenset({"broadcast_in_dim", "iota", "while", "scan", "cond", "function"})


def _reads(eqn: Eqn) -> set[Var]:
    used = {a for a in eqn.inputs if isinstance(a, Var)}
    for body in eqn.bodies():
        used.update(body.captured())
    return used


def _early(eqn: Eqn) -> tuple[list[Eqn], Eqn]:
    """What depends on scanned inputs alone, batched; and the scan, which scans over its results instead."""
    body, n, length = eqn.params["body"], eqn.params["num_carry"], eqn.params["length"]
    inside = {v for e in body.eqns for v in e.outputs}
    batching = _Batching(length, dict(zip(body.inputs[n:], eqn.inputs[n:], strict=True)))
    fixed = {*body.inputs[:n]}
    for inner in body.eqns:
        reads = _reads(inner)
        free = not any(v in fixed for v in reads) and any(v in batching.stacks for v in reads)
        if not (free and not _swells(inner, batching) and batching.take(inner, inside)):
            fixed.update(inner.outputs)
    taken = _working(batching.taken)
    if not taken:
        return [], eqn
    kept = [e for e in body.eqns if e not in taken]
    gone = {v for e in taken for v in e.outputs}
    frontier = _used(kept, body.outputs) & gone
    order = [v for e in taken for v in e.outputs if v in frontier]
    inner_xs = [Var(v.aval) for v in order]
    renamed = dict(zip(order, inner_xs, strict=True))
    small = replace(
        body,
        inputs=(*body.inputs, *inner_xs),
        eqns=tuple(_renamed(e, renamed) for e in kept),
        outputs=tuple(_read(a, renamed) for a in body.outputs),
    )
    xs: list[Atom] = [batching.stacks[v] for v in order]
    moved = [e for t in taken for e in batching.equations[t]]
    return moved, replace(eqn, inputs=(*eqn.inputs, *xs), params={**eqn.params, "body": small})


def _swells(eqn: Eqn, batching: _Batching) -> bool:
    """Whether the results for all trips take far more memory than what they are computed from."""
    if not isinstance(batching.length, int):
        return False
    sizes = [v.aval.size for v in eqn.outputs]
    read = [a.aval.size for a in eqn.inputs if isinstance(a, Var) and a in batching.stacks]
    if any(s is None for s in (*sizes, *read)):
        return False
    out, source = (sum(s for s in part if s is not None) for part in (sizes, read))
    return out > _SWELL * max(source, 1) and out * batching.length > _MAX_STACK


def sink(eqn: Eqn) -> tuple[Eqn, list[Eqn]]:
    """The scan without what no later trip needs, whatever memory the stacks for that take."""
    return _late(eqn, at_any_price=True)


def _late(eqn: Eqn, at_any_price: bool = False) -> tuple[Eqn, list[Eqn]]:
    """The scan without what no later trip needs, and that part, batched over stacks of what it reads."""
    body, n, length = eqn.params["body"], eqn.params["num_carry"], eqn.params["length"]
    needed = _ancestors(body, body.outputs[:n])
    late = [e for e in body.eqns if not any(v in needed for v in e.outputs)]
    batching, readable, late = _sunk(body, late, length)
    if not any(computes(e) for e in late):
        return eqn, []
    made_late = {v for e in late for v in e.outputs}
    ys = [i for i in range(n, len(body.outputs)) if body.outputs[i] in made_late]
    if not at_any_price and not _pays(readable, [body.outputs[i] for i in ys], length):
        return eqn, []
    xs = dict(zip(body.inputs[n:], eqn.inputs[n:], strict=True))
    batching.rename({readable[v]: xs[v] for v in readable if v in xs})
    stacked = [v for v in readable if v not in xs]
    keep = [i for i in range(len(body.outputs)) if i not in ys]
    outputs = (*(eqn.outputs[i] for i in keep), *(readable[v] for v in stacked))
    small = replace(
        body,
        eqns=tuple(e for e in body.eqns if e not in late),
        outputs=(*(body.outputs[i] for i in keep), *stacked),
    )
    scan = replace(eqn, outputs=outputs, params={**eqn.params, "body": small})
    results = {batching.stacks[body.outputs[i]]: eqn.outputs[i] for i in ys}
    return scan, batching.finished(late, results)


def _sunk(body: Program, late: list[Eqn], length: Dim) -> tuple[_Batching, dict[Var, Var], list[Eqn]]:
    """What of ``late`` can be batched, and a Var for the stack of each value that it reads from the body."""
    inside = {v for e in body.eqns for v in e.outputs}
    while True:
        made = {v for e in late for v in e.outputs}
        read = [v for e in late for v in e.inputs if isinstance(v, Var)]
        own = [v for v in dict.fromkeys(read) if v not in made and (v in inside or v in body.inputs)]
        readable = {v: Var(with_axis(v.aval, length)) for v in own}
        batching = _Batching(length, dict(readable))
        stuck = next((e for e in late if not batching.take(e, inside)), None)
        if stuck is None:
            return batching, readable, late
        stay = _ancestors(body, stuck.outputs)
        late = [e for e in late if not any(v in stay for v in e.outputs)]


def _pays(read: Iterable[Var], given: Sequence[Atom], length: Dim) -> bool:
    """Whether stacking what is read takes no more memory than its results do, or little."""
    sizes = [v.aval.size for v in read], [a.aval.size for a in given]
    if any(s is None for part in sizes for s in part):
        return False
    inputs, outputs = (sum(s for s in part if s is not None) for part in sizes)
    total = None if isinstance(length, SymDim) else inputs * length
    return inputs <= outputs or (total is not None and total <= _MAX_STACK)


@dataclass(slots=True)
class _Batching:
    """Equations of a body that are computed for all trips at once."""

    length: Dim
    stacks: dict[Var, Atom]  # a value of the body → the same for all trips
    taken: list[Eqn] = field(default_factory=list)
    equations: dict[Eqn, list[Eqn]] = field(default_factory=dict)

    def take(self, eqn: Eqn, inside: Collection[Var]) -> bool:
        """Batch an equation whose operands have stacks or come from outside; False when that can't be."""
        flags = [isinstance(a, Var) and a in self.stacks for a in eqn.inputs]
        if eqn.has_bodies or not any(flags):
            return False
        if any(isinstance(a, Var) and a in inside and not f for a, f in zip(eqn.inputs, flags, strict=True)):
            return False
        inputs = tuple(self.stacks[a] if f else a for a, f in zip(eqn.inputs, flags, strict=True))  # type: ignore[index]
        made = batch(eqn, inputs, flags, self.length)
        if made is None:
            return False
        self.taken.append(eqn)
        self.equations[eqn] = made
        self.stacks.update(zip(eqn.outputs, made[-1].outputs, strict=True))
        return True

    def rename(self, names: dict[Var, Atom]) -> None:
        """Let the batched equations read other atoms."""
        for eqn, made in self.equations.items():
            self.equations[eqn] = [replace(m, inputs=tuple(_read(a, names) for a in m.inputs)) for m in made]

    def finished(self, order: Sequence[Eqn], results: dict[Atom, Var]) -> list[Eqn]:
        """The batched equations in order, with the given Vars as their results."""
        out = []
        for eqn in order:
            for made in self.equations[eqn]:
                outputs = tuple(results.get(v, v) for v in made.outputs)
                inputs = tuple(results.get(a, a) for a in made.inputs)
                out.append(replace(made, inputs=inputs, outputs=outputs))
        return out


def _working(candidates: Sequence[Eqn]) -> list[Eqn]:
    """The candidates that compute something, and those that only move data for them."""
    needed: set[Var] = set()
    kept: list[Eqn] = []
    for eqn in reversed(candidates):
        if computes(eqn) or any(v in needed for v in eqn.outputs):
            kept.append(eqn)
            needed |= _reads(eqn)
    return kept[::-1]


def _ancestors(body: Program, outputs: Sequence[Atom]) -> set[Var]:
    needed = {a for a in outputs if isinstance(a, Var)}
    for eqn in reversed(body.eqns):
        if any(v in needed for v in eqn.outputs):
            needed |= _reads(eqn)
    return needed


def _used(eqns: Iterable[Eqn], outputs: Iterable[Atom]) -> set[Var]:
    used = {a for a in outputs if isinstance(a, Var)}
    for eqn in eqns:
        used |= _reads(eqn)
    return used


def _read(atom: Atom, names: dict[Var, Var] | dict[Var, Atom]) -> Atom:
    return names.get(atom, atom) if isinstance(atom, Var) else atom


def _renamed(eqn: Eqn, names: dict[Var, Var]) -> Eqn:
    """The equation, its bodies included, with other operands."""
    eqn = replace(eqn, inputs=tuple(_read(a, names) for a in eqn.inputs))

    def inner(body: Program) -> Program:
        return replace(
            body,
            eqns=tuple(_renamed(e, names) for e in body.eqns),
            outputs=tuple(_read(a, names) for a in body.outputs),
        )

    return map_bodies(eqn, inner)
