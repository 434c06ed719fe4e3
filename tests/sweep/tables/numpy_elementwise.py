"""``jax.numpy``: functions of one element, or of elements that broadcast."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from tests.cases.case import f32, ints
from tests.sweep.call import B2, EDGE, INT, INT2, N8, U8, U32, Z2, B, N, P, U, V, W, X, Y, Z, array, call

SMALL = array(0.0, -0.0, 1e-6, -1e-6, 0.3, -0.7, 1.0, -1.0, 20.0, -20.0, 90.0, -90.0, np.inf, -np.inf, np.nan)
PAIR = np.stack(np.meshgrid(EDGE, EDGE)).reshape(2, -1)
ROW = f32(4, seed=3)

CALLS = {
    "jax.numpy": [
        ("abs absolute conj conjugate positive negative sign square", call(X), call(EDGE), call(N8), call(Z)),
        ("fabs cbrt ceil floor trunc rint exp exp2 expm1 sinc tanh arctan atan", call(X), call(SMALL)),
        ("sin cos tan sinh cosh arcsinh asinh", call(X), call(SMALL), call(Z)),
        ("exp sqrt tanh", call(Z)),
        ("sqrt log log2 log10 log1p reciprocal", call(P), call(SMALL)),
        ("log log1p", call(Z)),
        ("arcsin asin arccos acos arctanh atanh", call(U), call(SMALL)),
        ("arccosh acosh", call(P + np.float32(1)), call(SMALL)),
        ("deg2rad degrees rad2deg radians i0", call(X)),
        ("spacing signbit isfinite isinf isnan isneginf isposinf", call(X), call(EDGE)),
        ("isfinite isinf isnan", call(INT), call(Z)),
        ("iscomplex isreal real imag", call(X), call(Z)),
        ("angle", call(Z), call(X), call(Z, deg=True)),
        ("bitwise_not bitwise_invert invert", call(INT), call(U8), call(B)),
        ("bitwise_count", call(INT), call(U32), call(N8)),
        ("logical_not", call(B), call(X), call(INT)),
        ("nan_to_num", call(EDGE), call(EDGE, nan=1.0, posinf=2.0, neginf=3.0), call(INT)),
        (
            "round around",
            call(X * np.float32(5)),
            call(EDGE),
            call(X, 2),
            call(X * np.float32(500), -2),
            call(INT, 1),
        ),
        ("frexp modf", call(X), call(array(0.0, 1.0, -3.5, 1e30, 1e-30, -0.25))),
        (
            "add subtract multiply maximum minimum",
            call(X, Y),
            call(*PAIR),
            call(X, INT),
            call(N8, N8[::-1]),
            call(X, ROW),
        ),
        ("add subtract multiply divide true_divide equal not_equal", call(Z, Z2), call(Z, X)),
        ("divide true_divide", call(X, Y), call(*PAIR), call(INT, N)),
        ("fmax fmin copysign hypot", call(X, Y), call(*PAIR)),
        (
            "floor_divide mod remainder fmod divmod",
            call(X, Y),
            call(INT, N),
            call(U8, U8 | np.uint8(1)),
            call(INT, 3),
        ),
        ("arctan2 atan2 logaddexp logaddexp2 heaviside nextafter", call(X, Y), call(*PAIR)),
        (
            "pow power float_power",
            call(P, X),
            call(P, 3),
            call(X, 2),
            call(array(0, 0, 0, 2, -2, 1), array(0, 2, -1, 0, 3, 9)),
        ),
        ("pow power", call(N, 2), call(INT, N), call(Z, 3), call(Z, Z2)),
        ("ldexp", call(X, INT), call(X, 3)),
        ("gcd lcm", call(INT, INT2), call(N, INT2[0]), call(U8, U8[::-1])),
        (
            "equal not_equal less less_equal greater greater_equal",
            call(X, Y),
            call(*PAIR),
            call(INT, INT2),
            call(INT, 2),
        ),
        ("equal not_equal logical_and logical_or logical_xor", call(B, B2)),
        ("logical_and logical_or logical_xor", call(X, INT)),
        (
            "bitwise_and bitwise_or bitwise_xor",
            call(INT, INT2),
            call(B, B2),
            call(U8, U8[::-1]),
            call(INT, 6),
        ),
        (
            "bitwise_left_shift left_shift bitwise_right_shift right_shift",
            call(INT, N),
            call(U8, ints(3, 4, low=0, high=8, dtype=np.uint8)),
            call(INT, 40),
        ),
        (
            "isclose",
            call(X, X + np.float32(1e-6)),
            call(*PAIR),
            call(EDGE, EDGE, equal_nan=True),
            call(X, Y, rtol=0.5),
        ),
        ("clip", call(X, -0.5, 0.5), call(X, min=0), call(INT, -2, 3), call(X, Y, W), call(EDGE, -1, 1)),
        ("where", call(B, X, Y), call(B, X, 0), call(INT, X, ROW)),
        ("where", call(B, using=lambda f, b: f(b, size=5, fill_value=-1))),
        ("select", call([B, B2], [X, Y]), call([B, B2], [INT, INT2], 7)),
        ("piecewise", call(X, [B, B2], [1.0, -1.0, 0.5]), call(X, [B], [jnp.sin, jnp.cos])),
        (
            "choose",
            call(INT, [X, Y], mode="wrap"),
            call(INT, [X, Y], mode="clip"),
        ),
        ("unwrap", call(V * np.float32(5)), call(X * np.float32(9), axis=0), call(X, period=1.0)),
        (
            "interp",
            call(X, array(-1, 0, 0.5, 2), array(3, 1, 2, -1)),
            call(EDGE, array(-1, 0, 2), array(3, 1, 2), left=-9, right=9),
            call(X, array(0, 1, 2), array(3, 1, 3), period=2.0),
        ),
        (
            "astype",
            call(X, np.int32),
            call(X, np.float16),
            call(INT, np.float32),
            call(X, bool),
            call(EDGE, np.int8),
        ),
        ("vectorize", call(X, ROW, using=lambda f, x, y: f(jnp.dot, signature="(n),(n)->()")(x, y))),
        (
            "frompyfunc",
            call(X, Y, using=lambda f, x, y: f(lambda a, b: a * b + 1, 2, 1)(x, y)),
            call(X, using=lambda f, x: f(jnp.add, 2, 1, identity=0).reduce(x, axis=1)),
        ),
        (
            "ufunc",
            call(
                X,
                using=lambda f, x: (
                    jnp.add.reduce(x, axis=0),
                    jnp.multiply.accumulate(x, axis=1),
                    jnp.subtract.outer(x[0], x[1]),
                    jnp.add.at(x, 0, 1.0, inplace=False),
                    jnp.add.reduceat(x, np.array([0, 2]), axis=1),
                ),
            ),
        ),
    ],
}
