"""Functions of the old values at scattered positions: ``.at[...].apply(f)``."""

from __future__ import annotations

from collections.abc import Callable

import jax
import onnx_ir as ir

from onnxproof.capture.program import Aval, Program
from onnxproof.lowering.emit import BOOL, I32, I64, Ctx
from onnxproof.lowering.monoid import lift


def apply_at(
    ctx: Ctx,
    x: ir.Value,
    indices: ir.Value,
    update: ir.Value,
    function: Program,
    times: Callable[..., jax.Array],
    single: bool,
) -> ir.Value:
    """``x`` with ``function`` applied to each element as often as it is named.

    Args:
        function: of the old value and one that it ignores, on scalars.
        times: of x, indices and update, how often each element of x is named: int32, of the shape of x.
        single: whether no element is named twice.
    """
    lifted = lift(function, ctx.out.shape)
    if lifted is None:
        raise ctx.unsupported("a function of the old value (.at[...].apply) that isn't element-wise")
    (counts,) = ctx.jax(times, x, indices, update)
    zeros = ctx.expand(ctx.const(0, ctx.out.dtype), ctx.out.shape)
    if single:
        (new,) = ctx.inline(lifted, [x, zeros])
        return ctx.op("Where", ctx.op("Greater", counts, ctx.const(0, I32)), new, x, shape=ctx.out.shape)
    trips = ctx.cast(ctx.reduce("ReduceMax", counts, range(ctx.out.ndim)), I64)
    inner = ctx.within(ctx.scope, [])
    index, going, old = inner.value(Aval((), I64)), inner.value(Aval((), BOOL)), inner.value(ctx.out)
    (new,) = inner.inline(lifted, [old, zeros])
    again = inner.op("Greater", counts, inner.cast(index, I32))
    results = [going, inner.op("Where", again, new, old, shape=ctx.out.shape)]
    body = ir.Graph([index, going, old], inner.distinct(results), nodes=inner.nodes, name="loop_body")
    out = ctx.out
    return ctx.multi("Loop", trips, None, x, dtypes=[out.dtype], shapes=[out.shape], body=body)[0]
