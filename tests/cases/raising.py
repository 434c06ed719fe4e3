"""Composites: native forms on ordinary and edge inputs, and near misses that stay as they are."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.cases.case import Case, f32

EDGES = np.array(
    [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-30, -1e-30, 1e-4, -1e-4, 1.0, -1.0, 5.5, -5.5, 30.0, -30.0, 3e38],
    np.float32,
)
I32 = np.array([-(2**31), -(2**31) + 1, -7, -3, -2, -1, 0, 1, 2, 3, 7, 2**31 - 1], np.int32)
ROWS = np.stack(
    [
        np.zeros(8, np.float32),
        np.full(8, 3.5, np.float32),
        np.linspace(-1, 1, 8, dtype=np.float32),
        np.array([np.nan, 1, 2, 3, 4, 5, 6, 7], np.float32),
        np.array([np.inf, 1, 2, 3, 4, 5, 6, 7], np.float32),
        np.full(8, -np.inf, np.float32),
        np.array([-np.inf, 1, 2, 3, 4, 5, 6, 7], np.float32),
        np.array([1e4, 1e4 + 1, 1e4 + 2, 1e4 + 3, 1e4, 1e4, 1e4, 1e4], np.float32),
    ]
)
SCALE, BIAS = f32(8, seed=1, shift=1.0), f32(8, seed=2)


def layer_norm(x: Any, fast: bool = False, axis: int = -1) -> Any:
    mean = jnp.mean(x, axis, keepdims=True)
    if fast:
        var = jnp.maximum(0.0, jnp.mean(x * x, axis, keepdims=True) - mean * mean)
    else:
        var = jnp.var(x, axis, keepdims=True)
    return (x - mean) * lax.rsqrt(var + 1e-5) * SCALE + BIAS


def rms_norm(x: Any) -> Any:
    return x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * SCALE


def group_norm(x: Any) -> Any:
    g = x.reshape(x.shape[0], *x.shape[1:-1], 2, 4)
    axes = (*range(1, x.ndim - 1), x.ndim)
    mean = jnp.mean(g, axes, keepdims=True)
    var = jnp.var(g, axes, keepdims=True)
    return ((g - mean) * lax.rsqrt(var + 1e-5)).reshape(x.shape) * SCALE + BIAS


def almost_gelu(x: Any) -> Any:
    return 0.5 * x * (1 + jnp.tanh(0.79 * (x + 0.044715 * x**3)))


DECOMPOSED = {"normalization_mode": "force_decomposed"}
FINITE = ROWS[[0, 1, 2, 7]]

CASES = [
    Case("gelu", partial(jax.nn.gelu, approximate=False), [EDGES], ops=["Gelu"]),
    Case("gelu_tanh", jax.nn.gelu, [EDGES], ops=["Gelu"]),
    Case("gelu_opset17", jax.nn.gelu, [EDGES], options={"opset": 17}, ops=["!Gelu"]),
    Case("gelu_other_constant", almost_gelu, [f32(9)], ops=["!Gelu"]),
    Case("softplus", jax.nn.softplus, [EDGES], ops=["Softplus"]),
    Case("softplus_tail", jax.nn.softplus, [np.array([-80.0, -20.0, -1e-3, 20.0], np.float32)], rtol=2e-6, atol=0.0),
    Case("hard_swish", jax.nn.hard_swish, [EDGES], ops=["HardSwish", "!Clip"]),
    Case("hard_sigmoid", jax.nn.hard_sigmoid, [EDGES], ops=["HardSigmoid", "!Clip"]),
    Case("hard_swish_near_3", jax.nn.hard_swish, [np.linspace(-4, 4, 4001, dtype=np.float32)], ops=["HardSwish"]),
    Case("hard_sigmoid_f16", jax.nn.hard_sigmoid, [f32(9, scale=4).astype(np.float16)], ops=["!HardSigmoid"]),
    Case("hard_swish_other_bound", lambda x: x * jnp.clip(x + 3, 0, 5) / 6, [f32(9)], ops=["!HardSwish"]),
    Case("leaky_relu", jax.nn.leaky_relu, [EDGES], ops=["LeakyRelu"]),
    Case("clip", lambda x: jnp.clip(x, -2.0, 6.0), [EDGES], ops=["Clip"]),
    Case("clip_crossed", lambda x: jnp.clip(x, 2.0, -1.0), [EDGES], ops=["!Clip"]),
    Case("relu6", jax.nn.relu6, [EDGES], ops=["Clip"]),
    Case("softmax", jax.nn.softmax, [ROWS], spec=[("B", 8)], also=[[ROWS[:1]]], ops=["Softmax"]),
    Case("softmax_first_axis", partial(jax.nn.softmax, axis=0), [ROWS[[0, 2, 6]]], ops=["!Softmax"]),
    Case("softmax_one", jax.nn.softmax, [f32(3, 1)], ops=["Softmax"]),
    Case("log_softmax_f64", jax.nn.log_softmax, [ROWS.astype(np.float64)], x64=True, ops=["!LogSoftmax"]),
    Case("softmax_f64", jax.nn.softmax, [ROWS.astype(np.float64)], x64=True),
    Case("log_softmax", jax.nn.log_softmax, [ROWS], ops=["LogSoftmax"]),
    Case("mean_of_nothing", lambda x: (x.mean(0), x.mean(1)), [np.zeros((0, 3), np.float32)], ops=["ReduceMean"]),
    Case("mean", lambda x: x.mean(1), [f32(2, 3, 4)], spec=[("B", 3, "T")], also=[[f32(1, 3, 7)]], ops=["ReduceMean"]),
    Case("mean_keepdims", lambda x: x.mean((1, 2), keepdims=True), [f32(2, 3, 4)], ops=["ReduceMean"]),
    Case("sum_over_other", lambda x: x.sum(1) / 5.0, [f32(2, 3, 4)], ops=["!ReduceMean"]),
    Case("mean_int", lambda x: x.sum(1) // 3, [np.arange(12, dtype=np.int32).reshape(4, 3)], ops=["!ReduceMean"]),
    Case("layer_norm", layer_norm, [ROWS], ops=["LayerNormalization"], rtol=1e-5, atol=2e-3),
    Case("layer_norm_one_row", lambda x: layer_norm(x.reshape(1, 4, 8)), [f32(1, 2, 2, 8)], ops=["LayerNormalization"]),
    Case("layer_norm_finite", layer_norm, [FINITE[:3]], ops=["LayerNormalization"]),
    Case("layer_norm_fast", partial(layer_norm, fast=True), [FINITE[:3]], rtol=1e-4, atol=1e-3),
    Case("layer_norm_f64", layer_norm, [1e-4 * ROWS[:3].astype(np.float64)], x64=True, rtol=1e-13, atol=1e-13,
         ops=["!LayerNormalization"]),
    Case("layer_norm_first_axis", lambda x: layer_norm(x, axis=0), [f32(8, 8)], ops=["!LayerNormalization"]),
    Case("rms_norm", rms_norm, [ROWS], ops=["RMSNormalization"]),
    Case("rms_norm_opset22", rms_norm, [ROWS], options={"opset": 22}, ops=["!RMSNormalization"]),
    Case("group_norm", group_norm, [f32(2, 3, 5, 8)], spec=[("B", 3, 5, 8)], also=[[f32(1, 3, 5, 8)]]),
    Case("decomposed", layer_norm, [f32(3, 8)], options=DECOMPOSED, ops=["!LayerNormalization"]),
    Case("remainder", lambda x: (x % 3, x % -4, x % 1), [I32], ops=["Mod", "!Where"]),
    Case("remainder_minus_one", lambda x: x % -1, [I32]),
    Case("remainder_unsigned", lambda x: x % 3, [np.array([0, 1, 5, 255], np.uint8)]),
    Case("remainder_array", lambda x, y: x % y, [I32, I32[::-1].copy()]),
    Case("floor_divide", lambda x: (x // 3, x // -4, x // 1, x // 2), [I32], ops=["Div", "!Where"]),
    Case("floor_divide_minus_one", lambda x: x // -1, [I32]),
    Case("floor_divide_narrow", lambda x: (x // 3, x // -7), [np.arange(-128, 128).astype(np.int8)]),
    Case("floor_divide_array", lambda x, y: x // y, [I32, I32[::-1].copy()]),
]  # fmt: skip
