"""``jax.scipy.stats``: every function of every distribution."""

from __future__ import annotations

import numpy as np

from tests.cases.case import f32, ints
from tests.sweep.call import INT, P, U, V, X, array, call, unit

K = ints(3, 4, low=0, high=6, seed=3)
NEAR = array(-3.0, -1.0, 0.0, 0.5, 1.0, 2.0, np.nan)
OUTSIDE = np.append(NEAR, array(np.inf, -np.inf))
UNIT = array(0.0, 0.1, 0.5, 0.9, 1.0, -0.1, 1.1, np.nan)
LOC, SCALE = f32(4, seed=4), unit(4, seed=5, low=0.5, high=2.0)
CHANCES = array(0.2, 0.3, 0.5)
FAR = X * np.float32(5)
TIED = ints(3, 7, low=0, high=4, seed=2).astype(np.float32)
DATA = f32(2, 9)


def each(distribution: str, functions: str) -> str:
    return " ".join(f"{distribution}.{function}" for function in functions.split())


LOCATED = "cauchy gumbel_l gumbel_r laplace logistic norm uniform expon"
DENSITIES = "pdf logpdf cdf logcdf sf logsf"

CALLS = {
    "jax.scipy.stats": [
        (
            " ".join(each(d, "pdf logpdf cdf") for d in LOCATED.split()),
            call(X),
            call(FAR, LOC, SCALE),
            call(OUTSIDE),
        ),
        (
            " ".join(each(d, "logcdf sf logsf") for d in "gumbel_l gumbel_r norm expon".split()),
            call(X),
            call(FAR, LOC, SCALE),
            call(OUTSIDE),
        ),
        # Far out, log(1/2 + arctan(x)/pi) is the logarithm of what rounding leaves.
        (each("cauchy", "logcdf sf logsf"), call(X), call(FAR, LOC, SCALE), call(NEAR)),
        ("logistic.sf", call(X), call(FAR, LOC, SCALE), call(OUTSIDE)),
        (
            " ".join(each(d, "ppf") for d in "cauchy gumbel_l gumbel_r logistic norm uniform expon".split()),
            call(U),
            call(U, LOC, SCALE),
            call(UNIT),
        ),
        (
            each("cauchy", "isf") + " " + each("logistic", "isf") + " " + each("norm", "isf"),
            call(U),
            call(U, LOC, SCALE),
            call(UNIT),
        ),
        (each("bernoulli", "pmf logpmf cdf"), call(K % 2, U), call(K - 2, 0.3)),
        (each("bernoulli", "pmf logpmf"), call(K, U, 1)),
        (each("bernoulli", "ppf"), call(U, 0.3), call(UNIT, 0.6)),
        (each("beta", DENSITIES), call(U, P, P[::-1]), call(OUTSIDE, 2.0, 3.0), call(U, 2.0, 0.5, -0.2, 2.0)),
        (each("betabinom", "pmf logpmf"), call(K, 7, P, P[::-1]), call(K, 5, 2.0, 3.0, 1)),
        (each("binom", "pmf logpmf"), call(K, 7, U), call(K - 1, 5, 0.3, 1)),
        (each("nbinom", "pmf logpmf"), call(K, 7, U), call(K - 1, 5, 0.3, 1)),
        (each("geom", "pmf logpmf"), call(K, U), call(K - 1, 0.3, 1)),
        (each("chi2", DENSITIES), call(P, P[::-1]), call(OUTSIDE, 3.0), call(P, 2.0, -0.2, 2.0)),
        (each("gamma", DENSITIES), call(P, P[::-1]), call(OUTSIDE, 3.0), call(P, 2.0, -0.2, 2.0)),
        (
            each("dirichlet", "pdf logpdf"),
            call(CHANCES, array(1.0, 2.0, 3.0)),
            call(CHANCES[:2], array(1.0, 2.0, 3.0)),
        ),
        (each("gennorm", "pdf logpdf cdf"), call(X, P), call(OUTSIDE, 1.5)),
        (each("multinomial", "pmf logpmf"), call(array(1, 2, 3, dtype=np.int32), 6, CHANCES)),
        (
            each("multivariate_normal", "pdf logpdf"),
            call(X, LOC, np.eye(4, dtype=np.float32) * 2 + 1),
            call(X, LOC, 2.0),
            call(X[0], 0.0, 2.0),
        ),
        (each("pareto", DENSITIES), call(P + 1, P[::-1]), call(OUTSIDE, 3.0), call(P, 2.0, -0.2, 2.0)),
        (each("pareto", "ppf"), call(U, P), call(UNIT, 3.0, 1.0, 2.0)),
        (each("poisson", "pmf logpmf cdf"), call(K, P), call(K - 1, 3.0, 1)),
        (each("poisson", "entropy"), call(P), call(array(0.5, 5.0, 40.0, 500.0))),
        (each("t", "pdf logpdf"), call(X, P), call(FAR, 3.0, LOC, SCALE)),
        (
            each("truncnorm", DENSITIES),
            call(X, -1.0, 1.5),
            call(FAR, -1.0, 1.5, LOC, SCALE),
            call(OUTSIDE, -2.0, 2.0),
        ),
        (each("vonmises", "pdf logpdf"), call(X, P), call(X, 2.0)),
        (each("wrapcauchy", "pdf logpdf"), call(P, U), call(OUTSIDE, 0.3)),
        ("mode", call(TIED), call(TIED, axis=1, keepdims=True), call(INT, axis=None)),
        (
            "rankdata",
            call(TIED),
            call(TIED, axis=1, method="min"),
            call(TIED, method="dense"),
            call(TIED, axis=0, method="ordinal"),
            call(TIED, method="max"),
        ),
        ("sem", call(X), call(X, axis=1, ddof=0), call(X, axis=None, keepdims=True)),
        (
            "gaussian_kde",
            call(V, X[0], using=lambda f, data, x: (f(data).evaluate(x), f(data).logpdf(x))),
            call(DATA, f32(2, 3), using=lambda f, data, x: f(data, bw_method=0.5)(x)),
            call(
                V,
                np.float32(-0.5),
                np.float32(0.5),
                using=lambda f, data, a, b: (
                    f(data).integrate_box_1d(a, b),
                    f(data).integrate_gaussian(a, b),
                    f(data).integrate_kde(f(data * 2)),
                ),
            ),
        ),
    ],
}
