"""``jax.random``, with the key as an input of the graph."""

from __future__ import annotations

import jax
import numpy as np

from tests.cases.case import f32
from tests.sweep.call import KEY, Array, X, array, call
from tests.sweep.tables.numpy_linalg import PD

RAW = np.asarray(jax.random.PRNGKey(7))
SEED = array(5, dtype=np.int32)[0]
A, C = array(0.5, 1.0, 3.0), array(2.0, 0.7, 5.0)
CHANCE = array(0.2, 0.5, 0.9)


def shapes(outputs: list[Array]) -> list[tuple[int, ...]]:
    """A sample that depends on the signs of eigenvectors, which are free."""
    return [out.shape for out in outputs]


CALLS = {
    "jax.random": [
        ("PRNGKey key", call(42), call(SEED)),
        ("split", call(KEY), call(RAW, 3), call(KEY, (2, 2))),
        ("fold_in", call(KEY, 3), call(RAW, SEED)),
        ("clone key_data", call(KEY)),
        ("wrap_key_data", call(RAW)),
        ("bits", call(KEY, (5,)), call(RAW, (3,), np.uint8), call(KEY, (2, 3), np.uint16)),
        ("uniform", call(KEY, (3, 4)), call(RAW, (5,), np.float16), call(KEY, (3,), minval=-1.0, maxval=A)),
        ("normal", call(KEY, (3, 4)), call(RAW, (5,), np.float16)),
        ("cauchy exponential gumbel laplace logistic maxwell rademacher", call(KEY, (5,)), call(RAW, (2, 3))),
        ("gumbel", call(KEY, (5,), mode="high")),
        ("ball", call(KEY, 3, shape=(2,)), call(KEY, 2, p=1.5)),
        ("bernoulli", call(KEY, CHANCE), call(KEY, 0.3, (4,)), call(KEY, CHANCE, mode="high")),
        ("beta", call(KEY, A, C), call(KEY, 2.0, 0.5, (4,))),
        ("binomial", call(KEY, 9.0, CHANCE), call(KEY, array(50.0, 100.0, 3.0), CHANCE)),
        (
            "categorical",
            call(KEY, X),
            call(KEY, X, axis=0, shape=(5, 4)),
            call(KEY, X[0], shape=(2,), replace=False),
        ),
        ("chisquare", call(KEY, C)),
        (
            "choice",
            call(KEY, 9, (4,)),
            call(KEY, X[0], (2,), replace=False),
            call(KEY, X, (5,), p=np.abs(X[:, 0]) / np.abs(X[:, 0]).sum()),
            call(KEY, X, (2,), axis=1, replace=False),
        ),
        ("dirichlet", call(KEY, A), call(KEY, A, (2,))),
        ("double_sided_maxwell", call(KEY, 1.0, 2.0, (5,))),
        ("f", call(KEY, A + 1, C + 1)),
        ("gamma loggamma", call(KEY, C), call(KEY, 0.3, (5,))),
        ("generalized_normal", call(KEY, 1.5, (5,))),
        ("geometric", call(KEY, CHANCE)),
        ("lognormal", call(KEY, 0.5, (5,)), call(KEY, A)),
        ("multinomial", call(KEY, array(9.0)[0], CHANCE / CHANCE.sum())),
        (
            "multivariate_normal",
            call(KEY, f32(4), PD),
            call(KEY, f32(4), PD, (2,), method="eigh", result=shapes),
            call(KEY, f32(4), PD, (2,), method="svd", result=shapes),
        ),
        ("orthogonal", call(KEY, 4, result=lambda o: [o[0] @ o[0].T])),
        ("pareto", call(KEY, C), call(KEY, 2.0, (5,))),
        ("permutation", call(KEY, 9), call(KEY, X), call(KEY, X, axis=1), call(KEY, X, independent=True)),
        ("poisson", call(KEY, array(0.5, 5.0, 40.0)), call(KEY, 3.0, (5,))),
        (
            "randint",
            call(KEY, (5,), -3, 9),
            call(RAW, (5,), 0, 255, np.uint8),
            call(KEY, (3,), 0, array(3, 9, 100, dtype=np.int32)),
        ),
        ("rayleigh", call(KEY, C)),
        ("t", call(KEY, C)),
        ("triangular", call(KEY, -1.0, CHANCE, 2.0)),
        ("truncated_normal", call(KEY, -1.0, 2.0, (5,)), call(KEY, -A, C)),
        ("wald", call(KEY, C)),
        ("weibull_min", call(KEY, 2.0, 1.5, (5,))),
    ],
}
APART = {
    "jax.random": {
        "answers in Python about keys": "key_dtype key_impl",
        "a name for types": "Key",
    }
}
