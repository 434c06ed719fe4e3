"""``jax.scipy.special``."""

from __future__ import annotations

import numpy as np

from tests.sweep.call import N, P, U, X, Y, Z, array, call

SMALL = array(
    0.0, -0.0, 1e-6, -1e-6, 0.3, -0.7, 1.0, -1.0, 3.5, 20.0, -20.0, 90.0, -90.0, np.inf, -np.inf, np.nan
)
UNIT = array(0.0, 1e-6, 0.1, 0.5, 0.9, 1.0, -0.1, 1.1, np.nan)
Q = P[::-1].copy()

CALLS = {
    "jax.scipy.special": [
        (
            "dawsn digamma entr erf erfc erfcx erfinv exp1 expi expit fresnel gamma gammaln gammasgn"
            " i0 i0e i1 i1e log_ndtr loggamma ndtr sici spence",
            call(P),
            call(X),
            call(SMALL),
        ),
        ("erfcinv logit ndtri", call(U), call(UNIT)),
        ("wofz", call(Z), call(Z * np.float32(5)), call(X)),
        ("bernoulli", call(6)),
        ("bessel_jn", call(P, v=3), call(X, v=2, n_iter=30)),
        ("beta betaln", call(P, Q), call(X, Y)),
        ("betainc", call(P, Q, U)),
        ("boxcox", call(P, X), call(P, 0.0)),
        ("boxcox1p", call(P, X), call(P, 0.0)),
        ("comb", call(N.astype(np.float32), 2), call(P + 3, Q, repetition=True)),
        ("expn", call(3, P), call(N, P)),
        ("factorial", call(N), call(P)),
        (
            "gammainc gammaincc",
            call(P, Q),
            call(P, array(0.0, 1e-3, 5.0, 50.0)),
            call(array(0.0, 30.0, 200.0), array(1.0, 25.0, 210.0)),
        ),
        ("hyp1f1", call(P, Q, X)),
        ("hyp2f1", call(P, Q, P + 1, U - 1)),
        ("kl_div rel_entr", call(P, Q), call(SMALL, array(1.0))),
        ("log_softmax softmax", call(X, axis=1), call(X)),
        ("logsumexp", call(X), call(X, axis=0, b=Y, return_sign=True), call(X, axis=1, keepdims=True)),
        ("multigammaln", call(P + 3, 3)),
        ("owens_t", call(X, Y)),
        ("poch", call(P, Q)),
        ("polygamma", call(2, P), call(N, P)),
        (
            "sph_harm_y",
            call(
                array(3, 2, 4, dtype=np.int32),
                array(1, -2, 0, dtype=np.int32),
                array(0.3, 1.0, 2.0),
                array(0.1, 2.0, 5.0),
                n_max=4,
            ),
        ),
        ("xlog1py xlogy", call(X, P), call(array(0.0, 0.0, 1.0, np.nan), array(0.0, np.inf, 0.0, 0.0))),
        ("zeta", call(P + np.float32(1.5), P)),
    ],
}
