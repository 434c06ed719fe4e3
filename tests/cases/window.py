"""Windows: pooling of every layout, padding, dilations, long windows, any monoid, and gradients."""

from functools import partial

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


def _bright(x, *, pool, axes=(2, 3), relu=jax.nn.relu):
    """Windows of ``pool`` = (size, stride, padding) over images that a convolution made, behind ``relu``."""
    size, stride, padding = pool
    window, strides = np.ones(4, int), np.ones(4, int)
    window[list(axes)], strides[list(axes)] = size, stride
    first = axes == (2, 3)
    numbers = ("NCHW", "OIHW", "NCHW") if first else ("NHWC", "OIHW", "NHWC")
    x = relu(
        lax.conv_general_dilated(
            x, KERNEL, (1, 1), "VALID", dimension_numbers=numbers, feature_group_count=16
        )
    )
    return lax.reduce_window(x, -jnp.inf, lax.max, tuple(map(int, window)), tuple(map(int, strides)), padding)


def _spoiled(*values, shape=(2, 16, 9, 10), count=7):
    """Copies of an array, each value at some places of it."""
    out = []
    for seed, value in enumerate(values):
        x = f32(*shape, seed=seed)
        x.ravel()[np.random.default_rng(seed).choice(x.size, count, replace=False)] = value
        out.append([x])
    return out


# A convolution of each channel alone, so that a value that is not finite stays in its place.
KERNEL = np.ones((16, 1, 1, 1), np.float32)
PICTURE = f32(2, 16, 9, 10)
TWO, THREE, PAD = (2, 2, "VALID"), (3, 2, "SAME"), (3, 1, [(0, 0), (0, 0), (2, 1), (1, 2)])
BIG = np.float32(3e38)
SPOILED = _spoiled(NAN, INF, -INF, BIG, -BIG)
ALL_LOW = [[np.full_like(PICTURE, v)] for v in (-INF, -BIG, NAN, INF, BIG, -0.0)]
MIXED = np.where(f32(2, 16, 9, 10, seed=3) > 1, NAN, np.where(PICTURE > 0.3, -INF, PICTURE))
HARD = [*SPOILED, *ALL_LOW, [MIXED.astype(np.float32)]]
# Fused with what joins its operands, the windows of XLA lose NaN.
KNOWN = [x for x in HARD if not np.isnan(x).any()]
LAST = [[x.transpose(0, 2, 3, 1)] for (x,) in HARD]
IMAGES = [("B", 16, 9, 10)]
MEAN, TESTED, CUT = ["AveragePool", "MaxPool", "!If", "!Slice"], ["If", "MaxPool"], ["!MaxPool", "!If"]

