"""Products, quotients and integer powers of complex values.

Values, overflow and NaN are those of XLA on a CPU. A product is the plain formula, so that an infinite part makes NaN
of what it is subtracted from. A quotient is scaled, and follows Annex G of the C standard where its formula gives NaN
twice. Division by a constant is the product with its reciprocal, into which XLA turns it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import onnx_ir as ir

from onnxproof.lowering.complex_arithmetic import INF
from onnxproof.lowering.emit import Ctx
from onnxproof.lowering.pairs import Z, apply, by_parts, has_parts, in_computations
from onnxproof.lowering.registry import lowers_complex

Pair = np.ndarray[Any, Any]  # the parts of a constant, on the last axis

# -- products ---------------------------------------------------------------------------------------


@lowers_complex("mul", out_dtype=None)
def mul_(ctx: Ctx, x: ir.Value, y: ir.Value) -> ir.Value:
    for factor, other in ((y, x), (x, y)):
        constant = ctx.constant_value(factor)
        if constant is not None and not has_parts(ctx, other):
            return _times(ctx, other, constant)
    (product,) = apply(ctx, mul, [x, y], {}, elementwise=True)
    return product


def _times(ctx: Ctx, x: ir.Value, constant: Pair) -> ir.Value:
    """The product with a constant: of pairs and a matrix, which takes all terms of the formula."""
    if constant.shape == (2,) and not has_parts(ctx, x):
        c, d = constant
        return ctx.op("MatMul", x, ctx.const(np.array([[c, d], [-d, c]])), shape=ctx.shape(x))
    (product,) = apply(ctx, mul, [x, ctx.const(constant)], {}, elementwise=True)
    return product


@in_computations("mul")
def mul(a: Z, b: Z) -> Z:
    return Z(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re)


@by_parts("square")
def square(z: Z) -> Z:
    return mul(z, z)


@by_parts("one_minus_square")
def one_minus_square(z: Z) -> Z:
    return mul(Z(1 + z.re, z.im), Z(1 - z.re, -z.im))


# -- quotients --------------------------------------------------------------------------------------


@lowers_complex("div")
def div_(ctx: Ctx, x: ir.Value, y: ir.Value) -> ir.Value:
    """The smallest form that what is known of the operands allows."""
    above, below = ctx.constant_value(x), ctx.constant_value(y)
    if below is not None and _is_moderate(below):
        return _times(ctx, x, _reciprocal_of(below))
    parts_below = ctx.module.parts.get(y)
    if parts_below is not None and _is_zero(ctx.constant_value(parts_below[1])):
        return _over_real(ctx, x, parts_below[0])
    if above is None or not np.isfinite(above).all():
        (quotient,) = apply(ctx, div, [x, y], {}, elementwise=True)
    elif above.shape == (2,) and above[1] == 0:
        view = ctx.viewed(ctx.ins[1:], ctx.outs, {})
        (quotient,) = apply(view, reciprocal, [y], {"of": above[0].item()}, elementwise=True)
    else:
        (quotient,) = apply(ctx, _finite_over, [x, y], {}, elementwise=True)
    return quotient


def _is_moderate(constant: Pair) -> bool:
    """Whether neither a divisor nor its reciprocal leaves the range of normal numbers."""
    size, least = abs(constant).max(-1), 4 * np.finfo(constant.dtype).tiny
    return bool(np.all((size >= least) & (size <= 1 / least)))


def _is_zero(constant: np.ndarray[Any, Any] | None) -> bool:
    return constant is not None and not constant.any()


def _reciprocal_of(constant: Pair) -> Pair:
    inverse = 1 / np.ascontiguousarray(constant, np.float64).view(np.complex128)[..., 0]
    parts: Pair = np.stack([inverse.real, inverse.imag], -1).astype(constant.dtype)
    return parts


def _over_real(ctx: Ctx, x: ir.Value, divisor: ir.Value) -> ir.Value:
    """A quotient by real numbers; of pairs as they are where nothing has taken them apart."""
    real = ctx.ins[1].part
    if not has_parts(ctx, x) and ctx.ins[0].ndim == real.ndim:
        known = ctx.shape(divisor)
        avals = [ctx.ins[0].stored, real if known is None else replace(real, shape=known)]
        return ctx.jax(_pairs_over_real, x, divisor, avals=avals)[0]
    view = ctx.viewed([ctx.ins[0], real], ctx.outs, {})
    (quotient,) = apply(view, _parts_over_real, [x, divisor], {}, elementwise=True)
    return quotient


def _pairs_over_real(pairs: Any, divisor: Any) -> Any:
    return _part_over_real(pairs, pairs[..., ::-1], divisor[..., None])


def _parts_over_real(z: Z, divisor: Any) -> Z:
    return Z(_part_over_real(z.re, z.im, divisor), _part_over_real(z.im, z.re, divisor))


def _part_over_real(part: Any, other: Any, divisor: Any) -> Any:
    """0 times the other part is in it, as in the formula, unless JAX mends the NaN that this may make."""
    return jnp.where((abs(part) == INF) | (divisor == 0), part, part + 0 * other) / divisor


class _Divisor(NamedTuple):
    """What a / b is made of: (a.re c + a.im d) / total, and (a.im c - a.re d) / total."""

    c: Any
    d: Any
    total: Any
    zero: Any


def _scaled(b: Z) -> _Divisor:
    """A divisor over its larger part, so that nothing overflows on the way; 1 / inf where a part is infinite."""
    x, y = abs(b.re), abs(b.im)
    size = jnp.maximum(x, y)
    c, d = b.re / size, b.im / size
    total = b.re * c + b.im * d
    infinite = (x == INF) | (y == INF)
    c, d, total = (jnp.where(infinite, known, value) for known, value in ((1.0, c), (0.0, d), (INF, total)))
    return _Divisor(c, d, total, size == 0)


def _quotient(a: Z, b: Z, scaled: _Divisor, whole: Z) -> Z:
    """``a`` by ``b``, from the scaled divisor and the numerators ``whole`` that go with it."""
    c, d, total, zero = scaled
    re, im = whole.re * c + whole.im * d, whole.im * c - whole.re * d
    # By 0, whose sign is that of its real part, each part is divided alone. A kernel's Where would lose that sign.
    return Z(jnp.where(zero, a.re / b.re, re / total), jnp.where(zero, a.im / b.re, im / total))


def _finite_over(a: Z, b: Z) -> Z:
    return _quotient(a, b, _scaled(b), a)


@in_computations("div")
def div(a: Z, b: Z) -> Z:
    c, d, total, zero = _scaled(b)
    # An infinite number is the signs of its infinite parts over 0, turned by the signs of the divisor.
    p, q = abs(a.re) == INF, abs(a.im) == INF
    infinite = p | q
    re, im = (
        jnp.where(here, jnp.sign(part), jnp.where(infinite, 0, part)) for here, part in ((p, a.re), (q, a.im))
    )
    c, d = (jnp.where(infinite, jnp.sign(part), part) for part in (c, d))
    total = jnp.where(infinite, total - total, total)
    return _quotient(a, b, _Divisor(c, d, total, zero), Z(re, im))


def reciprocal(b: Z, *, of: float = 1.0) -> Z:
    """A finite real number over ``b``."""
    c, d, total, zero = _scaled(b)
    re, im = (c, -d) if of == 1 else (of * c, -of * d)
    return Z(jnp.where(zero, of / b.re, re / total), im / total)


# -- powers -----------------------------------------------------------------------------------------


def _plus(a: Z, b: Z) -> Z:
    return Z(a.re + b.re, a.im + b.im)


@by_parts("polynomial")
def polynomial(z: Z, *coefficients: Z, unroll: int | None = None) -> Z:
    """By Horner's rule; the constant term comes first."""
    *rest, total = coefficients
    if len(coefficients) > (8 if unroll is None else unroll):
        # JAX loops over what is longer, from a total of 0, which an infinite z turns into NaN.
        total = _plus(mul(z, Z(0.0, 0.0)), total)
    for c in reversed(rest):
        total = _plus(mul(total, z), c)
    return total


@by_parts("integer_pow")
def integer_pow(z: Z, *, y: int) -> Z:
    """By squaring; a negative power is the reciprocal of the positive one."""
    if y == 0:
        return Z(jnp.ones_like(z.re), jnp.zeros_like(z.im))
    result, square_, n = None, z, abs(y)
    while n:
        if n & 1:
            result = square_ if result is None else mul(result, square_)
        n >>= 1
        if n:
            square_ = mul(square_, square_)
    assert result is not None
    return result if y > 0 else reciprocal(result)
