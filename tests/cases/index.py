"""Slices, dynamic slices and gathers."""

from functools import partial

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax

from tests.cases.case import Case, f32, ints

_CLIP = lax.GatherScatterMode.CLIP
_FILL = lax.GatherScatterMode.FILL_OR_DROP
_DTYPES = (np.bool_, np.int8, np.uint8, np.int16, np.uint16, np.uint32, np.float16, ml_dtypes.bfloat16)

_X = f32(5, 6)
_Y = f32(4, 5, 6)
_OUTSIDE = np.asarray([7, -6, -5, -7, 4], np.int32)
_INSIDE = np.asarray([0, -1, 3], np.int32)


def _i(value):
    return np.int32(value)


def _spec(*shape, dtype=np.int32):
    return jax.ShapeDtypeStruct(shape, dtype)


def _starts(*values):
    """Further arguments: the same array at other starts."""
    return [[_X, _i(v)] for v in values]


def _gather(x, i, offset, collapsed, at, sizes, mode=_CLIP, batching=(), starts_batching=()):
    numbers = lax.GatherDimensionNumbers(offset, collapsed, at, batching, starts_batching)
    return lax.gather(x, i, numbers, sizes, mode=mode)


_SLICES = [
    Case("slice", lambda x: (x[1:3], x[:, 2:], x[1], x[:, -1], x[-3:-1, 1:-1]), [_X]),
    Case("slice_strides", lambda x: (x[::2], x[1:5:3, ::4], x[::-1], x[::-2], x[4:0:-2, ::-1]), [_X]),
    Case("slice_whole", lambda x: x[:, :] + 0, [_X], ops=["!Slice"]),
    Case("slice_empty", lambda x: (x[2:2], x[5:], x[:0, 1]), [_X]),
    Case("slice_of_empty", lambda x: x[:, 1:3], [f32(0, 6)]),
    Case(
        "slice_symbolic",
        lambda x: (x[:, 1:3], x[:-1], x[1:], x[-1], x[-2:], x[1:-1, 0], x[:-2]),
        [_X],
        spec=[("B + 2", 6)],
        also=[[_X[:3]], [_X[:4]]],
        ops=["Slice", "!Gather", "!Clip"],
    ),
    Case(
        "slice_strides_symbolic",
        lambda x: (x[::2], x[:, ::3], x[::-1]),
        [_X],
        spec=[("B", 6)],
        also=[[_X[:1]], [_X[:4]]],
    ),
    Case(
        "slice_to_size",
        lambda x, y: x[: y.shape[0]],
        [_X, f32(3)],
        spec=[("B", 6), ("T",)],
        also=[[_X, f32(1)]],
        options={"constraints": ("T <= B",)},
    ),
    *(
        Case(f"slice_{np.dtype(d).name}", lambda x: (x[1:3], x[::-1], x[1]), [ints(5, 2, low=0).astype(d)])
        for d in _DTYPES
    ),
    Case("ellipsis_newaxis", lambda x: (x[..., None, 1], x[None, ..., 2:4, 0]), [_Y]),
]

