"""Conversions, bitcasts, reduced precision, neighbours of floats."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax

from tests.cases.case import Case, f32, rng
from tests.cases.elementwise import BF16, FLOATS, INTEGERS, is_x64, whole

BOUNDS = [
    0.0,
    -0.0,
    0.5,
    -0.5,
    1.9,
    -1.9,
    127.5,
    128,
    -128.9,
    255.5,
    256,
    32767.9,
    -32769,
    65535.9,
    2.0**31,
    -(2.0**31),
    2.0**31 - 1,
    2.0**32,
    2.0**63,
    -(2.0**63),
    2.0**64,
    1e19,
    9e18,
    3e38,
    np.nan,
    np.inf,
    -np.inf,
]
DTYPES = [*FLOATS, *INTEGERS, "bool"]


def values(dtype: Any) -> np.ndarray[Any, Any]:
    if np.dtype(dtype) == bool:
        return np.array([True, False])
    if np.dtype(dtype).kind in "iu":
        return whole(dtype)
    with np.errstate(over="ignore"):
        return np.asarray(BOUNDS, np.float64).astype(dtype)


def bits(dtype: Any, floats: Any) -> np.ndarray[Any, Any]:
    """Random bits and those of special floats, none of them a NaN."""
    word = np.dtype(f"u{np.dtype(dtype).itemsize}")
    info = ml_dtypes.finfo(dtype)
    some = rng(3).integers(0, np.iinfo(word).max, 200, dtype=word, endpoint=True)
    ends = [0, -0.0, 1, 2, -3, 0.1, info.max, info.tiny, info.smallest_subnormal, np.inf, -np.inf]
    every = np.concatenate([some, np.array(ends).astype(dtype).view(word)])
    with np.errstate(invalid="ignore"):
        kept = every[~np.isnan(every.view(dtype).astype(np.float64))]
    return kept.view(floats)


def bitcast(to: Any) -> Any:
    return lambda x: lax.bitcast_convert_type(x, to)


def float8(to: Any) -> Any:
    return lambda x: x.astype(to).astype(jnp.float32)


NEAR_LIMITS = np.concatenate([np.linspace(-470, 520, 199), np.linspace(5e4, 7e4, 50), [np.nan, np.inf]])
ONE = np.uint32(0x3F800000)
CASES = [
    *(
        Case(
            f"{np.dtype(a)}_to_{np.dtype(b)}",
            lambda x, b=b: lax.convert_element_type(x, b),
            [values(a)],
            x64=is_x64(a) or is_x64(b),
            atol=0,
            rtol=0,
        )
        for a in DTYPES
        for b in DTYPES
        if a != b
    ),
    *(
        Case(f"float32_to_{np.dtype(d)}", float8(d), [NEAR_LIMITS.astype(np.float32)], atol=0, rtol=0)
        for d in (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fnuz)
    ),
    Case(
        "float16_to_float8",
        float8(ml_dtypes.float8_e4m3fn),
        [NEAR_LIMITS[:220].astype(np.float16)],
        atol=0,
        rtol=0,
    ),
    Case("float32_to_int4", lambda x: x.astype(jnp.int4).astype(jnp.int32), [values("float32")]),
    Case(
        "int32_to_int4", lambda x: x.astype(jnp.int4).astype(jnp.int32), [np.arange(-20, 20, dtype=np.int32)]
    ),
    *(
        Case(
            f"bits_of_{np.dtype(d)}",
            bitcast(np.dtype(f"{k}{np.dtype(d).itemsize}")),
            [bits(d, d)],
            x64=is_x64(d),
        )
        for d in FLOATS
        for k in "ui"
    ),
    *(
        Case(
            f"{np.dtype(d)}_of_bits",
            bitcast(d),
            [bits(d, f"{k}{np.dtype(d).itemsize}")],
            x64=is_x64(d),
            atol=0,
            rtol=0,
        )
        for d in FLOATS
        for k in "ui"
        if (k, d) != ("i", "float64")
    ),
    Case("bits_opset_17", bitcast(np.int32), [bits("float32", "float32")], options={"opset": 17}),
    Case(
        "bits_opset_26",
        bitcast(np.int32),
        [bits("float32", "float32")],
        options={"opset": 26},
        ops=["BitCast"],
    ),
    Case(
        "nan_of_bits",
        lambda x: jnp.isnan(bitcast(np.float32)(x)),
        [np.array([0x7F800001, 0xFFC00000], np.uint32)],
    ),
    Case("half_to_half", bitcast(BF16), [bits("float16", "float16")[:100]], rtol=0, atol=0),
    *(
        Case(f"narrow_{np.dtype(a)}_to_{np.dtype(b)}", bitcast(b), [x])
        for a, b, x in (
            ("uint32", "uint8", whole("uint32")),
            ("int32", "int16", whole("int32")),
            ("float32", "uint8", f32(2, 3)),
        )
    ),
    *(
        Case(f"widen_{np.dtype(x.dtype)}_to_{np.dtype(b)}", bitcast(b), [x])
        for b, x in (
            ("uint32", whole("uint8")[:48].reshape(12, 4)),
            ("int32", whole("int16")[:48].reshape(4, 6, 2)),
            ("float32", np.array([[0, 0, 128, 63]], np.uint8)),
        )
    ),
    Case(
        "unit_interval",
        lambda x: bitcast(np.float32)((x >> 9) | ONE) - 1,
        [whole("uint32")],
        ops=["!Gather"],
        rtol=0,
        atol=0,
    ),
    *(
        Case(
            f"reduce_precision_{e}_{m}_{np.dtype(d)}",
            lambda x, e=e, m=m: lax.reduce_precision(x, e, m),
            [bits(d, d)],
            x64=is_x64(d),
            rtol=0,
            atol=0,
        )
        for e, m in ((5, 10), (8, 7), (4, 3), (11, 52), (2, 1))
        for d in FLOATS
    ),
    *(
        Case(
            f"nextafter_{np.dtype(d)}",
            lax.nextafter,
            [bits(d, d), bits(d, d)[::-1].copy()],
            x64=is_x64(d),
            rtol=0,
            atol=0,
        )
        for d in FLOATS
    ),
    Case(
        "nextafter_edges",
        lax.nextafter,
        [
            np.array([0, -0.0, 1, 1, np.nan, 3, 5], np.float32),
            np.array([1, 0, 2, 0, 1, np.nan, 5], np.float32),
        ],
        rtol=0,
        atol=0,
    ),
]
