"""Upsampling to the nearest in the ways it is written, and what looks like it."""

import jax
import jax.numpy as jnp
import numpy as np

from tests.cases.case import Case, f32, ints

IMAGE = f32(2, 3, 4, 5)
ODD = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-45], np.float32).reshape(1, 1, 2, 3)
ANY = [("B", 3, "H", "W")]
ALSO = [[f32(1, 3, 2, 7)], [f32(3, 3, 1, 1)], [np.broadcast_to(ODD, (2, 3, 2, 3)).copy()], [f32(0, 3, 2, 2)]]
NATIVE, OTHER = ["Resize", "!Expand", "!Gather"], ["!Resize"]


def repeat(*factors, axis=2):
    def fn(x):
        for at, factor in enumerate(factors, axis):
            x = jnp.repeat(x, factor, at)
        return x

    return fn


def spread(x):
    b, c, h, w = x.shape
    return jnp.broadcast_to(x[:, :, :, None, :, None], (b, c, h, 2, w, 3)).reshape(b, c, 2 * h, 3 * w)


def resize(*size):
    return lambda x: jax.image.resize(x, (*x.shape[: x.ndim - len(size)], *size), "nearest")


def both(x):
    y = jnp.repeat(x, 2, 2)
    return y, jnp.repeat(y, 2, 3)


CASES = [
    Case("repeat", repeat(2, 2), [IMAGE], spec=ANY, also=ALSO, ops=NATIVE),
    Case("repeat_static", repeat(3, 2), [IMAGE], ops=NATIVE),
    Case("repeat_last", repeat(4, axis=3), [IMAGE], spec=ANY, also=ALSO, ops=NATIVE),
    Case("repeat_one_image", repeat(2, 2, axis=1), [IMAGE[0]], spec=[(3, "H", "W")], ops=NATIVE),
    Case("repeat_plane", repeat(2, 2, axis=0), [IMAGE[0, 0]], ops=NATIVE),
    Case("repeat_row", repeat(5, axis=0), [IMAGE[0, 0, 0]], ops=NATIVE),
    Case("repeat_few_channels", repeat(2, 2, axis=1), [f32(2, 4, 5, 3)], spec=[("B", "H", "W", 3)], ops=NATIVE),
    Case("repeat_one_channel", repeat(2, 2), [IMAGE[:, :1]], also=[[IMAGE[:, 1:2]]], ops=NATIVE),
    Case("repeat_unit", repeat(2, 3), [IMAGE[:, :, :1]], ops=["Resize"]),
    Case("repeat_unit_last", repeat(2, axis=3), [IMAGE[..., :1]]),
    Case("repeat_odd", repeat(2, 2), [ODD], ops=NATIVE),
    Case("repeat_large", repeat(7, 9), [f32(1, 1, 50, 61)], ops=NATIVE),
    Case("repeat_int", repeat(2, 2), [ints(2, 3, 4, 5)], ops=NATIVE),
    Case("repeat_u8", repeat(2, 2), [ints(2, 3, 4, 5, low=0, high=255, dtype=np.uint8)], ops=NATIVE),
    Case("repeat_f16", repeat(2, 2), [IMAGE.astype(np.float16)], ops=NATIVE),
    Case("repeat_f64", repeat(2, 2), [IMAGE.astype(np.float64)], x64=True, ops=OTHER),
    Case("repeat_bool", repeat(2, 2), [IMAGE > 0], ops=OTHER),
    Case("repeat_rows", repeat(2, 2, axis=1), [f32(2, 4, 5, 16)], spec=[("B", 4, 5, 16)], ops=OTHER),
    Case("repeat_three", repeat(2, 2, 2, axis=1), [IMAGE], ops=["Resize"]),
    Case("repeat_used_between", both, [IMAGE], ops=["Resize"]),
    Case("spread", spread, [IMAGE], spec=ANY, also=ALSO, ops=NATIVE),
    Case("tiled", lambda x: jnp.tile(x, (1, 1, 2, 3)), [IMAGE], ops=OTHER),
    Case("tiled_last", lambda x: jnp.broadcast_to(x[..., None, :], (2, 3, 4, 2, 5)).reshape(2, 3, 4, 10),
         [IMAGE], ops=OTHER),
    Case("other_grouping", lambda x: jnp.broadcast_to(x[..., None], (2, 3, 4, 5, 2)).reshape(2, 3, 8, 5),
         [IMAGE], ops=OTHER),
    Case("resize", resize(8, 15), [IMAGE], spec=[("B", 3, 4, 5)], also=[[IMAGE[:1]]], ops=NATIVE),
    Case("resize_wide", resize(4, 15), [IMAGE], ops=NATIVE),
    Case("resize_by_none", resize(4, 5), [IMAGE], ops=OTHER),
    Case("resize_uneven", resize(8, 13), [IMAGE], ops=["Gather", "Resize"]),
    Case("resize_smaller", resize(8, 3), [IMAGE], ops=["Gather", "Resize"]),
    Case("resize_odd", resize(4, 6), [ODD], ops=NATIVE),
    Case("resize_rows", resize(8, 10, 16), [f32(2, 4, 5, 16)], ops=OTHER),
]  # fmt: skip
