"""``jax.nn`` and its initializers."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from tests.cases.case import f32, ints
from tests.sweep.call import EDGE, KEY, B, P, X, Y, array, call

SMALL = array(
    0.0, -0.0, 1e-6, -1e-6, 0.3, -0.7, 1.0, -1.0, 3.5, 6.5, 20.0, -20.0, 90.0, -90.0, np.inf, -np.inf, np.nan
)
Q, K, VALUE = f32(2, 5, 4, 8), f32(2, 7, 2, 8, seed=1), f32(2, 7, 2, 8, seed=2)
MASK = f32(2, 1, 5, 7, seed=3) > -0.5

SCALED = [
    (
        "scaled_matmul",
        call(f32(1, 2, 32), f32(1, 3, 32), f32(1, 2, 2), f32(1, 3, 2)),
        call(
            f32(2, 2, 32),
            f32(2, 3, 32),
            f32(2, 2, 1),
            f32(2, 3, 1),
            using=lambda f, *operands: f(*(x.astype(jnp.float8_e4m3fn) for x in operands)),
        ),
    ),
]
GPU_ONLY = ""
if jax.__version_info__ < (0, 12):  # it has no form for CPUs there
    SCALED, GPU_ONLY = [], "scaled_matmul"

CALLS = {
    "jax.nn": [
        (
            "celu elu gelu hard_sigmoid hard_silu hard_swish hard_tanh identity leaky_relu log_sigmoid"
            " mish relu relu6 selu sigmoid silu soft_sign softplus sparse_plus sparse_sigmoid"
            " squareplus swish tanh",
            call(X),
            call(SMALL),
            call(X.astype(np.float16)),
        ),
        ("celu elu", call(X, alpha=0.5)),
        ("gelu", call(X, approximate=False)),
        ("leaky_relu", call(X, 0.3)),
        ("squareplus", call(X, b=1.0)),
        ("glu", call(X), call(f32(4, 3), axis=0)),
        ("log1mexp", call(P)),
        ("log_softmax softmax standardize", call(X), call(X, axis=0), call(X, where=B)),
        ("logsumexp logmeanexp", call(X), call(X, axis=1, keepdims=True), call(X, axis=0, where=B)),
        ("logsumexp", call(X, b=Y, axis=1, return_sign=True), call(EDGE[3:], axis=0)),
        (
            "one_hot",
            call(ints(5, low=0, high=4), 4),
            call(ints(5, low=-2, high=6), 4, dtype=np.int32),
            call(array(0, 1, dtype=np.int32), 3, axis=0),
        ),
        (
            "dot_product_attention",
            call(Q, K, VALUE),
            call(Q, K, VALUE, mask=MASK),
            call(Q, Q, Q, is_causal=True),
            call(Q, K, VALUE, bias=f32(2, 4, 5, 7), scale=0.3),
        ),
        ("scaled_dot_general", call(f32(2, 32), f32(3, 32), (((1,), (1,)), ((), ())))),
        *SCALED,
    ],
    "jax.nn.initializers": [
        ("constant", call(KEY, using=lambda f, key: f(0.5)(key, (3, 4)))),
        ("ones zeros", call(KEY, (3, 4))),
        (
            "delta_orthogonal",
            call(
                KEY,
                using=lambda f, key: f()(key, (3, 3, 4, 4)),
                result=lambda o: [o[0][1, 1] @ o[0][1, 1].T, o[0][0]],
            ),
        ),
        ("orthogonal", call(KEY, using=lambda f, key: f(2.0)(key, (4, 4)), result=lambda o: [o[0] @ o[0].T])),
        (
            "glorot_normal glorot_uniform he_normal he_uniform kaiming_normal kaiming_uniform"
            " lecun_normal lecun_uniform normal truncated_normal uniform xavier_normal xavier_uniform",
            call(KEY, using=lambda f, key: f()(key, (3, 4))),
        ),
        (
            "variance_scaling",
            call(KEY, using=lambda f, key: f(2.0, "fan_avg", "truncated_normal")(key, (3, 4))),
        ),
    ],
}
APART = {
    "jax.nn": {
        "makes options for a call": "get_scaled_dot_general_config",
        "this JAX computes it on GPUs only": GPU_ONLY,
    },
    "jax.nn.initializers": {"a type": "Initializer"},
}
