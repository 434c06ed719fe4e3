"""Sorting: several keys, ties, NaN, zeros of both signs, symbolic lengths, top-k."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.cases.case import Case, f32, ints

NAN, INF = np.float32(np.nan), np.float32(np.inf)
EDGE = np.array([NAN, 0.0, -0.0, 1.0, -INF, INF, 3e38, -0.0, 0.0, NAN, INF, -1.0], np.float32)
TIES = ints(4, 9, low=0, high=3)


def _lex(a, b, c):
    return lax.sort((a, b, c), dimension=0, num_keys=2)


def _router(x):
    """The gates of a mixture of experts: normalized sigmoids of the best three."""
    gates, experts = lax.top_k(jax.nn.sigmoid(x), 3)
    return gates / gates.sum(-1, keepdims=True), experts


CASES = [
    Case("router", _router, [f32(4, 8)], also=[[f32(4, 8, shift=-12)], [f32(4, 8, shift=-40)]]),
    Case(
        "argmax_of_sigmoid",
        lambda x: (jnp.argmax(jax.nn.sigmoid(x), -1), jnp.argsort(jax.nn.sigmoid(x))),
        [f32(4, 8, shift=-40)],
    ),
    Case(
        "last",
        lambda x: jnp.sort(x),
        [f32(3, 7)],
        spec=[("B", "N")],
        also=[[f32(1, 1)], [f32(2, 20)], [f32(2, 0)]],
    ),
    Case("edge", lambda x: jnp.sort(x), [EDGE]),
    Case("edge_argsort", lambda x: jnp.argsort(x), [EDGE], ops=["!GatherElements"]),
    Case(
        "edge_descending",
        lambda x: (jnp.sort(x, descending=True), jnp.argsort(x, descending=True, stable=True)),
        [EDGE],
    ),
    Case(
        "argsort_symbolic",
        lambda x: jnp.argsort(x, axis=0),
        [f32(5, 2)],
        spec=[("N", 2)],
        also=[[f32(1, 2)], [f32(9, 2)]],
        ops=["!GatherElements"],
    ),
    Case("argsort_long", lambda x: jnp.argsort(x), [ints(2, 3000, low=0, high=5)], ops=["!GatherElements"]),
    Case(
        "argsort_middle",
        lambda x: jnp.argsort(x, axis=1),
        [ints(2, 5, 3, low=0, high=3)],
        ops=["!GatherElements"],
    ),
    Case(
        "ties",
        lambda x: (jnp.sort(x), jnp.argsort(x, stable=True), jnp.argsort(x, stable=True, descending=True)),
        [TIES],
    ),
    Case(
        "three_operands",
        lambda k, a, b: lax.sort((k, a, b), dimension=1, num_keys=1),
        [TIES, f32(4, 9), ints(4, 9)],
    ),
    Case("two_keys", _lex, [ints(9, low=0, high=3), f32(9), ints(9)]),
    Case("two_keys_edge", _lex, [EDGE, np.arange(12, 0, -1).astype(np.float32), ints(12)]),
    Case(
        "two_keys_symbolic",
        _lex,
        [ints(9, low=0, high=3), f32(9), ints(9)],
        spec=[jax.ShapeDtypeStruct(("N",), t) for t in (np.int32, np.float32, np.int32)],
        also=[[ints(2, low=0, high=2), f32(2), ints(2)]],
    ),
    Case("lexsort", lambda a, b: jnp.lexsort((a, b)), [f32(20), ints(20, low=0, high=3)]),
    Case(
        "median",
        lambda x: (jnp.median(x, axis=1), jnp.nanmedian(x)),
        [f32(3, 8)],
        also=[[np.resize(EDGE, (3, 8))]],
    ),
    Case(
        "f64",
        lambda x: (jnp.sort(x), jnp.argsort(x)),
        [np.array([1, np.nan, np.inf, -1, 0], np.float64)],
        x64=True,
    ),
    *(
        Case(
            f"dtype_{t.__name__}",
            lambda x: (jnp.sort(x), jnp.argsort(x), lax.top_k(x, 3)),
            [ints(2, 9, low=0, high=120, dtype=t)],
        )
        for t in (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.float16)
    ),
    Case(
        "uint32_high",
        lambda x: (jnp.sort(x), lax.top_k(x, 2)),
        [np.array([1, 2**32 - 1, 2**31, 0], np.uint32)],
    ),
    Case(
        "uint64_high",
        lambda x: (jnp.sort(x), lax.top_k(x, 2)),
        [np.array([1, 2**64 - 1, 2**63, 0], np.uint64)],
        x64=True,
    ),
    Case(
        "bool",
        lambda x: (jnp.sort(x), jnp.argsort(x), lax.top_k(x, 2)),
        [np.array([True, False, True, False])],
    ),
    Case(
        "top_k",
        lambda x: lax.top_k(x, 3),
        [f32(4, 9)],
        spec=[("B", 9)],
        also=[[f32(1, 9)], [np.zeros((2, 9), np.float32)]],
    ),
    Case("top_k_edge", lambda x: lax.top_k(x, 12), [EDGE]),
    Case("top_k_ties", lambda x: lax.top_k(x, 5), [TIES]),
    Case("top_k_tiny", lambda x: lax.top_k(x, 4), [np.array([1.2e-38, 0.0, 1.3e-38, -0.0], np.float32)]),
    Case("top_k_positive", lambda x: lax.top_k(jax.nn.softmax(x), 2), [f32(3, 6)]),
    Case("top_k_all", lambda x: lax.top_k(x, x.shape[1]), [f32(2, 5)], spec=[("B", "N")], also=[[f32(3, 2)]]),
    Case("top_k_f64", lambda x: lax.top_k(x, 3), [np.array([0.0, -0.0, np.nan, -1.0])], x64=True),
    Case("approx_max_k", lambda x: lax.approx_max_k(x, 3), [f32(2, 9)]),
    Case("approx_min_k", lambda x: lax.approx_min_k(x, 3, reduction_dimension=0), [f32(9, 2)]),
]
