"""Sigmoids and Tanhs under operators that see the relative error, the order of small values, or what passes 1.

The Sigmoid kernel of ONNX Runtime is exact to 1e-7 absolutely: it is 0 below about -16, where JAX is right
down to -88. That is enough for gates, and twice as fast as the exact form; a logarithm, a division or an order
asks for more. The Tanh kernel gives up to 1.0000002, of which a root or a logarithm further on would make NaN.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxproof.lowering.algebra import Num
from onnxproof.lowering.emit import Ctx

# Operators that may give a small value whose error is that of a small Sigmoid, or of one next to 1.
_TRANSPARENT = frozenset(
    """Add Cast Clip Expand Gather GatherElements Identity Max Min Mul Neg ReduceMax ReduceMin ReduceSum
    Reshape Slice Sqrt Squeeze Sub Transpose Unsqueeze Where""".split()
)


def precise(ctx: Ctx, value: ir.Value, depth: int = 6) -> ir.Value:
    """``value`` with a small relative error: its Sigmoids, if any, are spelled out, its Tanhs kept within 1."""
    node = value.producer()
    if node is None or depth == 0:
        return value
    if node.op_type in ("Sigmoid", "Tanh") and node.inputs[0] is not None:
        # A ratio has the same Sigmoid above and below.
        exact = ctx.module.exact.get((id(ctx.nodes), value))
        if exact is None:
            made = (
                exact_sigmoid(ctx, node.inputs[0]) if node.op_type == "Sigmoid" else _within_one(ctx, value)
            )
            exact = ctx.nodes, made
            ctx.module.exact[id(ctx.nodes), value] = exact
        return exact[1]
    if node.op_type not in _TRANSPARENT:
        return value
    inputs = [None if v is None else precise(ctx, v, depth - 1) for v in node.inputs]
    if all(a is b for a, b in zip(inputs, node.inputs, strict=True)):
        return value
    attributes = {name: attr.value for name, attr in node.attributes.items()}
    shape = ctx.shape(value)
    return ctx.op(node.op_type, *inputs, dtype=ctx.dtype(value), shape=shape, **attributes)


def _within_one(ctx: Ctx, value: ir.Value) -> ir.Value:
    return ctx.op("Clip", value, ctx.like(-1, value), ctx.like(1, value))


def exact_sigmoid(ctx: Ctx, x: ir.Value) -> ir.Value:
    """1 / (1 + exp(-x)), with the relative error of exp."""
    return (1 / ((-Num(ctx, x)).do("Exp") + 1)).value
