"""The first cases: enough to see that the pipeline stands."""

import jax.numpy as jnp
import numpy as np

from tests.cases.case import Case, f32

W = f32(4, 4, seed=1)  # NumPy's, not JAX's: views of it begin at one address

CASES = [
    Case(
        "affine",
        lambda x: jnp.tanh(x @ jnp.ones((3, 4))) + 1,
        [f32(2, 3)],
        spec=[("B", 3)],
        also=[[f32(7, 3)]],
    ),
    Case("identity", lambda x: x, [f32(2)]),
    Case("flatten", lambda x: x.reshape(-1), [f32(2, 3)], spec=[("B", "T")], also=[[f32(1, 5)]]),
    Case("numpy_row_and_whole", lambda x: (x + W[0], W, x @ W[:2].T), [f32(3, 4)]),
    Case("numpy_transposed_and_whole", lambda x: (x @ W.T, x @ W, W[::-1], W[:, ::-1]), [f32(3, 4)]),
    Case(
        "numpy_views",
        lambda x: (W.ravel(), W.view(np.int32), W[::2], W[:2], x + np.broadcast_to(W[0], (3, 4))),
        [f32(3, 4)],
    ),
]
