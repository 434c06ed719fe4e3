"""Writing at computed positions: ``.at[...]``, segment sums, scatters of every geometry."""

from functools import partial

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax

from tests.cases.case import Case, f32, ints

_CLIP = lax.GatherScatterMode.CLIP
_DROP = lax.GatherScatterMode.FILL_OR_DROP
_X = f32(5, 6)
_Y = f32(4, 5, 6)
_U = f32(4, 6, seed=1)
_I = np.asarray([1, -1, 1, 0], np.int32)
_OUT = np.asarray([7, 1, -6, 1], np.int32)
_WAYS = ("add", "subtract", "multiply", "min", "max")
_INTS = (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32)


def _i(value):
    return np.int32(value)


def _spec(*shape, dtype=np.int32):
    return jax.ShapeDtypeStruct(shape, dtype)


def _with(way, x, i, u, **kw):
    return getattr(x.at[i], way)(u, **kw)


def _column(way, x, i, u):
    return getattr(x.at[:, i], way)(u)


def _scatter(fn, x, i, u, window, inserted, at, mode=_DROP, batching=(), starts_batching=(), unique=False):
    numbers = lax.ScatterDimensionNumbers(window, inserted, at, batching, starts_batching)
    return fn(x, i, u, numbers, mode=mode, unique_indices=unique)


