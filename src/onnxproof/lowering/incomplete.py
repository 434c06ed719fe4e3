"""Incomplete gamma and beta functions, zeta and polygamma, spelled as JAX functions with loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as ir
from jax import lax

from onnxproof.lowering.emit import F32, F64, Ctx
from onnxproof.lowering.registry import lowers

Array = Any
_MAX_TERMS = 2000  # as many as JAX sums


def _spelled(
    ctx: Ctx, fn: Callable[..., Array], operands: Sequence[ir.Value], least: np.dtype[Any] = F32
) -> ir.Value:
    """Lower a JAX function here. It is computed in ``least`` or a wider type, and rounded once."""
    dtype = ctx.out.dtype
    work = dtype if dtype.itemsize >= least.itemsize else least
    avals = [replace(a, dtype=work) for a in ctx.ins]
    return ctx.cast(ctx.jax(fn, *(ctx.cast(v, work) for v in operands), avals=avals)[0], dtype)


def _iterate(step: Callable[[Array, Array], Any], start: Any, active: Array, least: int = 0) -> Any:
    """Repeat ``state = step(n, state)`` for n = 1, 2, ..., at least ``least`` times.

    ``step`` returns which elements go on, and the new state: a tuple of arrays, as ``start`` is. An element
    that is done keeps its state; those that are not ``active`` never move.
    """

    def go_on(carry: Any) -> Array:
        n, going, _ = carry
        return (n <= _MAX_TERMS) & jnp.any(going)

    def body(carry: Any) -> Any:
        n, going, state = carry
        more, new = step(n, state)
        kept = tuple(jnp.where(going, b, a) for a, b in zip(state, new, strict=True))
        return n + 1, going & (more | (n < least)), kept

    one = jnp.ones((), start[0].dtype)
    return lax.while_loop(go_on, body, (one, active, start))[2]


# -- incomplete gamma -------------------------------------------------------------------------


def _gamma_scale(a: Array, x: Array) -> Array:
    """x**a exp(-x) / gamma(a), which both expansions carry."""
    return jnp.exp(a * jnp.log(x) - x - lax.lgamma(a))


def _gamma_series(a: Array, x: Array, active: Array, least: int) -> Array:
    """The lower function by its power series: scale / a * sum of x**n / ((a + 1) .. (a + n))."""
    eps = np.finfo(x.dtype).eps

    def step(n: Array, state: Any) -> Any:
        term, total = state
        term = term * (x / (a + n))
        total = total + term
        return term > total * (eps / 8), (term, total)

    one = jnp.ones_like(x)
    _, total = _iterate(step, (one, one), active, least)
    return total * _gamma_scale(a, x) / a


def _gamma_fraction(a: Array, x: Array, active: Array, least: int) -> Array:
    """The upper function by its continued fraction, evaluated as W. Lentz and I. Thompson do."""
    eps, tiny = np.finfo(x.dtype).eps, np.finfo(x.dtype).tiny * 1e3
    b = x + 1 - a
    first = 1 / jnp.where(b == 0, tiny, b)

    def step(n: Array, state: Any) -> Any:
        c, d, h = state
        weight, offset = n * (a - n), b + 2 * n
        d = weight * d + offset
        d = 1 / jnp.where(d == 0, tiny, d)
        c = offset + weight / c
        c = jnp.where(c == 0, tiny, c)
        factor = c * d
        return jnp.abs(factor - 1) > eps, (c, d, h * factor)

    *_, h = _iterate(step, (jnp.full_like(x, 1 / tiny), first, first), active, least)
    return h * _gamma_scale(a, x)


def _gamma_parts(a: Array, x: Array, least: int = 0) -> tuple[Array, Array, Array]:
    """Series and fraction, each where it converges fast, and where the fraction does."""
    valid = (x > 0) & (a > 0) & (x < jnp.inf) & (a < jnp.inf)
    use_fraction = (x > 1) & (x > a)
    # Elements elsewhere compute something harmless.
    xs, as_ = jnp.where(valid, x, 1.0), jnp.where(valid, a, 1.0)
    series = _gamma_series(as_, jnp.where(use_fraction, 1.0, xs), valid & ~use_fraction, least)
    fraction = _gamma_fraction(as_, jnp.where(use_fraction, xs, 2.0), valid & use_fraction, least)
    return series, fraction, use_fraction


def _gamma_domain(a: Array, x: Array, value: Array, at_zero: float, at_infinity: float) -> Array:
    """The limits: the function is ``at_zero`` at x = 0 and a = inf, ``at_infinity`` at x = inf and a = 0."""
    value = jnp.where((x == jnp.inf) | (a == 0), at_infinity, value)
    value = jnp.where((x == 0) | (a == jnp.inf), at_zero, value)
    undefined = ((x == 0) & (a == 0)) | ((x == jnp.inf) & (a == jnp.inf))
    return jnp.where(undefined | ~(x >= 0) | ~(a >= 0), jnp.nan, value)


def igamma_function(a: Array, x: Array, least: int = 0) -> Array:
    """The regularized lower incomplete gamma function P(a, x)."""
    series, fraction, use_fraction = _gamma_parts(a, x, least)
    return _gamma_domain(a, x, jnp.where(use_fraction, 1 - fraction, series), 0.0, 1.0)


def igammac_function(a: Array, x: Array) -> Array:
    """The regularized upper incomplete gamma function Q(a, x)."""
    series, fraction, use_fraction = _gamma_parts(a, x)
    return _gamma_domain(a, x, jnp.where(use_fraction, fraction, 1 - series), 1.0, 0.0)


def _igamma_slope(a: Array, x: Array) -> Array:
    # At an integer a the fraction ends early, and its derivative does not.
    least = 64 if x.dtype == jnp.float32 else 256
    slope = jax.jvp(lambda a: igamma_function(a, x, least), (a,), (jnp.ones_like(a),))[1]
    valid = (a > 0) & (x >= 0) & (((x < jnp.inf) & (a < jnp.inf)) | (x == 0))
    return jnp.where(valid, slope, jnp.nan)


@lowers("igamma")
def igamma(ctx: Ctx, a: ir.Value, x: ir.Value) -> ir.Value:
    return _spelled(ctx, igamma_function, (a, x))


@lowers("igammac")
def igammac(ctx: Ctx, a: ir.Value, x: ir.Value) -> ir.Value:
    return _spelled(ctx, igammac_function, (a, x))


@lowers("igamma_grad_a")
def igamma_grad_a(ctx: Ctx, a: ir.Value, x: ir.Value) -> ir.Value:
    return _spelled(ctx, _igamma_slope, (a, x))


# -- incomplete beta --------------------------------------------------------------------------


def betainc_function(a: Array, b: Array, x: Array) -> Array:
    """The regularized incomplete beta function, by its continued fraction (Lentz and Thompson)."""
    eps, tiny = np.finfo(x.dtype).eps, np.finfo(x.dtype).tiny * 1e3
    valid = (a > 0) & (b > 0) & (a < jnp.inf) & (b < jnp.inf) & (x > 0) & (x < 1)
    a_, b_, x_ = (jnp.where(valid, v, 0.5) for v in (a, b, x))
    # The fraction converges fast on one side of the mean: use the symmetry on the other.
    flipped = x_ > (a_ + 1) / (a_ + b_ + 2)
    p, q = jnp.where(flipped, b_, a_), jnp.where(flipped, a_, b_)
    z = jnp.where(flipped, 1 - x_, x_)

    def away(v: Array) -> Array:
        return jnp.where(jnp.abs(v) < tiny, tiny, v)

    def step(m: Array, state: Any) -> Any:
        c, d, h = state
        even = m * (q - m) * z / ((p + 2 * m - 1) * (p + 2 * m))
        d = 1 / away(1 + even * d)
        c = away(1 + even / c)
        h = h * (c * d)
        odd = -(p + m) * (p + q + m) * z / ((p + 2 * m) * (p + 2 * m + 1))
        d = 1 / away(1 + odd * d)
        c = away(1 + odd / c)
        return jnp.abs(c * d - 1) > eps, (c, d, h * (c * d))

    first = 1 / away(1 - (p + q) * z / (p + 1))
    *_, h = _iterate(step, (jnp.ones_like(z), first, first), valid)
    log_beta = lax.lgamma(p) + lax.lgamma(q) - lax.lgamma(p + q)
    value = h * jnp.exp(p * jnp.log(z) + q * jnp.log1p(-z) - log_beta) / p
    value = jnp.where(flipped, 1 - value, value)
    value = jnp.where((b == 0) | (a == jnp.inf), 0.0, value)
    value = jnp.where((a == 0) | (b == jnp.inf), 1.0, value)
    value = jnp.where(x == 0, 0.0, jnp.where(x == 1, 1.0, value))
    undefined = ((a == 0) & (b == 0)) | ((a == jnp.inf) & (b == jnp.inf))
    outside = ~(a >= 0) | ~(b >= 0) | ~(x >= 0) | (x > 1)
    return jnp.where(undefined | outside, jnp.nan, value)


@lowers("regularized_incomplete_beta")
def regularized_incomplete_beta(ctx: Ctx, a: ir.Value, b: ir.Value, x: ir.Value) -> ir.Value:
    # Logarithms of gamma that nearly cancel, and 1 - x, cost float32 half its digits.
    return _spelled(ctx, betainc_function, (a, b, x), least=F64)


# -- zeta and polygamma -----------------------------------------------------------------------

# B(2k) / (2k)! for k = 1 .. 12, of the Bernoulli numbers B.
_BERNOULLI = (
    1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000, 1 / 74724249600,
    -3617 / 10670622842880000, 43867 / 5109094217170944000, -174611 / 802857662698291200000,
    77683 / 14101100039391805440000, -236364091 / 1693824136731743669452800000,
)  # fmt: skip
_HEAD_TERMS = 10


def zeta_function(s: Array, q: Array) -> Array:
    """The Hurwitz zeta function by the Euler-Maclaurin formula, for s > 1."""
    head = jnp.zeros_like(s)
    for k in range(_HEAD_TERMS):
        head = head + (q + k) ** -s
    at = q + _HEAD_TERMS
    power = at**-s
    tail = power * at / (s - 1) + 0.5 * power
    rising = s / at
    for k, bernoulli in enumerate(_BERNOULLI):
        tail = tail + bernoulli * rising * power
        rising = rising * ((s + 2 * k + 1) / at) * ((s + 2 * k + 2) / at)
    value = head + tail
    pole = (q <= 0) & (q == jnp.floor(q))
    value = jnp.where(pole, jnp.where((s == jnp.floor(s)) & (s % 2 == 0), jnp.inf, jnp.nan), value)
    value = jnp.where((q < 0) & ~pole & (s != jnp.floor(s)), jnp.nan, value)
    value = jnp.where(s == 1, jnp.inf, value)
    return jnp.where(s < 1, jnp.nan, value)


@lowers("zeta")
def zeta(ctx: Ctx, s: ir.Value, q: ir.Value) -> ir.Value:
    return _spelled(ctx, zeta_function, (s, q))


def polygamma_function(order: Array, x: Array) -> Array:
    """The derivative of digamma of a given order: (-1)**(n + 1) n! zeta(n + 1, x)."""
    sign = jnp.where(order % 2 == 0, -1.0, 1.0)
    value = sign * jnp.exp(lax.lgamma(order + 1)) * zeta_function(order + 1, x)
    value = jnp.where(order == 0, lax.digamma(x), value)
    return jnp.where((order < 0) | (order != jnp.floor(order)), jnp.nan, value)


@lowers("polygamma")
def polygamma(ctx: Ctx, order: ir.Value, x: ir.Value) -> ir.Value:
    return _spelled(ctx, polygamma_function, (order, x))
