"""Elementary and special functions: relative error next to zero and far out, and the edges."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.cases.case import Case, f32, rng
from tests.cases.elementwise import BF16, EDGES, is_x64

EVERYWHERE = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "bessel_i0e",
    "bessel_i1e",
    "cbrt",
    "cos",
    "cosh",
    "erf",
    "erf_inv",
    "erfc",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log1p",
    "sin",
    "sinh",
    "tan",
    "tanh",
]
TINY = 1.2e-38  # JAX flushes denormal results to zero
# Where JAX's own value is off by more than a few units: next to zeros of the function, or far out.
LOOSE = {"cos": 1e-5, "sin": 1e-5, "tan": 1e-5, "sinh": 4e-6, "cosh": 4e-6, "erfc": 2e-6, "bessel_i1e": 2e-6}
DOUBLE = {"cos": 1e-11, "sin": 1e-11, "tan": 1e-11}


def spread(dtype: Any) -> np.ndarray[Any, Any]:
    """Both signs of 1e-8 to 100, and the edges."""
    x = 10 ** rng(5).uniform(-8, 2, 300)
    with np.errstate(over="ignore"):
        return np.concatenate([x, -x, EDGES[:-2], [200, -200, 8, 89]]).astype(dtype)


def positive(dtype: Any, low: float = -2, high: float = 2, seed: int = 0) -> np.ndarray[Any, Any]:
    return (10 ** rng(seed).uniform(low, high, 60)).astype(dtype)


def grid(*axes: list[float]) -> list[np.ndarray[Any, Any]]:
    return [np.ravel(a).astype(np.float32) for a in np.meshgrid(*axes, indexing="ij")]


def log_of_sigmoid(x: Any) -> Any:
    return jnp.log(jnp.clip(jax.nn.sigmoid(x), 1e-7, 1 - 1e-7)), jnp.log(jax.nn.sigmoid(x) + 1e-8)


ENDS = [np.nan, -1.0, 0.0, 1.0, np.inf]
LINE = np.linspace(-80, 30, 45).astype(np.float32)
CASES = [
    *(Case(n, getattr(lax, n), [spread("float32")], rtol=LOOSE.get(n, 1e-6), atol=TINY) for n in EVERYWHERE),
    *(
        Case(
            f"{n}_float64", getattr(lax, n), [spread("float64")], x64=True, rtol=DOUBLE.get(n, 1e-14), atol=0
        )
        for n in EVERYWHERE
    ),
    *(
        Case(f"{n}_{np.dtype(d)}", getattr(lax, n), [spread(d)])
        for n in EVERYWHERE
        for d in ("float16", BF16)
    ),
    Case("log2", jnp.log2, [spread("float32")]),
    *(
        Case(f"{n}_{np.dtype(d)}", getattr(lax, n), [spread(d)], x64=is_x64(d))
        for n in ("lgamma", "logistic")
        for d in ("float16", "float32", "float64")
    ),
    *(
        Case(f"digamma_{d}", lax.digamma, [spread(d)], x64=is_x64(d))
        for d in ("float16", "float32", "float64")
    ),
    Case("symbolic_expm1", lax.expm1, [f32(2, 3)], spec=[("B", 3)], also=[[f32(5, 3)]]),
    Case("symbolic_lgamma", lax.lgamma, [f32(2, 3)], spec=[("B", 3)], also=[[f32(5, 3)]]),
    Case("sigmoid", jax.nn.sigmoid, [LINE], ops=["Sigmoid"]),
    Case("log_sigmoid", jax.nn.log_sigmoid, [LINE], rtol=1e-6, atol=0),
    Case("log_of_sigmoid", lambda x: jnp.log(jax.nn.sigmoid(x)), [LINE], rtol=1e-6, atol=0),
    Case("log_near_sigmoid", log_of_sigmoid, [LINE]),
    Case("reciprocal_of_sigmoid", lambda x: 1 / jax.nn.sigmoid(x), [LINE], rtol=1e-6, atol=0),
    Case("logaddexp", jnp.logaddexp, [LINE, -LINE], rtol=2e-6, atol=0),
    Case(
        "atan2", lax.atan2, grid([*ENDS, -0.0, -np.inf, 0.3], [*ENDS, -0.0, -np.inf, -2]), rtol=1e-6, atol=0
    ),
    Case("atan2_float64", lax.atan2, [f32(40).astype(float), f32(40, seed=1).astype(float)], x64=True),
    *(
        Case(f"{n}_{d}", getattr(lax, n), [positive(d), positive(d, seed=1)], x64=is_x64(d), rtol=r, atol=a)
        for n in ("igamma", "igammac", "igamma_grad_a")
        for d, r, a in (("float32", 3e-5, 1e-6), ("float64", 1e-11, 1e-13))
    ),
    Case("igamma_float16", lax.igamma, [positive("float16", -1, 1), positive("float16", -1, 1, seed=1)]),
    # Without a = inf, where JAX before 0.12 had other limits.
    Case("igammac_ends", lax.igammac, grid(ENDS[:-1], [*ENDS, 0.5, 3])),
    Case("igamma_ends", lax.igamma, grid([np.nan, -1, 1, 2], [*ENDS, 0.5, 3])),
    Case("igamma_slope_at_integers", lax.igamma_grad_a, grid([1, 2, 3, 4], [0.5, 3, 5, 20]), rtol=5e-6),
    *(
        Case(
            f"betainc_{d}",
            lax.betainc,
            [positive(d), positive(d, seed=1), rng(2).uniform(size=60).astype(d)],
            x64=is_x64(d),
            rtol=r,
            atol=a,  # where 1 - the fraction cancels, JAX's own float32 result is off by 4e-6
        )
        for d, r, a in (("float32", 5e-5, 1e-5), ("float64", 1e-11, 1e-13))
    ),
    Case("betainc_ends", lax.betainc, grid(ENDS, ENDS, [np.nan, -0.1, 0, 0.5, 1, 1.1])),
    *(
        Case(f"zeta_{d}", lax.zeta, [rng(0).uniform(1.1, 30, 60).astype(d), positive(d)], x64=is_x64(d))
        for d in ("float32", "float64")
    ),
    Case(
        "zeta_ends",
        lax.zeta,
        [
            np.array([1, 2, 3, 2.5, 0, 2, 2, np.nan, 4], np.float32),
            np.array([1, 0, -1, -1.5, 1, -0.5, -2, 1, np.inf], np.float32),
        ],
    ),
    *(
        Case(
            f"polygamma_{d}",
            lax.polygamma,
            [rng(0).integers(0, 6, 60).astype(d), positive(d, -1)],
            x64=is_x64(d),
        )
        for d in ("float32", "float64")
    ),
]
