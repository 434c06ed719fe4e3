"""Layer and RMS normalization over the last axis.

Frameworks differ in how they take the variance (mean of squares less square of the mean, or mean of squared
deviations), in whether they clip it at zero, and in the order of the products with the scale; the references list
what Flax, Equinox and Haiku trace to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as ir
from jax import lax

from onnxproof.capture.program import Aval
from onnxproof.lowering.emit import Ctx
from onnxproof.raising.composite import Candidate, Variant, composite, literal_scalars

Moments = Callable[[jax.Array], tuple[jax.Array, jax.Array]]


def _mean(x: jax.Array) -> jax.Array:
    return lax.reduce_sum(x, axes=(x.ndim - 1,)) / x.shape[-1]


def _wide(x: jax.Array) -> jax.Array:
    return lax.expand_dims(x, (x.ndim,))


def _fast(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Mean and clipped E[x²] - E[x]², reduced first and widened afterwards."""
    mean = _mean(x)
    variance = lax.max(jnp.float32(0).astype(x.dtype), _mean(x * x) - mean * mean)
    return _wide(mean), _wide(variance)


def _two_pass(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    mean = _wide(lax.reduce_sum(x, axes=(x.ndim - 1,))) / x.shape[-1]
    centred = x - mean
    return mean, _wide(lax.reduce_sum(centred * centred, axes=(x.ndim - 1,))) / x.shape[-1]


def _two_pass_clipped(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    mean, variance = _two_pass(x)
    return mean, lax.max(jnp.float32(0).astype(x.dtype), variance)


def _two_pass_narrow(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    mean = _wide(_mean(x))
    centred = x - mean
    return mean, _wide(_mean(centred * centred))


_MOMENTS = (_fast, _two_pass_clipped, _two_pass, _two_pass_narrow)


def _scale_first(moments: Moments) -> Callable[..., jax.Array]:
    def reference(x: jax.Array, scale: jax.Array, bias: jax.Array, eps: jax.Array) -> jax.Array:
        mean, variance = moments(x)
        return (x - mean) * (lax.rsqrt(variance + eps) * scale) + bias

    return reference


def _scale_last(moments: Moments) -> Callable[..., jax.Array]:
    def reference(x: jax.Array, scale: jax.Array, bias: jax.Array, eps: jax.Array) -> jax.Array:
        mean, variance = moments(x)
        return (x - mean) * lax.rsqrt(variance + eps) * scale + bias

    return reference


def _by_sqrt(moments: Moments) -> Callable[..., jax.Array]:
    def reference(x: jax.Array, scale: jax.Array, bias: jax.Array, eps: jax.Array) -> jax.Array:
        mean, variance = moments(x)
        return (x - mean) / jnp.sqrt(variance + eps) * scale + bias

    return reference


def _operand(candidate: Candidate) -> Iterable[Aval]:
    """The aval of the operand, when something like the result is reduced over its last axis above."""
    out = candidate.out
    if out.ndim and out.dtype.name in ("float32", "float64"):
        last = (out.ndim - 1,)
        for eqn in candidate.near:
            if eqn.primitive == "reduce_sum" and eqn.inputs[0].aval == out and eqn.params["axes"] == last:
                yield out
                return


def _affine(candidate: Candidate) -> Iterable[Variant]:
    """Operand like the result, scale and bias over the last axis, a scalar epsilon."""
    for x in _operand(candidate):
        vector = Aval(x.shape[-1:], x.dtype)
        yield Variant((x, vector, vector, Aval((), x.dtype)))


def _scaled(candidate: Candidate) -> Iterable[Variant]:
    for x in _operand(candidate):
        yield Variant((x, Aval(x.shape[-1:], x.dtype), Aval((), x.dtype)))


def _halved(reference: Callable[..., Any], wide_vectors: bool) -> Callable[..., jax.Array]:
    """The reference computed in float32 for a narrower operand, scale and bias of the same width.

    Args:
        wide_vectors: whether scale and bias get the rank of the operand before they are widened, as in Flax.
    """

    def half(x: jax.Array, *rest: jax.Array) -> jax.Array:
        *vectors, eps = rest
        if wide_vectors:
            vectors = [lax.reshape(v, (*(1,) * (x.ndim - 1), *v.shape)) for v in vectors]
        wide = [lax.convert_element_type(v, jnp.float32) for v in (x, *vectors)]
        return lax.convert_element_type(reference(*wide, eps), x.dtype)

    return half


def _half_operand(candidate: Candidate, vectors: int) -> Iterable[Variant]:
    """As :func:`_operand`, for a result narrower than the float32 that it is computed in."""
    out = candidate.out
    if out.ndim and out.dtype.name in ("float16", "bfloat16"):
        wide, last = Aval(out.shape, np.dtype("float32")), (out.ndim - 1,)
        for eqn in candidate.near:
            if eqn.primitive == "reduce_sum" and eqn.inputs[0].aval == wide and eqn.params["axes"] == last:
                vector = Aval(out.shape[-1:], out.dtype)
                yield Variant((out, *(vector,) * vectors, Aval((), wide.dtype)))
                return


def _layer(ctx: Ctx, x: ir.Value, scale: ir.Value, bias: ir.Value, epsilon: float) -> ir.Value:
    if ctx.out.dtype.name != "bfloat16":
        return ctx.op("LayerNormalization", x, scale, bias, axis=-1, epsilon=epsilon)
    # the bfloat16 kernel of ONNX Runtime takes 6 to 12 times as long as that of float32 between casts
    wide = [ctx.cast(v, np.dtype("float32")) for v in (x, scale, bias)]
    return ctx.cast(ctx.op("LayerNormalization", *wide, axis=-1, epsilon=epsilon), ctx.out.dtype)


def _root_mean_square(ctx: Ctx, x: ir.Value, scale: ir.Value, epsilon: float) -> ir.Value:
    return ctx.op("RMSNormalization", x, scale, axis=-1, epsilon=epsilon)


_LAYER = [form(m) for m in _MOMENTS for form in (_scale_first, _scale_last)] + [_by_sqrt(_two_pass)]


@composite(
    "layer_norm",
    references=_LAYER,
    root="add",
    anchor="rsqrt",
    specs=_affine,
    bind=literal_scalars("epsilon"),
    normalization=True,
)
def layer_norm(ctx: Ctx, x: ir.Value, scale: ir.Value, bias: ir.Value, *, epsilon: float) -> ir.Value:
    return _layer(ctx, x, scale, bias, epsilon)


@composite(
    "layer_norm_half",
    references=[_halved(r, wide) for wide in (True, False) for r in _LAYER],
    root="convert_element_type",
    anchor="rsqrt",
    specs=partial(_half_operand, vectors=2),
    bind=literal_scalars("epsilon"),
    normalization=True,
)
def layer_norm_half(ctx: Ctx, x: ir.Value, scale: ir.Value, bias: ir.Value, *, epsilon: float) -> ir.Value:
    return _layer(ctx, x, scale, bias, epsilon)


def _rms_scale_first(x: jax.Array, scale: jax.Array, eps: jax.Array) -> jax.Array:
    return x * (lax.rsqrt(_wide(_mean(x * x)) + eps) * scale)


def _wide_mean_square(x: jax.Array) -> jax.Array:
    return _wide(lax.reduce_sum(x * x, axes=(x.ndim - 1,))) / x.shape[-1]


def _rms_scale_last(x: jax.Array, scale: jax.Array, eps: jax.Array) -> jax.Array:
    return x * lax.rsqrt(_wide_mean_square(x) + eps) * scale


def _rms_narrow(x: jax.Array, scale: jax.Array, eps: jax.Array) -> jax.Array:
    return x * _wide(lax.rsqrt(_mean(x * x) + eps)) * scale


def _rms_broadcast(x: jax.Array, scale: jax.Array, eps: jax.Array) -> jax.Array:
    power = lax.broadcast_in_dim(_wide_mean_square(x), x.shape, tuple(range(x.ndim)))
    return x * scale * lax.rsqrt(power + eps)


_RMS: tuple[Callable[..., Any], ...] = (_rms_scale_first, _rms_scale_last, _rms_narrow, _rms_broadcast)


@composite(
    "rms_norm",
    references=_RMS,
    root="mul",
    anchor="rsqrt",
    specs=_scaled,
    bind=literal_scalars("epsilon"),
    min_opset=23,
    normalization=True,
)
def rms_norm(ctx: Ctx, x: ir.Value, scale: ir.Value, *, epsilon: float) -> ir.Value:
    return _root_mean_square(ctx, x, scale, epsilon)


@composite(
    "rms_norm_half",
    references=[_halved(r, wide) for wide in (True, False) for r in _RMS],
    root="convert_element_type",
    anchor="rsqrt",
    specs=partial(_half_operand, vectors=1),
    bind=literal_scalars("epsilon"),
    min_opset=23,
    normalization=True,
)
def rms_norm_half(ctx: Ctx, x: ir.Value, scale: ir.Value, *, epsilon: float) -> ir.Value:
    return _root_mean_square(ctx, x, scale, epsilon)
