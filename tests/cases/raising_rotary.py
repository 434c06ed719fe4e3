"""Rotary embedding in the ways it is written, on ordinary and edge inputs, and what only looks like it."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tests.cases.case import Case, f32

B, S, H, D = 2, 6, 3, 8


def angles(positions: Any, width: int = D) -> Any:
    return positions[..., None] * (1.0 / 100.0 ** (jnp.arange(0, width, 2) / width))


def turned(a: Any, b: Any, cos: Any, sin: Any) -> Any:
    return a * cos - b * sin, b * cos + a * sin


def tables(x: Any, axis: int, full: bool = False) -> Any:
    """Of cosines and sines: over ``axis``, broadcast over the heads."""
    t = angles(jnp.arange(x.shape[axis]), x.shape[-1])
    t = jnp.concatenate([t, t], -1) if full else t
    t = t[:, None] if axis == x.ndim - 3 else t
    return jnp.cos(t), jnp.sin(t)


def halves(x: Any, axis: int = 1, split: bool = True) -> Any:
    half = x.shape[-1] // 2
    a, b = jnp.split(x, 2, -1) if split else (x[..., :half], x[..., half:])
    return jnp.concatenate(turned(a, b, *tables(x, axis)), -1)


def strided(x: Any, axis: int = 1) -> Any:
    return jnp.stack(turned(x[..., ::2], x[..., 1::2], *tables(x, axis)), -1).reshape(x.shape)


def paired(x: Any, axis: int = 1) -> Any:
    pairs = x.reshape(*x.shape[:-1], -1, 2)
    return jnp.stack(turned(pairs[..., 0], pairs[..., 1], *tables(x, axis)), -1).reshape(x.shape)


def rotated(x: Any, axis: int = 1, split: bool = True, table: Any = None) -> Any:
    half = x.shape[-1] // 2
    a, b = jnp.split(x, 2, -1) if split else (x[..., :half], x[..., half:])
    cos, sin = tables(x, axis, full=True) if table is None else table
    return x * cos + jnp.concatenate([-b, a], -1) * sin


def mapped(x: Any) -> Any:
    """Of the heads one by one."""
    one = partial(rotated, axis=0, split=False, table=tuple(t[:, 0] for t in tables(x, 1, full=True)))
    return jax.vmap(jax.vmap(one, in_axes=1, out_axes=1))(x)


def by_position(x: Any, positions: Any) -> Any:
    t = angles(positions)[:, :, None]
    return jnp.concatenate(turned(*jnp.split(x, 2, -1), jnp.cos(t), jnp.sin(t)), -1)


def part(x: Any) -> Any:
    return jnp.concatenate([halves(x[..., :4]), x[..., 4:]], -1)


def other_way(x: Any) -> Any:
    """Turned by the angles the other way: the sum and the difference have changed places."""
    a, b = jnp.split(x, 2, -1)
    cos, sin = tables(x, 1)
    return jnp.concatenate([a * cos + b * sin, b * cos - a * sin], -1)


def unequal_tables(x: Any) -> Any:
    t = angles(jnp.arange(x.shape[1]), 2 * D)[:, None]
    return rotated(x, table=(jnp.cos(t), jnp.sin(t)))


def per_head(x: Any) -> Any:
    t = angles(jnp.arange(S)[:, None] + jnp.arange(H))
    return jnp.concatenate(turned(*jnp.split(x, 2, -1), jnp.cos(t), jnp.sin(t)), -1)


X = f32(B, S, H, D)
EDGE = X.copy()
EDGE[0, 1, 2, :] = np.nan
EDGE[0, 2, 0, 1], EDGE[1, 3, 1, 6], EDGE[1, 0, 0, :] = np.inf, -np.inf, np.inf
EDGE[1, 5] *= 1e38
ANY, STATIC, BATCH = [("B", "S", H, D)], [(B, S, H, D)], [("B", S, H, D)]
ALSO = [[EDGE], [f32(1, 1, H, D)], [f32(3, 9, H, D)]]
FIRST = [EDGE.swapaxes(1, 2).copy()]
NATIVE, OTHER = ["RotaryEmbedding", "!Split", "!Neg"], ["!RotaryEmbedding"]
POSITIONS = np.stack([np.arange(S), np.arange(S)[::-1] + 9]).astype(np.int32)
PLACED = [("B", "S", H, D), jax.ShapeDtypeStruct(("B", "S"), jnp.int32)]

CASES = [
    Case("halves", halves, [X], spec=ANY, also=ALSO, ops=NATIVE),
    Case("halves_static", halves, [X], spec=STATIC, also=[[EDGE]], ops=NATIVE),
    Case("halves_sliced", partial(halves, split=False), [X], spec=STATIC, also=[[EDGE]], ops=NATIVE),
    Case("halves_sliced_any", partial(halves, split=False), [X], spec=ANY, also=ALSO, ops=NATIVE),
    Case("halves_heads_first", partial(halves, axis=2), [X], spec=[("B", 6, 3, D)], also=[[EDGE]], ops=NATIVE),
    Case("halves_heads_first_any", partial(halves, axis=2), FIRST, spec=[("B", H, "S", D)], ops=NATIVE),
    Case("halves_no_batch", partial(halves, axis=0), [X[0]], spec=[("S", H, D)], also=[[EDGE[0]]], ops=NATIVE),
    Case("halves_no_batch_first", partial(halves, axis=1), [X[0]], spec=[(S, 3, D)], also=[[EDGE[0]]], ops=NATIVE),
    Case("halves_one_head", halves, [f32(B, S, 1, D)], spec=[("B", "S", 1, D)], ops=NATIVE),
    Case("halves_one_by_one", halves, [f32(1, 1, 1, 2)]),
    Case("strided", strided, [X], spec=ANY, also=ALSO, ops=NATIVE),
    Case("strided_static", strided, [X], spec=STATIC, also=[[EDGE]], ops=NATIVE),
    Case("paired", paired, [X], spec=ANY, also=ALSO, ops=NATIVE),
    Case("paired_heads_first", partial(paired, axis=2), FIRST, ops=NATIVE),
    Case("rotated", rotated, [X], spec=ANY, also=ALSO, ops=NATIVE),
    Case("rotated_sliced", partial(rotated, split=False), [X], spec=BATCH, also=[[EDGE]], ops=NATIVE),
    Case("rotated_heads_first", partial(rotated, axis=2), FIRST, ops=NATIVE),
    Case("mapped", mapped, [X], spec=BATCH, also=[[EDGE]], ops=NATIVE),
    Case("by_position", by_position, [X, POSITIONS], spec=PLACED, also=[[EDGE, POSITIONS]], ops=NATIVE),
    Case("part", part, [X], spec=ANY, also=ALSO, ops=["RotaryEmbedding"]),
    Case("opset22", halves, [X], options={"opset": 22}, ops=OTHER),
    Case("f16", halves, [X.astype(np.float16)], ops=OTHER),
    Case("f64", halves, [X.astype(np.float64)], x64=True, ops=OTHER),
    Case("other_way", other_way, [X], ops=OTHER),
    Case("unequal_tables", unequal_tables, [X], ops=OTHER),
    Case("per_head", per_head, [X], also=[[EDGE]], ops=OTHER),
]  # fmt: skip
