"""Scans that are spelled out: stacked weights, caches beside them, reverse, loops within."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.cases.case import Case, f32

_W, _B = jnp.asarray(f32(3, 4, 4, scale=0.5)), jnp.asarray(f32(3, 4, seed=1))
_INTEGERS = jnp.asarray(np.arange(12, dtype=np.int32).reshape(3, 2, 2))


def _layers(x: Any, reverse: bool = False) -> Any:
    return lax.scan(lambda h, w: (jnp.tanh(h @ w[0] + w[1]), h), x, (_W, _B), reverse=reverse)


def _with_cache(x: Any, cache: Any) -> Any:
    """Each layer reads and gives a part of a stacked cache, as decoders do."""

    def layer(h: Any, parts: Any) -> Any:
        w, old = parts
        new = jnp.concatenate([old[:, 1:], (h @ w)[:, None]], 1)
        return h + new.mean(1), new

    return lax.scan(layer, x, (_W, cache))


def _loop_within(x: Any) -> Any:
    def layer(h: Any, w: Any) -> Any:
        h = lax.fori_loop(0, 2, lambda i, c: c @ w + i, h)
        return lax.cond(h.sum() > 0, jnp.tanh, lambda c: c * w[0], h), None

    return lax.scan(layer, x, _W)[0]


def _read_elsewhere(x: Any) -> Any:
    return lax.scan(lambda h, w: (jnp.tanh(h @ w), None), x, _W)[0] + _W.sum()


def _over_time(xs: Any) -> Any:
    return lax.scan(lambda h, x: (h * 0.5 + x, h), jnp.zeros(4), xs)


def _gradient(x: Any) -> Any:
    return jax.grad(lambda x: _layers(x)[0].sum())(x)


CASES = [
    Case("unroll_layers", _layers, [f32(2, 4)], ops=("!Scan", "!Slice")),
    Case(
        "unroll_layers_symbolic", _layers, [f32(2, 4)], spec=[("B", 4)], also=[[f32(5, 4)]], ops=("!Scan",)
    ),
    Case("unroll_reverse", lambda x: _layers(x, reverse=True), [f32(2, 4)], ops=("!Scan",)),
    Case("unroll_vector", lambda x: lax.scan(lambda h, w: (h * w, h.sum()), x, _B), [f32(4)], ops=("Scan",)),
    Case(
        "unroll_with_cache",
        _with_cache,
        [f32(2, 4), f32(3, 2, 5, 4, seed=2)],
        spec=[("B", 4), (3, "B", "T", 4)],
        also=[[f32(1, 4), f32(3, 1, 2, 4, seed=3)]],
        ops=("!Scan",),
    ),
    Case("unroll_loop_within", _loop_within, [f32(2, 4)], also=[[-f32(2, 4)]], ops=("!Scan",)),
    Case("unroll_read_elsewhere", _read_elsewhere, [f32(2, 4)], ops=("!Scan",)),
    Case("unroll_weight_is_a_result", lambda x: (_layers(x)[0], _W), [f32(2, 4)], ops=("!Scan",)),
    Case("unroll_gradient", _gradient, [f32(2, 4)]),
    Case("unroll_mapped", jax.vmap(lambda x: _layers(x)[0]), [f32(5, 2, 4)], ops=("!Scan",)),
    Case("unroll_time_is_kept", _over_time, [f32(6, 4)], ops=("Scan",)),
    Case("unroll_always", _over_time, [f32(6, 4)], options={"unroll_scans": "always"}, ops=("!Scan",)),
    Case("unroll_never", _layers, [f32(2, 4)], options={"unroll_scans": "never"}, ops=("Scan",)),
    Case(
        "unroll_always_nested",
        lambda x: lax.scan(lambda c, v: (lax.scan(lambda a, b: (a + b, a), c, v)[0], c), jnp.float32(0), x),
        [f32(3, 2)],
        options={"unroll_scans": "always"},
        ops=("!Scan",),
    ),
    Case(
        "unroll_integers",
        lambda x: lax.scan(lambda h, w: (h @ w, h), x, _INTEGERS),
        [np.asarray([1, -2], np.int32)],
        ops=("!Scan",),
    ),
]
