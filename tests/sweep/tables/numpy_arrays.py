"""``jax.numpy``: functions that make, move, join, index and update arrays."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from tests.cases.case import f32, ints
from tests.sweep.call import EDGE, INT, INT2, U8, B, M, N, V, X, Y, Z, array, call

T = f32(2, 3, 4)
PAIRS = array(0, 2, dtype=np.int32)
SORTED = np.sort(f32(9, seed=5))
SHORT = ints(8, low=0, high=5, seed=4)
FLAGS = ints(3, 16, low=0, high=2, dtype=np.uint8)

CALLS = {
    "jax.numpy": [
        ("arange", call(5), call(2, 11, 3), call(0.0, 1.0, 0.25), call(5, dtype=np.float32)),
        (
            "linspace",
            call(0.0, 1.0, 7),
            call(X[0], Y[0], 5),
            call(X[0], 2.0, 5, endpoint=False, axis=-1),
            call(X[0], Y[0], 5, retstep=True),
        ),
        ("logspace", call(0.0, 2.0, 7), call(X[0], Y[0], 5, base=2.0)),
        ("geomspace", call(1.0, 100.0, 7), call(np.abs(X[0]) + 1, np.abs(Y[0]) + 1, 5)),
        ("zeros ones empty", call((2, 3)), call(3, np.int32)),
        ("full", call((2, 3), 4.5), call((3, 4), X[0])),
        ("zeros_like ones_like empty_like", call(X), call(INT), call(X, np.int8, (2, 2))),
        ("full_like", call(X, 2.5), call(INT, X[0, 0])),
        ("array asarray copy", call(X), call([X[0], Y[0]], using=lambda f, xs: f(jnp.stack(xs)))),
        ("array asarray", call([X[0], Y[0]]), call(X, dtype=np.int32), call(2.5), call([1, 2, 3])),
        ("eye identity", call(3), call(4, dtype=np.int32)),
        ("eye tri", call(3, 5, 1), call(3, k=-1)),
        ("bartlett blackman hamming hanning", call(8), call(1)),
        ("kaiser", call(8, 3.5), call(7, X[0, 0])),
        ("fromfunction", call((3, 4), using=lambda f, s: f(lambda i, j: i * 2 + j, s))),
        ("indices", call((2, 3)), call((2, 3), sparse=True)),
        ("diag_indices", call(3), call(3, 3)),
        ("diag_indices_from", call(M)),
        ("tril_indices triu_indices", call(4), call(4, 1, 5)),
        ("tril_indices_from triu_indices_from", call(M), call(X, -1)),
        ("mask_indices", call(4, using=lambda f, n: f(n, jnp.triu, size=10))),
        ("ix_", call(array(0, 2, dtype=np.int32), array(1, 3, 2, dtype=np.int32))),
        ("meshgrid", call(X[0], Y[0]), call(X[0], V, indexing="ij", sparse=True)),
        ("vander", call(V), call(V, 3, increasing=True)),
        ("reshape", call(X, (4, 3)), call(X, -1), call(X, (2, 6), order="F")),
        ("ravel", call(X), call(X, order="F")),
        ("resize", call(X, (5, 4)), call(X, (2, 2))),
        ("transpose matrix_transpose", call(T), call(Z)),
        ("transpose", call(T, (1, 0, 2))),
        ("permute_dims", call(T, (2, 0, 1))),
        ("moveaxis", call(T, 0, -1), call(T, (0, 1), (1, 2))),
        ("swapaxes", call(T, 0, 2)),
        ("rollaxis", call(T, 2), call(T, 0, 3)),
        ("squeeze", call(X[:, None]), call(X[None, :, None], axis=0)),
        ("expand_dims", call(X, 1), call(X, (0, 2))),
        ("atleast_1d atleast_2d atleast_3d", call(X[0, 0]), call(X[0]), call(T), call(X[0], Y)),
        ("broadcast_to", call(X[0], (3, 4))),
        ("broadcast_arrays", call(X[0], X[:, :1]), call(X, 2.0)),
        ("flip", call(X), call(X, 1), call(T, (0, 2))),
        ("fliplr flipud", call(X), call(INT)),
        ("rot90", call(X), call(X, -1), call(T, 2, (1, 2))),
        (
            "roll",
            call(X, 2),
            call(X, -1, axis=1),
            call(X, (1, 2), axis=(0, 1)),
            call(X, array(2, dtype=np.int32)[0], axis=0),
        ),
        ("concatenate concat", call([X, Y]), call([X, Y], axis=1), call([X, INT])),
        ("concatenate", call([X, Y], axis=None)),
        ("append", call(X, Y), call(X, Y, axis=0)),
        ("stack", call([X, Y]), call([X, Y], axis=-1)),
        ("vstack hstack dstack column_stack", call([X, Y]), call([V, V])),
        ("block", call([[X, Y], [Y, X]]), call([V, 2.0])),
        ("split", call(X, 2, axis=1), call(V, [2, 5])),
        ("array_split", call(V, 3), call(X, 3, axis=1)),
        ("hsplit", call(X, 2)),
        ("vsplit", call(M, 2)),
        ("dsplit", call(T, 2)),
        ("unstack", call(X), call(X, axis=1)),
        ("tile", call(X, 2), call(X, (2, 1, 3))),
        (
            "repeat",
            call(X, 2),
            call(X, 3, axis=1),
            call(V[:3], array(1, 0, 2, dtype=np.int32), total_repeat_length=3),
            call(X, ints(3, low=0, high=3), axis=0, total_repeat_length=3),
        ),
        (
            "pad",
            call(X, 1),
            call(X, ((1, 2), (0, 3)), constant_values=2.0),
            call(X, 2, mode="reflect"),
            call(X, 2, mode="edge"),
            call(X, 2, mode="wrap"),
            call(X, 2, mode="symmetric"),
            call(X, 1, mode="linear_ramp"),
            call(X, 1, mode="mean"),
            call(X, 1, mode="maximum"),
            call(X, 1, mode="minimum"),
            call(X, 1, mode="median"),
            call(X, 1, mode="empty"),
        ),
        ("diag diagonal", call(M), call(M, 1)),
        ("diag", call(V), call(V, -2)),
        ("diagonal", call(T, 1, 0, 2)),
        ("diagflat", call(X), call(V, 1)),
        ("trace", call(M), call(X, 1), call(T, 0, 1, 2), call(INT)),
        ("tril triu", call(X), call(T, 1), call(INT, -1)),
        (
            "take",
            call(X, PAIRS),
            call(X, PAIRS, axis=1),
            call(X, array(-1, 5, 9, dtype=np.int32), axis=1),
            call(X, array(-1, 5, 9, dtype=np.int32), axis=1, mode="wrap"),
            call(X, array(-1, 5, 9, dtype=np.int32), axis=0, mode="clip"),
            call(X, array(-9, 5, 1, dtype=np.int32), axis=0, mode="fill"),
        ),
        (
            "take_along_axis",
            call(X, ints(3, 2, low=0, high=4), axis=1),
            call(X, ints(1, 4, low=0, high=3), axis=0),
        ),
        ("put_along_axis", call(X, ints(3, 1, low=0, high=4), f32(3, 1), 1, inplace=False)),
        (
            "put",
            call(X, PAIRS, array(9, 8), inplace=False),
            call(X, array(-1, 20, dtype=np.int32), 5.0, mode="clip", inplace=False),
            call(X, array(3, 20, dtype=np.int32), 5.0, mode="wrap", inplace=False),
        ),
        ("place", call(X, B, V, inplace=False)),
        (
            "insert",
            call(V, 2, 9.0),
            call(X, 1, Y[0], axis=0),
            call(V, array(9, 8), using=lambda f, x, v: f(x, np.array([1, 3]), v)),
        ),
        (
            "delete",
            call(V, 2),
            call(X, using=lambda f, x: f(x, np.array([0, 2]), axis=1)),
            call(X, slice(1, 3), axis=1),
            call(V, PAIRS, assume_unique_indices=True),
        ),
        (
            "compress",
            call(array(1, 0, 1, dtype=bool), X, axis=0, size=2),
        ),
        ("extract", call(B, X, size=12), call(B, X, size=4, fill_value=-1)),
        ("fill_diagonal", call(M, 2.0, inplace=False), call(X, array(1, 2, 3), inplace=False)),
        ("apply_along_axis", call(X, using=lambda f, x: f(lambda v: jnp.cumsum(v)[::-1], 1, x))),
        ("apply_over_axes", call(T, using=lambda f, x: f(jnp.sum, x, [0, 2]))),
        (
            "ravel_multi_index",
            call((ints(5, low=0, high=3), ints(5, low=0, high=4)), (3, 4), mode="clip"),
            call((ints(5), ints(5, seed=2)), (3, 4), mode="wrap"),
        ),
        ("unravel_index", call(ints(5, low=0, high=12), (3, 4)), call(array(-1, 13, dtype=np.int32), (3, 4))),
        ("nonzero argwhere", call(X * B, size=12), call(INT, size=5, fill_value=-1)),
        ("flatnonzero", call(X * B, size=12), call(INT, size=5, fill_value=7)),
        (
            "unique",
            call(SHORT, size=8),
            call(SHORT, size=3),
            call(SHORT, size=6, fill_value=-1, return_index=True, return_inverse=True, return_counts=True),
            call(INT[:, :2], axis=0, size=3),
            call(EDGE, size=12),
        ),
        ("unique_all unique_counts unique_inverse unique_values", call(SHORT, size=6)),
        ("union1d", call(SHORT, N[0], size=10)),
        ("intersect1d", call(SHORT, INT[0], size=8), call(SHORT, INT[0], size=8, return_indices=True)),
        ("setdiff1d", call(SHORT, INT[0], size=8)),
        ("setxor1d", call(SHORT, INT[0], size=12)),
        ("isin", call(INT, INT2[0]), call(X, Y), call(INT, INT2[0], invert=True)),
        (
            "sort argsort",
            call(X),
            call(X, axis=0),
            call(EDGE),
            call(INT, axis=None),
            call(X, descending=True),
            call(U8),
        ),
        ("sort_complex", call(Z[0]), call(X[0])),
        (
            "partition argpartition",
            call(
                V,
                2,
                using=lambda f, x, k: jnp.sort(
                    jnp.take_along_axis(x, f(x, k), 0)[: k + 1] if f is jnp.argpartition else f(x, k)[: k + 1]
                ),
            ),
            call(
                X,
                1,
                axis=0,
                using=lambda f, x, k, axis: (
                    f(x, k, axis=axis)[k]
                    if f is jnp.partition
                    else jnp.take_along_axis(x, f(x, k, axis=axis), axis)[k]
                ),
            ),
        ),
        ("lexsort", call([INT[0], X[0]]), call(INT)),
        (
            "searchsorted",
            call(SORTED, X),
            call(SORTED, X, side="right"),
            call(SORTED, X, method="sort"),
            call(SORTED, X, method="compare_all"),
            call(V, X[0], sorter=np.argsort(V).astype(np.int32)),
        ),
        ("digitize", call(X, SORTED), call(X, SORTED[::-1], right=True)),
        ("top_k", call(X, 2), call(INT, 3)),
        ("packbits unpackbits", call(FLAGS, axis=1), call(FLAGS, axis=0, bitorder="little"), call(U8)),
        ("array_equal array_equiv", call(X, X), call(X, Y), call(INT, INT)),
        ("array_equal", call(EDGE, EDGE, equal_nan=True)),
        ("allclose", call(X, X + np.float32(1e-7)), call(X, Y), call(EDGE, EDGE, equal_nan=True)),
    ],
}
APART = {
    "jax.numpy": {
        "types and the questions they answer; `astype` converts": (
            "ComplexWarning bfloat16 bool bool_ cdouble character complex128 complex64 complex_"
            " complexfloating csingle double"
            " dtype finfo flexible float16 float32 float4_e2m1fn float64 float6_e2m3fn float6_e3m2fn"
            " float8_e3m4 float8_e4m3"
            " float8_e4m3b11fnuz float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz"
            " float8_e8m0fnu float_ floating"
            " generic iinfo inexact int1 int16 int2 int32 int4 int64 int8 int_ integer ndarray number"
            " object_ signedinteger"
            " single uint uint1 uint16 uint2 uint32 uint4 uint64 uint8 unsignedinteger"
            " can_cast isdtype issubdtype promote_types result_type"
        ),
        "answers in Python about shapes and types, before anything is computed": (
            "broadcast_shapes einsum_path iscomplexobj isrealobj isscalar iterable ndim shape size"
        ),
        "reads from memory or files, and writes to them": (
            "from_dlpack frombuffer fromfile fromiter fromstring load save savez"
        ),
        "the size of the result depends on values, and JAX computes it outside of `jit` only": "trim_zeros",
        "text": "array_repr array_str get_printoptions printoptions set_printoptions",
    },
}
