"""Arithmetic: sums, products, quotients, powers, rounding, extrema."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from onnxproof.lowering.algebra import Num
from onnxproof.lowering.emit import BOOL, F32, Ctx
from onnxproof.lowering.precise import precise
from onnxproof.lowering.registry import ANY, lowers


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether a dtype is a real floating-point type, those of ``ml_dtypes`` included."""
    return dtype.kind == "f" or dtype.name.startswith(("bfloat", "float"))


@lowers("add", "add_any")
def add(ctx: Ctx, x: ir.Value, y: ir.Value) -> ir.Value:
    return ctx.op("Or" if ctx.out.dtype == BOOL else "Add", x, y)


@lowers("sub")
def sub(ctx: Ctx, x: ir.Value, y: ir.Value) -> ir.Value:
    return ctx.op("Sub", x, y)


@lowers("mul", out_dtype=None)
def mul(ctx: Ctx, x: ir.Value, y: ir.Value) -> ir.Value:
    return ctx.op("And" if ctx.out.dtype == BOOL else "Mul", x, y)


@lowers("square")
def square(ctx: Ctx, x: ir.Value) -> ir.Value:
    return ctx.op("Mul", x, x)


@lowers("one_minus_square")
def one_minus_square(ctx: Ctx, x: ir.Value) -> ir.Value:
    v = Num(ctx, x)
    # The factored form keeps its accuracy next to 1.
    return ((1 - v) * (1 + v)).value


@lowers("neg")
def neg(ctx: Ctx, x: ir.Value) -> ir.Value:
    if ctx.out.dtype.kind == "u":
        return (0 - Num(ctx, x)).value
    return ctx.op("Neg", x)


@lowers("abs")
def abs_(ctx: Ctx, x: ir.Value) -> ir.Value:
    return x if ctx.out.dtype.kind == "u" else ctx.op("Abs", x)


@lowers("sign")
def sign(ctx: Ctx, x: ir.Value) -> ir.Value:
    # The kernels for half precision give 0 for NaN.
    half = ctx.out.dtype.itemsize == 2 and is_float(ctx.out.dtype)
    return ctx.cast(ctx.op("Sign", ctx.cast(x, F32)), ctx.out.dtype) if half else ctx.op("Sign", x)


@lowers("floor")
def floor(ctx: Ctx, x: ir.Value) -> ir.Value:
    return ctx.op("Floor", x)


@lowers("ceil")
def ceil(ctx: Ctx, x: ir.Value) -> ir.Value:
    return ctx.op("Ceil", x)


@lowers("round")
def round_(ctx: Ctx, x: ir.Value, *, rounding_method: Any) -> ir.Value:
    if rounding_method.name == "TO_NEAREST_EVEN":
        return ctx.op("Round", x)
    v = Num(ctx, x)
    size = abs(v)
    whole = size.do("Floor")
    # The fraction is exact, while size + 0.5 would round 0.49999997 up; inf - inf is NaN.
    up = (size - whole >= 0.5).cast(v.dtype)
    return ((whole + up) * v.do("Sign")).value


# -- extrema ----------------------------------------------------------------------------------


@lowers("max")
def max_(ctx: Ctx, x: ir.Value, y: ir.Value) -> ir.Value:
    if ctx.out.dtype == BOOL:
        return ctx.op("Or", x, y)
    if is_float(ctx.out.dtype):
        for value, other in ((x, y), (y, x)):
            if _is_zero(ctx, other) and ctx.shape(value) == ctx.out.shape:
                return ctx.op("Relu", value)
    return ctx.op("Max", x, y)


@lowers("min")
def min_(ctx: Ctx, x: ir.Value, y: ir.Value) -> ir.Value:
    return ctx.op("And" if ctx.out.dtype == BOOL else "Min", x, y)


def _is_zero(ctx: Ctx, value: ir.Value) -> bool:
    constant = ctx.constant_value(value)
    return constant is not None and constant.size == 1 and not constant.any()


