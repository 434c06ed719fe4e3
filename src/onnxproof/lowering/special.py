"""Error functions, gamma functions and Bessel functions, from fitted polynomials and Lanczos' series."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import jax
import numpy as np
import onnx_ir as ir

from onnxproof.lowering import coefficients as fits
from onnxproof.lowering.algebra import Num, formula, where
from onnxproof.lowering.emit import F64, Ctx
from onnxproof.lowering.registry import ANY, lowers

# -- error functions --------------------------------------------------------------------------


@lowers("erf")
def erf(ctx: Ctx, x: ir.Value) -> ir.Value:
    return ctx.op("Erf", x)


@lowers("erfc", accuracy=ANY)
@formula
def erfc(x: Num) -> Num:
    size = abs(x)
    scale = 2 / (2 + size)
    double = x.dtype == F64
    tail = fits.ERFC_F64 if double else fits.ERFC_F32
    far = (-(size * size)).do("Exp") * scale * (scale * 2.5 - 1).polynomial(tail)
    far = (x < 0).where(2 - far, far)
    near = x * (2 * (x * x) - 1).polynomial(fits.ERF_F64) if double else x.do("Erf")
    return (size < 0.5).where(1 - near, far)


@lowers("erf_inv")
@formula
def erf_inv(x: Num) -> Num:
    # 1 - x and 1 + x are exact where the product is small.
    w = -((1 - x) * (1 + x)).do("Log")
    s = w.do("Sqrt")
    if x.dtype == F64:
        middle = _scaled(s, math.sqrt(5), 4).polynomial(fits.ERF_INV_MIDDLE_F64)
        last = _scaled(s, 4, 6.2).polynomial(fits.ERF_INV_FAR_F64)
        far = (s < 4).where(middle, last)
        near = (w * 0.4 - 1).polynomial(fits.ERF_INV_F64)
    else:
        far = _scaled(s, math.sqrt(5), 4.2).polynomial(fits.ERF_INV_FAR_F32)
        near = (w * 0.4 - 1).polynomial(fits.ERF_INV_F32)
    factor = (w < 5).where(near, far)
    # At -1 and 1 the polynomials see an infinity; beyond, log has given NaN.
    return abs(x).equal(1).where(x * np.inf, x * factor)


def _scaled(x: Num, low: float, high: float) -> Num:
    """The line that takes [low, high] to [-1, 1]."""
    return x * (2 / (high - low)) - (high + low) / (high - low)


# -- gamma functions --------------------------------------------------------------------------

# P. Godfrey's coefficients for C. Lanczos' series with g = 7: gamma(z + 1) =
# sqrt(2 pi) t**(z + 1/2) exp(-t) (C0 + sum C[k] / (z + k)), t = z + 7.5.
_LANCZOS_0 = 0.99999999999980993227684700473478
_LANCZOS = (
    676.520368121885098567009190444019,
    -1259.13921672240287047156078755283,
    771.3234287776530788486528258894,
    -176.61502916214059906584551354,
    12.507343278686904814458936853,
    -0.13857109526572011689554707,
    9.984369578019570859563e-6,
    1.50563273514931155834e-7,
)


def _in_double(fn: Callable[[Num], Num]) -> Callable[[Num], Num]:
    """Compute in float64: the series cancels, and the result may be next to a zero of the function."""

    def run(x: Num) -> Num:
        return fn(x.cast(F64)).cast(x.dtype)

    return run


def _lanczos_terms(z: Num) -> Num:
    """1 / (z + k) for k = 1 .. 8, along a new last axis."""
    ctx = z.ctx
    column = Num(ctx, ctx.unsqueeze(z.value, [-1]))
    return 1 / (column + Num(ctx, ctx.const(np.arange(1.0, 9.0))))


def _dot(terms: Num, weights: Sequence[float]) -> Num:
    ctx = terms.ctx
    known = ctx.shape(terms.value)
    shape = None if known is None else known[:-1]
    return Num(ctx, ctx.op("MatMul", terms.value, ctx.const(weights), shape=shape))


@lowers("lgamma")
@formula
@_in_double
def lgamma(x: Num) -> Num:
    reflected = x < 0.5
    z = reflected.where(-x, x - 1)
    t = z + 7.5
    series = _dot(_lanczos_terms(z), _LANCZOS) + _LANCZOS_0
    log_t = t.do("Log")
    # Written so that nothing overflows before the result does.
    value = (z + 0.5 - t / log_t) * log_t + (series.do("Log") + 0.5 * math.log(2 * math.pi))
    size = abs(x)
    part = size - size.do("Floor")
    part = (part > 0.5).where(1 - part, part)
    # gamma(x) gamma(1 - x) = pi / sin(pi x)
    mirror = math.log(math.pi) - (part * math.pi).do("Sin").do("Log") - value
    value = reflected.where(mirror, value)
    return size.equal(np.inf).where(size, value)


_DIGAMMA_HAS_LIMIT = jax.__version_info__ >= (0, 11, 2)  # JAX gives NaN at 0 before, its limit since


@lowers("digamma")
@formula
@_in_double
def digamma(x: Num) -> Num:
    reflected = x < 0.5
    z = reflected.where(-x, x - 1)
    t = z + 7.5
    terms = _lanczos_terms(z)
    slope = _dot(terms * terms, _LANCZOS) / (_dot(terms, _LANCZOS) + _LANCZOS_0)
    value = t.do("Log") - 7 / t - slope
    # psi(1 - x) - psi(x) = pi / tan(pi x), where x counts from the nearest integer
    angle = (x - x.do("Round")) * math.pi
    value = reflected.where(value - math.pi * angle.do("Cos") / angle.do("Sin"), value)
    pole = where(x < 0, np.nan, -np.inf if _DIGAMMA_HAS_LIMIT else np.nan, like=x)
    return ((x <= 0) & x.do("Floor").equal(x)).where(pole, value)


# -- Bessel functions -------------------------------------------------------------------------


@lowers("bessel_i0e")
@formula
def bessel_i0e(x: Num) -> Num:
    double = x.dtype == F64
    near, far = (fits.I0E_F64, fits.I0E_FAR_F64) if double else (fits.I0E_F32, fits.I0E_FAR_F32)
    size = abs(x)
    small = (size * 0.25 - 1).polynomial(near)
    large = (16 / size - 1).polynomial(far) / size.do("Sqrt")
    return (size <= 8).where(small, large)


@lowers("bessel_i1e")
@formula
def bessel_i1e(x: Num) -> Num:
    double = x.dtype == F64
    near, far = (fits.I1E_F64, fits.I1E_FAR_F64) if double else (fits.I1E_F32, fits.I1E_FAR_F32)
    size = abs(x)
    small = x * (size * 0.25 - 1).polynomial(near)
    large = (16 / size - 1).polynomial(far) / size.do("Sqrt")
    return (size <= 8).where(small, x.do("Sign") * large)
