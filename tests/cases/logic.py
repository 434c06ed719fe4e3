"""Comparisons, selection, shifts and bits."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.cases.case import Case, f32
from tests.cases.elementwise import EDGES, INTEGERS, cast, is_x64, whole

BOOLS = [np.array([False, False, True, True]), np.array([False, True, False, True])]
COMPARISONS = ["eq", "ne", "lt", "le", "gt", "ge"]
BITWISE = ["bitwise_and", "bitwise_or", "bitwise_xor"]
SHIFTS = ["shift_left", "shift_right_logical", "shift_right_arithmetic"]


def amounts(dtype: str) -> np.ndarray:
    """Shift amounts from 0 to past the width, and negative ones."""
    width = 8 * np.dtype(dtype).itemsize
    return np.resize([0, 1, 3, width - 1, width, width + 5, 120, 127], 50).astype(dtype)


CASES = [
    *(Case(f"{n}_nan", getattr(lax, n), [EDGES, np.roll(EDGES, 1)]) for n in COMPARISONS),
    *(Case(f"{n}_bool", getattr(lax, n), BOOLS) for n in (*COMPARISONS, *BITWISE)),
    *(
        Case(f"{n}_{d}", getattr(lax, n), [whole(d), whole(d, 1)], x64=is_x64(d))
        for n in (*COMPARISONS, *BITWISE)
        for d in INTEGERS
    ),
    *(
        Case(f"{n}_{d}", getattr(lax, n), [whole(d), amounts(d)], x64=is_x64(d))
        for n in SHIFTS
        for d in INTEGERS
    ),
    *(
        Case(f"{n}_by_{k}", lambda x, n=n, k=k: getattr(lax, n)(x, np.int32(k)), [whole("int32")])
        for n in SHIFTS
        for k in (0, 5, 31, 32, -1)
    ),
    *(
        Case(f"{n}_{d}", getattr(lax, n), [whole(d)], x64=is_x64(d))
        for n in ("bitwise_not", "population_count", "clz")
        for d in INTEGERS
    ),
    *(
        Case(f"{n}_opset_{o}", getattr(lax, n), [whole("uint32")], options={"opset": o})
        for n in ("bitwise_not", "population_count", "clz")
        for o in (17, 18, 21, 28)
    ),
    Case("bitwise_not_bool", lax.bitwise_not, BOOLS[:1]),
    Case(
        "symbolic_population_count",
        lambda x: lax.population_count(x.astype(jnp.int16)),
        [f32(5, 10, scale=1e4)],
        spec=[("B", 10)],
        also=[[f32(1, 10, scale=1e4)], [f32(0, 10)]],
    ),
    Case("is_finite", lax.is_finite, [EDGES]),
    Case("is_finite_f16", lax.is_finite, [cast(np.float16)]),
    Case("where", lambda x: jnp.where(x > 0, x, -x), [EDGES]),
    Case("where_bool", lambda c, a: jnp.where(c, a, ~a), BOOLS),
    Case("where_scalar_condition", lambda c, x, y: lax.select(c, x, y), [np.True_, f32(3), f32(3, seed=1)]),
    Case("select_n", lambda i, *c: lax.select_n(i, *c), [np.array([0, 2, 1, 3], np.int32), *f32(4, 4)]),
    Case(
        "select_keys",
        lambda c, k: jax.random.bits(
            jax.random.wrap_key_data(
                jax.random.key_data(jnp.where(c, k, jax.random.split(jax.random.key(7), 2)))
            )[1],
            (2,),
        ),
        [np.array([True, False]), jax.random.split(jax.random.key(1), 2)],
    ),
    *(
        Case(f"mulhi_{d}", getattr(lax, "mulhi", lambda x, y: x), [whole(d), whole(d, 1)])
        for d in INTEGERS
        if not is_x64(d)
    ),
]
