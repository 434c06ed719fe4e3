"""Elementary functions of complex values, as functions of their parts.

Branch cuts, infinities and zeros are those of XLA on a CPU. Where a textbook formula cancels or overflows, the
spelling is the usual stable one: Kahan for square roots, Hull, Fairgrieve and Tang for the inverse functions.
"""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from onnxproof.lowering.complex_arithmetic import INF, hypot, select
from onnxproof.lowering.complex_products import div, mul, reciprocal
from onnxproof.lowering.pairs import Z, by_parts

_LN2 = math.log(2)


def _zero_where(condition: Any, value: Any) -> Any:
    return jnp.where(condition, 0, value)


# -- exponentials -----------------------------------------------------------------------------------


@by_parts("exp", accuracy=None)
def exp(z: Z) -> Z:
    """exp(x) in two factors: it may overflow where the product with a small cosine does not."""
    half = jnp.exp(z.re / 2)
    re, im = half * jnp.cos(z.im) * half, half * jnp.sin(z.im) * half
    return Z(re, _zero_where(z.im == 0, im))


@by_parts("exp2", accuracy=None)
def exp2(z: Z) -> Z:
    return exp(mul(z, Z(_LN2, 0.0)))


@by_parts("expm1", accuracy=None)
def expm1(z: Z) -> Z:
    half = jnp.sin(z.im / 2)
    re = jnp.expm1(z.re) * jnp.cos(z.im) - 2 * half * half
    return Z(re, _zero_where(z.im == 0, jnp.exp(z.re) * jnp.sin(z.im)))


@by_parts("logistic", accuracy=None)
def logistic(z: Z) -> Z:
    bottom = exp(Z(-z.re, -z.im))
    return reciprocal(Z(1 + bottom.re, bottom.im))


# -- logarithms and powers --------------------------------------------------------------------------