_DYNAMIC = [
    Case(
        "at_scalar",
        lambda x, i: x[i],
        [_X, _i(1)],
        also=_starts(0, 4, -1, -5, -6, 5, 100, -100, 2**31 - 1, -(2**31)),
        ops=["Gather", "Clip", "!Less", "!Where", "!Reshape"],
    ),
    Case(
        "at_scalar_column",
        lambda x, i: x[:, i],
        [_X, _i(1)],
        spec=[("B", 6), _i(0)],
        also=[[_X[:1], _i(-6)], [_X, _i(6)], [_X, _i(-100)]],
    ),
    Case(
        "at_scalar_symbolic",
        lambda x, i: x[i],
        [_X, _i(1)],
        spec=[("B", 6), _i(0)],
        also=[[_X[:1], _i(0)], [_X[:3], _i(-3)], [_X[:3], _i(-4)], [_X, _i(99)]],
    ),
    Case("at_scalars", lambda x, i, j: x[i, j], [_X, _i(1), _i(-1)], also=[[_X, _i(9), _i(-9)]]),
    Case("at_u8", lambda x, i: x[i], [_X, np.uint8(2)], also=[[_X, np.uint8(255)]]),
    Case(
        "at_i8",
        lambda x, i: x[i],
        [f32(100), np.int8(2)],
        also=[[f32(100), np.int8(v)] for v in (-128, 127, -1)],
    ),
    Case("at_u32", lambda x, i: x[i], [_X, np.uint32(2)], also=[[_X, np.uint32(2**32 - 1)]]),
    Case(
        "at_i64",
        lambda x, i: x[i],
        [_X, np.int64(2)],
        also=[[_X, np.int64(v)] for v in (2**40, -(2**40), -1)],
        x64=True,
    ),
    Case("at_u64", lambda x, i: x[i], [_X, np.uint64(2)], also=[[_X, np.uint64(2**64 - 1)]], x64=True),
    Case(
        "dynamic_slice",
        lambda x, i: lax.dynamic_slice_in_dim(x, i, 2, 1),
        [_X, _i(1)],
        also=_starts(0, 4, 5, -1, -6, -9, 99),
        ops=["Slice"],
    ),
    Case(
        "dynamic_slice_two",
        lambda x, i, j: lax.dynamic_slice(x, (i, j), (2, 3)),
        [_X, _i(1), _i(-1)],
        also=[[_X, _i(9), _i(-9)], [_X, _i(0), _i(3)]],
    ),
    Case(
        "dynamic_slice_mixed",
        lambda x, i: lax.dynamic_slice(x, (i, 2, 0), (1, 2, 6)),
        [_Y, _i(1)],
        also=[[_Y, _i(-1)]],
    ),
    Case(
        "dynamic_slice_constant",
        lambda x: lax.dynamic_slice(x, (jnp.int32(4), jnp.int32(-2)), (2, 2)),
        [_X],
        ops=["Slice", "!Clip"],
    ),
    Case(
        "dynamic_slice_whole", lambda x, i: lax.dynamic_slice_in_dim(x, i, 5) + 0, [_X, _i(1)], ops=["!Slice"]
    ),
    Case("dynamic_slice_empty", lambda x, i: lax.dynamic_slice_in_dim(x, i, 0), [_X, _i(1)]),
    Case(
        "dynamic_slice_symbolic",
        lambda x, i: lax.dynamic_slice_in_dim(x, i, 2, 0),
        [_X, _i(1)],
        spec=[("B + 2", 6), _i(0)],
        also=[[_X[:3], _i(-1)], [_X[:3], _i(7)], [_X, _i(2)]],
    ),
    Case(
        "dynamic_slice_size",
        lambda x, y, i: lax.dynamic_slice_in_dim(x, i, y.shape[0], 0),
        [_X, f32(3), _i(1)],
        spec=[("B", 6), ("T",), _i(0)],
        also=[[_X, f32(1), _i(-1)], [_X, f32(4), _i(7)]],
        options={"constraints": ("T <= B",)},
    ),
    Case(
        "dynamic_slice_unsigned",
        lambda x, i: lax.dynamic_slice(x, (i, i), (2, 2)),
        [_X, np.uint8(3)],
        also=[[_X, np.uint8(200)]],
    ),
    Case(
        "dynamic_update_slice",
        lambda x, i: lax.dynamic_update_slice(x, jnp.ones((2, 2)), (i, i)),
        [_X, _i(1)],
        also=_starts(0, 5, -1, -9, 99),
        ops=["ScatterND"],
    ),
    Case(
        "dynamic_update_row",
        lambda x, u, i: lax.dynamic_update_slice_in_dim(x, u, i, 0),
        [_X, f32(1, 6), _i(1)],
        also=[[_X, f32(1, 6), _i(v)] for v in (0, 5, -1, -9)],
        ops=["ScatterND", "!Concat"],
    ),
    Case(
        "cache_update",
        lambda x, u, i: lax.dynamic_update_slice_in_dim(x, u, i, 1),
        [_Y, -_Y[:, :2], _i(1)],
        spec=[("B", 5, 6), ("B", 2, 6), _i(0)],
        also=[[_Y[:1], -_Y[:1, :2], _i(v)] for v in (5, -1, -9, 99)],
    ),
    Case(
        "cache_update_symbolic",
        lambda x, u, i: lax.dynamic_update_slice(x, u, (0, i, 2)),
        [_Y, -_Y[:, :2, :3], _i(1)],
        spec=[("B", "T + 2", 6), ("B", 2, 3), _i(0)],
        also=[[_Y[:1], -_Y[:1, :2, :3], _i(v)] for v in (5, -1, 99)],
    ),
    Case("dynamic_update_whole", lambda x, u, i: lax.dynamic_update_slice(x, u, (i, i)), [_X, -_X, _i(3)]),
    Case(
        "dynamic_update_empty",
        lambda x, i: lax.dynamic_update_slice(x, jnp.ones((0, 2)), (i, i)),
        [_X, _i(3)],
    ),
    *(
        Case(
            f"dynamic_{np.dtype(d).name}",
            lambda x, i: (
                lax.dynamic_slice_in_dim(x, i, 2),
                x[i],
                lax.dynamic_update_slice_in_dim(x, x[:2], i, 0),
            ),
            [ints(5, 2, low=0).astype(d), _i(2)],
            also=[[ints(5, 2, low=0).astype(d), _i(-1)]],
        )
        for d in _DTYPES
    ),
    Case(
        "dynamic_slice_vmap",
        jax.vmap(lambda x, i: lax.dynamic_slice_in_dim(x, i, 2)),
        [_Y, ints(4)],
        spec=[("B", 5, 6), _spec("B")],
        also=[[_Y[:1], ints(1, seed=1)], [_Y, ints(4, low=-99, high=99)]],
    ),
    Case(
        "dynamic_slice_vmap_flat",
        jax.vmap(lambda x, i: lax.dynamic_slice_in_dim(x, i, 2)),
        [_X, ints(5)],
        spec=[("B", 6), _spec("B")],
        also=[[_X[:1], ints(1)]],
        ops=["GatherElements"],
    ),
    Case(
        "dynamic_slice_vmap_starts",
        lambda x, i: jax.vmap(lambda i: lax.dynamic_slice(x, (i, i, 0), (2, 3, 6)))(i),
        [_Y, ints(7)],
        spec=[(4, 5, 6), _spec("N")],
        also=[[_Y, ints(1)]],
    ),
    Case(
        "dynamic_update_vmap",
        jax.vmap(lambda x, u, i: lax.dynamic_update_slice_in_dim(x, u, i, 0)),
        [_Y, -_Y[:, :2], ints(4)],
        spec=[("B", 5, 6), ("B", 2, 6), _spec("B")],
        also=[[_Y[:1], -_Y[:1, :2], ints(1)]],
    ),
    Case(
        "in_loop", lambda x: lax.fori_loop(0, 5, lambda i, c: c.at[i].set(2 * x[i]), jnp.zeros_like(x)), [_X]
    ),
]