CASES = [
    Case("pool_relu", partial(_bright, pool=TWO), [PICTURE], spec=IMAGES, also=HARD, ops=MEAN),
    Case("pool_relu_same", partial(_bright, pool=THREE), [PICTURE], also=HARD, ops=MEAN),
    Case(
        "pool_relu_last",
        partial(_bright, pool=TWO, axes=(1, 2)),
        [LAST[0][0]],
        spec=[("B", 9, 10, 16)],
        also=[*LAST, [LAST[0][0][:0]], [LAST[0][0][:1]]],
        ops=MEAN,
    ),
    Case("pool_relu_overlap", partial(_bright, pool=PAD), [PICTURE], also=HARD, ops=TESTED),
    Case(
        "pool_signed",
        partial(_bright, pool=TWO, relu=lambda x: x * 0.5),
        [PICTURE],
        spec=IMAGES,
        also=HARD,
        ops=TESTED,
    ),
    Case(
        "pool_signed_padded", partial(_bright, pool=PAD, relu=lambda x: x), [PICTURE], also=HARD, ops=TESTED
    ),
    Case(
        "pool_last_convolved",
        partial(_bright, pool=THREE, axes=(1, 2), relu=jnp.tanh),
        [LAST[0][0]],
        spec=[("B", 9, 10, 16)],
        also=[*LAST, [LAST[0][0][:1]]],
        ops=TESTED,
    ),
    Case(
        "pool_channels_first",
        pool(-np.inf, lax.max, (1, 1, 2, 3), (1, 1, 2, 1), "SAME"),
        [PICTURE],
        spec=IMAGES,
        also=[*HARD, [PICTURE[:0]], [PICTURE[:1]]],
        ops=TESTED,
    ),
    Case(
        "pool_unit_axes",
        pool(-np.inf, lax.max, (1, 1, 2, 1, 2), (1, 1, 2, 1, 1)),
        [PICTURE[:, None, :, None].reshape(2, 16, 9, 1, 10)],
        also=[[x.reshape(2, 16, 9, 1, 10)] for (x,) in HARD],
        ops=TESTED,
    ),
    Case(
        "pool_one_image",
        pool(-np.inf, lax.max, (1, 2, 2), (1, 2, 2)),
        [PICTURE[0]],
        also=[[HARD[0][0][0]]],
        ops=TESTED,
    ),
    Case("pool_none_fit", pool(-np.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 1)), [PICTURE[:, :, :1]], ops=CUT),
    Case("pool_plane", pool(-np.inf, lax.max, (2, 2), (2, 2)), [PICTURE[0, 0]], ops=TESTED),
    Case(
        "pool_relu_few",
        lambda x: _max(jax.nn.relu(x), (1, 1, 2, 2), (1, 1, 2, 2)),
        [PICTURE[:, :8]],
        ops=TESTED,
    ),
    Case(
        "pool_of_joined",
        lambda x: _max(jnp.concatenate([jax.nn.relu(x), jnp.exp(x)], 1), (1, 1, 2, 2), (1, 1, 2, 2)),
        [PICTURE],
        also=KNOWN,
        ops=MEAN,
    ),
    Case(
        "pool_of_half_joined",
        lambda x: _max(jnp.concatenate([jax.nn.relu(x), x], 1), (1, 1, 2, 2), (1, 1, 2, 2)),
        [PICTURE],
        also=KNOWN,
        ops=TESTED,
    ),
    Case(
        "pool_of_pool",
        lambda x: _max(_bright(x, pool=TWO), (1, 1, 2, 2), (1, 1, 2, 2)),
        [PICTURE],
        also=HARD,
        ops=MEAN,
    ),
    Case(
        "pool_long",
        pool(-np.inf, lax.max, (1, 1, 13, 13), (1, 1, 1, 1), "SAME"),
        [f32(1, 3, 16, 16)],
        ops=CUT,
    ),
    Case(
        "pool_far_padding",
        pool(-np.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), [(0, 0), (0, 0), (3, 0), (0, 2)]),
        [PICTURE],
        ops=CUT,
    ),
    Case(
        "pool_cropped",
        pool(-np.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), [(0, 0), (0, 0), (-1, 0), (0, 0)]),
        [PICTURE],
        ops=CUT,
    ),
    Case("pool_batches_too", pool(-np.inf, lax.max, (2, 1, 2, 2), (1, 1, 2, 2)), [PICTURE], ops=CUT),
    Case(
        "pool_spread",
        pool(-np.inf, lax.max, (1, 1, 2, 2), (1, 1, 1, 1), window_dilation=(1, 1, 2, 2)),
        [PICTURE],
        ops=CUT,
    ),
    Case(
        "pool_unknown_size",
        pool(-np.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2)),
        [PICTURE],
        spec=[("B", 16, "H", "W")],
        also=[[f32(1, 16, 1, 4)], [f32(1, 16, 3, 2)]],
        ops=CUT,
    ),
    Case(
        "pool_f16",
        lambda x: _max(jax.nn.relu(x), (1, 1, 2, 2), (1, 1, 2, 2)),
        [PICTURE.astype(np.float16)],
        ops=CUT,
    ),
    Case(
        "pool_f64",
        lambda x: _max(jax.nn.relu(x), (1, 1, 2, 2), (1, 1, 2, 2)),
        [PICTURE.astype(np.float64)],
        x64=True,
        ops=CUT,
    ),
    Case(
        "pool_in_branch",
        lambda x: lax.cond(
            x[0, 0, 0, 0] > 0,
            lambda x: _bright(x, pool=TWO),
            lambda x: -_bright(x, pool=TWO, relu=jnp.tanh),
            x,
        ),
        [PICTURE],
        also=[[-PICTURE], *HARD],
    ),
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
