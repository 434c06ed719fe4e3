"""What moves complex values, or adds them up, without looking at them: the rules of reals on one more axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxproof.capture.program import Dim

# Families whose rules are used here by name have to be registered first.
from onnxproof.lowering import bits as bits
from onnxproof.lowering import control as control
from onnxproof.lowering import cumulative as cumulative
from onnxproof.lowering import function as function
from onnxproof.lowering import gather, index, logic
from onnxproof.lowering import reduce as reduce
from onnxproof.lowering import scatter as scatter
from onnxproof.lowering import shape as _shape
from onnxproof.lowering import window as window
from onnxproof.lowering.emit import Ctx
from onnxproof.lowering.pairs import (
    as_stored,
    has_parts,
    like_real,
    pack,
    parts,
    trailing,
    under_contract_of,
    whole_parts,
)
from onnxproof.lowering.registry import lowers_complex

like_real(
    "reshape", "squeeze", "expand_dims", "transpose", "broadcast_in_dim", "concatenate", "stack", "split",
    "unstack", "tile", "rev", "slice", "reduce_sum", "cumsum", "reduce_window_sum", "reduce_precision",
    "scatter", "scatter-add", "scatter-sub",
)  # fmt: skip
under_contract_of("scan", "while", "cond", "function")(as_stored)


@under_contract_of("empty")
def empty(ctx: Ctx, *_sizes: ir.Value, shape: Sequence[Dim]) -> ir.Value:
    return ctx.expand(ctx.const(0, ctx.out.part.dtype), (*shape, 2))


@lowers_complex("dynamic_slice")
def dynamic_slice(ctx: Ctx, x: ir.Value, *starts: ir.Value, slice_sizes: Sequence[Dim]) -> ir.Value:
    if not starts:
        return x
    view = ctx.viewed([ctx.ins[0].stored, *ctx.ins[1:], ctx.ins[-1]], [ctx.out.stored], {})
    return index.dynamic_slice(view, x, *starts, starts[-1], slice_sizes=(*slice_sizes, 2))


@lowers_complex("dynamic_update_slice")
def dynamic_update_slice(ctx: Ctx, x: ir.Value, update: ir.Value, *starts: ir.Value) -> ir.Value:
    if not starts:
        return update
    view = ctx.viewed([a.stored for a in (*ctx.ins, ctx.ins[-1])], [ctx.out.stored], {})
    return index.dynamic_update_slice(view, x, update, *starts, starts[-1])


@under_contract_of("gather")
def gather_(
    ctx: Ctx, x: ir.Value, indices: ir.Value, *, mode: Any, fill_value: Any, **params: Any
) -> ir.Value:
    """Pairs are gathered whole, unless what stands for elements out of range has two different parts."""
    if mode.name != "FILL_OR_DROP":
        result = trailing(ctx, x, indices, mode=mode, fill_value=fill_value, **params)
        assert isinstance(result, ir.Value)
        return result
    fill = complex(np.nan, 0) if fill_value is None else complex(fill_value)
    view = ctx.viewed([a.part for a in ctx.ins], [ctx.out.part], {})
    re, im = (
        gather.gather(view, part, indices, mode=mode, fill_value=number, **params)
        for part, number in zip(whole_parts(ctx, [x], ctx.ins[:1])[0], (fill.real, fill.imag), strict=True)
    )
    return pack(ctx, re, im, ctx.out.shape)


@lowers_complex("pad")
def pad(
    ctx: Ctx, x: ir.Value, value: ir.Value, *, padding_config: Sequence[tuple[Dim, Dim, int]]
) -> ir.Value:
    """Pairs are padded whole by a constant with two equal parts, say 0."""
    number = ctx.constant_value(value)
    if number is not None and number[0] == number[1]:
        view = ctx.viewed([a.stored for a in ctx.ins], [ctx.out.stored], {})
        config = (*padding_config, (0, 0, 0))
        return _shape.pad(view, x, ctx.const(number[0]), padding_config=config)
    view = ctx.viewed([a.part for a in ctx.ins], [ctx.out.part], {})
    re, im = (
        _shape.pad(view, part, fill, padding_config=padding_config)
        for part, fill in zip(whole_parts(ctx, [x], ctx.ins[:1])[0], parts(ctx, value), strict=True)
    )
    return pack(ctx, re, im, ctx.out.shape)


@lowers_complex("select_n")
def select_n(ctx: Ctx, which: ir.Value, *cases: ir.Value) -> ir.Value:
    whole = not all(has_parts(ctx, case) for case in cases)
    if whole:
        if ctx.ins[0].shape:
            which = ctx.unsqueeze(which, [-1])
        view = ctx.viewed([a.stored for a in ctx.ins], [ctx.out.stored], {})
        return logic.select_n(view, which, *cases)
    view = ctx.viewed([a.part for a in ctx.ins], [ctx.out.part], {})
    sides = zip(*(parts(ctx, case) for case in cases), strict=True)
    re, im = (logic.select_n(view, which, *side) for side in sides)
    return pack(ctx, re, im, ctx.out.shape)
