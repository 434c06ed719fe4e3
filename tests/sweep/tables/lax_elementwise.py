"""``jax.lax``: functions of elements."""

from __future__ import annotations

import numpy as np
from jax import lax

from tests.cases.case import ints
from tests.sweep.call import B2, EDGE, INT, INT2, N8, U8, U32, Z2, B, N, P, U, W, X, Y, Z, array, call

SMALL = array(0.0, -0.0, 1e-6, -1e-6, 0.3, -0.7, 1.0, -1.0, 20.0, -20.0, 90.0, -90.0, np.inf, -np.inf, np.nan)
PAIR = np.stack(np.meshgrid(EDGE, EDGE)).reshape(2, -1)
SHIFT = ints(3, 4, low=0, high=8, seed=7)

CALLS = {
    "jax.lax": [
        ("abs sign neg square", call(X), call(EDGE), call(N8), call(Z)),
        ("one_minus_square", call(X), call(SMALL)),
        ("acos asin atanh erf_inv", call(U), call(SMALL)),
        ("acosh", call(P + np.float32(1)), call(SMALL)),
        (
            "asinh atan cos cosh exp exp2 expm1 logistic sin sinh tan tanh erf erfc cbrt ceil floor",
            call(X),
            call(SMALL),
        ),
        ("asinh cos cosh exp expm1 logistic sin sinh tan tanh", call(Z)),
        ("log log1p log2 rsqrt sqrt reciprocal digamma lgamma", call(P), call(SMALL)),
        ("bessel_i0e bessel_i1e", call(X), call(SMALL)),
        ("round", call(X), call(EDGE), call(array(0.5, 1.5, 2.5, -0.5), lax.RoundingMethod.TO_NEAREST_EVEN)),
        ("integer_pow", call(X, 3), call(X, -2), call(INT, 2), call(Z, 2)),
        ("is_finite", call(X), call(EDGE)),
        ("conj real imag", call(Z)),
        ("complex", call(X, Y)),
        ("bitwise_not", call(INT), call(B), call(U8)),
        ("clz population_count", call(INT), call(U8), call(U32)),
        (
            "add sub mul div max min rem",
            call(X, Y),
            call(*PAIR),
            call(N8, N8[::-1] | np.int8(1)),
            call(INT, N),
        ),
        ("add sub mul div eq ne", call(Z, Z2)),
        (
            "mulhi",
            call(INT, INT2),
            call(U32, U32[::-1]),
            call(INT * np.int32(1 << 28), INT2 * np.int32(1 << 27)),
        ),
        ("pow", call(P, X), call(P, 2), call(Z, Z2), call(*PAIR)),
        ("atan2 nextafter", call(X, Y), call(*PAIR)),
        ("eq ne lt le gt ge", call(X, Y), call(*PAIR), call(INT, INT2)),
        ("bitwise_and bitwise_or bitwise_xor", call(INT, INT2), call(B, B2), call(U8, U8[::-1])),
        (
            "shift_left shift_right_arithmetic shift_right_logical",
            call(INT, SHIFT),
            call(INT, np.int32(40)),
            call(N8, SHIFT.astype(np.int8)),
        ),
        (
            "clamp",
            call(np.float32(-0.5), X, np.float32(0.5)),
            call(W, X, Y),
            call(np.int32(-2), INT, np.int32(3)),
        ),
        ("select", call(B, X, Y)),
        ("select_n", call(B, X, Y), call(ints(3, 4, low=0, high=3), X, Y, W)),
        ("polygamma", call(np.float32(2), P), call(N.astype(np.float32), P)),
        ("zeta", call(P + np.float32(1.5), P)),
        ("igamma igammac", call(P, P[::-1]), call(P, P * np.float32(20)), call(P, P * np.float32(0))),
        ("igamma_grad_a random_gamma_grad", call(P, P[::-1])),
        ("betainc", call(P, P[::-1], U)),
        ("polynomial", call(X, [1.0, -2.0, 0.5])),
        ("reduce_precision", call(X, 5, 10), call(EDGE, 8, 7)),
        (
            "convert_element_type",
            call(X, np.int32),
            call(EDGE, np.int8),
            call(INT, np.float32),
            call(X, np.float16),
        ),
        (
            "bitcast_convert_type",
            call(X, np.int32),
            call(X, np.uint8),
            call(INT, np.float32),
            call(U8.reshape(3, 1, 4), np.uint32),
        ),
        ("stop_gradient optimization_barrier", call(X), call((X, INT))),
    ],
}
