"""The first cases: enough to see that the pipeline stands."""

import jax.numpy as jnp

from tests.cases.case import Case, f32

CASES = [
    Case("affine", lambda x: jnp.tanh(x @ jnp.ones((3, 4))) + 1, [f32(2, 3)], spec=[("B", 3)], also=[[f32(7, 3)]]),
    Case("identity", lambda x: x, [f32(2)]),
    Case("flatten", lambda x: x.reshape(-1), [f32(2, 3)], spec=[("B", "T")], also=[[f32(1, 5)]]),
]
