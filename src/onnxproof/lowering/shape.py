"""Shapes: reshape, broadcast, transpose and their like."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from onnxproof.capture.program import Dim, SymDim
from onnxproof.lowering.emit import Ctx
from onnxproof.lowering.registry import lowers


@lowers("reshape", dimensions=None, sharding=None)
def reshape(ctx: Ctx, x: ir.Value, *, new_sizes: Sequence[Dim]) -> ir.Value:
    return ctx.reshape(x, new_sizes)


@lowers("squeeze")
def squeeze(ctx: Ctx, x: ir.Value, *, dimensions: Sequence[int]) -> ir.Value:
    return ctx.squeeze(x, dimensions)


@lowers("transpose")
def transpose(ctx: Ctx, x: ir.Value, *, permutation: Sequence[int]) -> ir.Value:
    return ctx.transpose(x, permutation)


@lowers("broadcast_in_dim", sharding=None)
def broadcast_in_dim(
    ctx: Ctx,
    x: ir.Value,
    *_dims: ir.Value,
    shape: Sequence[Dim],
    broadcast_dimensions: Sequence[int],
) -> ir.Value:
    added = [i for i in range(len(shape)) if i not in broadcast_dimensions]
    return ctx.expand(ctx.unsqueeze(x, added), shape)


@lowers("dim_as_value")
def dim_as_value(ctx: Ctx, *, dim: SymDim) -> ir.Value:
    return ctx.dim_scalar(dim, ctx.out.dtype)
