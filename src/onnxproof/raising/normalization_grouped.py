"""Group and instance normalization, over positions and, of a group, the channels.

ONNX Runtime inlines GroupNormalization into a slower chain, and its InstanceNormalization multiplies before it takes
the mean off, which cancels. LayerNormalization over rows that hold a group is as fast as that and exact.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as ir
from jax import lax

from onnxproof.capture.program import Aval
from onnxproof.lowering.emit import Ctx
from onnxproof.raising.composite import Candidate, Variant, composite, literal_scalars

_STORED = 4096  # so many ones are a constant in the file; more are expanded when the session is made


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
    if out.ndim < 3 or out.dtype.name != "float32" or not all(isinstance(d, int) for d in out.shape[1:]):
        return
    for eqn in candidate.near:
        split = candidate.maker(eqn.inputs[0], "reshape") if eqn.primitive == "reduce_sum" else None
        if split is None or split.inputs[0].aval != out or split.outputs[0].aval.ndim != out.ndim + 1:
            continue
        shape = split.outputs[0].aval.shape
        kept = [a for a in range(1, len(shape)) if a not in eqn.params["axes"]]
        if len(kept) == 1:
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


def _grouped_form(
    ctx: Ctx, x: ir.Value, scale: ir.Value, bias: ir.Value, groups: int, channel: int, epsilon: float
) -> ir.Value:
    """The numbers of a group in one row, LayerNormalization over rows, then the affine part."""
    shape, dtype = ctx.out.shape, ctx.out.dtype
    rank = len(shape)
    first = [0, channel, *(a for a in range(1, rank) if a != channel)]
    count = math.prod(d for d in shape[1:] if isinstance(d, int)) // groups
    flat = ctx.op("Reshape", ctx.transpose(x, first), ctx.i64([0, groups, count]))
    one = ctx.const(np.ones(count if count <= _STORED else 1), dtype)
    ones = ctx.expand(one, (count,))
    normal = ctx.op("LayerNormalization", flat, ones, axis=-1, epsilon=epsilon)
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
    return _grouped_form(ctx, x, scale, bias, groups, ctx.out.ndim - 1, epsilon)


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
    return _grouped_form(ctx, x, scale, bias, groups, channel, epsilon)


def _instance_fast(x: jax.Array, scale: jax.Array, bias: jax.Array, eps: jax.Array) -> jax.Array:
    """Channels last, as Flax: each channel over the positions, the variance as E[x²] - E[x]²."""
    axes = tuple(range(1, x.ndim - 1))
    count = math.prod(x.shape[a] for a in axes)
    mean = lax.reduce_sum(x, axes=axes) / count
    power = lax.reduce_sum(x * x, axes=axes) / count
    variance = lax.max(jnp.float32(0).astype(x.dtype), power - mean * mean)
    wide_mean, wide_variance = (lax.expand_dims(v, axes) for v in (mean, variance))
    return (x - wide_mean) * (lax.rsqrt(wide_variance + eps) * scale) + bias


def _instance_two_pass(x: jax.Array, scale: jax.Array, bias: jax.Array, eps: jax.Array) -> jax.Array:
    """Channels last, as Haiku."""
    axes = tuple(range(1, x.ndim - 1))
    count = math.prod(x.shape[a] for a in axes)
    centred = x - lax.expand_dims(lax.reduce_sum(x, axes=axes), axes) / count
    variance = lax.expand_dims(lax.reduce_sum(centred * centred, axes=axes), axes) / count
    return centred * (lax.rsqrt(variance + eps) * scale) + bias


def _positions(candidate: Candidate) -> Iterable[Variant]:
    """Operand like the result, reduced over all axes but the first and the last."""
    out = candidate.out
    if out.ndim < 3 or out.dtype.name != "float32" or not all(isinstance(d, int) for d in out.shape[1:]):
        return
    axes = tuple(range(1, out.ndim - 1))
    for eqn in candidate.near:
        if eqn.primitive == "reduce_sum" and eqn.inputs[0].aval == out and eqn.params["axes"] == axes:
            yield Variant(_group_operands(candidate, out.ndim - 1))
            return


@composite(
    "instance_norm",
    references=[_instance_fast, _instance_two_pass],
    root="add",
    anchor="rsqrt",
    specs=_positions,
    bind=literal_scalars("epsilon"),
    normalization=True,
)
def instance_norm(ctx: Ctx, x: ir.Value, scale: ir.Value, bias: ir.Value, *, epsilon: float) -> ir.Value:
    channels = ctx.out.shape[-1]
    assert isinstance(channels, int)
    return _grouped_form(ctx, x, scale, bias, channels, ctx.out.ndim - 1, epsilon)
