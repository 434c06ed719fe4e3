"""Comparisons, selection, and the bits of integers."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxproof.lowering.algebra import Num
from onnxproof.lowering.emit import BOOL, I32, I64, U8, Ctx
from onnxproof.lowering.registry import lowers

# -- comparisons ------------------------------------------------------------------------------


@lowers("eq")
def eq(ctx: Ctx, x: ir.Value, y: ir.Value) -> ir.Value:
    return ctx.op("Equal", x, y)


@lowers("ne")
def ne(ctx: Ctx, x: ir.Value, y: ir.Value) -> ir.Value:
    if ctx.ins[0].dtype == BOOL:
        return ctx.op("Xor", x, y)
    return ctx.op("Not", eq(ctx, x, y))


@lowers("lt")
def lt(ctx: Ctx, x: ir.Value, y: ir.Value) -> ir.Value:
    if ctx.ins[0].dtype == BOOL:
        return ctx.op("And", ctx.op("Not", x), y)
    return ctx.op("Less", x, y)


@lowers("le")
def le(ctx: Ctx, x: ir.Value, y: ir.Value) -> ir.Value:
    if ctx.ins[0].dtype == BOOL:
        return ctx.op("Or", ctx.op("Not", x), y)
    return ctx.op("LessOrEqual", x, y)


@lowers("gt")
def gt(ctx: Ctx, x: ir.Value, y: ir.Value) -> ir.Value:
    if ctx.ins[0].dtype == BOOL:
        return ctx.op("And", x, ctx.op("Not", y))
    return ctx.op("Greater", x, y)


@lowers("ge")
def ge(ctx: Ctx, x: ir.Value, y: ir.Value) -> ir.Value:
    if ctx.ins[0].dtype == BOOL:
        return ctx.op("Or", x, ctx.op("Not", y))
    return ctx.op("GreaterOrEqual", x, y)


@lowers("lt_to")
def lt_to(ctx: Ctx, x: ir.Value, y: ir.Value) -> ir.Value:
    if ctx.ins[0].dtype.kind in "biu":
        return lt(ctx, x, y)
    first_is_number = ctx.op("Not", ctx.op("IsNaN", x))
    return _in_total_order(ctx, "Less", x, y, ctx.op("And", first_is_number, ctx.op("IsNaN", y)))


@lowers("le_to")
def le_to(ctx: Ctx, x: ir.Value, y: ir.Value) -> ir.Value:
    if ctx.ins[0].dtype.kind in "biu":
        return le(ctx, x, y)
    return _in_total_order(ctx, "LessOrEqual", x, y, ctx.op("IsNaN", y))


@lowers("eq_to")
def eq_to(ctx: Ctx, x: ir.Value, y: ir.Value) -> ir.Value:
    if ctx.ins[0].dtype.kind in "biu":
        return eq(ctx, x, y)
    return _in_total_order(ctx, "Equal", x, y, ctx.op("And", ctx.op("IsNaN", x), ctx.op("IsNaN", y)))


def _in_total_order(ctx: Ctx, op: str, x: ir.Value, y: ir.Value, by_nan: ir.Value) -> ir.Value:
    """-0 before +0, as their reciprocals; NaN last: searches, which compare so, make every NaN positive first."""
    one = ctx.like(1, x)
    sides = ctx.op(op, ctx.op("Div", one, x), ctx.op("Div", one, y))
    level = ctx.op("And", ctx.op("Equal", x, y), sides)
    decided = level if op == "Equal" else ctx.op("Or", ctx.op("Less", x, y), level)
    return ctx.op("Or", by_nan, decided)


@lowers("is_finite")
def is_finite(ctx: Ctx, x: ir.Value) -> ir.Value:
    return (abs(Num(ctx, x)) < np.inf).value


# -- selection --------------------------------------------------------------------------------


@lowers("select_n")
def select_n(ctx: Ctx, which: ir.Value, *cases: ir.Value) -> ir.Value:
    if len(cases) == 1:
        return cases[0]
    if ctx.ins[0].dtype == BOOL:
        return ctx.op("Where", which, cases[1], cases[0])
    # An index out of range takes the nearest case, as in JAX.
    index, result = Num(ctx, which), cases[-1]
    for i in range(len(cases) - 2, -1, -1):
        result = ctx.op("Where", (index < i + 1).value, cases[i], result)
    return result


# -- bits -------------------------------------------------------------------------------------


def _bitwise(logical: str, bitwise: str) -> Any:
    def rule(ctx: Ctx, x: ir.Value, y: ir.Value) -> ir.Value:
        if ctx.out.dtype == BOOL:
            return ctx.op(logical, x, y)
        return ctx.op(bitwise, x, y, since=18)

    return rule


lowers("and")(_bitwise("And", "BitwiseAnd"))
lowers("or")(_bitwise("Or", "BitwiseOr"))
lowers("xor")(_bitwise("Xor", "BitwiseXor"))


@lowers("not")
def not_(ctx: Ctx, x: ir.Value) -> ir.Value:
    dtype = ctx.out.dtype
    if dtype == BOOL:
        return ctx.op("Not", x)
    if ctx.opset >= 18:
        return ctx.op("BitwiseNot", x)
    return (int(np.iinfo(dtype).max if dtype.kind == "u" else -1) - Num(ctx, x)).value


def unsigned(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The unsigned integer type of the same width."""
    return np.dtype(f"u{dtype.itemsize}")


