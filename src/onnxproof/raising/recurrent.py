"""LSTM and GRU cells that are scanned over time, as ONNX's recurrent operators.

The reference is the cell between its pre-activations and its new state; what the pre-activations are is read by
:mod:`onnxproof.raising.affine`, since libraries cut the matrices and biases in many ways. Native operators are up
to 14 times faster than a Scan at small sizes; only a GRU of a large batch is slower (``benchmarks/raising.py``).

ONNX Runtime's kernels lose NaN where they add a bias. So a bias becomes one more row of the input's matrix, for an
input feature that is always 1, and the operand for biases stays empty.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp

from onnxproof.capture.hoist import sink
from onnxproof.capture.program import Atom, Aval, Eqn, Lit, Program, Var
from onnxproof.capture.trace import program_of
from onnxproof.raising.affine import Affine, Gated, NotAffine, Offset, Product, Roles, Term, constants
from onnxproof.raising.composite import rewrites
from onnxproof.raising.match import Bindings, Makers, unify_results

Cell = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Gate:
    """A pre-activation: a product with the input, one with the state, and biases.

    ``state_offsets`` are added to the product with the state before the reset gate multiplies it.
    """

    x: Product
    state: Product
    offsets: tuple[Offset, ...]
    state_offsets: tuple[Offset, ...] = ()


def _lstm_cell(i: jax.Array, o: jax.Array, f: jax.Array, g: jax.Array, c: jax.Array) -> Any:
    c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    return jax.nn.sigmoid(o) * jnp.tanh(c), c


def _gru_blend(z: jax.Array, n: jax.Array, h: jax.Array) -> jax.Array:
    z = jax.nn.sigmoid(z)
    return (1 - z) * jnp.tanh(n) + z * h


def _gru_step(z: jax.Array, n: jax.Array, h: jax.Array) -> jax.Array:
    n = jnp.tanh(n)
    return n + jax.nn.sigmoid(z) * (h - n)


def _gru_blend_flipped(z: jax.Array, n: jax.Array, h: jax.Array) -> jax.Array:
    z = jax.nn.sigmoid(z)
    return (1 - z) * h + z * jnp.tanh(n)


def _gru_step_flipped(z: jax.Array, n: jax.Array, h: jax.Array) -> jax.Array:
    return h + jax.nn.sigmoid(z) * (jnp.tanh(n) - h)


# Each with whether its update gate is 1 where the old state goes.
_GRU_CELLS = (
    (_gru_blend, False),
    (_gru_step, False),
    (_gru_blend_flipped, True),
    (_gru_step_flipped, True),
)


@lru_cache(maxsize=256)
def _reference(cell: Cell, state: Aval, operands: int) -> Program:
    return program_of(cell, (state,) * operands)


@dataclass(frozen=True, slots=True)
class _Scan:
    """A scan whose body may be a cell, with the means to read it."""

    eqn: Eqn
    body: Program
    carries: int
    makers: Makers
    affine: Affine

    @staticmethod
    def of(eqn: Eqn, makers: Makers, weights: Collection[Var]) -> _Scan:
        body, n = eqn.params["body"], eqn.params["num_carry"]
        inside = {**makers, **{v: e for e in _activations_last(body.eqns) for v in e.outputs}}
        stacks = dict(zip(body.inputs[n:], eqn.inputs[n:], strict=True))
        return _Scan(eqn, body, n, inside, Affine(inside, stacks, constants(inside, weights)))

    def cell(self, cell: Cell, results: Sequence[Atom], operands: int) -> list[Atom] | None:
        """What the operands of a reference cell are here."""
        program = _reference(cell, results[0].aval, operands)
        bound: Bindings | None = unify_results(program, results, self.makers)
        return None if bound is None else [bound[v] for v in program.inputs]

    def terms(self, atom: Atom, negative: bool = False) -> list[Term]:
        shape = atom.aval.shape
        roles: Roles = ("batch", "feature") if len(shape) == 2 else ("feature",)
        return self.affine.terms(atom, roles, (0, int(shape[-1])), negative)

    def gate(self, terms: Sequence[Term], state: Atom) -> Gate:
        """Terms that are one product with an input, one with ``state``, and offsets."""
        xs = [t for t in terms if isinstance(t, Product) and "time" in t.roles]
        states = [t for t in terms if isinstance(t, Product) and t.source is state]
        offsets = [t for t in terms if isinstance(t, Offset)]
        if len(xs) != 1 or len(states) != 1 or len(offsets) + 2 != len(terms):
            raise NotAffine
        return Gate(xs[0], states[0], tuple(offsets))


def _activations_last(eqns: Sequence[Eqn]) -> Iterator[Eqn]:
    """The equations; pieces of an activation are activations of pieces."""
    made = {v: e for e in eqns for v in e.outputs}
    for eqn in eqns:
        source = made.get(eqn.inputs[0]) if eqn.primitive == "split" else None  # type: ignore[arg-type]
        if source is None or source.primitive not in ("logistic", "tanh"):
            yield eqn
            continue
        pieces = tuple(Var(v.aval) for v in eqn.outputs)
        yield Eqn("split", source.inputs, pieces, eqn.params, eqn.site)
        for piece, out in zip(pieces, eqn.outputs, strict=True):
            yield Eqn(source.primitive, (piece,), (out,), source.params, source.site)


@rewrites("scan")
def recurrent(eqn: Eqn, makers: Makers, weights: Collection[Var], used: Collection[Var]) -> Sequence[Eqn]:
    """The equations in place of a scan: an LSTM or a GRU and what was in the loop beside it, or nothing."""
    carries = eqn.params["num_carry"]
    if carries not in (1, 2) or eqn.params["length"] == 0 or not _fits(eqn):
        return ()
    new = _native(eqn, makers, weights, used)
    if new is not None:
        return (new,)
    smaller, late = sink(eqn)
    if not late:
        return ()
    needed = {*used, *(a for e in late for a in e.inputs if isinstance(a, Var))}
    new = _native(smaller, makers, weights, needed)
    return () if new is None else (new, *late)


def _fits(eqn: Eqn) -> bool:
    """Whether the carry is that of a cell: one or two float32 vectors of a static, equal size, or batches of them."""
    states = [a.aval for a in eqn.inputs[: eqn.params["num_carry"]]]
    first = states[0]
    return (
        all(s == first for s in states)
        and first.dtype.name == "float32"
        and first.ndim in (1, 2)
        and isinstance(first.shape[-1], int)
        and 0 not in first.shape
    )


def _native(eqn: Eqn, makers: Makers, weights: Collection[Var], used: Collection[Var]) -> Eqn | None:
    scan = _Scan.of(eqn, makers, weights)
    try:
        return _gru(scan, used) if scan.carries == 1 else _lstm(scan, used)
    except NotAffine:
        return None


def _lstm(scan: _Scan, used: Collection[Var]) -> Eqn | None:
    for at, other in ((0, 1), (1, 0)):
        h, c = scan.body.inputs[at], scan.body.inputs[other]
        results = scan.body.outputs[at], scan.body.outputs[other]
        bound = scan.cell(_lstm_cell, results, 5)
        if bound is None or bound[4] is not c:
            continue
        gates = [scan.gate(scan.terms(a), h) for a in bound[:4]]
        start = (scan.eqn.inputs[at], scan.eqn.inputs[other])
        return _made("lstm", scan, gates, start, (at, other), used, {})
    return None


# From this batch and hidden size on, a GRU takes 1.05 to 1.2 times as long as its products in a Scan.
_LARGE_BATCH, _LARGE_HIDDEN = 64, 32


def _gru(scan: _Scan, used: Collection[Var]) -> Eqn | None:
    h, result = scan.body.inputs[0], scan.body.outputs[0]
    *batch, hidden = h.aval.shape
    if int(hidden) >= _LARGE_HIDDEN and any(isinstance(b, int) and b >= _LARGE_BATCH for b in batch):
        return None
    for cell, flipped in _GRU_CELLS:
        bound = scan.cell(cell, (result,), 3)
        if bound is None or bound[2] is not h:
            continue
        update = scan.gate(scan.terms(bound[0], negative=flipped), h)
        reset, new, before = _candidate(scan, bound[1], h)
        start = scan.eqn.inputs[:1]
        if before and not _is_zero(start[0], scan.makers):
            return None  # a reset gate of 0 times an infinite state is NaN, which the kernel does not give
        gates = (update, scan.gate(scan.terms(reset), h), new)
        return _made("gru", scan, gates, start, (0,), used, {"linear_before_reset": before})
    return None


def _candidate(scan: _Scan, atom: Atom, h: Atom) -> tuple[Atom, Gate, bool]:
    """(reset gate, candidate, whether the reset gate multiplies the product with the state, and not the state)."""
    terms = scan.terms(atom)
    gated = [t for t in terms if isinstance(t, Gated)]
    rest = [t for t in terms if not isinstance(t, Gated)]
    if len(gated) == 1:
        (inner,) = gated
        products = [t for t in inner.terms if isinstance(t, Product)]
        offsets = tuple(t for t in inner.terms if isinstance(t, Offset))
        gate = scan.gate([*rest, *products], h)
        if len(products) != 1 or products[0].source is not h or 1 + len(offsets) != len(inner.terms):
            raise NotAffine
        return inner.gate, Gate(gate.x, gate.state, gate.offsets, offsets), True
    for term in rest:
        maker = scan.makers.get(term.source) if isinstance(term, Product) else None  # type: ignore[arg-type]
        if isinstance(term, Product) and maker is not None and maker.primitive == "mul" and h in maker.inputs:
            factor = maker.inputs[1 - maker.inputs.index(h)]
            reset = scan.makers.get(factor) if isinstance(factor, Var) else None
            if reset is not None and reset.primitive == "logistic":
                return reset.inputs[0], scan.gate(rest, term.source), False
    raise NotAffine


def _is_zero(start: Atom, makers: Makers) -> bool:
    """Whether an initial state is a literal zero in every element."""
    eqn = makers.get(start) if isinstance(start, Var) else None
    value = eqn.inputs[0] if eqn is not None and eqn.primitive == "broadcast_in_dim" else start
    return isinstance(value, Lit) and not value.value.any()


def _made(
    name: str,
    scan: _Scan,
    gates: Sequence[Gate],
    start: Sequence[Atom],
    order: Sequence[int],
    used: Collection[Var],
    params: dict[str, Any],
) -> Eqn | None:
    """The equation of the native operator, with those results of the scan that are used.

    ``order`` are the positions of the hidden state and the cell state in the carry; ``results`` name what each
    result is: "stack", "h" or "c".
    """
    eqn, n = scan.eqn, scan.carries
    kinds = {order[0]: "h", **dict.fromkeys(order[1:], "c")}
    outputs, results = [], []
    for i, out in enumerate(eqn.outputs):
        if out in used:
            if i >= n and scan.body.outputs[i] is not scan.body.outputs[order[0]]:
                return None
            outputs.append(out)
            results.append("stack" if i >= n else kinds[i])
    first = gates[0].x
    if first.rows[0] == first.rows[1] or any(g.x.source is not first.source for g in gates):
        return None
    atoms = dict.fromkeys(a for g in gates for a in _weights(g))
    return Eqn(
        name,
        (first.source, *start, *atoms),
        tuple(outputs),
        {
            "gates": tuple(gates),
            "results": tuple(results),
            "reverse": eqn.params["reverse"],
            "zero_state": all(_is_zero(a, scan.makers) for a in start),
            **params,
        },
        eqn.site,
    )


def _weights(gate: Gate) -> Iterator[Atom]:
    yield from (gate.x.weight, gate.state.weight)
    yield from (o.value for o in (*gate.offsets, *gate.state_offsets))
