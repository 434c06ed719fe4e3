"""Complex values: pairs of reals inside the graph and at its boundary."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.cases.case import Case, f32, ints, rng

C64 = np.complex64
C128 = np.complex128


def c64(*shape: int, seed: int = 0, scale: float = 1.0) -> np.ndarray[Any, Any]:
    """Normal complex values."""
    return (f32(*shape, seed=seed, scale=scale) + 1j * f32(*shape, seed=seed + 1, scale=scale)).astype(C64)


def _grid(numbers: list[float], dtype: Any = C64) -> np.ndarray[Any, Any]:
    """Every pair of parts."""
    grid = np.empty(len(numbers) ** 2, dtype)
    grid.real, grid.imag = np.array(list(itertools.product(numbers, numbers))).T
    return grid


def _scaled(n: int, most: float, dtype: Any = C64) -> np.ndarray[Any, Any]:
    """Directions at random, magnitudes from ``10**-most`` to ``10**most``."""
    r = rng(5)
    turn = np.exp(2j * np.pi * r.uniform(size=n))
    return (turn * 10.0 ** r.uniform(-most, most, size=n)).astype(dtype)


X = c64(9, 7)
SYMBOLIC = jax.export.symbolic_shape("b, 7")
REALS = np.array([0.0, -0.0, 1.0, -2.0, 0.3, np.inf, -np.inf, np.nan], np.float32)
EDGES = _grid(REALS.tolist())
# JAX 0.10 has |inf + nan i| = nan, later releases have inf.
DEFINITE = EDGES[~(np.isnan(EDGES) & (np.isinf(EDGES.real) | np.isinf(EDGES.imag)))]
FINITE = _grid([0.0, 1.0, -1.0, 0.5, -2.0, 1e-3, 40.0])
A, B = np.repeat(EDGES, EDGES.size), np.tile(EDGES, EDGES.size)
NEAR_ONE = (np.exp(1j * np.linspace(-3, 3, 41)) * (1 + np.linspace(-3e-4, 3e-4, 41))).astype(C64)
SMALL = _scaled(60, 6)


def _unary(name: str, *also: np.ndarray[Any, Any], rtol: float | None = None) -> list[Case]:
    fn: Callable[..., Any] = getattr(lax, name)
    edges = DEFINITE if name == "abs" else EDGES
    table = np.concatenate([X.ravel(), edges, *also])
    wide = c64(9).astype(C128) * (1 + 1e-9)
    return [
        Case(f"{name}_edges", fn, [table], rtol=rtol, atol=0),
        Case(f"{name}_double", fn, [wide], x64=True),
    ]


def _both(fn: Callable[..., Any], name: str) -> Case:
    return Case(name, fn, [A, B], also=[[B, A]])


def _masked(x: Any) -> Any:
    return jnp.where(x.real > 0, x, 1j), jnp.where(x.real > 0, x * x, x + 2 * x)


def _carries(x: Any) -> Any:
    def step(c: Any, row: Any) -> Any:
        return c * row + 1j, c

    return lax.scan(step, x[0], x, reverse=True)


def _grows(z: Any) -> Any:
    return lax.while_loop(lambda c: jnp.abs(c) < 10, lambda c: c * (1.5 + 0.1j), z)


def _moves(x: Any) -> Any:
    return (
        x.T.reshape(3, -1), x[None], jnp.flip(x, 0), x[1:5, ::2], jnp.concatenate([x, 2 * x]), jnp.pad(x, 1),
        jnp.stack([x, x], -1), jnp.tile(x, (2, 1)), jnp.roll(x, 3, 0), jnp.pad(x, 1, constant_values=1 + 2j),
        jnp.broadcast_to(x[:1], x.shape),
    )  # fmt: skip


def _indexed(x: Any, i: Any) -> Any:
    return (
        x[i], x[:, i], jnp.take(x, i, axis=0), jnp.take(x, i, axis=0, mode="fill", fill_value=1 + 2j),
        x.at[i].set(1j), x.at[i].add(1j, mode="drop"), x.at[i].multiply(2j), x.at[i].max(x[0]),
    )  # fmt: skip


def _sliced(x: Any, i: Any) -> Any:
    small = lax.dynamic_slice(x, (i, i), (3, 2))
    return small, lax.dynamic_update_slice(x, small, (i, i))


def _reduced(x: Any) -> Any:
    return x.sum(0), x.mean(), x.prod(1), x.max(0), x.min(1), jnp.cumsum(x, 0), jnp.cumprod(x, 1)


def _computed(x: Any) -> Any:
    pairs = lax.reduce((x, 2 * x), (C64(1), C64(1j)), lambda a, b: (a[0] * b[0], a[1] + b[1]), (0,))
    product = lax.reduce_window(x, C64(2), lax.mul, (3, 1), (1, 1), ((1, 1), (0, 0)))
    total = lax.reduce_window(x, C64(2j), lax.add, (3, 2), (2, 1), ((1, 1), (0, 0)))
    return (*pairs, product, total, lax.cummax(x, 1, reverse=True), lax.cummin(x))


def _holomorphic(z: Any) -> Any:
    return jax.grad(lambda v: jnp.sum(jnp.sin(v) * v), holomorphic=True)(z)


W = c64(7, 4, seed=3)

CASES = [
    *_unary("abs", _scaled(60, 30), np.array([3e38 + 1e38j, 1e-30j], C64)),
    *_unary("sign", _scaled(60, 15)),
    *_unary("neg"),
    *_unary("conj"),
    *_unary("real"),
    *_unary("imag"),
    *_unary("square"),
    *_unary("exp", np.array([89 + 1.5707963j, 95 + 1j], C64)),
    *_unary("exp2"),
    *_unary("expm1", SMALL[abs(SMALL) < 1]),
    *_unary("log", _scaled(60, 30), NEAR_ONE),
    *_unary("log1p", SMALL, NEAR_ONE - 1),
    *_unary("logistic"),
    *_unary("sqrt", _scaled(60, 30)),
    *_unary("rsqrt", _scaled(60, 15)),
    *_unary("sin"),
    *_unary("cos"),
    *_unary("tan", SMALL),
    *_unary("sinh"),
    *_unary("cosh"),
    *_unary("tanh", SMALL),
    *_unary("asin", _scaled(60, 15), NEAR_ONE),
    *_unary("acos", _scaled(60, 15), NEAR_ONE),
    Case("atan", lax.atan, [np.concatenate([X.ravel(), FINITE, SMALL])], atol=0),
    *_unary("asinh", _scaled(60, 15), NEAR_ONE),
    *_unary("acosh", _scaled(60, 15), NEAR_ONE),
    Case("atanh", lax.atanh, [np.concatenate([X.ravel(), FINITE, SMALL])], atol=0),
    Case("double_near_one", lambda z: (jnp.log(z), jnp.log1p(z - 1), jnp.arccos(z)),
         [NEAR_ONE.astype(C128)], x64=True, atol=1e-15),
    _both(lambda a, b: a + b, "add"),
    _both(lambda a, b: a - b, "sub"),
    _both(lambda a, b: a * b, "mul"),
    Case("mul_constant", lambda z: (z * 2, z * (1 - 2j), 1j * z, (z * z) * 3j), [EDGES], ops=["MatMul"]),
    _both(lax.div, "div"),
    Case("div_scaled", lax.div, [_scaled(60, 18), _scaled(60, 18)[::-1].copy()], atol=0),
    Case("div_double", lax.div, [_scaled(60, 300, C128), _scaled(60, 300, C128) * (1 + 1j)], x64=True, atol=0),
    # XLA multiplies by the reciprocal of a constant, so that infinities make NaN which a quotient would not hold.
    Case("div_constant", lambda z: (z / 3, z / (1 + 2j), z / -2j, z / 1e30, z / 1e-30), [EDGES],
         also=[[np.resize(_scaled(60, 6), EDGES.shape)]], ops=["MatMul", "!Where", "!Div", "!Mul"], atol=0),
    Case("div_constant_parts", lambda z: ((z * z) / 3, (z * z) / (1 + 2j)), [EDGES], ops=["!Where", "!Div"]),
    Case("div_constant_sizes", lambda z: z / (1 + 2j), [X], spec=[jax.ShapeDtypeStruct(SYMBOLIC, C64)],
         also=[[X[:1]], [X[:0]]], ops=["MatMul"]),
    Case("div_constant_scalar", lambda z: z / (1 + 2j), [C64(2 - 1j)], ops=["MatMul"]),
    Case("div_constant_double", lambda z: z / (1 + 3j), [_scaled(60, 300, C128)], x64=True, atol=0, ops=["MatMul"]),
    Case("div_constant_extreme", lambda z: z / C64(2e-38j), [_scaled(60, 0)], atol=0, ops=["!MatMul"]),
    Case("div_real", lambda z, x: z / x, [EDGES.repeat(8), np.tile(REALS, 64)], ops=["!Concat", "!Sub"]),
    Case("div_real_parts", lambda z, x: (z - z.real) / x, [EDGES.repeat(8), np.tile(REALS, 64)], ops=["!Max"]),
    Case("div_real_broadcast", lambda z, x: (z / x, z[0] / x[:, None], z / z.real), [X, f32(7)]),
    Case("real_over", lambda z: (1 / z, -2.5 / z), [EDGES], also=[[np.resize(_scaled(60, 18), EDGES.shape)]]),
    Case("finite_over", lambda z: ((1 + 2j) / z, 2j / z), [EDGES]),
    Case("negative_power", lambda z: (z**-1, z**-2), [EDGES]),
    Case("pow", lambda a, b: a**b, [X, c64(9, 7, seed=4)], also=[[np.resize(EDGES[:20], (9, 7)), X * 0 + 2]]),
    Case("clamp", lax.clamp, [X, c64(9, 7, seed=8), c64(9, 7, seed=9)]),
    Case("searchsorted", lambda z: (jnp.searchsorted(jnp.sort(z), z), jnp.empty_like(z)), [FINITE]),
    Case("atan2", lax.atan2, [X, c64(9, 7, seed=8)]),
    Case("integer_pow", lambda z: (z**0, z**1, z**3, z**5, z**-1, z**-3), [X]),
    _both(lambda a, b: (a == b, a != b, a < b, a <= b, a > b, a >= b), "compare"),
    _both(lambda a, b: (jnp.maximum(a, b), jnp.minimum(a, b)), "extrema"),
    Case("broadcast", lambda x, y: (x * y, x + y[:1], x * x[:, :1] - y), [X, c64(7)]),
    Case("broadcast_symbolic", lambda x, y: (x * y, jnp.exp(1j * x.real) * x), [X, c64(7)],
         spec=[jax.ShapeDtypeStruct(jax.export.symbolic_shape("b, 7"), C64), jax.ShapeDtypeStruct((7,), C64)],
         also=[[X[:1], c64(7)]]),
    Case("convert", lambda z, x, i: (
        z.real.astype(jnp.int32), z.astype(bool), x.astype(C64) * x, i.astype(C64), lax.complex(x, 2 * x),
        jnp.angle(z), jnp.conj(x + 0j),
    ), [EDGES[:6], f32(5), ints(3)]),
    Case("convert_double", lambda z: (z.astype(C128) * z.astype(C64), z.astype(C64)), [X.astype(C128)], x64=True),
    Case("polynomial", lambda z: jnp.polyval(z[0], z), [X]),
    Case("iota", lambda: lax.broadcasted_iota(C64, (3, 4), 1), []),
    Case("masked", _masked, [X]),
    Case("passes", lambda z: (z, jnp.array([1j, 2])), [X]),
    Case("weight", lambda z: z @ W + W[0], [X], ops=["!Neg"]),
    Case("moves", _moves, [X]),
    Case("indexed", _indexed, [X, ints(4, low=-7, high=7)], also=[[X, np.int32([1, 1, 20, 3])]]),
    Case("indexed_once", _indexed, [X, np.int32(3)]),
    Case("sliced", _sliced, [X, np.int32(2)], also=[[X, np.int32(50)]]),
    Case("sort", lambda z: (jnp.sort(z), jnp.argsort(z), jnp.sort(z[::-1])), [EDGES],
         also=[[np.resize(FINITE, EDGES.shape)]]),
    Case("reduced", _reduced, [X], rtol=2e-5),
    Case("reduced_symbolic", _reduced, [X], rtol=2e-5, also=[[X[:1]]],
         spec=[jax.ShapeDtypeStruct(jax.export.symbolic_shape("b, 7"), C64)]),
    Case("computed", _computed, [X], rtol=2e-5),
    Case("products", lambda x, w: (x @ w, x[0] @ w[:, 0], jnp.einsum("bij,bjk->bik", x.reshape(3, 3, 7),
         jnp.broadcast_to(w, (3, 7, 4))), x.real @ w, x @ w.real), [X, W]),
    Case("product_double", lambda x, w: x @ w, [X.astype(C128), W.astype(C128)], x64=True),
    Case("convolution", lambda x: jnp.convolve(x, x[:5]), [c64(40)]),
    Case("scan", _carries, [X], rtol=1e-4, atol=1e-4),
    Case("while", jax.vmap(_grows), [c64(9) + 1]),
    Case("cond", lambda z: lax.cond(z.real.sum() > 0, lambda v: v * 1j, jnp.conj, z), [X], also=[[-X]]),
    Case("associative_scan", lambda z: lax.associative_scan(jnp.multiply, z), [X], rtol=2e-5),
    Case("gradient", lambda z: (_holomorphic(z), jax.grad(lambda v: jnp.abs(v).sum())(z)), [X]),
]  # fmt: skip