@lowers("clamp")
def clamp(ctx: Ctx, low: ir.Value, x: ir.Value, high: ir.Value) -> ir.Value:
    if ctx.out.dtype == BOOL:
        return ctx.op("And", ctx.op("Or", x, low), high)
    if all(_is_clip_bound(ctx, bound) for bound in (low, high)):
        return ctx.op("Clip", x, low, high)
    return ctx.op("Min", ctx.op("Max", x, low), high)


def _is_clip_bound(ctx: Ctx, bound: ir.Value) -> bool:
    """Clip takes scalars and ignores a NaN bound, where JAX propagates it: only known floats may go there."""
    if ctx.shape(bound) != ():
        return False
    if not is_float(ctx.dtype(bound)):
        return True
    constant = ctx.constant_value(bound)
    return constant is not None and not np.isnan(constant)


# -- quotients --------------------------------------------------------------------------------


def _divisor(ctx: Ctx, y: ir.Value) -> np.ndarray[Any, Any] | None:
    """A constant integer divisor that no quotient goes wrong with: it holds neither 0 nor -1."""
    constant = ctx.constant_value(y)
    if constant is None or (constant == 0).any():
        return None
    return None if constant.dtype.kind == "i" and (constant == -1).any() else constant


@lowers("div")
def div(ctx: Ctx, x: ir.Value, y: ir.Value) -> ir.Value:
    kind = ctx.out.dtype.kind
    if kind not in "iu":
        divisor = precise(ctx, y)
        # What a small Sigmoid divides is most often a Sigmoid too, as in normalized gates.
        return ctx.op("Div", x if divisor is y else precise(ctx, x), divisor)
    if _divisor(ctx, y) is not None:
        return ctx.op("Div", x, y)
    a, b = Num(ctx, x), Num(ctx, y)
    zero = b.equal(0)
    if kind == "u":
        quotient = a / zero.where(Num(ctx, ctx.like(1, y)), b)
        return where_number(zero, int(np.iinfo(ctx.out.dtype).max), quotient)
    # Division by 0 throws, and the least integer by -1 ends the process; JAX gives -1, and the negative.
    negated = b.equal(-1)
    quotient = a / (zero | negated).where(Num(ctx, ctx.like(1, y)), b)
    return where_number(zero, -1, negated.where(-a, quotient))


def where_number(condition: Num, number: float, other: Num) -> ir.Value:
    """``number`` where the condition holds, ``other`` elsewhere."""
    ctx = condition.ctx
    return ctx.op("Where", condition.value, ctx.like(number, other.value), other.value)


@lowers("rem")
def rem(ctx: Ctx, x: ir.Value, y: ir.Value) -> ir.Value:
    kind = ctx.out.dtype.kind
    if kind not in "iu":
        return ctx.op("Mod", x, y, fmod=1)
    a, b = Num(ctx, x), Num(ctx, y)
    known = _divisor(ctx, y)
    if kind == "u":
        if known is not None:
            return ctx.op("Mod", x, y)
        zero = b.equal(0)
        safe = zero.where(Num(ctx, ctx.like(1, y)), b)
        return zero.where(a, Num(ctx, ctx.op("Mod", x, safe.value))).value
    if known is not None:
        return (a - a / b * b).value
    # The remainder has the sign of x, so that of y is free; a remainder by 0 is x.
    size = abs(b)
    safe = size.equal(0).where(Num(ctx, ctx.like(1, y)), size)
    return (a - a / safe * size).value


# -- powers -----------------------------------------------------------------------------------


@lowers("sqrt", accuracy=ANY)
def sqrt(ctx: Ctx, x: ir.Value) -> ir.Value:
    return ctx.op("Sqrt", precise(ctx, x))


