"""Windows: pooling of every layout, padding, dilations, long windows, any monoid, and gradients."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.cases.case import Case, f32, ints

NAN, INF = np.float32(np.nan), np.float32(np.inf)
IMAGE = f32(2, 9, 8, 3)
EDGE = np.where(f32(1, 8, 8, 2) > 1, NAN, np.where(f32(1, 8, 8, 2) < 0.3, -INF, f32(1, 8, 8, 2))).astype(
    np.float32
)
SERIES = np.array([1, NAN, 3, 2, 2, -INF, -INF, -INF, -INF, -INF, INF, INF, 5, 5, 1, NAN], np.float32)


def pool(start, op, window, strides=None, padding="VALID", **more):
    strides = strides or (1,) * len(window)
    return lambda x: lax.reduce_window(x, np.asarray(start, x.dtype), op, window, strides, padding, **more)


def _max(x, window=(1, 2, 2, 1), strides=(1, 2, 2, 1), padding="VALID"):
    return lax.reduce_window(x, -jnp.inf, lax.max, window, strides, padding)


def _average(x, padding):
    window, strides = (1, 3, 3, 1), (1, 2, 2, 1)
    total = lax.reduce_window(x, 0.0, lax.add, window, strides, padding)
    return total / lax.reduce_window(jnp.ones_like(x), 0.0, lax.add, window, strides, padding)


def _grad(window, strides, padding):
    return lambda x, y: jax.vjp(lambda x: _max(x, window, strides, padding), x)[1](y)


def _pair(a, b):
    keep = a[0] >= b[0]
    return jnp.where(keep, a[0], b[0]), jnp.where(keep, a[1], b[1])


def _pair_window(x):
    at = jnp.arange(x.shape[0], dtype=jnp.int32)
    return lax.reduce_window((x, at), (np.float32(-np.inf), np.int32(-1)), _pair, (3,), (2,), "SAME")


CASES = [
    Case("max_nhwc", _max, [IMAGE], spec=[("B", 9, 8, 3)], also=[[IMAGE[:1]]]),
    Case("max_edge", _max, [EDGE]),
    Case(
        "max_symbolic",
        lambda x: _max(x, (1, 3, 3, 1), (1, 2, 2, 1), "VALID"),
        [IMAGE],
        spec=[("B", "H", "W", 3)],
        also=[[f32(1, 4, 7, 3)]],
    ),
    Case(
        "max_same",
        lambda x: _max(x, (1, 3, 3, 1), (1, 2, 2, 1), "SAME"),
        [IMAGE],
        also=[[f32(2, 9, 8, 3, seed=1)]],
    ),
    Case(
        "max_same_symbolic",
        lambda x: _max(x, (1, 3, 3, 1), (1, 2, 2, 1), "SAME"),
        [IMAGE],
        spec=[("B", "H", "W", 3)],
        also=[[f32(1, 4, 7, 3)]],
    ),
    Case("max_nchw", lambda x: _max(x, (1, 1, 3, 2), (1, 1, 1, 2)), [f32(2, 3, 7, 8)]),
    Case(
        "max_int",
        lambda x: lax.reduce_window(x, np.int32(-(2**31)), lax.max, (2, 2), (1, 1), "SAME"),
        [ints(5, 6)],
    ),
    Case("max_global", lambda x: _max(x, (1, 9, 8, 1), (1, 9, 8, 1)), [IMAGE], ops=["ReduceMax"]),
    Case(
        "max_long", pool(-np.inf, lax.max, (13,), (1,), "SAME"), [f32(40)], also=[[np.tile(SERIES, 3)[:40]]]
    ),
    Case("max_start", pool(0.5, lax.max, (3,), (2,), "SAME"), [f32(10)]),
    Case("max_padded", pool(-np.inf, lax.max, (3, 2), (1, 2), [(2, 1), (0, 3)]), [f32(4, 5)]),
    Case("min", pool(np.inf, lax.min, (2, 2), (2, 1)), [f32(4, 6)], also=[[np.resize(SERIES, (4, 6))]]),
    Case("sum_edge", pool(0, lax.add, (3,), (1,), "SAME"), [SERIES]),
    Case(
        "sum_dilated",
        pool(0, lax.add, (2, 3), (1, 2), [(1, 0), (2, 2)], base_dilation=(2, 3), window_dilation=(2, 1)),
        [f32(4, 5)],
    ),
    Case(
        "max_dilated",
        pool(
            -np.inf, lax.max, (2, 3), (1, 2), [(1, 0), (2, 2)], base_dilation=(2, 3), window_dilation=(3, 2)
        ),
        [f32(4, 5)],
    ),
    Case("sum_long", pool(0, lax.add, (401,), (160,), "SAME"), [f32(1600)]),
    Case("sum_long_dilated", pool(0, lax.add, (11,), (2,), [(3, 4)], window_dilation=(3,)), [f32(60)]),
    Case(
        "sum_long_symbolic",
        pool(0, lax.add, (21,), (4,), [(10, 10)]),
        [f32(50)],
        spec=[("N",)],
        also=[[f32(7)], [f32(90)]],
    ),
    Case("sum_patches", pool(0, lax.add, (1, 16, 16), (1, 16, 16)), [f32(2, 32, 48)], ops=["ReduceSum"]),
    Case("sum_int", pool(0, lax.add, (3,), (1,), "SAME"), [np.full(9, 2**30, np.int32)]),
    Case("sum_start", pool(1.0, lax.add, (3, 2), (1, 1), "SAME"), [f32(4, 5)]),
    Case("sum_rank5", pool(0, lax.add, (1, 2, 2, 2, 1), (1, 1, 2, 1, 1)), [f32(2, 3, 4, 3, 2)]),
    Case("product", pool(1, lax.mul, (2, 3), (1, 2), "SAME"), [f32(4, 6)]),
    Case("average_valid", lambda x: _average(x, "VALID"), [IMAGE]),
    Case("average_same", lambda x: _average(x, "SAME"), [IMAGE], spec=[("B", 9, 8, 3)]),
    Case(
        "average_global_symbolic",
        lambda x: lax.reduce_window(x, 0.0, lax.add, (1, *x.shape[1:3], 1), (1, 1, 1, 1), "VALID"),
        [IMAGE],
        spec=[("B", "H", "W", 3)],
        also=[[f32(1, 4, 5, 3)]],
    ),
    Case("average_grad", jax.grad(lambda x: (_average(x, "SAME") ** 2).sum()), [IMAGE]),
    Case("any_monoid", pool(1, lambda a, b: a * b + 0 * b, (2, 2), (1, 2), "SAME"), [f32(4, 5)]),
    Case("pair_monoid", _pair_window, [f32(9)]),
    Case(
        "f64",
        lambda x: (
            lax.reduce_window(x, 0.0, lax.add, (3,), (1,), "SAME"),
            lax.reduce_window(x, -jnp.inf, lax.max, (3,), (1,), "SAME"),
        ),
        [SERIES.astype(np.float64)],
        x64=True,
    ),
    Case(
        "f16",
        lambda x: lax.reduce_window(x, np.float16(-np.inf), lax.max, (3,), (1,), "SAME"),
        [SERIES.astype(np.float16)],
    ),
    Case("max_grad", _grad((1, 2, 2, 1), (1, 2, 2, 1), "VALID"), [IMAGE, f32(2, 4, 4, 3)]),
    Case(
        "max_grad_ties",
        _grad((1, 2, 2, 1), (1, 2, 2, 1), "VALID"),
        [np.zeros((1, 4, 4, 2), np.float32), f32(1, 2, 2, 2)],
    ),
    Case("max_grad_edge", _grad((1, 2, 2, 1), (1, 2, 2, 1), "VALID"), [EDGE, f32(1, 4, 4, 2)]),
    Case("max_grad_overlap", _grad((1, 3, 3, 1), (1, 2, 2, 1), "VALID"), [IMAGE, f32(2, 4, 3, 3)]),
    Case(
        "max_grad_same",
        _grad((1, 3, 3, 1), (1, 2, 2, 1), "SAME"),
        [IMAGE, f32(2, 5, 4, 3)],
        also=[[np.full((2, 9, 8, 3), -INF), f32(2, 5, 4, 3)]],
    ),
    Case(
        "max_grad_symbolic",
        _grad((1, 2, 2, 1), (1, 2, 2, 1), "VALID"),
        [IMAGE, f32(2, 4, 4, 3)],
        spec=[("B", 9, 8, 3), ("B", 4, 4, 3)],
        also=[[IMAGE[:1], f32(1, 4, 4, 3)]],
    ),
    Case("max_grad_series", _grad((4,), (1,), "VALID"), [SERIES, f32(13)]),
    Case(
        "max_jvp",
        lambda x, t: jax.jvp(_max, (x,), (t,)),
        [IMAGE, f32(2, 9, 8, 3, seed=2)],
        also=[[np.full((2, 9, 8, 3), -INF), IMAGE]],
    ),
    Case(
        "max_jvp_series",
        lambda x, t: jax.jvp(lambda x: _max(x, (4,), (1,), [(1, 2)]), (x,), (t,)),
        [SERIES, f32(16)],
    ),
    Case(
        "max_grad_twice",
        jax.grad(lambda x: (jax.grad(lambda x: (_max(x) ** 2).sum())(x) ** 2).sum()),
        [IMAGE],
    ),
]
