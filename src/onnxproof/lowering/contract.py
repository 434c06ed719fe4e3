"""Contractions."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from onnxproof.lowering.emit import Ctx
from onnxproof.lowering.registry import ANY, lowers


@lowers("dot_general", precision=ANY, out_sharding=None)
def dot_general(
    ctx: Ctx, x: ir.Value, y: ir.Value, *, dimension_numbers: Any, preferred_element_type: Any
) -> ir.Value:
    (cx, cy), (bx, by) = dimension_numbers
    if (tuple(cx), tuple(cy), tuple(bx), tuple(by)) != ((len(ctx.ins[0].shape) - 1,), (0,), (), ()):
        raise ctx.unsupported("this contraction")
    return ctx.op("MatMul", x, y, shape=ctx.out.shape)