@lowers("rsqrt", accuracy=ANY)
def rsqrt(ctx: Ctx, x: ir.Value) -> ir.Value:
    # Rounded once: as two operators on bfloat16 these would be two widenings and two roundings.
    wide = ctx.cast(precise(ctx, x), F32) if ctx.out.dtype.name == "bfloat16" else precise(ctx, x)
    return ctx.cast(ctx.op("Reciprocal", ctx.op("Sqrt", wide)), ctx.out.dtype)


@lowers("pow")
def pow_(ctx: Ctx, x: ir.Value, y: ir.Value) -> ir.Value:
    x = precise(ctx, x)
    exponent = ctx.constant_value(y)
    if exponent is not None and exponent.size == 1 and ctx.shape(x) == ctx.out.shape:
        p = float(exponent.reshape(()))
        # pow is inf at -inf where sqrt is NaN: the fast form is for what can't be negative.
        if abs(p) == 0.5 and is_nonnegative(ctx, x):
            root = ctx.op("Sqrt", x)
            return root if p > 0 else ctx.op("Reciprocal", root)
        if p.is_integer() and 0 < abs(p) <= 3:
            return _integer_power(ctx, x, int(p))
    return ctx.op("Pow", x, y)


_ALWAYS_NONNEGATIVE = frozenset(
    {"Abs", "Exp", "Relu", "Sigmoid", "Sqrt", "ReduceL1", "ReduceL2", "ReduceSumSquare"}
)
_KEEPS_SIGN = frozenset(
    """Cast Expand Identity ReduceMax ReduceMean ReduceMin ReduceSum Reshape Slice Squeeze Transpose
    Unsqueeze""".split()
)


def is_nonnegative(ctx: Ctx, value: ir.Value, depth: int = 8) -> bool:
    """Whether no element can be negative, as far as the nodes behind ``value`` tell (NaN may occur)."""
    constant = ctx.constant_value(value)
    if constant is not None:
        return bool((constant >= 0).all())
    node = value.producer()
    if node is None or depth == 0:
        return False
    first = node.inputs[0]
    if node.op_type in _ALWAYS_NONNEGATIVE:
        return True
    if first is None:
        return False
    if node.op_type in _KEEPS_SIGN:
        return is_nonnegative(ctx, first, depth - 1)
    second = node.inputs[1] if len(node.inputs) > 1 else None
    if second is None or node.op_type not in {"Add", "Mul", "Div"}:
        return False
    if node.op_type == "Mul" and first is second:
        return True
    return is_nonnegative(ctx, first, depth - 1) and is_nonnegative(ctx, second, depth - 1)


@lowers("integer_pow")
def integer_pow(ctx: Ctx, x: ir.Value, *, y: int) -> ir.Value:
    if y == 0:
        return ctx.expand(ctx.const(1, ctx.out.dtype), ctx.out.shape)
    return _integer_power(ctx, x if y > 0 else precise(ctx, x), y)


def _integer_power(ctx: Ctx, x: ir.Value, y: int) -> ir.Value:
    """x**y for y != 0 by repeated squaring: exact in integers, unlike Pow."""
    total: ir.Value | None = None
    factor, left = x, abs(y)
    while True:
        if left & 1:
            total = factor if total is None else ctx.op("Mul", total, factor)
        left >>= 1
        if not left:
            break
        factor = ctx.op("Mul", factor, factor)
    assert total is not None
    return total if y > 0 else ctx.op("Reciprocal", total)


@lowers("polynomial")
def polynomial(ctx: Ctx, x: ir.Value, *coefficients: ir.Value, unroll: int | None = None) -> ir.Value:
    v = Num(ctx, x)
    highest, *others = (Num(ctx, c) for c in reversed(coefficients))
    # JAX loops over what is longer, from a total of 0, which an infinite x turns into NaN.
    total = highest if len(coefficients) <= (8 if unroll is None else unroll) else v * 0 + highest
    for c in others:
        total = total * v + c
    return total.value