def _two_square(x: Any) -> tuple[Any, Any]:
    """x * x and its rounding error (T. J. Dekker)."""
    factor = 2.0 ** ((np.finfo(x.dtype).nmant + 2) // 2) + 1
    big = factor * x
    high = big - (big - x)
    low = x - high
    square = x * x
    return square, ((high * high - square) + 2 * high * low) + low * low


def _two_sum(x: Any, y: Any) -> tuple[Any, Any]:
    """x + y and its rounding error (D. E. Knuth)."""
    total = x + y
    left = total - y
    return total, (x - left) + (y - (total - left))


def _log_of_square(u: Any, v: Any) -> Any:
    """log |1 + u + iv|, right to the last bits where it is near 0, for u and v of moderate size."""
    (a, a_error), (b, b_error) = _two_square(u), _two_square(v)
    first, e1 = _two_sum(2 * u, b)
    total, e2 = _two_sum(first, a)
    return 0.5 * jnp.log1p(total + (e1 + e2 + a_error + b_error))


def _log_size(x: Any, y: Any) -> Any:
    """log |x + iy|."""
    x, y = abs(x), abs(y)
    large, small = jnp.maximum(x, y), jnp.minimum(x, y)
    near = (large > 0.5) & (large < 2)
    # Elsewhere a number for which the other formula is defined, so that no NaN is made on the way.
    close = _log_of_square(jnp.where(near, large, 1) - 1, jnp.where(near, small, 0))
    return jnp.where(near, close, jnp.log(hypot(x, y)))


def _nan_of_either(value: Any, other: Any) -> Any:
    return jnp.where(jnp.isnan(other), other, value)


@by_parts("log", accuracy=None)
def log(z: Z) -> Z:
    re = _log_size(z.re, z.im)
    angle = jnp.arctan2(z.im, z.re)
    return Z(_nan_of_either(re, angle), angle)


@by_parts("log2", accuracy=None)
def log2(z: Z) -> Z:
    natural = log(z)
    return Z(natural.re / _LN2, natural.im / _LN2)


@by_parts("log1p", accuracy=None)
def log1p(z: Z) -> Z:
    near = (abs(z.re) < 1) & (abs(z.im) < 2)
    u, v = _zero_where(~near, z.re), _zero_where(~near, z.im)
    angle = jnp.arctan2(z.im, 1 + z.re)
    re = jnp.where(near, _log_of_square(u, v), jnp.log(hypot(1 + z.re, z.im)))
    return Z(_nan_of_either(re, angle), angle)


@by_parts("pow")
def pow_(base: Z, power: Z) -> Z:
    logarithm = Z(_log_size(base.re, base.im), jnp.arctan2(base.im, base.re))
    result = exp(mul(power, logarithm))
    positive = (power.im == 0) & (power.re > 0)
    # Positive powers of 0 are 0, those of inf are inf, whatever the angle.
    keeps = positive & (base.im == 0) & ((base.re == 0) | (base.re == INF))
    result = Z(jnp.where(keeps, base.re, result.re), _zero_where(keeps, result.im))
    trivial = ((power.re == 0) & (power.im == 0)) | ((base.re == 1) & (base.im == 0))
    return Z(jnp.where(trivial, 1, result.re), _zero_where(trivial, result.im))


@by_parts("sqrt", accuracy=None)
def sqrt(z: Z) -> Z:
    x, y = abs(z.re), abs(z.im)
    long = jnp.sqrt(x / 2 + hypot(x, y) / 2)
    short = jnp.where((long == 0) | (y == INF), long, y / (2 * long))
    re, im = jnp.where(z.re < 0, short, long), jnp.where(z.re < 0, long, short)
    return Z(re, jnp.where(z.im < 0, -im, im))


@by_parts("rsqrt", accuracy=None)
def rsqrt(z: Z) -> Z:
    size = hypot(z.re, z.im)
    angle = _zero_where((size == 0) | (size == INF), -0.5 * jnp.arctan2(z.im, z.re))
    factor = lax.rsqrt(size)
    return Z(factor * jnp.cos(angle), factor * jnp.sin(angle))


# -- trigonometric and hyperbolic functions ---------------------------------------------------------


@by_parts("sin", accuracy=None)
def sin(z: Z) -> Z:
    re = jnp.sin(z.re) * jnp.cosh(z.im)
    return Z(_zero_where(z.re == 0, re), jnp.cos(z.re) * jnp.sinh(z.im))


@by_parts("cos", accuracy=None)
def cos(z: Z) -> Z:
    im = -jnp.sin(z.re) * jnp.sinh(z.im)
    return Z(jnp.cos(z.re) * jnp.cosh(z.im), _zero_where(z.re == 0, im))


@by_parts("sinh", accuracy=None)
def sinh(z: Z) -> Z:
    im = jnp.cosh(z.re) * jnp.sin(z.im)
    return Z(jnp.sinh(z.re) * jnp.cos(z.im), _zero_where(z.im == 0, im))


@by_parts("cosh", accuracy=None)
def cosh(z: Z) -> Z:
    im = jnp.sinh(z.re) * jnp.sin(z.im)
    return Z(jnp.cosh(z.re) * jnp.cos(z.im), _zero_where(z.im == 0, im))


@by_parts("tanh", accuracy=None)
def tanh(z: Z) -> Z:
    """(sinh x cosh x + i sin y cos y) / (sinh² x + cos² y): nothing cancels."""
    far = abs(z.re) == INF
    reach = 0.4 * math.log(float(np.finfo(z.re.dtype).max))  # beyond it, tanh is 1 to the last bit
    x = jnp.clip(z.re, -reach, reach)
    s, c, sine, cosine = jnp.sinh(x), jnp.cosh(x), jnp.sin(z.im), jnp.cos(z.im)
    total = s * s + cosine * cosine
    re, im = s * c / total, sine * cosine / total
    return Z(jnp.where(far, jnp.sign(z.re), re), _zero_where(far | (z.im == 0), im))


@by_parts("tan", accuracy=None)
def tan(z: Z) -> Z:
    turned = tanh(Z(-z.im, z.re))
    return Z(turned.im, -turned.re)


# -- inverse functions ------------------------------------------------------------------------------


def _arcs(x: Any, y: Any) -> tuple[Any, Any, Any]:
    """(c, d, h) for x, y >= 0: asin(x + iy) is atan2(x, c) + ih, acos(x + iy) is atan2(c, x) - ih.

    The sum of the distances to 1 and -1 is twice cosh h. ``d``, the angle of asin, is given too.
    """
    largest = float(np.finfo(x.dtype).max)
    far = jnp.maximum(x, y) > 2.0 ** (np.finfo(x.dtype).nmant // 2 + 2)
    u, v = jnp.where(far, 1, x), jnp.where(far, 1, y)
    r, s = hypot(u + 1, v), hypot(u - 1, v)
    a = 0.5 * (r + s)
    left, right = r + u + 1, s + abs(u - 1)
    v_over_right = jnp.where(right == 0, 0, v * v / right)
    # a - x and a - 1, which cancel near the segment from -1 to 1.
    rest = 0.5 * (v * v / left + jnp.where(u <= 1, right, v_over_right))
    above = 0.5 * (v * v / left + jnp.where(u < 1, v_over_right, right))
    height = jnp.log1p(above + jnp.sqrt(above * (a + 1)))
    # Far out the arcs are those of the logarithm; a part that is infinite has the angle of the diagonal.
    c = jnp.where(far, y, jnp.sqrt((a + u) * rest))
    x = jnp.where(far, x, u)
    size = jnp.clip(hypot(x, y), 0, largest)
    beyond = _LN2 + jnp.log(size)
    infinite = (x == INF) | (y == INF)
    height = jnp.where(infinite, INF, jnp.where(far, beyond, height))
    return c, jnp.arctan2(x, c), height


def _signed(value: Any, like: Any) -> Any:
    return jnp.where(like < 0, -value, value)


@by_parts("asin", accuracy=None)
def asin(z: Z) -> Z:
    _, angle, height = _arcs(abs(z.re), abs(z.im))
    return Z(_signed(angle, z.re), _signed(height, z.im))


@by_parts("acos", accuracy=None)
def acos(z: Z) -> Z:
    c, _, height = _arcs(abs(z.re), abs(z.im))
    return Z(jnp.arctan2(c, z.re), jnp.where(z.im < 0, height, -height))


@by_parts("asinh", accuracy=None)
def asinh(z: Z) -> Z:
    _, angle, height = _arcs(abs(z.im), abs(z.re))
    return Z(_signed(height, z.re), _signed(angle, z.im))


@by_parts("acosh", accuracy=None)
def acosh(z: Z) -> Z:
    c, _, height = _arcs(abs(z.re), abs(z.im))
    return Z(height, _signed(jnp.arctan2(c, z.re), z.im))


@by_parts("atan2")
def atan2(y: Z, x: Z) -> Z:
    """-i log((x + iy) / sqrt(x² + y²)), as XLA has it."""
    square_x, square_y = mul(x, x), mul(y, y)
    size = sqrt(Z(square_x.re + square_y.re, square_x.im + square_y.im))
    turned = log(div(Z(x.re - y.im, x.im + y.re), size))
    return Z(turned.im, -turned.re)


def _atanh(x: Any, y: Any) -> tuple[Any, Any]:
    """The parts of atanh(x + iy) for x >= 0."""
    far = hypot(1 - x, y)
    re = 0.25 * jnp.log1p(4 * (x / far) / far)
    im = 0.5 * jnp.arctan2(2 * y, (1 - x) * (1 + x) - y * y)
    return re, im


@by_parts("atanh", accuracy=None)
def atanh(z: Z) -> Z:
    re, im = _atanh(abs(z.re), z.im)
    infinite = (abs(z.re) == INF) | (abs(z.im) == INF)
    quarter = jnp.where(z.im < 0, -math.pi / 2, math.pi / 2)
    return select(infinite, Z(_zero_where(infinite, re), quarter), Z(_signed(re, z.re), im))


@by_parts("atan", accuracy=None)
def atan(z: Z) -> Z:
    re, im = _atanh(abs(z.im), z.re)
    infinite = (abs(z.re) == INF) | (abs(z.im) == INF)
    quarter = jnp.where(z.re < 0, -math.pi / 2, math.pi / 2)
    return select(infinite, Z(quarter, _zero_where(infinite, re)), Z(im, _signed(re, z.im)))
