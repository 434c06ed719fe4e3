"""Exponentials, logarithms, trigonometric and hyperbolic functions.

ONNX has no expm1, log1p, exp2, log2, cbrt and atan2: they are spelled so that the *relative* error is a few
units in the last place, next to zero too.
"""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from onnxproof.lowering.algebra import Num, formula
from onnxproof.lowering.emit import F32, F64, Ctx
from onnxproof.lowering.precise import exact_sigmoid, precise
from onnxproof.lowering.registry import ANY, lowers

_LN2 = math.log(2)


@lowers("exp", accuracy=ANY)
def exp(ctx: Ctx, x: ir.Value) -> ir.Value:
    return ctx.op("Exp", x)


@lowers("log", accuracy=ANY)
def log(ctx: Ctx, x: ir.Value) -> ir.Value:
    return ctx.op("Log", precise(ctx, x))


@lowers("sin", accuracy=ANY)
def sin(ctx: Ctx, x: ir.Value) -> ir.Value:
    return ctx.op("Sin", x)


@lowers("cos", accuracy=ANY)
def cos(ctx: Ctx, x: ir.Value) -> ir.Value:
    return ctx.op("Cos", x)


@lowers("tanh", accuracy=ANY)
def tanh(ctx: Ctx, x: ir.Value) -> ir.Value:
    return ctx.op("Tanh", x)


@lowers("exp2", accuracy=ANY)
def exp2(ctx: Ctx, x: ir.Value) -> ir.Value:
    # JAX rounds log(2) and the product to the dtype, which decides the result in half precision. Spelled out, as
    # ONNX Runtime keeps float32 between operators on float16.
    dtype = ctx.out.dtype
    work = F32 if dtype.itemsize < 4 else dtype
    product = Num(ctx, x).cast(work) * float(np.asarray(_LN2, dtype))
    return product.cast(dtype).cast(work).do("Exp").cast(dtype).value


@lowers("log2", accuracy=ANY)
def log2(ctx: Ctx, x: ir.Value) -> ir.Value:
    return (Num(ctx, precise(ctx, x)).do("Log") / _LN2).value


@lowers("log1p", accuracy=ANY)
@formula
def log1p(x: Num) -> Num:
    return log1p_of(Num(x.ctx, precise(x.ctx, x.value)))


def log1p_of(x: Num) -> Num:
    """log(1 + x) and, to first order, what rounding took from 1 + x (W. Kahan's correction)."""
    info = np.finfo(x.dtype)
    u = 1 + x
    # Clipped so that the correction is 0, not NaN, at u = 0 and u = inf.
    v = u.clip(float(info.tiny), float(info.max))
    # Subtracted from 0 so that log1p(-0.0) is -0.0: -0.0 + 0.0 would be 0.0.
    return (x - (v - 1)) / v - (0 - u.do("Log"))


@lowers("expm1", accuracy=ANY)
@formula
def expm1(x: Num) -> Num:
    return expm1_of(x)


def expm1_of(x: Num) -> Num:
    """exp(x) - 1 as tanh(x / 2) (exp(x) + 1), which has no cancellation."""
    return (x * 0.5).do("Tanh") * (x.do("Exp") + 1)


@lowers("logistic", accuracy=ANY)
def logistic(ctx: Ctx, x: ir.Value) -> ir.Value:
    # See ``precise``: the kernel's error is too large in float64 whatever follows.
    return exact_sigmoid(ctx, x) if ctx.out.dtype == F64 else ctx.op("Sigmoid", x)


@lowers("cbrt", accuracy=ANY)
def cbrt(ctx: Ctx, x: ir.Value) -> ir.Value:
    # In float64 the error of the exponent 1/3 is far below a unit of float32.
    v = Num(ctx, x)
    wide = v.cast(F64)
    root = Num(ctx, ctx.op("Pow", abs(wide).value, ctx.const(1 / 3, F64))) * wide.do("Sign")
    return root.cast(ctx.out.dtype).value


# -- trigonometric ----------------------------------------------------------------------------


@lowers("tan", accuracy=ANY)
def tan(ctx: Ctx, x: ir.Value) -> ir.Value:
    return ctx.op("Tan", x)


@lowers("asin")
def asin(ctx: Ctx, x: ir.Value) -> ir.Value:
    return ctx.op("Asin", precise(ctx, x))


@lowers("acos")
def acos(ctx: Ctx, x: ir.Value) -> ir.Value:
    return ctx.op("Acos", precise(ctx, x))


@lowers("atan")
def atan(ctx: Ctx, x: ir.Value) -> ir.Value:
    return ctx.op("Atan", x)


@lowers("atan2")
@formula
def atan2(y: Num, x: Num) -> Num:
    # 1/x tells -0.0 from 0.0; of 0/0 and inf/inf the quotient is 0 and 1.
    rise, run = abs(y), abs(x)
    quotient = rise.equal(run).where(rise.do("Sign"), rise / run)
    angle = Num(x.ctx, x.ctx.op("Atan", quotient.value))
    left = (x < 0) | (1 / x < 0)
    angle = left.where(math.pi - angle, angle)
    return ((y < 0) | (1 / y < 0)).where(-angle, angle)


@lowers("sinh")
def sinh(ctx: Ctx, x: ir.Value) -> ir.Value:
    return ctx.op("Sinh", x)


@lowers("cosh")
def cosh(ctx: Ctx, x: ir.Value) -> ir.Value:
    return ctx.op("Cosh", x)


@lowers("asinh")
def asinh(ctx: Ctx, x: ir.Value) -> ir.Value:
    return ctx.op("Asinh", x)


@lowers("acosh")
def acosh(ctx: Ctx, x: ir.Value) -> ir.Value:
    return ctx.op("Acosh", precise(ctx, x))


@lowers("atanh")
def atanh(ctx: Ctx, x: ir.Value) -> ir.Value:
    return ctx.op("Atanh", precise(ctx, x))
