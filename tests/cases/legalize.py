"""Types that ONNX Runtime has no kernel for, through the whole exporter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax

from tests.cases.case import Case, f32, ints

BF16 = ml_dtypes.bfloat16
INTS = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)
EDGES = [0.0, -0.0, 1e-300, 1e-12, 0.5, -0.5, 0.999999, -3.0, 40.0, -40.0, np.inf, -np.inf, np.nan]
UNIT = [0.0, -0.0, 1e-12, 0.3, -0.3, 0.999999999, -0.999999999, 1.0, -1.0, np.nan]
ABOVE = [1.0, 1.0000001, 2.0, 1e10, 1e300, 0.5, np.inf, np.nan]


def bf16(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return f32(*shape, seed=seed).astype(BF16)


def f64(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).normal(size=shape)


def attention(q: Any, k: Any, v: Any) -> Any:
    return jax.nn.softmax(jnp.einsum("qd,kd->qk", q, k) / 2) @ v


def layer_norm(x: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-3)


def reductions(x: Any) -> Any:
    return x.sum(0), x.max(1), jnp.maximum(x, 0), jnp.where(x > 0, x, 1)


def selections(c: Any, a: Any, b: Any) -> Any:
    return jnp.where(c, a, b), a | b, jnp.maximum(a, b), jnp.minimum(a, b)


def mixture(x: Any, y: Any) -> Any:
    pairs = jnp.maximum(x, y), jnp.minimum(x, y), jnp.where(x > y, x, y), jnp.clip(x, 1, 5), -x
    return *pairs, x.max(0), x.min(), x.argmax(0)


def extremes(x: Any) -> Any:
    sums = jnp.cumsum(x, dtype=x.dtype), x.sum(dtype=x.dtype)
    return *sums, jnp.sort(x), jnp.argmax(x), x.max(), x >> 1, x << 1


def ends(dtype: Any) -> np.ndarray[Any, Any]:
    high, low = np.iinfo(dtype).max, np.iinfo(dtype).min
    return np.array([high, 0, low, 5, high // 2 + 1, high - 1], dtype)


def integer_cases(dtype: Any) -> list[Case]:
    name = np.dtype(dtype).name
    low = -9 if np.dtype(dtype).kind == "i" else 0
    x, y = ints(3, 4, low=low, dtype=dtype), ints(3, 4, seed=1, low=0, dtype=dtype)
    a, b = ints(3, 4, low=0, high=100, dtype=dtype), ints(4, 2, seed=1, low=0, high=100, dtype=dtype)
    return [
        Case(f"{name}_mixture", mixture, [x, y], x64=True),
        Case(f"{name}_extremes", extremes, [ends(dtype)], x64=True),
        Case(f"{name}_matmul", jnp.matmul, [a, b], x64=True),
    ]


def double(name: str, fn: Callable[..., Any], points: Sequence[float], rtol: float = 2e-13) -> Case:
    """A function of float64, to the accuracy that XLA's own have."""
    return Case(f"{name}_f64", fn, [np.array(points)], x64=True, rtol=rtol, atol=1e-300)


def grouped_conv(x: Any, w: Any) -> Any:
    pads = [(1, 2), (0, 1)]
    return lax.conv_general_dilated(x, w, (2, 1), pads, rhs_dilation=(1, 2), feature_group_count=2)


def nhwc(conv: Callable[..., Any], strides: tuple[int, int]) -> Callable[..., Any]:
    return lambda x, w: conv(x, w, strides, "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def largest(x: Any) -> Any:
    return lax.reduce_window(x, jnp.iinfo(x.dtype).min, lax.max, (2, 3), (1, 2), "SAME")


def average(x: Any) -> Any:
    return lax.reduce_window(x, 0.0, lax.add, (1, 2, 3, 1), (1, 2, 2, 1), "SAME") / 6


def max_pool(x: Any) -> Any:
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "SAME")


def spec(*shapes: Sequence[Any], dtype: Any) -> list[jax.ShapeDtypeStruct]:
    return [jax.ShapeDtypeStruct(tuple(s), dtype) for s in shapes]