def signed(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The signed integer type of the same width."""
    return np.dtype(f"i{dtype.itemsize}")


def recast(ctx: Ctx, x: ir.Value, dtype: np.dtype[Any]) -> ir.Value:
    """Cast between integer types, which wraps; a constant is cast here."""
    constant = ctx.constant_value(x)
    return ctx.cast(x, dtype) if constant is None else ctx.const(constant.astype(dtype))


def shift(ctx: Ctx, x: ir.Value, amount: ir.Value, direction: str) -> ir.Value:
    """Shift the bits, zeros coming in; by the width or more it gives 0, as the kernel and JAX have it."""
    dtype = ctx.dtype(x)
    word = unsigned(dtype)
    bits = ctx.op("BitShift", recast(ctx, x, word), recast(ctx, amount, word), direction=direction)
    return ctx.cast(bits, dtype)


@lowers("shift_left")
def shift_left(ctx: Ctx, x: ir.Value, amount: ir.Value) -> ir.Value:
    return shift(ctx, x, amount, "LEFT")


@lowers("shift_right_logical")
def shift_right_logical(ctx: Ctx, x: ir.Value, amount: ir.Value) -> ir.Value:
    return shift(ctx, x, amount, "RIGHT")


@lowers("shift_right_arithmetic")
def shift_right_arithmetic(ctx: Ctx, x: ir.Value, amount: ir.Value) -> ir.Value:
    dtype = ctx.out.dtype
    word = signed(dtype)
    value = Num(ctx, recast(ctx, x, word))
    by = ctx.constant_value(amount)
    if by is not None and (by > 0).all() and (by < 8 * dtype.itemsize - 1).all():
        # Floor division by a power of two.
        power = Num(ctx, ctx.const(np.left_shift(1, by.astype(np.int64)).astype(word)))
        low = Num(ctx, ctx.op("Mod", value.value, power.value))
        return ctx.cast(((value - low) / power).value, dtype)
    # Of a negative number, the complement is shifted; -1 - x is the complement.
    negative = value < 0
    shifted = Num(ctx, shift(ctx, negative.where(-1 - value, value).value, amount, "RIGHT"))
    return ctx.cast(negative.where(-1 - shifted, shifted).value, dtype)


@lowers("population_count")
def population_count(ctx: Ctx, x: ir.Value) -> ir.Value:
    dtype = ctx.out.dtype
    word, width = unsigned(dtype), dtype.itemsize
    bits = recast(ctx, x, word)
    if width > 1:
        by = ctx.const(np.arange(width) * 8, word)
        bits = ctx.op("BitShift", ctx.unsqueeze(bits, [-1]), by, direction="RIGHT")
    table = ctx.const([i.bit_count() for i in range(256)], I32)
    index = ctx.cast(ctx.cast(bits, U8), I64)
    counts = ctx.op("Gather", table, index, shape=ctx.shape(index))
    if width > 1:
        counts = ctx.reduce("ReduceSum", counts, [-1])
    return ctx.cast(counts, dtype)


@lowers("clz")
def clz(ctx: Ctx, x: ir.Value) -> ir.Value:
    dtype = ctx.out.dtype
    word = unsigned(dtype)
    powers = ctx.const([1 << k for k in range(8 * dtype.itemsize)], word)
    smaller = ctx.op("Less", ctx.unsqueeze(recast(ctx, x, word), [-1]), powers)
    return ctx.cast(ctx.reduce("ReduceSum", ctx.cast(smaller, I32), [-1]), dtype)


@lowers("mulhi")
def mulhi(ctx: Ctx, x: ir.Value, y: ir.Value) -> ir.Value:
    dtype = ctx.out.dtype
    bits = 8 * dtype.itemsize
    if bits == 64:
        raise ctx.unsupported(
            "the high half of a 64-bit product would need 128 bits",
            way_out="Multiply the 32-bit halves yourself.",
        )
    wide = np.dtype(f"{dtype.kind}8")
    product = reduce(lambda a, b: ctx.op("Mul", a, b), [ctx.cast(v, wide) for v in (x, y)])
    return ctx.cast(shift(ctx, product, ctx.const(bits, wide), "RIGHT"), dtype)
