"""``jax.numpy``: reductions, statistics, products, polynomials."""

from __future__ import annotations

import numpy as np

from tests.cases.case import f32, ints
from tests.sweep.call import B2, EDGE, INT, INT2, N8, U8, V2, Z2, B, M, N, P, V, X, Y, Z, array, c64, call

T = f32(2, 3, 4)
GAPS = np.where(B, X, np.float32(np.nan))
HOLES = GAPS.copy()
HOLES[1] = np.nan
COUNTS = ints(9, low=0, high=6, seed=4)
WIDE = f32(2, 3, 4, 5)
ROOTS = array(1.0, -6.0, 11.0, -6.0)


def by_size(outputs):  # type: ignore[no-untyped-def]
    """Roots come in no order."""
    return [np.sort_complex(np.round(out, 4)) for out in outputs]


CALLS = {
    "jax.numpy": [
        (
            "sum prod mean max amax min amin",
            call(X),
            call(X, axis=0),
            call(T, axis=(0, 2), keepdims=True),
            call(EDGE),
            call(
                X,
                where=B,
                initial=1.0,
                using=lambda f, x, where, initial: (
                    f(x, where=where) if f.__name__ == "mean" else f(x, where=where, initial=initial)
                ),
            ),
        ),
        ("sum prod cumsum cumprod", call(INT), call(N8), call(U8), call(B), call(Z)),
        ("max amax min amin ptp", call(INT, axis=1), call(N8, axis=0)),
        ("minmax", call(X), call(X, axis=0), call(INT)),
        ("ptp", call(X), call(X, axis=1, keepdims=True)),
        ("std var", call(X), call(X, axis=0, ddof=1), call(Z), call(X, where=B), call(INT)),
        ("average", call(X), call(X, axis=1, weights=Y[0]), call(X, weights=P, returned=True)),
        ("median", call(X), call(X, axis=0), call(T, axis=(0, 1), keepdims=True), call(INT)),
        ("percentile", call(X, 30), call(X, array(10, 50, 95), axis=1), call(X, 40, method="nearest")),
        (
            "quantile",
            call(X, 0.3),
            call(X, array(0.1, 0.5, 0.95), axis=1),
            call(X, 0.4, method="lower"),
            call(X, 0.4, method="midpoint", keepdims=True),
        ),
        (
            "nansum nanprod nanmean nanmax nanmin nanstd nanvar nanmedian",
            call(GAPS),
            call(HOLES, axis=1),
            call(X, axis=0),
        ),
        ("nancumsum nancumprod", call(GAPS), call(GAPS, axis=1)),
        ("nanpercentile", call(GAPS, 30), call(HOLES, array(10, 90), axis=1)),
        ("nanquantile", call(GAPS, 0.3), call(HOLES, array(0.1, 0.9), axis=1)),
        ("nanargmax nanargmin", call(GAPS), call(HOLES, axis=1), call(INT)),
        ("argmax argmin", call(X), call(X, axis=0, keepdims=True), call(EDGE), call(INT, axis=1)),
        ("all any", call(B), call(X, axis=0), call(INT, axis=1, keepdims=True), call(B, where=B2)),
        ("count_nonzero", call(INT), call(B, axis=0)),
        ("cumsum cumprod", call(X), call(X, axis=1), call(INT, axis=0)),
        ("cumulative_sum cumulative_prod", call(V), call(X, axis=1, include_initial=True)),
        ("diff", call(X), call(X, n=2, axis=0), call(INT), call(X, prepend=0.0)),
        ("ediff1d", call(V), call(V, to_begin=1.0, to_end=2.0)),
        ("gradient", call(X), call(V, 0.5), call(X, axis=1)),
        ("trapezoid", call(V), call(Y, V[:4]), call(X, dx=0.5, axis=0)),
        (
            "convolve correlate",
            call(V, V2[:3]),
            call(V, V2[:3], mode="same"),
            call(V, V2[:3], mode="valid"),
            call(ints(7), ints(3)),
            call(c64(7), c64(3, seed=5)),
        ),
        ("bincount", call(COUNTS, length=6), call(COUNTS, weights=f32(9), length=6)),
        (
            "histogram",
            call(X),
            call(X, bins=4, range=(-1.0, 1.0)),
            call(X, bins=array(-2, 0, 1, 3)),
            call(X, weights=P, density=True),
        ),
        ("histogram_bin_edges", call(X), call(X, bins=4, range=(-1.0, 1.0))),
        ("histogram2d", call(V, V2, bins=3), call(V, V2, bins=[array(-2, 0, 2), array(-2, 1, 2)])),
        ("histogramdd", call(f32(9, 2), bins=3), call(f32(9, 2), bins=2, weights=np.abs(f32(9)))),
        ("cov corrcoef", call(X), call(X, rowvar=False), call(X, Y), call(Z)),
        ("cov", call(X, ddof=0), call(X, aweights=P[0]), call(X, fweights=N[0])),
        ("dot inner", call(X, Y[0]), call(V, V2), call(INT, INT2[0]), call(Z, Z2[0]), call(X, 2.0)),
        ("dot", call(X, M), call(T, f32(3, 4, 2))),
        (
            "matmul",
            call(X, M),
            call(T, f32(2, 4, 5)),
            call(V, V2),
            call(INT, INT.T.copy()),
            call(Z, Z2.T.copy()),
        ),
        ("matvec", call(X, Y[0]), call(T, f32(4))),
        ("vecmat", call(f32(3), X), call(Z[:, 0], Z2)),
        ("vdot", call(X, Y), call(Z, Z2), call(INT, INT2)),
        ("vecdot", call(X, Y), call(Z, Z2), call(X, Y, axis=0)),
        ("outer", call(V, V2), call(X, Y), call(INT, INT2)),
        ("kron", call(X, M), call(V, V2), call(Z, X)),
        (
            "cross",
            call(f32(4, 3), f32(4, 3, seed=1)),
            call(f32(3), f32(3, seed=2)),
        ),
        (
            "tensordot",
            call(T, f32(3, 4, 5)),
            call(T, f32(4, 3, 2), axes=([0, 2], [2, 0])),
            call(V, V2, axes=0),
        ),
        (
            "einsum",
            call(X, M, using=lambda f, a, b: f("ij,jk->ik", a, b)),
            call(T, f32(2, 4, 3), using=lambda f, a, b: f("bij,bjk->bk", a, b)),
            call(M, using=lambda f, a: f("ii->i", a)),
            call(T, using=lambda f, a: f("b...->...", a)),
            call(V, X, M, using=lambda f, a, b, c: f("z,ij,jk->zk", a, b, c)),
        ),
        ("poly", call(V[:4]), call(M)),
        ("polyadd polysub polymul", call(V, V2[:3]), call(INT[0], INT2[0])),
        ("polydiv", call(V, V2[:3])),
        ("polyder polyint", call(V), call(V, 2)),
        ("polyval", call(V, X), call(V, 2.0), call(V, X, unroll=1)),
        (
            "polyfit",
            call(f32(9), f32(9, seed=1), 2),
            call(f32(9), f32(9, 2, seed=1), 1),
            call(f32(9), f32(9, seed=1), 1, w=np.abs(f32(9, seed=2)) + 1),
        ),
        ("roots", call(ROOTS, strip_zeros=False, result=by_size)),
    ],
}