CASES = [
    Case(
        "bf16_mlp",
        lambda x, w: jax.nn.relu(x @ w + 1) * 2,
        [bf16(4, 8), bf16(8, 3, seed=1)],
        spec=spec(("B", 8), (8, 3), dtype=BF16),
        also=[[bf16(1, 8), bf16(8, 3)]],
    ),
    Case("bf16_attention", attention, [bf16(5, 4), bf16(6, 4, seed=1), bf16(6, 4, seed=2)]),
    Case("bf16_layer_norm", layer_norm, [bf16(4, 16)]),
    Case("bf16_reductions", reductions, [bf16(4, 16)]),
    Case("bf16_conv", lambda x, w: lax.conv(x, w, (1, 1), "SAME"), [bf16(1, 2, 6, 6), bf16(3, 2, 3, 3)]),
    Case("bf16_fori", lambda x: lax.fori_loop(0, 4, lambda i, c: c * x + 1, x), [bf16(5)]),
    Case("bf16_scan", lambda xs: lax.scan(lambda c, x: (c + x, c * x), xs[0], xs), [bf16(6, 3)]),
    Case(
        "bf16_cond",
        lambda p, x: lax.cond(p > 0, lambda y: y * 2, lambda y: y - 1, x),
        [np.int32(1), bf16(3)],
        also=[[np.int32(-1), bf16(3)]],
    ),
    Case(
        "f16_scatter_add",
        lambda x, u: x.at[jnp.array([0, 2, 2])].add(u),
        [f32(4).astype(np.float16), f32(3, seed=1).astype(np.float16)],
    ),
    Case(
        "bool_selections",
        selections,
        [
            np.array([True, False] * 2),
            np.array([True, True, False, False]),
            np.array([False, True, True, False]),
        ],
    ),
    *(case for dtype in INTS for case in integer_cases(dtype)),
    double("tan", jnp.tan, EDGES[:8]),
    double("sinh", jnp.sinh, EDGES),
    double("cosh", jnp.cosh, EDGES),
    double("asinh", jnp.arcsinh, EDGES),
    double("acosh", jnp.arccosh, ABOVE),
    double("atanh", jnp.arctanh, UNIT),
    double("asin", jnp.arcsin, UNIT),
    double("acos", jnp.arccos, UNIT),
    double("atan", jnp.arctan, EDGES),
    double("erf", lax.erf, EDGES),
    double("gelu", lambda x: jax.nn.gelu(x, approximate=False), EDGES[:10], rtol=1e-12),
    double("softplus", jax.nn.softplus, EDGES),
    double("elu", jax.nn.elu, EDGES),
    double("selu", jax.nn.selu, EDGES),
    double("leaky_relu", jax.nn.leaky_relu, EDGES),
    Case(
        "conv_f64",
        grouped_conv,
        [f64(2, 4, 9, 8), f64(6, 2, 3, 2, seed=1)],
        spec=spec(("B", 4, 9, 8), (6, 2, 3, 2), dtype=np.float64),
        also=[[f64(1, 4, 9, 8), f64(6, 2, 3, 2)]],
        x64=True,
    ),
    Case(
        "conv_symbolic_f64",
        nhwc(lax.conv_general_dilated, (1, 1)),
        [f64(2, 5, 6, 2), f64(3, 3, 2, 4, seed=1)],
        spec=spec(("B", "H", "W", 2), (3, 3, 2, 4), dtype=np.float64),
        also=[[f64(1, 2, 9, 2), f64(3, 3, 2, 4)]],
        x64=True,
    ),
    Case(
        "conv_transpose_f64",
        nhwc(lax.conv_transpose, (2, 2)),
        [f64(1, 4, 5, 2), f64(3, 3, 2, 4, seed=1)],
        x64=True,
    ),
    Case("conv_i32", lambda x, w: lax.conv(x, w, (1, 1), "VALID"), [ints(1, 2, 5, 5), ints(3, 2, 3, 3)]),
    Case("max_pool_f64", max_pool, [f64(1, 5, 6, 2)], x64=True),
    Case("average_f64", average, [f64(1, 5, 6, 2)], x64=True),
    Case("largest_i64", largest, [ints(5, 6, dtype=np.int64)], x64=True),
]
