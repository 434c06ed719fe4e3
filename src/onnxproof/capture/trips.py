"""Step through a Program: its values, and one pass after the other through the bodies of its loops and branches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np

from onnxproof.capture.evaluate import Evaluator, Values, dimensions, enough_bits, evaluate, widened
from onnxproof.capture.program import Atom, Eqn, Program, Var

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Level:
    """One pass through a program or through a body in it.

    Attributes:
        label: ``iteration 3`` (counted along the scanned axis), ``branch 1``; empty for a whole program.
        count: passes through the same body before this one.
        live: of a loop mapped over a batch, the elements that go on.
        inputs: the Vars that the body is given.
        eqns: what is computed, in order.
        values: of every Var in sight, those that the body captures included.
        oracle: the same in float64. In a body it starts from the same inputs, so that it has no part in
            rounding further up.
    """

    label: str
    count: int
    live: Array | None
    inputs: tuple[Var, ...]
    eqns: tuple[Eqn, ...]
    values: Mapping[Var, Array]
    oracle: Mapping[Var, Array]
    sizes: Mapping[str, int]

    def read(self, atom: Atom) -> Array:
        """The value of an atom."""
        return self.values[atom] if isinstance(atom, Var) else np.asarray(atom.value, atom.aval.dtype)


def whole(program: Program, inputs: Sequence[Any]) -> Level:
    """The pass through a program at ``inputs``, one array for each, keys as words.

    Raises:
        UnsupportedPrimitive: an equation applies a primitive that JAX does not make public.
    """
    arrays = [np.asarray(x) for x in inputs]
    given = dict(zip(program.inputs, arrays, strict=True)) | {
        v: np.asarray(p.array) for v, p in program.params.items()
    }
    values, oracle = (given | evaluate(program, arrays, double=double) for double in (False, True))
    sizes = dimensions(program, arrays)
    return Level("", 0, None, program.inputs, program.eqns, values, oracle, sizes)


def passes(level: Level, eqn: Eqn) -> Iterator[Level]:
    """The passes through the bodies of one of the equations of ``level``; none for those without bodies."""
    step = {"scan": _scan, "while": _while, "cond": _cond}.get(eqn.primitive)
    if step is not None:
        yield from step(level, eqn)


def _scan(level: Level, eqn: Eqn) -> Iterator[Level]:
    p = eqn.params
    body: Program = p["body"]
    length = Evaluator(level.sizes, False).dim(p["length"])
    carried = p["num_carry"]
    operands = [level.read(a) for a in eqn.inputs]
    carry, xs = operands[:carried], operands[carried:]
    run = _Body(body, level.values, level.sizes)
    for count in range(length):
        i = length - 1 - count if p["reverse"] else count
        values, oracle = run([*carry, *(x[i] for x in xs)])
        here = Level(f"iteration {i}", count, None, body.inputs, body.eqns, values, oracle, level.sizes)
        yield here
        carry = [here.read(a) for a in body.outputs[:carried]]


def _while(level: Level, eqn: Eqn) -> Iterator[Level]:
    """Each pass ends by asking on its results whether there is another: those equations belong to it."""
    body: Program = eqn.params["body"]
    cond: Program = eqn.params["cond"]
    run, ask = (_Body(p, level.values, level.sizes) for p in (body, cond))
    carry = [level.read(a) for a in eqn.inputs]
    asked, _ = ask(carry)
    live = _read(cond.outputs[0], asked)
    count = 0
    while live.any():
        values, oracle = run(carry)
        new = [_read(a, values) for a in body.outputs]
        carry = [np.where(_over(live, n), n, o) for n, o in zip(new, carry, strict=True)]
        asked, asked_wide = ask(carry)
        yield Level(
            f"iteration {count}",
            count,
            live if live.ndim else None,
            body.inputs,
            (*body.eqns, *cond.eqns),
            {**asked, **values},
            {**asked_wide, **oracle},
            level.sizes,
        )
        live = _read(cond.outputs[0], asked)
        count += 1


def _cond(level: Level, eqn: Eqn) -> Iterator[Level]:
    branches: Sequence[Program] = eqn.params["branches"]
    chosen = int(np.clip(level.read(eqn.inputs[0]).astype(np.int64), 0, len(branches) - 1))
    branch = branches[chosen]
    values, oracle = _Body(branch, level.values, level.sizes)([])
    yield Level(f"branch {chosen}", 0, None, (), branch.eqns, values, oracle, level.sizes)


def _read(atom: Atom, values: Mapping[Var, Array]) -> Array:
    return values[atom] if isinstance(atom, Var) else np.asarray(atom.value, atom.aval.dtype)


def _over(live: Array, value: Array) -> Array:
    """``live`` with axes of size 1 behind, as many as ``value`` has more."""
    return live.reshape((*live.shape, *(1,) * (value.ndim - live.ndim)))


class _Body:
    """Runs a program on values that it captures and is given, as it is and in float64; compiled once for each."""

    def __init__(self, program: Program, outer: Mapping[Var, Array], sizes: Mapping[str, int]) -> None:
        self._program = program
        self._outer = outer
        self._captured = program.captured()
        self._made = [v for eqn in program.eqns for v in eqn.outputs]
        self._sizes = sizes
        self._runs: dict[bool, Callable[..., list[Any]]] = {
            double: jax.jit(partial(self._run, double)) for double in (False, True)
        }

    def __call__(self, arguments: Sequence[Any]) -> tuple[dict[Var, Array], dict[Var, Array]]:
        return self._values(arguments, False), self._values(arguments, True)

    def _values(self, arguments: Sequence[Any], double: bool) -> dict[Var, Array]:
        given = [*(self._outer[v] for v in self._captured), *map(np.asarray, arguments)]
        with enough_bits(self._program, double):
            made = self._runs[double](*(widened(x, double) for x in given))
            found = dict(zip(self._made, map(np.asarray, made), strict=True))
        return {
            **self._outer,
            **dict(zip(self._program.inputs, map(np.asarray, arguments), strict=True)),
            **found,
        }

    def _run(self, double: bool, *arrays: Any) -> list[Any]:
        values: Values = dict(zip((*self._captured, *self._program.inputs), arrays, strict=True))
        Evaluator(self._sizes, double).run(self._program, values)
        return [values[v] for v in self._made]
