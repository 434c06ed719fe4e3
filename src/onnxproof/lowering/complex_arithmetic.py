"""Parts, sums, magnitudes, comparisons and conversions of complex values.

Values, overflow and NaN are those of XLA on a CPU; order is lexicographic.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import onnx_ir as ir

from onnxproof.lowering import cast, elementwise
from onnxproof.lowering import shape as _shape
from onnxproof.lowering.emit import Ctx
from onnxproof.lowering.pairs import Z, apply, by_parts, has_parts, in_computations, pack, parts
from onnxproof.lowering.registry import ANY, lowers_complex

INF = np.inf


# -- parts ----------------------------------------------------------------------------------------


@lowers_complex("complex")
def complex_(ctx: Ctx, x: ir.Value, y: ir.Value) -> ir.Value:
    return pack(ctx, x, y, ctx.out.shape)


@lowers_complex("real")
def real(ctx: Ctx, z: ir.Value) -> ir.Value:
    return ctx.expand(parts(ctx, z)[0], ctx.out.shape)


@lowers_complex("imag")
def imag(ctx: Ctx, z: ir.Value) -> ir.Value:
    return ctx.expand(parts(ctx, z)[1], ctx.out.shape)


@lowers_complex("conj", input_dtype=ANY, _input_dtype=ANY)
def conj(ctx: Ctx, z: ir.Value) -> ir.Value:
    if not ctx.ins[0].is_complex:
        return with_zero(ctx, z)
    if not has_parts(ctx, z):
        return ctx.op("Mul", z, ctx.const([1, -1], ctx.out.part.dtype))
    re, im = parts(ctx, z)
    return pack(ctx, re, ctx.op("Neg", im), ctx.out.shape)


def with_zero(ctx: Ctx, x: ir.Value) -> ir.Value:
    """A real value as a complex one."""
    return pack(ctx, x, ctx.like(0, x), ctx.out.shape)


@lowers_complex("convert_element_type", weak_type=ANY, sharding=ANY)
def convert_element_type(ctx: Ctx, x: ir.Value, *, new_dtype: Any) -> ir.Value:
    """Part by part; a real result is the real part, a boolean one tells whether the value is not 0."""
    source, target = ctx.ins[0], ctx.out
    if source.is_complex and target.dtype == np.bool_:
        (truth,) = apply(ctx, _nonzero, [x], {}, elementwise=True)
        return truth
    if source.is_complex and target.is_complex:
        if not has_parts(ctx, x):
            return ctx.cast(x, target.part.dtype)
        re, im = (ctx.cast(v, target.part.dtype) for v in parts(ctx, x))
        return pack(ctx, re, im, target.shape)
    number = ctx.expand(parts(ctx, x)[0], source.shape) if source.is_complex else x
    view = ctx.viewed([source.part], [target.part], {})
    converted = cast.convert_element_type(view, number, new_dtype=target.part.dtype)
    return with_zero(ctx, converted) if target.is_complex else converted


def _nonzero(z: Z) -> Any:
    return (z.re != 0) | (z.im != 0)


@lowers_complex("bitcast_convert_type")
def bitcast_convert_type(ctx: Ctx, x: ir.Value, *, new_dtype: Any) -> ir.Value:
    if ctx.ins[0].dtype != np.dtype(new_dtype):
        raise ctx.unsupported("bits of complex values as another dtype", "Take real and imag first.")
    return x


@lowers_complex("iota", sharding=None)
def iota(ctx: Ctx, *_sizes: ir.Value, dtype: Any, shape: Any, dimension: int) -> ir.Value:
    view = ctx.viewed([], [ctx.out.part], {})
    return with_zero(ctx, _shape.iota(view, dtype=dtype, shape=shape, dimension=dimension))


# -- sums -------------------------------------------------------------------------------------------


def _sum(ctx: Ctx, x: ir.Value, y: ir.Value, on_parts: Any, on_pairs: Any) -> ir.Value:
    if has_parts(ctx, x) and has_parts(ctx, y):
        (total,) = apply(ctx, on_parts, [x, y], {}, elementwise=True)
        return total
    view = ctx.viewed([a.stored for a in ctx.ins], [a.stored for a in ctx.outs], {})
    total = on_pairs(view, x, y)
    assert isinstance(total, ir.Value)
    return total


@lowers_complex("add", "add_any")
def add(ctx: Ctx, x: ir.Value, y: ir.Value) -> ir.Value:
    return _sum(ctx, x, y, _add, elementwise.add)


@lowers_complex("sub")
def sub(ctx: Ctx, x: ir.Value, y: ir.Value) -> ir.Value:
    return _sum(ctx, x, y, _sub, elementwise.sub)


@in_computations("add", "add_any")
def _add(a: Z, b: Z) -> Z:
    return Z(a.re + b.re, a.im + b.im)


@in_computations("sub")
def _sub(a: Z, b: Z) -> Z:
    return Z(a.re - b.re, a.im - b.im)


@lowers_complex("neg")
def neg(ctx: Ctx, z: ir.Value) -> ir.Value:
    if not has_parts(ctx, z):
        return ctx.op("Neg", z)
    re, im = parts(ctx, z)
    return pack(ctx, ctx.op("Neg", re), ctx.op("Neg", im), ctx.out.shape)


@in_computations("neg")
def _neg(z: Z) -> Z:
    return Z(-z.re, -z.im)


@in_computations("conj")
def _conj(z: Z) -> Z:
    return Z(z.re, -z.im)


@in_computations("complex")
def _complex(re: Any, im: Any) -> Z:
    return Z(re, im)


@in_computations("real")
def _real(z: Z) -> Any:
    return z.re


@in_computations("imag")
def _imag(z: Z) -> Any:
    return z.im


# -- magnitude and sign -----------------------------------------------------------------------------


def hypot(x: Any, y: Any) -> Any:
    """The magnitude of (x, y), without overflow; infinite where either is, NaN or not the other."""
    x, y = abs(x), abs(y)
    limits = np.finfo(x.dtype)
    large, small = jnp.maximum(x, y), jnp.minimum(x, y)
    ratio = small / jnp.clip(large, limits.tiny, limits.max)
    return jnp.where((x == INF) | (y == INF), INF, large * jnp.sqrt(1 + ratio * ratio))


@by_parts("abs")
def abs_(z: Z) -> Any:
    return hypot(z.re, z.im)


@by_parts("sign")
def sign(z: Z) -> Z:
    size = hypot(z.re, z.im)
    size = jnp.where(size == 0, 1, size)
    # A NaN in either part is one in both.
    return Z(jnp.where(jnp.isnan(z.im), z.im, z.re / size), jnp.where(jnp.isnan(z.re), z.re, z.im / size))


# -- comparisons ------------------------------------------------------------------------------------


@by_parts("eq")
def eq(a: Z, b: Z) -> Any:
    return (a.re == b.re) & (a.im == b.im)


@by_parts("ne")
def ne(a: Z, b: Z) -> Any:
    return (a.re != b.re) | (a.im != b.im)


def _ordered(compare: Any, a: Z, b: Z) -> Any:
    """Lexicographic order."""
    return jnp.where(a.re == b.re, compare(a.im, b.im), compare(a.re, b.re))


@by_parts("lt")
def lt(a: Z, b: Z) -> Any:
    return _ordered(jnp.less, a, b)


@by_parts("le")
def le(a: Z, b: Z) -> Any:
    return _ordered(jnp.less_equal, a, b)


@by_parts("gt")
def gt(a: Z, b: Z) -> Any:
    return _ordered(jnp.greater, a, b)


@by_parts("ge")
def ge(a: Z, b: Z) -> Any:
    return _ordered(jnp.greater_equal, a, b)


@by_parts("max")
def max_(a: Z, b: Z) -> Z:
    return select(gt(a, b), a, b)


@by_parts("min")
def min_(a: Z, b: Z) -> Z:
    return select(lt(a, b), a, b)


@by_parts("clamp")
def clamp(low: Z, z: Z, high: Z) -> Z:
    return min_(max_(low, z), high)


def select(which: Any, yes: Z, no: Z) -> Z:
    """``yes`` where ``which`` is true."""
    return Z(jnp.where(which, yes.re, no.re), jnp.where(which, yes.im, no.im))
