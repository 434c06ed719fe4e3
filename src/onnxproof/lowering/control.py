"""Control flow: scan, while, cond. Outer values are captured by the bodies, never carried."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import onnx_ir as ir

from onnxproof.capture.program import Atom, Aval, Dim, Lit, Program
from onnxproof.lowering.emit import BOOL, I64, Ctx
from onnxproof.lowering.registry import lowers


@lowers("scan")
def scan(
    ctx: Ctx, *operands: ir.Value, body: Program, num_carry: int, length: Dim, reverse: bool
) -> Sequence[ir.Value]:
    """A Scan when something is scanned over, a Loop when not; one trip needs neither."""
    if length == 0:
        return _no_trip(ctx, operands, num_carry)
    if length == 1:
        return _one_trip(ctx, operands, body, num_carry)
    carry, xs = operands[:num_carry], operands[num_carry:]
    if not xs:
        return _counted(ctx, carry, body, length, reverse)
    lowered = ctx.body(body)
    num_ys = len(ctx.outs) - num_carry
    direction = int(reverse)
    return ctx.multi(
        "Scan",
        *carry,
        *xs,
        dtypes=[a.dtype for a in ctx.outs],
        shapes=[a.shape for a in ctx.outs],
        body=lowered.graph("scan_body", lowered.inputs, lowered.outputs),
        num_scan_inputs=len(xs),
        scan_input_directions=[direction] * len(xs) if reverse else None,
        scan_output_directions=[direction] * num_ys if reverse and num_ys else None,
    )


def _no_trip(ctx: Ctx, operands: Sequence[ir.Value], num_carry: int) -> list[ir.Value]:
    """The carry as it came, and empty stacks."""
    stacks = [ctx.expand(ctx.const(0, a.dtype), a.shape) for a in ctx.outs[num_carry:]]
    return [*operands[:num_carry], *stacks]


def _one_trip(ctx: Ctx, operands: Sequence[ir.Value], body: Program, num_carry: int) -> list[ir.Value]:
    xs = [ctx.squeeze(x, [0]) for x in operands[num_carry:]]
    results = ctx.inline(body, [*operands[:num_carry], *xs])
    return [*results[:num_carry], *(ctx.unsqueeze(y, [0]) for y in results[num_carry:])]


def _counted(
    ctx: Ctx, carry: Sequence[ir.Value], body: Program, length: Dim, reverse: bool
) -> list[ir.Value]:
    """A Loop of ``length`` trips. Its stacks grow forwards, so those of a reverse scan are turned round."""
    results = _loop(ctx, ctx.dim_scalar(length), None, carry, body, None, ctx.outs)
    if not reverse:
        return results
    n = len(carry)
    turned = [ctx.slice(y, [-1], [-(2**62)], [0], [-1], shape=ctx.shape(y)) for y in results[n:]]
    return [*results[:n], *turned]


def _loop(
    ctx: Ctx,
    trips: ir.Value | None,
    start: ir.Value | None,
    carry: Sequence[ir.Value],
    body: Program,
    cond: Program | None,
    outs: Sequence[Aval],
) -> list[ir.Value]:
    """A Loop. With ``cond``, each trip ends by asking on the new carry whether there is another."""
    lowered = ctx.body(body)
    inner = lowered.ctx
    index, going = inner.value(Aval((), I64)), inner.value(Aval((), BOOL))
    again = going if cond is None else inner.inline(cond, lowered.outputs[: len(carry)])[0]
    graph = lowered.graph("loop_body", [index, going, *lowered.inputs], [again, *lowered.outputs])
    return list(
        ctx.multi(
            "Loop",
            trips,
            start,
            *carry,
            dtypes=[a.dtype for a in outs],
            shapes=[a.shape for a in outs],
            body=graph,
        )
    )


@lowers("while")
def while_(ctx: Ctx, *carry: ir.Value, cond: Program, body: Program) -> Sequence[ir.Value]:
    if cond.outputs[0].aval.shape:
        return _batched(ctx, carry, cond, body)
    counter = _counter(cond, body)
    if counter is None:
        (start,) = ctx.inline(cond, carry)
        return _loop(ctx, None, start, carry, body, cond, ctx.outs)
    at, bound = counter
    trips = ctx.op("Sub", ctx.cast(ctx.read(bound), I64), ctx.cast(carry[at], I64))
    return _loop(ctx, trips, None, carry, body, None, ctx.outs)


def _any(asked: Any) -> Any:
    return jnp.any(asked)


def _batched(ctx: Ctx, carry: Sequence[ir.Value], cond: Program, body: Program) -> Sequence[ir.Value]:
    """A loop mapped over a batch: it goes on while any element asks for it, and changes only those."""
    asks = cond.outputs[0].aval
    (first,) = ctx.inline(cond, carry)
    (start,) = ctx.jax(_any, first, avals=(asks,))
    lowered = ctx.body(body)
    inner = lowered.ctx
    index, going, live = inner.value(Aval((), I64)), inner.value(Aval((), BOOL)), inner.value(asks)
    kept = [
        inner.op("Where", inner.reshape(live, (*asks.shape, *(1,) * (a.ndim - asks.ndim))), new, old)
        for new, old, a in zip(lowered.outputs, lowered.inputs, ctx.outs, strict=True)
    ]
    (next_live,) = inner.inline(cond, kept)
    (again,) = inner.jax(_any, next_live, avals=(asks,))
    graph = lowered.graph("loop_body", [index, going, live, *lowered.inputs], [again, next_live, *kept])
    _, *results = ctx.multi(
        "Loop",
        None,
        start,
        first,
        *carry,
        dtypes=[BOOL, *(a.dtype for a in ctx.outs)],
        shapes=[asks.shape, *(a.shape for a in ctx.outs)],
        body=graph,
    )
    return results


def _counter(cond: Program, body: Program) -> tuple[int, Atom] | None:
    """(position in the carry, bound) of ``while i < bound: ...; i += 1`` where the bound never changes."""
    if len(cond.eqns) != 1 or cond.eqns[0].primitive != "lt":
        return None
    (test,) = cond.eqns
    i, bound = test.inputs
    if cond.outputs[0] is not test.outputs[0] or i not in cond.inputs or bound in cond.inputs:
        return None
    if i.aval.shape or i.aval.dtype.kind != "i":
        return None
    at = cond.inputs.index(i)
    step = next((e for e in body.eqns if body.outputs[at] in e.outputs), None)
    if step is None or step.primitive != "add" or body.inputs[at] not in step.inputs:
        return None
    by = step.inputs[1 - step.inputs.index(body.inputs[at])]
    return (at, bound) if isinstance(by, Lit) and int(by.value) == 1 else None


@lowers("cond")
def cond(ctx: Ctx, index: ir.Value, *, branches: Sequence[Program]) -> Sequence[ir.Value]:
    """An If; more than two branches are a tree of them, which clamps the index as JAX does."""
    if ctx.ins[0].dtype == BOOL:
        return _if(ctx, index, branches[:1], branches[1:], index)
    return _select(ctx, index, branches, 0)


def _select(ctx: Ctx, index: ir.Value, branches: Sequence[Program], first: int) -> Sequence[ir.Value]:
    """The results of ``branches[index - first]``."""
    half = (len(branches) + 1) // 2
    high = ctx.op("GreaterOrEqual", index, ctx.like(first + half, index))
    return _if(ctx, high, branches[:half], branches[half:], index, first)


def _if(
    ctx: Ctx,
    test: ir.Value,
    low: Sequence[Program],
    high: Sequence[Program],
    index: ir.Value,
    first: int = 0,
) -> Sequence[ir.Value]:
    return ctx.multi(
        "If",
        test,
        dtypes=[a.dtype for a in ctx.outs],
        shapes=[a.shape for a in ctx.outs],
        then_branch=_branch(ctx, high, index, first + len(low)),
        else_branch=_branch(ctx, low, index, first),
    )


def _branch(ctx: Ctx, branches: Sequence[Program], index: ir.Value, first: int) -> ir.Graph:
    if len(branches) == 1:
        body = ctx.body(branches[0])
        return body.graph("branch", [], body.outputs)
    inner = ctx.within(ctx.scope, [])
    results = _select(inner, index, branches, first)
    return ir.Graph([], inner.distinct(results), nodes=inner.nodes, name="branch")
