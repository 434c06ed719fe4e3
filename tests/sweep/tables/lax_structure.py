"""``jax.lax``: moves, reductions, windows, products, control flow; ``jax.ops``; what only devices do."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.cases.case import f32
from tests.sweep.call import EDGE, INT, INT2, U8, B, M, P, V, X, Y, array, c64, call

T = f32(2, 3, 4)
AT = array(1, dtype=np.int32)[0]
PLACES = array(0, 2, 1, dtype=np.int32)
IMAGE, KERNEL = f32(1, 2, 6, 6), f32(3, 2, 3, 3)
BITS = np.array([1, 2, 3, 4], np.uint32)
EMBED = lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
ROWS = lax.ScatterDimensionNumbers(
    update_window_dims=(1,), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,)
)
SPLIT = array(2, 1, dtype=np.int32)
RAGGED = lax.RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), [0], [0])
SEGMENTS = array(0, 2, 2, dtype=np.int32)

CALLS = {
    "jax.lax": [
        ("approx_max_k approx_min_k", call(X, 2), call(V, 3, reduction_dimension=0)),
        ("argmax argmin", call(X, 1, np.int32), call(EDGE, 0, np.int32), call(INT, 0, np.int32)),
        (
            "associative_scan",
            call(X, using=lambda f, x: f(jnp.add, x)),
            call(P, using=lambda f, x: f(jnp.multiply, x, reverse=True, axis=1)),
            call(f32(5, 2, 2), using=lambda f, x: f(jnp.matmul, x)),
        ),
        ("broadcast_like", call(X[:, :1], X)),
        ("scaled_dot", call(T, f32(2, 4, 5), lhs_scale=f32(2, 3, 2), rhs_scale=f32(2, 2, 5))),
        ("stage", call(X)),
        ("dce_sink", call(X, using=lambda f, x: (f(x), x)[1])),
        ("shape_as_value", call((2, 3))),
        ("rng_uniform", call(np.float32(0), np.float32(1), (3,))),
        ("batch_matmul", call(T, f32(2, 4, 3))),
        ("broadcast", call(X, (2, 3))),
        ("broadcast_in_dim", call(X, (3, 2, 4), (0, 2)), call(V[:1], (3, 4), (0,))),
        ("broadcast_to_rank", call(X, 3)),
        ("broadcasted_iota", call(np.int32, (2, 3), 1)),
        ("collapse", call(T, 0, 2), call(T, 1)),
        ("concatenate", call([X, Y], 0), call([INT, INT2], 1)),
        ("stack", call([X, Y]), call([X, Y], 1)),
        ("unstack", call(X), call(X, 1)),
        ("cumsum cumprod cummax cummin cumlogsumexp", call(X), call(X, axis=1, reverse=True)),
        ("cumsum cumprod cummax cummin", call(INT), call(EDGE)),
        ("dot", call(X, M), call(V, V), call(INT, M.astype(np.int32))),
        (
            "dot_general",
            call(T, f32(2, 5, 4), (((2,), (2,)), ((0,), (0,)))),
            call(U8, U8, (((1,), (1,)), ((), ())), preferred_element_type=np.int32),
        ),
        ("ragged_dot", call(X, f32(2, 4, 5), SPLIT)),
        ("ragged_dot_general", call(X, f32(2, 4, 5), SPLIT, RAGGED)),
        ("dynamic_slice", call(X, (AT, AT), (2, 2)), call(X, (np.int32(9), np.int32(-1)), (2, 2))),
        ("dynamic_slice_in_dim", call(X, AT, 2, 1)),
        ("dynamic_index_in_dim", call(X, AT), call(X, AT, 1, keepdims=False)),
        ("dynamic_update_slice", call(X, f32(2, 2), (AT, AT))),
        ("dynamic_update_slice_in_dim", call(X, f32(1, 4), AT, 0)),
        ("dynamic_update_index_in_dim", call(X, f32(4), AT, 0)),
        ("index_in_dim", call(X, 1), call(X, -1, 1, keepdims=False)),
        ("index_take", call(X, (PLACES,), (0,))),
        ("slice", call(X, (0, 1), (3, 4), (2, 1))),
        ("slice_in_dim", call(X, 1, 4, 2, 1)),
        ("split", call(X, (1, 3), 1)),
        ("expand_dims", call(X, (0, 2))),
        ("squeeze", call(X[:, None], (1,))),
        ("reshape", call(X, (4, 3)), call(T, (3, 8), (1, 0, 2))),
        ("rev", call(X, (0, 1))),
        ("tile", call(X, (2, 3))),
        ("transpose", call(T, (2, 0, 1))),
        (
            "pad",
            call(X, np.float32(0), ((1, 2, 1), (-1, 0, 0))),
            call(INT, np.int32(7), ((1, 2, 0), (0, 0, 2))),
        ),
        ("empty", call((2, 3), np.float32)),
        ("full", call((2, 3), 1.5), call((2, 3), AT)),
        ("full_like", call(X, 2.0), call(X, AT, np.int32)),
        ("iota", call(np.int32, 5), call(np.float32, 3)),
        (
            "gather",
            call(X, PLACES[:, None], EMBED, (1, 4)),
            call(X, array(5, -1, dtype=np.int32)[:, None], EMBED, (1, 4), mode="clip"),
            call(X, array(5, -1, dtype=np.int32)[:, None], EMBED, (1, 4), mode="fill"),
        ),
        (
            "scatter scatter_add scatter_max scatter_min scatter_mul scatter_sub",
            call(X, PLACES[:2, None], f32(2, 4), ROWS),
            call(X, array(7, 1, dtype=np.int32)[:, None], f32(2, 4), ROWS, mode="clip"),
            call(INT, PLACES[:2, None], INT2[:2], ROWS),
        ),
        (
            "scatter_apply",
            call(X, PLACES[:2, None], using=lambda f, x, i: f(x, i, jnp.sin, ROWS, update_shape=(2, 4))),
        ),
        (
            "reduce",
            call(X, using=lambda f, x: f(x, 0.0, lax.add, (0,))),
            call(
                X,
                INT,
                using=lambda f, x, i: f(
                    (x, i), (0.0, np.int32(0)), lambda a, b: (a[0] + b[0], a[1] + b[1]), (1,)
                ),
            ),
        ),
        ("reduce_max reduce_min reduce_prod reduce_sum", call(X, (0,)), call(INT, (0, 1)), call(EDGE, (0,))),
        ("reduce_and reduce_or reduce_xor", call(B, (0,)), call(INT, (1,))),
        (
            "reduce_window",
            call(X, using=lambda f, x: f(x, -np.inf, lax.max, (2, 2), (1, 2), "SAME")),
            call(X, using=lambda f, x: f(x, 0.0, lax.add, (2, 2), (1, 1), "VALID")),
            call(X, using=lambda f, x: f(x, 1.0, lambda a, b: a * b, (2, 1), (1, 1), "VALID")),
        ),
        ("sort", call(X), call(EDGE), call((INT, X), num_keys=1), call(X, 0)),
        ("sort_key_val", call(INT, X), call(X, INT, 0)),
        ("top_k", call(X, 2), call(INT, 3)),
        (
            "fft",
            call(c64(3, 8), "fft", (8,)),
            call(c64(3, 5), lax.FftType.IFFT, (3, 5)),
            call(f32(3, 8), "rfft", (8,)),
            call(c64(3, 5), "irfft", (8,)),
        ),
        ("conv", call(IMAGE, KERNEL, (1, 1), "SAME"), call(IMAGE, KERNEL, (2, 1), "VALID")),
        ("conv_with_general_padding", call(IMAGE, KERNEL, (1, 2), ((1, 0), (0, 2)), (1, 1), (2, 1))),
        (
            "conv_general_dilated",
            call(IMAGE, KERNEL, (1, 1), "SAME"),
            call(IMAGE, KERNEL, (1, 1), ((1, 1), (2, 0)), lhs_dilation=(2, 1)),
            call(
                IMAGE.transpose(0, 2, 3, 1).copy(),
                KERNEL.transpose(2, 3, 1, 0).copy(),
                (1, 1),
                "VALID",
                dimension_numbers=("NHWC", "HWIO", "NHWC"),
            ),
            call(IMAGE, f32(4, 1, 3, 3), (1, 1), "SAME", feature_group_count=2),
        ),
        ("conv_general_dilated_local", call(IMAGE, f32(3, 18, 4, 4), (1, 1), "VALID", (3, 3))),
        ("conv_general_dilated_patches", call(IMAGE, (3, 2), (1, 1), "SAME")),
        (
            "conv_transpose",
            call(IMAGE.transpose(0, 2, 3, 1).copy(), f32(3, 3, 2, 4), (2, 2), "SAME"),
            call(IMAGE.transpose(0, 2, 3, 1).copy(), f32(3, 3, 2, 4), (1, 2), "VALID"),
        ),
        ("cond", call(V, using=lambda f, x: f(x[0] > 0, jnp.sin, jnp.cos, x))),
        ("switch", call(V, AT, using=lambda f, x, i: f(i + 7, [jnp.sin, jnp.cos, jnp.tanh], x))),
        (
            "scan",
            call(X, using=lambda f, x: f(lambda c, v: (c + v, c * v), jnp.zeros(4), x)),
            call(X, using=lambda f, x: f(lambda c, v: (c * 0.5 + v, c.sum()), jnp.zeros(4), x, reverse=True)),
        ),
        (
            "map",
            call(X, using=lambda f, x: f(lambda v: v.sum() * v, x)),
            call(X, using=lambda f, x: f(jnp.sin, x, batch_size=2)),
        ),
        (
            "fori_loop",
            call(V, using=lambda f, x: f(0, 5, lambda i, v: v * 0.5 + i, x)),
            call(V, AT, using=lambda f, x, n: f(0, n, lambda i, v: jnp.sin(v) + i, x)),
        ),
        ("while_loop", call(P[0], using=lambda f, x: f(lambda v: v.sum() < 100, lambda v: v * 2, x))),
        (
            "custom_linear_solve",
            call(
                M + 4 * np.eye(4, dtype=np.float32),
                f32(4),
                using=lambda f, a, b: f(
                    lambda v: a @ v, b, lambda _, v: jnp.linalg.solve(a, v), symmetric=False
                ),
            ),
        ),
        (
            "custom_root",
            call(
                P[0],
                using=lambda f, x: f(
                    lambda y: y**2 - x,
                    x,
                    lambda g, y: lax.fori_loop(0, 20, lambda _, v: v - g(v) / (2 * v), y),
                    lambda g, y: y / g(jnp.ones_like(y)),
                ),
            ),
        ),
        ("composite", call(X, using=lambda f, x: f(lambda v: jnp.sin(v) + 1, "my.sin")(x))),
        ("platform_dependent", call(X, using=lambda f, x: f(x, cpu=jnp.sin, default=jnp.cos))),
        (
            "rng_bit_generator",
            call(BITS, (5,), algorithm=lax.RandomAlgorithm.RNG_THREE_FRY),
            call(BITS, (2, 3), np.uint8, algorithm=lax.RandomAlgorithm.RNG_THREE_FRY),
        ),
    ],
    "jax.ops": [
        (
            "segment_sum segment_prod segment_max segment_min",
            call(X, SEGMENTS, 3),
            call(X, array(0, 0, 1, dtype=np.int32), 2, indices_are_sorted=True),
            call(INT, array(0, 5, -1, dtype=np.int32), 3),
        ),
    ],
}
APART = {
    "jax.lax": {
        "collectives and sharding: a graph runs on one device": (
            "all_gather all_to_all axis_index axis_size pbroadcast pcast pmax pmean pmin ppermute"
            " precv psend pshuffle psum"
            " psum_scatter psum_scatter_start pswapaxes ragged_all_to_all with_sharding_constraint"
        ),
        "tokens order effects, and have no value": "after_all create_token",
        "names of options, and types": (
            "AccuracyMode ConvDimensionNumbers ConvGeneralDilatedDimensionNumbers DotAlgorithm"
            " DotAlgorithmPreset"
            " DotDimensionNumbers FftType GatherDimensionNumbers GatherScatterMode Precision PrecisionLike"
            " RaggedDotDimensionNumbers RandomAlgorithm RoundingMethod ScatterDimensionNumbers Tolerance"
        ),
        "answers in Python about shapes and types, before anything is computed": (
            "broadcast_shapes conv_dimension_numbers conv_general_permutations"
            " conv_general_shape_tuple conv_shape_tuple"
            " conv_transpose_shape_tuple dtype padtype_to_pads reduce_window_shape_tuple"
        ),
    },
}
REFUSED = {
    "jax.lax": {"its bits depend on the state of the backend, and differ from run to run": "rng_uniform"},
}