_GATHERS = [
    Case(
        "rows",
        lambda x, i: x[i],
        [_X, _INSIDE],
        also=[[_X, _OUTSIDE[:3]]],
        ops=["Gather", "Clip", "!Less", "!Where"],
    ),
    Case(
        "rows_symbolic",
        lambda x, i: x[i],
        [_X, _INSIDE],
        spec=[("B", 6), _spec("N")],
        also=[[_X, _OUTSIDE], [_X[:1], ints(1, low=0, high=1)], [_X, ints(0)]],
    ),
    Case(
        "embedding",
        lambda x, i: x[i],
        [_X, ints(2, 3, low=0, high=5)],
        spec=[_X, _spec("B", "T")],
        also=[[_X, ints(1, 1)]],
    ),
    Case(
        "embedding_provable",
        lambda x, i: x[i],
        [f32(256, 3), ints(4, low=0, high=256, dtype=np.uint8)],
        ops=["!Clip"],
    ),
    Case("argmax_provable", lambda x: x[jnp.clip(x[:, 0].astype(int), 0, 4)], [_X]),
    Case("take_fill", lambda x, i: jnp.take(x, i, axis=1), [_X, _INSIDE], also=[[_X, _OUTSIDE[:3]]]),
    Case(
        "take_symbolic",
        lambda x, i: jnp.take(x, i, axis=0),
        [_X, _INSIDE],
        spec=[("B", "T"), _spec("N")],
        also=[[_X[:2, :3], _OUTSIDE], [_X, ints(1)]],
    ),
    Case(
        "take_clip_wrap",
        lambda x, i: (jnp.take(x, i, 0, mode="clip"), jnp.take(x, i, 0, mode="wrap")),
        [_X, _INSIDE],
        also=[[_X, _OUTSIDE[:3]]],
    ),
    Case("take_flat", lambda x, i: jnp.take(x, i), [_X, ints(2, 3, low=-40, high=40)]),
    Case("take_scalar_fill", lambda x, i: jnp.take(x, i, axis=0), [_X, _i(3)], also=_starts(5, -5, -6)),
    Case("get_fill", lambda x, i: x.at[i].get(mode="fill", fill_value=-1), [_X, _OUTSIDE]),
    Case(
        "get_promise",
        lambda x, i: x.at[i].get(mode="promise_in_bounds", unique_indices=True),
        [_X, ints(3, low=0, high=5)],
    ),
    *(
        Case(
            f"fill_{np.dtype(d).name}",
            lambda x, i: jnp.take(x, i, axis=0),
            [ints(5, 2, low=0).astype(d), _OUTSIDE],
        )
        for d in _DTYPES
    ),
    Case(
        "fill_x64",
        lambda x, y, i: (jnp.take(x, i), jnp.take(y, i)),
        [ints(5, dtype=np.int64), f32(5).astype(np.float64), _OUTSIDE],
        x64=True,
    ),
    Case(
        "constant",
        lambda x: (x[np.array([0, 2, -1])], x[:, np.array([[1], [-2]])]),
        [_X],
        ops=["!Clip", "!Where"],
    ),
    Case("constant_long", lambda x: x[np.arange(200) % 7 - 3], [f32(7)], ops=["!Clip", "!Where"]),
    Case(
        "constant_outside", lambda x: (jnp.take(x, np.array([9, 0, -9]), axis=0), x[np.array([9, -9])]), [_X]
    ),
    Case("mask_constant", lambda x: x[np.array([True, False, True, True, False])], [_X]),
    Case(
        "pairs",
        lambda x, i, j: x[i, j],
        [_X, _INSIDE, _INSIDE],
        also=[[_X, _OUTSIDE[:3], _INSIDE]],
        ops=["GatherND"],
    ),
    Case(
        "pairs_fill",
        lambda x, i, j: x.at[i, j].get(mode="fill"),
        [_X, _INSIDE, _INSIDE],
        also=[[_X, _OUTSIDE[:3], _INSIDE]],
    ),
    Case(
        "pairs_broadcast",
        lambda x, i, j: x[i[:, None], j],
        [_X, _INSIDE, _OUTSIDE],
        spec=[("B", 6), _spec("N"), _spec("M")],
        also=[[_X, _INSIDE[:1], _OUTSIDE]],
    ),
    Case(
        "pairs_inner",
        lambda x, i, j: x[:, i, j],
        [_Y, _INSIDE, _OUTSIDE[:3]],
        spec=[("B", 5, 6), _spec("N"), _spec("N")],
        also=[[_Y[:1], _INSIDE[:1], _OUTSIDE[:1]]],
        ops=["!Transpose"],
    ),
    Case(
        "pairs_inner_symbolic",
        lambda x, i, j: x[:, i, j],
        [_Y, _INSIDE, _INSIDE],
        spec=[("B", "T", "D"), _spec("N"), _spec("N")],
        also=[[_Y[:1], _INSIDE[:1], _INSIDE[:1]]],
    ),
    Case("pairs_apart", lambda x, i, j: (x[i, :, j], x[:, i, 1:3]), [_Y, _INSIDE, _INSIDE]),
    Case(
        "diag", lambda x: (jnp.diag(x), jnp.diagonal(x, 1), jnp.trace(x), jnp.tril(x), jnp.triu(x, 1)), [_X]
    ),
    Case(
        "take_along_axis",
        lambda x, i: jnp.take_along_axis(x, i, axis=1),
        [_X, ints(5, 3, low=-8, high=8)],
        spec=[("B", "T"), _spec("B", "K")],
        also=[[_X[:1, :2], ints(1, 4, low=-3, high=3)]],
        ops=["GatherElements"],
    ),
    Case(
        "take_along_axis_first",
        lambda x, i: jnp.take_along_axis(x, i, axis=0),
        [_X, ints(2, 6, low=-8, high=8)],
    ),
    Case(
        "take_along_axis_broadcast",
        lambda x, i: jnp.take_along_axis(x, i, axis=1),
        [_Y, ints(4, 2, 1, low=-5, high=5)],
    ),
    Case("take_along_axis_argsort", lambda x: jnp.take_along_axis(x, jnp.argsort(x, axis=1), axis=1), [_X]),
    Case(
        "vmap_scalar",
        jax.vmap(lambda x, i: x[i]),
        [_X, ints(5, low=-9, high=9)],
        spec=[("B", "T"), _spec("B")],
        also=[[_X[:1], ints(1)]],
    ),
    Case(
        "vmap_rows",
        jax.vmap(lambda x, i: x[i]),
        [_Y, ints(4, 3)],
        spec=[("B", 5, 6), _spec("B", "N")],
        also=[[_Y[:1], ints(1, 1)]],
        ops=["GatherND"],
    ),
    Case("vmap_axis", lambda x, i: jax.vmap(lambda x, i: x[i], in_axes=(2, 1))(x, i), [_Y, ints(3, 6)]),
    Case("vmap_twice", jax.vmap(jax.vmap(lambda x, i: x[i])), [_Y, ints(4, 5)]),
    Case("vmap_column", jax.vmap(lambda x, i: x[:, i]), [_Y, ints(4, 3)]),
    Case(
        "windows", partial(_gather, offset=(2, 3), collapsed=(), at=(1, 0), sizes=(2, 3)), [_X, ints(2, 3, 2)]
    ),
    Case(
        "windows_fill",
        partial(_gather, offset=(0, 2), collapsed=(1,), at=(2, 0), sizes=(2, 1, 3), mode=_FILL),
        [_Y, ints(3, 2, low=-1, high=4)],
    ),
    Case(
        "windows_batched",
        partial(
            _gather,
            offset=(1, 3),
            collapsed=(),
            at=(1,),
            sizes=(1, 2, 6),
            batching=(0,),
            starts_batching=(1,),
        ),
        [_Y, ints(3, 4, 1)],
    ),
    Case(
        "windows_partial",
        partial(_gather, offset=(1,), collapsed=(0,), at=(0,), sizes=(1, 3)),
        [_X, ints(4, 1)],
    ),
    Case("nothing", lambda x: x[np.zeros((0,), np.int32)], [_X]),
    Case(
        "from_nothing", partial(_gather, offset=(1,), collapsed=(), at=(0,), sizes=(0,)), [f32(0), ints(2, 1)]
    ),
    Case("gradient", jax.grad(lambda x: jnp.sum(x[np.array([0, 2, 2])] ** 2)), [_X]),
    Case("pytrees", lambda d: {"row": d["x"][0], "all": [d["x"], d["i"] + 1]}, [{"x": _X, "i": ints(3)}]),
    Case("roll_shift", lambda x: jnp.roll(x, (1, -2), (0, 1)), [_X], spec=[("B + 2", 6)], also=[[_X[:3]]]),
]

