"""Arithmetic: values at the edges of each dtype, broadcasting, symbolic and empty shapes."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax

from tests.cases.case import Case, f32, rng

BF16 = ml_dtypes.bfloat16
EDGES = np.array(
    [np.nan, np.inf, -np.inf, -0.0, 0.0, 1, -1, 0.5, -0.5, 1.5, -2.5, 0.49999997, 8388609, 3e38, -1e-30],
    np.float32,
)
ROUNDING = [lax.RoundingMethod.AWAY_FROM_ZERO, lax.RoundingMethod.TO_NEAREST_EVEN]
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", BF16, "float32", "float64"]


def whole(dtype: Any, seed: int = 0) -> np.ndarray[Any, Any]:
    """Integers over the whole range of a dtype, with its ends, 0, 1 and the largest unsigned bits."""
    info = np.iinfo(dtype)
    some = rng(seed).integers(info.min, info.max, 40, dtype=dtype, endpoint=True)
    ends = np.array([info.min, info.max, 0, 1, 2, info.max - 1], dtype)
    return np.concatenate([some, ends, ~ends[:3], ends[:1]])


def divisors(dtype: Any) -> np.ndarray[Any, Any]:
    """Like ``whole``, with 0 and -1 under the least integer."""
    y = whole(dtype, seed=1)[::-1].copy()
    y[40:43] = [-1 if np.dtype(dtype).kind == "i" else 1, 0, 0]
    return y


def is_x64(dtype: Any) -> bool:
    return np.dtype(dtype).itemsize == 8


def cast(dtype: Any, values: Any = EDGES) -> np.ndarray[Any, Any]:
    with np.errstate(over="ignore"):
        return np.asarray(values).astype(dtype)


def steps_below_one(x: Any) -> Any:
    """A hundred steps of a constant, which are known before the file runs."""
    at = jnp.ones((), x.dtype)
    for _ in range(100):
        at = jnp.where(at == 0, -1, jnp.nextafter(at, jnp.array(-np.inf, x.dtype)))
    return x * at


CASES = [
    *(Case(f"nextafter_of_constants_{np.dtype(d).name}", steps_below_one, [np.ones(3, d)],
           x64=is_x64(d), ops=["!Where"]) for d in (np.float32, np.float64, np.float16)),
    Case(
        "symbolic",
        lambda x, y: x * y + x - y / 2,
        [f32(2, 3), f32(3)],
        spec=[("B", 3), (3,)],
        also=[(f32(0, 3), f32(3)), (f32(1, 3), f32(3))],
    ),
    Case("empty", lambda x: jnp.maximum(x, 1) / x, [f32(0, 4)]),
    Case("relu", jax.nn.relu, [EDGES], ops=["Relu", "!Max"]),
    Case("relu_integers", lambda x: jnp.maximum(x, 0), [whole("int32")]),
    Case("clip", lambda x: jnp.clip(x, -1, 1), [EDGES], ops=["!Where"]),
    Case("clamp", lambda x: lax.clamp(-1.0, x, 1.0), [EDGES], ops=["Clip", "!Max"]),
    Case("clamp_by_nan", lambda lo, x, hi: lax.clamp(lo, x, hi), [np.float32(np.nan), EDGES, np.float32(1)]),
    Case("clamp_crossed", lambda x: lax.clamp(2.0, x, -2.0), [EDGES]),
    Case("max_nan", lax.max, [EDGES, EDGES[::-1].copy()]),
    Case("min_nan", lax.min, [EDGES, EDGES[::-1].copy()]),
    Case("max_bool", lax.max, [np.array([True, False, True]), np.array([False, False, True])]),
    Case("min_bool", lax.min, [np.array([True, False, True]), np.array([False, False, True])]),
    *(Case(f"round_{m.name.lower()}", lambda x, m=m: lax.round(x, m), [EDGES], atol=0) for m in ROUNDING),
    *(
        Case(n, getattr(lax, n), [EDGES], atol=0)
        for n in ("sign", "floor", "ceil", "neg", "abs", "sqrt", "rsqrt")
    ),
    *(
        Case(f"{n}_{np.dtype(d)}", getattr(lax, n), [cast(d)], x64=is_x64(d))
        for n in ("floor", "sign", "neg", "abs", "square")
        for d in FLOATS
    ),
    *(
        Case(f"{n}_{d}", getattr(lax, n), [whole(d), divisors(d)], x64=is_x64(d))
        for n in ("add", "sub", "mul", "div", "rem", "max", "min")
        for d in INTEGERS
    ),
    *(
        Case(f"{n}_{d}", getattr(lax, n), [whole(d)], x64=is_x64(d))
        for n in ("neg", "sign", "square")
        for d in INTEGERS
    ),
    *(
        Case(
            f"{n}_{np.dtype(d)}",
            getattr(lax, n),
            [cast(d, f32(30, scale=9)), cast(d, f32(30, seed=1))],
            x64=is_x64(d),
        )
        for n in ("add", "sub", "mul", "div", "rem", "max", "min")
        for d in FLOATS
        if (n, d) != ("rem", BF16)
    ),
    Case("abs_int32", lax.abs, [whole("int32")]),
    Case("div_by_constant", lambda x: x // 7, [whole("int32")]),
    Case("rem_by_constant", lambda x: lax.rem(x, np.int32(7)), [whole("int32")], ops=["!Where"]),
    Case("rem_by_minus_one", lambda x: lax.rem(x, np.int32(-1)), [whole("int32")]),
    Case("floor_mod", lambda x: x % 5, [whole("int32")]),
    Case("rem_float_edges", lax.rem, [EDGES, np.full_like(EDGES, np.inf)]),
    Case("rem_by_zero", lax.rem, [EDGES, np.zeros_like(EDGES)]),
    *(
        Case(f"integer_pow_{p}", lambda x, p=p: lax.integer_pow(x, p), [EDGES], ops=["!Pow"])
        for p in (0, 1, 2, 5, -2)
    ),
    Case("integer_pow_wraps", lambda x: lax.integer_pow(x, 7), [whole("int32")]),
    Case("integer_pow_int64", lambda x: lax.integer_pow(x, 3), [whole("int64")], x64=True),
    Case("pow", lax.pow, [np.abs(f32(40, scale=5)), f32(40, seed=1, scale=3)]),
    Case("pow_edges", lax.pow, [EDGES, np.full_like(EDGES, 0.5)]),
    Case("pow_integer_exponent", lax.pow, [f32(5), np.array([0, 1, -2, 3, 10], np.int32)]),
    Case("pow_half_of_any", lambda x: x**0.5, [EDGES]),
    Case(
        "pow_half_of_mean",
        lambda x: (jnp.mean(x * x, -1, keepdims=True) + 1e-6) ** -0.5,
        [f32(3, 4)],
        ops=["Sqrt", "!Pow"],
    ),
    Case(
        "tanh_under_roots_and_logarithms",
        lambda x: (
            jnp.sqrt(1 - jnp.tanh(x) ** 2),
            jnp.arctanh(jnp.tanh(x)),
            jnp.arccos(jnp.tanh(x)),
            jnp.log1p(-jnp.tanh(x)),
            jnp.power(1 - jnp.tanh(x), 0.3),
        ),
        [np.asarray([0.0, 0.5, -2.0, 9.0, -9.1, 9.3, 9.5, 40.0, -40.0, np.inf, -np.inf, np.nan], np.float32)],
    ),
    Case("one_minus_square", lambda x: jax.grad(lambda v: jnp.arctanh(v).sum())(x), [f32(9, scale=0.1)]),
    Case(
        "normalized_gates",
        lambda x: (lambda s: s / s.sum(-1, keepdims=True))(jax.nn.sigmoid(x)),
        [f32(3, 8, shift=-20)],
    ),
    Case("ratio_of_gates", lambda x: jax.nn.sigmoid(x) / jax.nn.sigmoid(x - 1), [f32(9, scale=20)]),
    Case(
        "accuracy",
        lambda x: (lax.exp(x, accuracy=lax.AccuracyMode.HIGHEST), jax.scipy.special.rel_entr(x, x + 1)),
        [np.abs(f32(9))],
    ),
    Case("sinc", jnp.sinc, [EDGES]),
    Case("polyval", jnp.polyval, [f32(5), EDGES]),
    Case("polyval_of_arrays", jnp.polyval, [f32(3, 4), f32(4, seed=1)]),
    Case("polyval_wraps", jnp.polyval, [np.array([3, -7, 1], np.int32), whole("int32")]),
    Case("polyval_long", jnp.polyval, [f32(12), f32(9, seed=1)]),
    Case("log1p_sign_of_zero", lambda x: 1 / jnp.log1p(x), [np.array([-0.0, 0.0, 1e-30], np.float32)]),
]
