"""Reductions: NaN, wrap-around, long sums, empty axes, running reductions, any monoid."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax

from tests.cases.case import Case, f32, ints, rng

NAN, INF = np.float32(np.nan), np.float32(np.inf)
EDGE = np.array(
    [
        [1, NAN, 3, 0],
        [NAN, 1, 2, INF],
        [1, 2, 0, NAN],
        [INF, NAN, -INF, 1],
        [-INF, -INF, -INF, -INF],
        [INF, 1, INF, 0],
        [3e38, 3e38, -3e38, 1],
        [-0.0, -0.0, -0.0, -0.0],
    ],
    np.float32,
)
EXTREME = rng(3).integers(-(2**31), 2**31, size=(5, 7, 11)).astype(np.int32)
EXTREME64 = rng(3).integers(-(2**63), 2**63, size=(5, 7, 3)).astype(np.int64)
TENTHS = np.full(1_000_000, 0.1, np.float32)


def i32(*shape):
    """A spec of integers; dimensions may be names."""
    return jax.ShapeDtypeStruct(shape, jnp.int32)


def _extrema(x):
    return jnp.max(x, -1), jnp.min(x, -1), jnp.argmax(x, -1), jnp.argmin(x, -1), x.max(), x.min()


def _running(x, axis, reverse=False):
    return [f(x, axis=axis, reverse=reverse) for f in (lax.cumsum, lax.cumprod, lax.cummax, lax.cummin)]


def _pair(a, b):
    """A monoid on pairs: value and position of the largest, the first one among equals."""
    keep = (a[0] > b[0]) | ((a[0] == b[0]) & (a[1] < b[1]))
    return jnp.where(keep, a[0], b[0]), jnp.where(keep, a[1], b[1])


def _argmax_pair(x):
    at = lax.broadcasted_iota(jnp.int32, x.shape, 1)
    return lax.reduce((x, at), (jnp.float32(-jnp.inf), jnp.int32(1 << 30)), _pair, (1,))


_reduce = [
    Case(
        "sum", lambda x: (x.sum(), x.sum(0), x.sum((0, 2)), x.sum(1, keepdims=True), x.mean()), [f32(2, 3, 4)]
    ),
    Case(
        "sum_symbolic",
        lambda x: (x.sum(), x.sum(0), x.sum(1)),
        [f32(2, 3)],
        spec=[("B", "T")],
        also=[[f32(1, 9)], [f32(4, 0)]],
    ),
    Case(
        "sum_long",
        lambda x: (x.sum(), x.reshape(-1, 8).sum(0), x.reshape(2, -1, 4).sum((0, 1))),
        [TENTHS],
        atol=0,
    ),
    Case("sum_long_prime", lambda x: (x.sum(), x.reshape(1, -1, 1).sum(1)), [TENTHS[:100_003]], atol=0),
    Case("sum_long_apart", lambda x: x.sum((0, 2)), [np.full((900, 3, 500), 0.1, np.float32)], atol=0),
    Case(
        "sum_long_symbolic",
        lambda x: x.mean((0, 1)),
        [np.full((3, 90_000, 2), 0.1, np.float32)],
        spec=[("B", 90_000, 2)],
        atol=0,
    ),
    Case("sum_long_half", lambda x: x.sum(), [np.full(5000, 0.1, np.float16)]),
    Case(
        "sum_long_bf16",
        lambda x: lax.reduce_sum(x, axes=(0,)),
        [f32(5000, shift=1).astype(ml_dtypes.bfloat16)],
    ),
    Case(
        "sum_wraps",
        lambda x: (x.sum(), x.sum(0), x.sum(1), x.sum(2), x.sum((0, 2)), x.sum((1, 2))),
        [EXTREME],
    ),
    Case(
        "sum_wraps_symbolic",
        lambda x: (x.sum(), x.sum(0), x.sum(1), x.sum((0, 2))),
        [EXTREME],
        spec=[i32("A", "B", 11)],
        also=[[EXTREME[:1, :2]]],
    ),
    Case("sum_wraps_i64", lambda x: (x.sum(), x.sum(0), x.sum((0, 2))), [EXTREME64], x64=True),
    Case(
        "sum_wraps_i8",
        lambda x: (lax.reduce_sum(x, axes=(0,)), lax.reduce_sum(x.astype(jnp.uint32), axes=(0,))),
        [ints(300, 2, low=-128, high=127, dtype=np.int8)],
    ),
    Case("count", lambda x: (x > 0).sum(-1), [f32(3, 2000)], spec=[("B", 2000)]),
    Case("prod", lambda x: (x.prod(), x.prod(1), x.prod((0, 1))), [f32(2, 3, 4)]),
    Case("prod_wraps", lambda x: (x.prod(), x.prod(1), x.prod((0, 2))), [EXTREME | 1]),
    Case(
        "prod_symbolic",
        lambda x: (x.prod(), x.prod(0)),
        [ints(5, 3)],
        spec=[i32("N", 3)],
        also=[[ints(1, 3)], [ints(0, 3)]],
    ),
    Case("extrema", _extrema, [f32(8, 4)], spec=[("B", 4)], also=[[EDGE], [f32(1, 4)]]),
    Case(
        "extrema_middle",
        lambda x: (x.max(1), x.min((0, 2)), jnp.argmax(x, 1)),
        [f32(2, 3, 4)],
        also=[[EDGE.reshape(2, 4, 4)[:, :3]]],
    ),
    Case("extrema_magnitude", lambda x: jnp.abs(x).max(-1), [EDGE]),
    Case("extrema_one", lambda x: (x.max(1), jnp.argmax(x, 1)), [f32(4, 1)]),
    Case("extrema_int", _extrema, [EXTREME[0]]),
    Case("extrema_i64", _extrema, [EXTREME64[0]], x64=True),
    Case("extrema_f64", _extrema, [EDGE.astype(np.float64)], x64=True),
    Case("extrema_f16", _extrema, [EDGE[:6].astype(np.float16)]),
    Case("extrema_bf16", _extrema, [EDGE.astype(ml_dtypes.bfloat16)]),
    *(
        Case(f"extrema_{t.__name__}", _extrema, [ints(3, 5, low=0, high=100, dtype=t)])
        for t in (np.int8, np.uint8, np.int16, np.uint16, np.uint32)
    ),
    Case(
        "logic",
        lambda x: ((x > 0).all(), (x > 0).any(0), lax.reduce_xor(x > 0, axes=(1,))),
        [f32(3, 5)],
        spec=[("B", 5)],
        also=[[f32(1, 5)]],
    ),
    Case(
        "bits",
        lambda x: [f(x, axes=(0, 2)) for f in (lax.reduce_and, lax.reduce_or, lax.reduce_xor)],
        [EXTREME],
    ),
    Case(
        "bits_symbolic",
        lambda x: [f(x, axes=(0,)) for f in (lax.reduce_and, lax.reduce_or, lax.reduce_xor)],
        [ints(6, 2)],
        spec=[i32("N", 2)],
        also=[[ints(1, 2)]],
    ),
    Case(
        "empty",
        lambda x: (
            x.sum(0),
            x.prod(0),
            lax.reduce_max(x, axes=(0,)),
            lax.reduce_min(x, axes=(0,)),
            (x > 0).all(0),
        ),
        [f32(0, 3)],
    ),
    Case(
        "empty_int",
        lambda x: (
            x.sum(0),
            x.prod(0),
            lax.reduce_max(x, axes=(0,)),
            lax.reduce_min(x, axes=(0,)),
            lax.reduce_and(x, axes=(0,)),
        ),
        [ints(0, 3)],
    ),
    Case("argmax_index", lambda x: (lax.argmax(x, 0, jnp.int16), lax.argmin(x, 1, jnp.uint8)), [f32(3, 5)]),
    Case("argmax_bool", lambda x: (jnp.argmax(x > 0, 0), jnp.argmin(x > 0, 1)), [f32(3, 5)]),
    Case("norms", lambda x: (jnp.linalg.norm(x, axis=1), x.var(0), x.std()), [f32(3, 5)]),
    Case("logsumexp", lambda x: jax.nn.logsumexp(x, axis=1), [f32(8, 4)], also=[[EDGE]]),
    Case(
        "opset17",
        lambda x: (x.sum(1), x.prod(1), x.max(1), jnp.argmax(x, 1), (x > 0).all(1)),
        [f32(3, 5)],
        options={"opset": 17},
    ),
]

_monoids = [
    Case("monoid_pair", _argmax_pair, [f32(3, 5)], spec=[("B", "N")], also=[[f32(1, 2)]]),
    Case(
        "monoid_start",
        lambda x: (
            lax.reduce(x, 3.0, lax.add, (0,)),
            lax.reduce(x, 3.0, lax.max, (1,)),
            lax.reduce(x, 2.0, lax.mul, (0, 1)),
        ),
        [f32(3, 5)],
    ),
    Case(
        "monoid_two_axes",
        lambda x: lax.reduce(x, 0.0, lambda a, b: a + b * b * 0 + b, (0, 2)),
        [f32(2, 3, 4)],
    ),
    Case(
        "monoid_int",
        lambda x: lax.reduce(x, 5, lambda a, b: lax.rem(a + b, jnp.int32(97)), (1,)),
        [ints(3, 20, low=0, high=90)],
    ),
]

_cumulative = [
    Case(
        "along_a_free_axis_beside_an_empty_one",
        lambda x: (lax.cumprod(x, 1), lax.cummax(x, 1, reverse=True), x.prod(1)),
        [f32(2, 3, 4)],
        spec=[("B", "T", 4)],
        also=[[f32(0, 5, 4)]],
    ),
    Case("running", lambda x: (_running(x, 0), _running(x, 1)), [f32(5, 7)]),
    Case("running_edge", lambda x: (_running(x, 1), _running(x, 1, True)), [EDGE[[0, 1, 2, 3, 4, 5, 7]]]),
    Case("running_reverse", lambda x: _running(x, 1, True), [f32(2, 6, 3)]),
    Case(
        "running_symbolic",
        lambda x: (_running(x, 1), _running(x, 0, True)),
        [f32(5, 7)],
        spec=[("B", "T")],
        also=[[f32(1, 2)], [f32(3, 1)]],
    ),
    Case("running_int", lambda x: _running(x, 1), [EXTREME]),
    Case("running_i64", lambda x: _running(x, 1, True), [EXTREME64], x64=True),
    Case("running_u8", lambda x: _running(x, 0), [ints(9, low=0, high=255, dtype=np.uint8)]),
    Case(
        "running_f16",
        lambda x: [f(x) for f in (lax.cumsum, lax.cummax, lax.cummin)],
        [f32(9).astype(np.float16)],
    ),
    Case("running_one", lambda x: (_running(x, 0), lax.cumlogsumexp(x)), [f32(1)]),
    Case("running_long", lambda x: jnp.cumsum(x), [TENTHS[:200_000]], atol=0),
    Case("running_opset26", lambda x: _running(x, 1, True), [f32(3, 5)], options={"opset": 26}),
    Case("axis_argument", lambda x: jnp.cumsum(x, 1), [f32(3, 5)]),
    Case(
        "cumlogsumexp", lambda x: (lax.cumlogsumexp(x, 0), lax.cumlogsumexp(x, 1, reverse=True)), [f32(4, 6)]
    ),
    Case(
        "cumlogsumexp_edge",
        lambda x: (lax.cumlogsumexp(x, 1), lax.cumlogsumexp(x, 1, reverse=True)),
        [EDGE],
        also=[[f32(8, 4, scale=100)]],
    ),
    Case(
        "cumlogsumexp_symbolic",
        lambda x: (lax.cumlogsumexp(x, 1), lax.cumlogsumexp(x, 0, reverse=True)),
        [f32(8, 4)],
        spec=[("B", "T")],
        also=[[EDGE], [f32(1, 1)]],
    ),
    Case("cumlogsumexp_long", lambda x: lax.cumlogsumexp(x, 0), [f32(600, 2)], ops=["Scan"]),
    Case("associative_scan", lambda x: lax.associative_scan(jnp.add, x), [f32(13)], ops=["!Scan", "!Loop"]),
    Case(
        "linear_recurrence",
        lambda a, x: lax.associative_scan(lambda p, q: (p[0] * q[0], p[1] * q[0] + q[1]), (a, x)),
        [f32(13), f32(13)],
        ops=["!Scan", "!Loop"],
    ),
]

CASES = [*_reduce, *_monoids, *_cumulative]
