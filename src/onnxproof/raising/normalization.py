"""Layer and RMS normalization over the last axis.

Frameworks differ in how they take the variance (mean of squares less square of the mean, or mean of squared
deviations), in whether they clip it at zero, and in the order of the products with the scale; the references list
what Flax, Equinox and Haiku trace to.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
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


@composite(
    "layer_norm",
    references=[form(m) for m in _MOMENTS for form in (_scale_first, _scale_last)] + [_by_sqrt(_two_pass)],
    root="add",
    anchor="rsqrt",
    specs=_affine,
    bind=literal_scalars("epsilon"),
    normalization=True,
)
def layer_norm(ctx: Ctx, x: ir.Value, scale: ir.Value, bias: ir.Value, *, epsilon: float) -> ir.Value:
    return ctx.op("LayerNormalization", x, scale, bias, axis=-1, epsilon=epsilon)


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
    return ctx.op("RMSNormalization", x, scale, axis=-1, epsilon=epsilon)


def _grouped_fast(
    x: jax.Array, scale: jax.Array, bias: jax.Array, eps: jax.Array, *, groups: int
) -> jax.Array:
    """Channels last, as Flax: moments per group, spread over the channels of the group."""
    channels = x.shape[-1]
    split = lax.reshape(x, (*x.shape[:-1], groups, channels // groups))
    axes = (*range(1, x.ndim - 1), x.ndim)
    count = math.prod(split.shape[a] for a in axes)
    mean = lax.reduce_sum(split, axes=axes) / count
    power = lax.reduce_sum(split * split, axes=axes) / count
    variance = lax.max(jnp.float32(0).astype(x.dtype), power - mean * mean)

    def spread(v: jax.Array) -> jax.Array:
        wide = lax.broadcast_in_dim(v, (v.shape[0], groups, channels // groups), (0, 1))
        return lax.reshape(wide, (v.shape[0], *(1,) * (x.ndim - 2), channels))

    return (x - spread(mean)) * (lax.rsqrt(spread(variance) + eps) * scale) + bias


def _grouped_two_pass(
    x: jax.Array,
    scale: jax.Array,
    bias: jax.Array,
    eps: jax.Array,
    *,
    groups: int,
    channel: int,
    clipped: bool,
) -> jax.Array:
    """Channels at ``channel``, moments kept wide, as Haiku (last) and Equinox (first)."""
    size = x.shape[channel]
    split = lax.reshape(x, (*x.shape[:channel], groups, size // groups, *x.shape[channel + 1 :]))
    axes = tuple(a for a in range(1, split.ndim) if a != channel)
    count = math.prod(split.shape[a] for a in axes)

    def mean_of(v: jax.Array) -> jax.Array:
        return lax.expand_dims(lax.reduce_sum(v, axes=axes), axes) / count

    centred = split - mean_of(split)
    variance = mean_of(centred * centred)
    if clipped:
        variance = lax.max(jnp.float32(0).astype(x.dtype), variance)
    normal = lax.reshape(centred * lax.rsqrt(variance + eps), x.shape)
    tail = (1,) * (x.ndim - 1 - channel)
    return normal * lax.reshape(scale, (size, *tail)) + lax.reshape(bias, (size, *tail))


_haiku_group = partial(_grouped_two_pass, clipped=False)
_equinox_group = partial(_grouped_two_pass, clipped=True)


def _groups(candidate: Candidate) -> Iterable[tuple[int, int]]:
    """(groups, channel axis) as read from a reduction over the split operand above."""
    out = candidate.out
    if out.ndim < 3 or out.dtype.name != "float32":
        return
    for eqn in candidate.near:
        split = candidate.maker(eqn.inputs[0], "reshape") if eqn.primitive == "reduce_sum" else None
        if split is None or split.inputs[0].aval != out or split.outputs[0].aval.ndim != out.ndim + 1:
            continue
        shape = split.outputs[0].aval.shape
        kept = [a for a in range(1, len(shape)) if a not in eqn.params["axes"]]
        if len(kept) == 1 and all(isinstance(shape[a], int) for a in eqn.params["axes"]):
            groups = shape[kept[0]]
            if isinstance(groups, int):
                yield groups, kept[0]
                return


def _group_last(candidate: Candidate) -> Iterable[Variant]:
    for groups, channel in _groups(candidate):
        if channel == candidate.out.ndim - 1:
            yield Variant(_group_operands(candidate, channel), (("groups", groups),))


def _group_any(candidate: Candidate) -> Iterable[Variant]:
    for groups, channel in _groups(candidate):
        params = (("groups", groups), ("channel", channel))
        yield Variant(_group_operands(candidate, channel), params)


def _group_operands(candidate: Candidate, channel: int) -> tuple[Aval, ...]:
    out = candidate.out
    vector = Aval((out.shape[channel],), out.dtype)
    return (out, vector, vector, Aval((), out.dtype))


def _instance_form(
    ctx: Ctx, x: ir.Value, scale: ir.Value, bias: ir.Value, groups: int, channel: int, epsilon: float
) -> ir.Value:
    """Groups as the channels of an InstanceNormalization, then the affine part.

    ONNX Runtime inlines GroupNormalization into a slower chain; this form has a kernel of its own.
    """
    shape, dtype = ctx.out.shape, ctx.out.dtype
    rank = len(shape)
    first = [0, channel, *(a for a in range(1, rank) if a != channel)]
    moved = ctx.transpose(x, first)
    flat = ctx.op("Reshape", moved, ctx.i64([0, groups, -1]))
    ones, zeros = ctx.const([1.0] * groups, dtype), ctx.const([0.0] * groups, dtype)
    normal = ctx.op("InstanceNormalization", flat, ones, zeros, epsilon=epsilon)
    back = ctx.reshape(normal, [shape[a] for a in first])
    restored = ctx.transpose(back, [first.index(a) for a in range(rank)])
    wide = (-1, *(1,) * (rank - 1 - channel))

    def per_channel(v: ir.Value) -> ir.Value:
        if rank - 1 == channel:
            return v
        return ctx.op("Reshape", v, ctx.i64(wide), shape=(shape[channel], *wide[1:]))

    return ctx.op("Add", ctx.op("Mul", restored, per_channel(scale)), per_channel(bias))


@composite(
    "group_norm",
    references=[_grouped_fast],
    root="add",
    anchor="rsqrt",
    specs=_group_last,
    bind=literal_scalars("epsilon"),
    normalization=True,
)
def group_norm(
    ctx: Ctx, x: ir.Value, scale: ir.Value, bias: ir.Value, *, groups: int, epsilon: float
) -> ir.Value:
    return _instance_form(ctx, x, scale, bias, groups, ctx.out.ndim - 1, epsilon)


@composite(
    "group_norm_wide",
    references=[_haiku_group, _equinox_group],
    root="add",
    anchor="rsqrt",
    specs=_group_any,
    bind=literal_scalars("epsilon"),
    normalization=True,
)
def group_norm_wide(
    ctx: Ctx,
    x: ir.Value,
    scale: ir.Value,
    bias: ir.Value,
    *,
    groups: int,
    channel: int,
    epsilon: float,
) -> ir.Value:
    return _instance_form(ctx, x, scale, bias, groups, channel, epsilon)
