"""Reshape, broadcast, transpose, pad, concatenate and their like."""

from functools import partial

import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax

from tests.cases.case import Case, f32, ints


def _pad(config, value=1.5):
    return lambda x: lax.pad(x, jnp.asarray(value, x.dtype), config)


def _edge(*shape):
    x = f32(*shape)
    x.flat[:4] = [np.nan, np.inf, -np.inf, -0.0]
    return x


_B_T = [("B", "T", 4)]

CASES = [
    Case("reshape", lambda x: x.reshape(3, 8), [_edge(2, 3, 4)]),
    Case("reshape_order", lambda x: lax.reshape(x, (12, 2), (2, 0, 1)), [f32(2, 3, 4)]),
    Case("reshape_scalar", lambda x: (x.reshape(()), x.reshape(1, 1, 1)), [f32(1)]),
    Case("reshape_empty", lambda x: x.reshape(5, 0, 7), [f32(0, 3)]),
    Case("reshape_empty_to_flat", lambda x: x.reshape(-1), [f32(2, 0, 3)]),
    Case(
        "reshape_heads",
        lambda x: x.reshape(*x.shape[:2], 2, 2),
        [f32(2, 3, 4)],
        spec=_B_T,
        also=[[f32(1, 7, 4)], [f32(0, 3, 4)]],
        ops=["Reshape", "!Shape"],
    ),
    Case(
        "reshape_merge",
        lambda x: x.reshape(-1, 4),
        [f32(2, 3, 4)],
        spec=_B_T,
        also=[[f32(1, 1, 4)], [f32(0, 3, 4)]],
    ),
    Case(
        "reshape_merge_last",
        lambda x: x.reshape(x.shape[0], x.shape[1] * 4),
        [f32(2, 3, 4)],
        spec=_B_T,
        also=[[f32(7, 1, 4)], [f32(0, 3, 4)]],
    ),
    Case("reshape_bool", lambda x: x.reshape(6, 1), [f32(2, 3) > 0]),
    Case("reshape_bf16", lambda x: x.reshape(6), [f32(2, 3).astype(ml_dtypes.bfloat16)]),
    Case("squeeze", lambda x: (x.squeeze(), x.squeeze(0), lax.squeeze(x, (2,))), [f32(1, 3, 1)]),
    Case(
        "expand_dims",
        lambda x: jnp.expand_dims(x, (0, 2)),
        [f32(2, 3)],
        spec=[("B", "T")],
        also=[[f32(1, 1)]],
    ),
    Case(
        "transpose",
        lambda x: x.transpose(2, 0, 1),
        [_edge(2, 3, 4)],
        spec=_B_T,
        also=[[f32(0, 3, 4)], [f32(1, 5, 4)]],
    ),
    Case("transpose_i16", lambda x: x.T, [ints(2, 3, dtype=np.int16)]),
    Case("transpose_u64", lambda x: x.T, [ints(2, 3, low=0, dtype=np.uint64)], x64=True),
    Case(
        "swapaxes_twice",
        lambda x: jnp.swapaxes(jnp.swapaxes(x, 0, 1), 0, 1) + 1,
        [f32(2, 3)],
        ops=["!Transpose"],
    ),
    Case(
        "broadcast_lead",
        lambda x: jnp.broadcast_to(x, (4, *x.shape)),
        [f32(2, 3)],
        spec=[("B", 3)],
        also=[[f32(1, 3)], [f32(0, 3)]],
        ops=["Expand", "!Shape"],
    ),
    Case("broadcast_unit", lambda x: jnp.broadcast_to(x, (2, 5, 3)), [f32(2, 1, 3)]),
    Case(
        "broadcast_symbolic",
        lambda x, y: jnp.broadcast_to(x[:, None], (x.shape[0], y.shape[0])),
        [f32(2), f32(3)],
        spec=[("B",), ("T",)],
        also=[[f32(1), f32(1)], [f32(5), f32(1)]],
    ),
    Case("broadcast_in_dim", lambda x: lax.broadcast_in_dim(x, (2, 3, 4), (1,)), [f32(3)]),
    Case("broadcast_empty", lambda x: jnp.broadcast_to(x, (0, 3)), [f32(3)]),
    Case("broadcast_u8", lambda x: jnp.broadcast_to(x, (3, 2)), [ints(2, low=0, dtype=np.uint8)]),
    Case(
        "zeros_like_symbolic",
        lambda x: (jnp.zeros_like(x), jnp.full(x.shape, 7, jnp.int32)),
        [f32(2, 3)],
        spec=[("B", 3)],
        also=[[f32(4, 3)]],
    ),
    Case("ones_static", lambda x: x + jnp.ones((2, 3)), [f32(2, 3)]),
    *(
        Case(
            f"iota_{np.dtype(d).name}",
            partial(lambda d, x: (lax.iota(d, 300), lax.broadcasted_iota(d, (2, 3), 1)), d),
            [f32(1)],
        )
        for d in (np.int32, np.int8, np.uint8, np.float32, np.float16, ml_dtypes.bfloat16, np.uint32)
    ),
    Case("iota_x64", lambda x: (lax.iota(np.int64, 5000), lax.iota(np.float64, 3)), [f32(1)], x64=True),
    Case("iota_wide", lambda x: lax.broadcasted_iota(np.int32, (100, 7, 30), 1), [f32(1)]),
    Case(
        "arange_symbolic",
        lambda x: x + jnp.arange(x.shape[1]),
        [f32(2, 3)],
        spec=[("B", "T")],
        also=[[f32(1, 9)], [f32(2, 1)]],
    ),
    Case(
        "iota_symbolic",
        lambda x: lax.broadcasted_iota(np.float32, x.shape, 0),
        [f32(2, 3)],
        spec=[("B", "T")],
        also=[[f32(7, 2)], [f32(0, 2)]],
    ),
    Case(
        "dim_as_value",
        lambda x: x * x.shape[0] + x.shape[1] // 2,
        [f32(2, 5)],
        spec=[("B", "T")],
        also=[[f32(3, 4)]],
    ),
    Case(
        "concatenate",
        lambda x, y: jnp.concatenate([x, y, x], 1),
        [_edge(2, 3), f32(2, 4)],
        spec=[("B", "T"), ("B", "S")],
        also=[[f32(1, 1), f32(1, 2)], [f32(2, 0), f32(2, 3)]],
    ),
    Case("concatenate_empty", lambda x, y: jnp.concatenate([x, y]), [f32(0, 3), f32(2, 3)], ops=["!Concat"]),
    Case("concatenate_one", lambda x: jnp.concatenate([x]) + 1, [f32(2)], ops=["!Concat"]),
    Case("concatenate_i8", lambda x: jnp.concatenate([x, x]), [ints(3, dtype=np.int8)]),
    Case("concatenate_bool", lambda x: jnp.concatenate([x, ~x]), [f32(3) > 0]),
    Case(
        "stack",
        lambda x, y: jnp.stack([x, y], -1),
        [f32(2, 3), f32(2, 3, seed=1)],
        spec=[("B", 3), ("B", 3)],
        also=[[f32(1, 3), f32(1, 3)]],
    ),
    Case("hstack", lambda x, y: jnp.hstack([x, y]), [f32(2), f32(3)]),
    Case(
        "split", lambda x: jnp.split(x, [2, 3, 3], axis=1), [f32(2, 5)], spec=[("B", 5)], also=[[f32(1, 5)]]
    ),
    Case("split_even", lambda x: jnp.split(x, 2), [f32(4, 3)]),
    Case("split_one", lambda x: jnp.split(x, 1)[0] + 1, [f32(4)], ops=["!Split"]),
    Case(
        "split_symbolic",
        lambda x: jnp.split(x, 2, axis=0),
        [f32(4, 3)],
        spec=[("2*B", 3)],
        also=[[f32(6, 3)]],
    ),
    Case(
        "unstack", lambda x: jnp.unstack(x, axis=1), [f32(2, 3, 4)], spec=[("B", 3, 4)], also=[[f32(1, 3, 4)]]
    ),
    Case(
        "tile",
        lambda x: (jnp.tile(x, (2, 3)), jnp.tile(x, 2), jnp.tile(x, (2, 1, 1))),
        [f32(2, 3)],
        spec=[("B", 3)],
        also=[[f32(1, 3)]],
    ),
    Case("repeat", lambda x: (jnp.repeat(x, 3, axis=0), jnp.repeat(x, 2)), [f32(2, 3)]),
    Case(
        "rev",
        lambda x: (x[::-1], x[:, ::-1], lax.rev(x, (0, 1))),
        [_edge(2, 3)],
        spec=[("B", "T")],
        also=[[f32(1, 4)], [f32(5, 1)]],
    ),
    Case("rev_empty", lambda x: lax.rev(x, (0, 1)), [f32(0, 3)]),
    Case("rev_i16", lambda x: x[::-1], [ints(5, dtype=np.int16)]),
    Case("flip_roll", lambda x: jnp.roll(jnp.flip(x, 1), 2, axis=0), [f32(5, 3)]),
    Case(
        "roll_traced",
        lambda x, n: jnp.roll(x, n, axis=0),
        [f32(5, 3), np.int32(2)],
        also=[[f32(5, 3), np.int32(-7)], [f32(5, 3), np.int32(0)]],
    ),
    Case("rot90", lambda x: jnp.rot90(x), [f32(2, 3)]),
    Case(
        "pad", _pad([(1, 2, 0), (0, 3, 0)]), [_edge(2, 3)], spec=[("B", "T")], also=[[f32(1, 1)], [f32(0, 2)]]
    ),
    Case(
        "pad_negative",
        _pad([(-1, -1, 0), (0, -2, 0)]),
        [f32(4, 5)],
        spec=[("B + 2", "T + 2")],
        also=[[f32(3, 3)], [f32(7, 3)]],
    ),
    Case("pad_mixed", _pad([(-1, 2, 0), (3, -2, 0)]), [f32(4, 5)]),
    Case("pad_past_end", _pad([(-5, 10, 0), (10, -5, 0)]), [f32(3, 2)]),
    Case(
        "pad_interior",
        _pad([(1, 0, 2), (0, 2, 1)]),
        [f32(3, 4)],
        spec=[("B", "T")],
        also=[[f32(1, 2)], [f32(2, 1)]],
    ),
    Case("pad_interior_negative", _pad([(-1, -2, 2), (-3, 1, 3)]), [f32(3, 4)]),
    Case("pad_interior_one", _pad([(0, 0, 5)]), [f32(1)]),
    Case("pad_to_empty", _pad([(-2, -1, 0)]), [f32(3)]),
    Case("pad_from_empty", _pad([(2, 1, 0), (0, 0, 1)]), [f32(0, 3)]),
    Case("pad_from_empty_interior", _pad([(2, 1, 3)]), [f32(0)]),
    *(
        Case(f"pad_{np.dtype(d).name}", _pad([(1, -1, 1), (0, 1, 0)], 1), [ints(3, 2, low=0).astype(d)])
        for d in (
            np.bool_,
            np.int8,
            np.uint8,
            np.int16,
            np.uint16,
            np.int32,
            np.uint32,
            np.float16,
            ml_dtypes.bfloat16,
        )
    ),
    Case("pad_x64", _pad([(1, 1, 1)], 1), [ints(3, dtype=np.int64)], x64=True),
    Case("pad_traced_value", lambda x, v: lax.pad(x, v, [(1, 1, 0)]), [f32(3), np.float32(np.nan)]),
    Case(
        "jnp_pad",
        lambda x: [jnp.pad(x, ((1, 2), (0, 1)), mode=m) for m in ("edge", "reflect", "wrap", "symmetric")],
        [f32(4, 5)],
    ),
    Case("stop_gradient", lambda x: lax.stop_gradient(x) + 0.0, [f32(3)]),
]