def _nan(*shape, seed=0):
    x = f32(*shape, seed=seed)
    x.flat[:: max(x.size // 4, 1)] = [np.nan, np.inf, -np.inf, -0.0, np.nan][
        : len(x.flat[:: max(x.size // 4, 1)])
    ]
    return x


_STARTS = [[_X, _i(v), _U[0]] for v in (0, 4, 5, -1, -5, -6, 99)]

_ONE = [
    Case("set_row", partial(_with, "set"), [_X, _i(1), _U[0]], also=_STARTS, ops=["ScatterND"]),
    *(Case(f"{way}_row", partial(_with, way), [_X, _i(1), _U[0]], also=_STARTS) for way in _WAYS),
    Case("set_row_clip", partial(_with, "set", mode="clip"), [_X, _i(1), _U[0]], also=_STARTS),
    Case("set_row_promise", partial(_with, "set", mode="promise_in_bounds"), [_X, _i(1), _U[0]]),
    Case(
        "set_column",
        partial(_column, "set"),
        [_X, _i(1), _X[:, 0]],
        spec=[("B", 6), _i(0), ("B",)],
        also=[[_X[:1], _i(v), _X[:1, 0]] for v in (0, 5, 6, -1, -7)],
    ),
    *(
        Case(
            f"{way}_column",
            partial(_column, way),
            [_X, _i(1), _X[:, 0]],
            spec=[("B", 6), _i(0), ("B",)],
            also=[[_X[:2], _i(v), _X[:2, 0]] for v in (5, 6, -7)],
        )
        for way in _WAYS
    ),
    Case(
        "set_point",
        lambda x, i, j: x.at[i, j].set(9.0),
        [_X, _i(1), _i(-1)],
        also=[[_X, _i(5), _i(0)], [_X, _i(0), _i(-7)], [_X, _i(-5), _i(5)]],
    ),
    Case(
        "set_constant",
        lambda x: (x.at[1].set(0), x.at[1:3, 2].set(1), x.at[::2].add(1), x.at[..., -1].set(5)),
        [_X],
    ),
    Case(
        "set_constant_symbolic",
        lambda x: (x.at[:, 1].set(0), x.at[:, 1:3].add(2), x.at[:, -1].multiply(3)),
        [_X],
        spec=[("B", 6)],
        also=[[_X[:1]]],
    ),
    Case("set_constant_outside", lambda x: x.at[9].set(0), [_X]),
    Case("set_all", lambda x: x.at[:].set(1), [_X]),
    Case(
        "nan_row",
        lambda x, i, u: (x.at[i].max(u), x.at[i].min(u), x.at[i].add(u)),
        [_nan(5, 6), _i(1), _nan(6, seed=1)],
        also=[[_nan(5, 6), _i(0), _U[0]]],
    ),
    Case(
        "bool_row",
        lambda x, i, u: (x.at[i].set(u), x.at[i].max(u), x.at[i].min(u)),
        [_X > 0, _i(1), _U[0] > 0],
        also=[[_X > 0, _i(7), _U[0] > 0]],
    ),
    *(
        Case(
            f"row_{np.dtype(d).name}",
            lambda x, i, u: (x.at[i].set(u), x.at[i].add(u), x.at[i].max(u), x.at[i].multiply(u)),
            [ints(3, 2, low=0).astype(d), _i(1), ints(2, low=0, seed=1).astype(d)],
            also=[[ints(3, 2, low=0).astype(d), _i(3), ints(2, low=0, seed=1).astype(d)]],
        )
        for d in (*_INTS, np.float16, ml_dtypes.bfloat16)
    ),
]

_MANY = [
    Case("set_rows", lambda x, i: x.at[i].set(2.0), [_X, _I], also=[[_X, _OUT]]),
    Case(
        "set_rows_unique",
        lambda x, i, u: x.at[i].set(u, unique_indices=True),
        [_X, np.asarray([3, 9, 0, -9], np.int32), _U],
    ),
    Case(
        "set_rows_symbolic",
        lambda x, i: x.at[i].set(2.0),
        [_X, _I],
        spec=[("B", 6), _spec("N")],
        also=[[_X[:2], _OUT], [_X, ints(1)], [_X, ints(0)]],
    ),
    *(
        Case(
            f"{way}_rows",
            partial(_with, way),
            [_X, _I, _U],
            spec=[("B", 6), _spec("N"), ("N", 6)],
            also=[[_X, _OUT, _U], [_X, np.full(4, 2, np.int32), _U], [_X, ints(0), _U[:0]]],
        )
        for way in _WAYS
    ),
    *(
        Case(f"{way}_columns", partial(_column, way), [_X, _I, _X[:, :4]], also=[[_X, _OUT, _X[:, :4]]])
        for way in _WAYS
    ),
    Case(
        "add_columns_symbolic",
        partial(_column, "add"),
        [_X, _I, _X[:, :4]],
        spec=[("B", 6), _spec("N"), ("B", "N")],
        also=[[_X[:1], _OUT[:2], _X[:1, :2]]],
    ),
    Case(
        "set_columns_symbolic",
        lambda x, i: x.at[:, i].set(3.0),
        [_X, _I],
        spec=[("B", 6), _spec("N")],
        also=[[_X[:1], _OUT]],
    ),
    Case("add_rows_clip", partial(_with, "add", mode="clip"), [_X, _OUT, _U]),
    Case(
        "add_pairs",
        lambda x, i, j, u: x.at[i, j].add(u),
        [_X, _I, _I, _U[:, 0]],
        also=[[_X, _OUT, _I, _U[:, 0]]],
    ),
    Case("set_pairs", lambda x, i, j: x.at[i, j].set(1.0), [_X, _I, _I], also=[[_X, _OUT, _I]]),
    Case("set_inner_pairs", lambda x, i, j: x.at[:, i, j].set(1.0), [_Y, _I, _OUT]),
    Case("add_apart", lambda x, i, j: x.at[i, :, j].add(1.0), [_Y, _I, _OUT]),
    Case(
        "constant_rows", lambda x, u: x.at[np.array([0, 3, 3])].add(u), [_X, _U[:3]], ops=["!Clip", "!Where"]
    ),
    Case(
        "constant_diagonal",
        lambda x: x.at[jnp.arange(5), jnp.arange(5)].set(0.0),
        [_X],
        ops=["ScatterND", "!Compress"],
    ),
    Case(
        "zero_updates_sign",
        lambda x, i, u: x.at[i].add(u),
        [np.full((3,), -0.0, np.float32), np.asarray([7], np.int32), f32(1)],
    ),
    *(
        Case(
            f"nan_rows_{way}",
            partial(_with, way),
            [_nan(5, 6), _I, _nan(4, 6, seed=1)],
            also=[[_nan(5, 6), _OUT, _nan(4, 6)]],
        )
        for way in _WAYS
    ),
    Case("bool_rows", lambda x, i, u: (x.at[i].max(u), x.at[i].min(u)), [_X > 0, _OUT, _U > 0]),
    Case("bool_set_rows", lambda x, i: x.at[i].set(True), [_X > 9, _OUT]),
    *(
        Case(
            f"rows_{np.dtype(d).name}",
            lambda x, i, u: (
                x.at[i].add(u),
                x.at[i].max(u),
                x.at[i].min(u),
                x.at[i].multiply(u),
                x.at[i].set(3),
            ),
            [ints(5, low=0, high=100).astype(d), _OUT, ints(4, low=0, high=100, seed=1).astype(d)],
        )
        for d in (*_INTS, np.float16, ml_dtypes.bfloat16)
    ),
    Case(
        "overflow",
        lambda x, i: (x.at[i].add(2**30), x.at[i].multiply(2**20)),
        [ints(5, low=2**30, high=2**31 - 1), _I],
    ),
    Case(
        "exact_i64",
        lambda x, i: (x.at[i].add(2**53 + 1), x.at[i].max(2**53 + 1)),
        [ints(5, dtype=np.int64), _I],
        x64=True,
    ),
    Case("f64", lambda x, i: (x.at[i].add(0.1), x.at[i].min(0.1)), [f32(5).astype(np.float64), _I], x64=True),
    Case(
        "segment_sum",
        lambda x, i: jax.ops.segment_sum(x, i, num_segments=3),
        [_X, np.asarray([0, 1, 1, 2, 9], np.int32)],
        spec=[("N", 6), _spec("N")],
        also=[[_X[:1], ints(1)], [_X[:0], ints(0)]],
    ),
    Case(
        "segment_extremes",
        lambda x, i: [
            f(x, i, num_segments=4) for f in (jax.ops.segment_max, jax.ops.segment_min, jax.ops.segment_prod)
        ],
        [_X, np.asarray([0, 1, 1, 2, -1], np.int32)],
    ),
    Case("bincount", lambda i: jnp.bincount(i, length=5), [ints(9, low=0, high=8)]),
    Case("histogram_weights", lambda i, w: jnp.zeros(4).at[i].add(w), [ints(64, low=0, high=5), f32(64)]),
    Case(
        "one_hot_count",
        lambda i: jnp.zeros((3, 5), jnp.int32).at[jnp.arange(3)[:, None], i].add(1),
        [ints(3, 4, low=0, high=5)],
    ),
    Case(
        "vmap_set",
        jax.vmap(lambda x, i: x.at[i].set(7.0)),
        [_X, ints(5)],
        spec=[("B", 6), _spec("B")],
        also=[[_X[:1], ints(1)]],
    ),
    Case(
        "vmap_add",
        jax.vmap(lambda x, i, u: x.at[i].add(u)),
        [_X, ints(5, 3), f32(5, 3)],
        spec=[("B", 6), _spec("B", "N"), ("B", "N")],
        also=[[_X[:1], ints(1, 2), f32(1, 2)]],
    ),
    Case("vmap_max", jax.vmap(lambda x, i, u: x.at[i].max(u)), [_nan(5, 6), ints(5, 3), _nan(5, 3)]),
    Case("vmap_rows", jax.vmap(lambda x, i, u: x.at[i].add(u)), [_Y, ints(4, 3), f32(4, 3, 6)]),
    Case(
        "put_along_axis",
        lambda x, i: jnp.put_along_axis(x, i, 9.0, axis=1, inplace=False),
        [_X, ints(5, 2, low=-6, high=6)],
    ),
    Case("gradient_take", jax.grad(lambda x, i: jnp.sum(jnp.sin(x[i]))), [_X, _I]),
    Case(
        "windows",
        partial(_scatter, lax.scatter_add, window=(1, 2), inserted=(), at=(1, 0)),
        [_X, ints(3, 2, low=-1, high=4), f32(3, 2, 3)],
    ),
    Case(
        "windows_clip",
        partial(_scatter, lax.scatter_max, window=(1, 2), inserted=(), at=(1, 0), mode=_CLIP),
        [_X, ints(3, 2), f32(3, 2, 3)],
    ),
    Case(
        "windows_batched",
        partial(
            _scatter,
            lax.scatter_add,
            window=(1, 3),
            inserted=(),
            at=(1,),
            batching=(0,),
            starts_batching=(1,),
        ),
        [_Y, ints(3, 4, 1, low=-1, high=5), f32(3, 2, 4, 6)],
    ),
    Case(
        "windows_partial",
        partial(_scatter, lax.scatter_mul, window=(1,), inserted=(0,), at=(0,)),
        [_X, ints(4, 1), f32(4, 3)],
    ),
    Case("apply_row", lambda x, i: x.at[i].apply(jnp.sin), [_X, _i(1)], also=[[_X, _i(v)] for v in (-1, 5, 99)],
         ops=["!Loop"]),
    Case("apply_twice", lambda x, i: x.at[i].apply(lambda v: v * 2 + 1), [_X, _I], also=[[_X, _OUT]], ops=["Loop"]),
    Case("apply_unique", lambda x, i: x.at[:, i].apply(jnp.exp, unique_indices=True), [_X, _i([3, 0])],
         also=[[_nan(5, 6), _i([1, 9])]], ops=["!Loop"]),
    Case("apply_clip", lambda x, i: x.at[i].apply(jnp.square, mode="clip"), [_X, _OUT]),
    Case("apply_integers", lambda x, i: x.at[i].apply(lambda v: v // 2), [ints(5, 6), _I]),
    Case("apply_constant", lambda x, i: x.at[i].apply(lambda v: jnp.ones_like(v)), [_X, _I]),
    Case("apply_symbolic", lambda x, i: x.at[i].apply(jnp.tanh), [_X, _I],
         spec=[_spec("B", 6, dtype=np.float32), _spec("N")], also=[[f32(3, 6), ints(7, low=-9)]]),
    Case("apply_nowhere", lambda x, i: x.at[i].apply(jnp.tanh), [_X, ints(0)]),
    Case("no_updates", lambda x, i, u: x.at[i].add(u), [_X, ints(0), f32(0, 6)]),
    Case("into_nothing", lambda x, i, u: x.at[i].add(u), [f32(0, 6), ints(2), f32(2, 6)]),
]

CASES = [*_ONE, *_MANY]