# Constant starts that may lie beyond an axis of symbolic size, which is at least 1.
_T = ("B", "T", 4)
_LENGTHS = [[f32(2, t, 4, seed=t)] for t in (1, 2, 3, 7)]
_CONSTANT_STARTS = [
    Case(name, fn, _LENGTHS[-1], spec=[_T], also=_LENGTHS)
    for name, fn in [
        ("slice_from_constant", lambda x: lax.dynamic_slice(x, (0, 5, 1), (x.shape[0], 1, 2))),
        (
            "update_at_constant",
            lambda x: lax.dynamic_update_slice(x, jnp.ones((1, 1, 2)), (x.shape[0] - 1, 5, 1)),
        ),
        ("take_fills", lambda x: jnp.take(x, 2, axis=1)),
        ("take_clips", lambda x: jnp.take(x, 2, axis=1, mode="clip")),
        ("take_several_clips", lambda x: jnp.take(x, np.array([0, 2, -1, 9]), axis=1, mode="clip")),
        ("set_drops", lambda x: x.at[:, 5].set(1.0)),
        ("set_row_drops", lambda x: x.at[0, 5].set(1.0)),
        ("set_several_drops", lambda x: x.at[:, np.int32([0, 2, 5])].set(1.0)),
        ("add_several_drops", lambda x: x.at[0, np.int32([0, 2, -1, 9])].add(1.0)),
        ("take_several_fills", lambda x: jnp.take(x, np.array([0, 2, -1, 9]), axis=1)),
        ("set_clips", lambda x: x.at[:, 5].set(1.0, mode="clip")),
    ]
]

_FOUND_BY_FUZZING = [
    Case("sorted_along_a_unit_axis", lambda x: jnp.take_along_axis(x, jnp.argsort(x, -1), -1), [f32(1, 2, 2)]),
    Case("repeated_no_times", lambda x: jnp.repeat(x, 0, axis=0) + jnp.ones((0,)), [f32(2)]),
    Case("repeated_no_times_symbolic", lambda x: jnp.repeat(x, 0, axis=1), [f32(2, 3)], spec=[("B", 3)]),
]

CASES = [*_FOUND_BY_FUZZING, *_CONSTANT_STARTS, *_SLICES, *_DYNAMIC, *_GATHERS]
