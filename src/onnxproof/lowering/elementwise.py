"""Element-wise arithmetic and special functions."""

from __future__ import annotations

import onnx_ir as ir

from onnxproof.lowering.emit import Ctx
from onnxproof.lowering.registry import lowers


@lowers("add", "add_any")
def add(ctx: Ctx, x: ir.Value, y: ir.Value) -> ir.Value:
    return ctx.op("Add", x, y)


@lowers("sub")
def sub(ctx: Ctx, x: ir.Value, y: ir.Value) -> ir.Value:
    return ctx.op("Sub", x, y)


@lowers("mul", out_dtype=None)
def mul(ctx: Ctx, x: ir.Value, y: ir.Value) -> ir.Value:
    return ctx.op("Mul", x, y)


@lowers("sin", accuracy=None)
def sin(ctx: Ctx, x: ir.Value) -> ir.Value:
    return ctx.op("Sin", x)


@lowers("tanh", accuracy=None)
def tanh(ctx: Ctx, x: ir.Value) -> ir.Value:
    return ctx.op("Tanh", x)


@lowers("max")
def max_(ctx: Ctx, x: ir.Value, y: ir.Value) -> ir.Value:
    return ctx.op("Max", x, y)
