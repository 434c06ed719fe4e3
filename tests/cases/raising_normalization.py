"""Normalizations in half precision and over groups and positions: native forms, edge inputs, near misses."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax

from tests.cases.case import Case, f32
from tests.cases.raising import ROWS

BF16 = ml_dtypes.bfloat16
SCALE, BIAS = f32(8, seed=1, shift=1.0), f32(8, seed=2)
# Each sample is constant; the last also holds NaN.
LEVELS = np.broadcast_to(np.float32([0.0, 7.0, -300.0, 4e4]).reshape(4, 1, 1, 1), (4, 3, 2, 8)).copy()
LEVELS[3, 1, 1, 5] = np.nan
OFFSET = f32(2, 3, 2, 8, shift=100.0)


def layer_norm(x: Any, scale: Any, bias: Any, fast: bool = True) -> Any:
    """As Flax: float32 inside, the result in the precision of the operand."""
    scale, bias = (v.reshape((1,) * (x.ndim - 1) + (-1,)) for v in (scale, bias))
    wide = x.astype(jnp.float32)
    mean = jnp.mean(wide, -1)
    if fast:
        var = jnp.maximum(0.0, jnp.mean(wide * wide, -1) - mean * mean)
    else:
        centred = wide - mean[..., None]
        var = jnp.mean(centred * centred, -1)
    normal = (wide - mean[..., None]) * (lax.rsqrt(var[..., None] + 1e-6) * scale) + bias
    return normal.astype(x.dtype)


def rms_norm(x: Any, scale: Any) -> Any:
    wide = x.astype(jnp.float32)
    normal = wide * lax.rsqrt(jnp.mean(wide * wide, -1, keepdims=True) + 1e-6)
    return (normal * scale).astype(x.dtype)


def instance_norm(x: Any, axes: Any = None) -> Any:
    axes = axes or tuple(range(1, x.ndim - 1))
    mean = jnp.mean(x, axes, keepdims=True)
    centred = x - mean
    return centred * (lax.rsqrt(jnp.mean(centred * centred, axes, keepdims=True) + 1e-5) * SCALE) + BIAS


def group_norm(x: Any, groups: int) -> Any:
    g = x.reshape(*x.shape[:-1], groups, x.shape[-1] // groups)
    axes = (*range(1, x.ndim - 1), x.ndim)
    mean = jnp.mean(g, axes, keepdims=True)
    var = jnp.var(g, axes, keepdims=True)
    return ((g - mean) * lax.rsqrt(var + 1e-5)).reshape(x.shape) * SCALE + BIAS


def narrow(dtype: Any, x: Any = ROWS, vectors: int = 2) -> list[Any]:
    """Operand, scale and bias in half precision."""
    return [np.clip(v, -6e4, 6e4).astype(dtype) for v in (x, SCALE, BIAS)[: 1 + vectors]]


F16 = np.float16
BATCHED = [jax.ShapeDtypeStruct(s, F16) for s in (("B", "T", 8), (8,), (8,))]
DECOMPOSED = {"normalization_mode": "force_decomposed"}
NATIVE, STAYS = ["LayerNormalization"], ["!LayerNormalization"]
IMAGE, ANY_BATCH = f32(2, 3, 2, 8), [("B", 3, 2, 8)]
OTHERS = [[LEVELS], [f32(1, 3, 2, 8)]]

CASES = [
    Case("layer_half", layer_norm, narrow(F16), ops=[*NATIVE, "!Cast"]),
    Case("layer_half_two_pass", partial(layer_norm, fast=False), narrow(F16), ops=[*NATIVE, "!Cast"]),
    Case("layer_brain", layer_norm, narrow(BF16), ops=[*NATIVE, "!ReduceMean"]),
    Case("layer_half_symbolic", layer_norm, narrow(F16, f32(2, 3, 8)), spec=BATCHED, also=[narrow(F16, f32(1, 5, 8))]),
    Case("layer_half_wide_vectors", layer_norm, [f32(3, 8).astype(F16), SCALE, BIAS], ops=["Cast", *NATIVE]),
    Case("layer_half_decomposed", layer_norm, narrow(F16, f32(3, 8)), options=DECOMPOSED, ops=STAYS),
    Case("rms_half", rms_norm, narrow(F16, vectors=1), ops=["RMSNormalization", "!Cast"]),
    Case("rms_brain", rms_norm, narrow(BF16, vectors=1), ops=["RMSNormalization"]),
    Case("rms_half_opset22", rms_norm, narrow(F16, vectors=1), options={"opset": 22}, ops=["!RMSNormalization"]),
    Case("group", partial(group_norm, groups=2), [IMAGE], spec=ANY_BATCH, also=OTHERS, ops=[*NATIVE, "!Expand"]),
    Case("group_offset", partial(group_norm, groups=4), [OFFSET], ops=NATIVE, rtol=1e-4, atol=1e-4),
    Case("group_of_all", partial(group_norm, groups=1), [f32(2, 3, 8)], ops=NATIVE),
    Case("group_of_one", partial(group_norm, groups=8), [f32(2, 3, 8)], ops=NATIVE),
    Case("group_large", partial(group_norm, groups=2), [f32(1, 40, 40, 8)], ops=[*NATIVE, "Expand"]),
    Case("instance", instance_norm, [IMAGE], spec=ANY_BATCH, also=OTHERS, ops=NATIVE),
    Case("instance_offset", instance_norm, [OFFSET], ops=NATIVE, rtol=1e-4, atol=1e-4),
    Case("instance_one_position", instance_norm, [f32(3, 1, 8)], ops=NATIVE),
    Case("instance_other_axes", partial(instance_norm, axes=(0, 1)), [IMAGE], ops=STAYS),
    Case("instance_any_height", instance_norm, [IMAGE], spec=[("B", "H", 2, 8)], also=[[f32(1, 5, 2, 8)]], ops=STAYS),
]  # fmt: skip
