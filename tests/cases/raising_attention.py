"""Attention in the ways it is written, on ordinary and edge inputs; masks, which stay spelled out."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tests.cases.case import Case, f32

B, T, S, H, D = 2, 5, 6, 4, 8
dot = jax.nn.dot_product_attention


def attention(q: Any, k: Any, v: Any, bias: Any = None, scale: str = "div", mask: Any = None) -> Any:
    root = np.asarray(D**0.5, q.dtype)
    q = q / root if scale == "query" else q
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k)
    scores = {"div": scores / root, "mul": scores * (1 / root), "none": scores, "query": scores}[scale]
    scores = scores if bias is None else scores + bias
    scores = scores if mask is None else jnp.where(mask, scores, -jnp.inf)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, -1), v)


def one(q: Any, k: Any, v: Any) -> Any:
    scores = jnp.einsum("shd,Shd->hsS", q / np.float32(D**0.5), k)
    return jnp.einsum("hsS,Shd->shd", jax.nn.softmax(scores, -1), v)


def one_head(q: Any, k: Any, v: Any) -> Any:
    return jnp.einsum("sS,Sd->sd", jax.nn.softmax(jnp.einsum("sd,Sd->sS", q, k), -1), v)


def causal(q: Any, k: Any, v: Any) -> Any:
    return attention(q, k, v, mask=jnp.tril(jnp.ones((q.shape[1], k.shape[1]), bool)))


def scores_too(q: Any, k: Any, v: Any) -> Any:
    """The weights are a result as well: nothing is saved."""
    p = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k), -1)
    return jnp.einsum("bhqk,bkhd->bqhd", p, v), p


def sharp(q: Any, k: Any, v: Any) -> Any:
    """No softmax: the scores are not shifted by their maximum."""
    p = jnp.exp(jnp.einsum("bqhd,bkhd->bhqk", q, k))
    return jnp.einsum("bhqk,bkhd->bqhd", p / p.sum(-1, keepdims=True), v)


def qkv(heads: int = H, t: int = T, s: int = S, seed: int = 0, groups: int = 0) -> list[Any]:
    sizes = ((t, heads), (s, groups or heads), (s, groups or heads))
    return [f32(B, n, h, D, seed=seed + i) for i, (n, h) in enumerate(sizes)]


def with_value(value: float, which: int, *at: int, **sizes: Any) -> list[Any]:
    args = qkv(**sizes)
    args[which][at] = value
    return args


def edges(**sizes: Any) -> list[list[Any]]:
    q, k, v = qkv(**sizes)
    out = [[q * 9, k, v], [q * 0, k, v], [q * 1e4, k * 1e4, v], [q, k, abs(v) * 1e37]]
    for which in (0, 1, 2):
        out += [with_value(x, which, 0, 1, 0, 3, **sizes) for x in (np.nan, np.inf, -np.inf)]
    return out


X = qkv()
ANY = [("B", "T", H, D), ("B", "S", H, D), ("B", "S", H, D)]
ALSO = [*edges(), qkv(t=1, s=1), qkv(t=1, s=9), qkv(t=9, s=1)]
GROUPED = [("B", "T", H, D), ("B", "S", 2, D), ("B", "S", 2, D)]
BIAS = f32(B, H, T, S, seed=9)
HOLES = np.where(f32(B, H, T, S, seed=4) > 0.5, -np.inf, BIAS).astype(np.float32)
HOLES[:, :, 1] = -np.inf
NATIVE, OTHER = ["Attention", "!Softmax", "!Transpose"], ["!Attention"]
MASK = f32(1, 1, T, S, seed=6) > 0
MASK[..., 2, :] = False

CASES = [
    Case("divided", attention, X, spec=ANY, also=ALSO, ops=NATIVE),
    Case("divided_static", attention, X, also=edges(), ops=NATIVE),
    Case("multiplied", partial(attention, scale="mul"), X, spec=ANY, also=ALSO, ops=NATIVE),
    Case("unscaled", partial(attention, scale="none"), X, spec=ANY, also=ALSO, ops=NATIVE),
    Case("scaled_query", partial(attention, scale="query"), X, spec=ANY, also=ALSO, ops=NATIVE),
    Case("mapped", jax.vmap(one), X, spec=ANY, also=ALSO, ops=NATIVE),
    Case("mapped_heads", jax.vmap(jax.vmap(one_head, 1, 1)), X, spec=ANY, also=ALSO, ops=NATIVE),
    Case("one_by_one", attention, qkv(heads=1, t=1, s=1), ops=["Attention"]),
    Case("decode", attention, qkv(t=1, s=9), also=[[q * 9 for q in qkv(t=1, s=9)]], ops=NATIVE[:2]),
    Case("of_jax", dot, X, spec=ANY, also=ALSO, ops=NATIVE),
    Case("of_jax_static", dot, X, also=edges(), ops=NATIVE),
    Case("of_jax_scale", partial(dot, scale=0.7), X, spec=ANY, also=edges(), ops=NATIVE),
    Case("of_jax_grouped", dot, qkv(groups=2), spec=GROUPED, also=edges(groups=2), ops=NATIVE),
    Case("of_jax_one_group", dot, qkv(groups=1), also=edges(groups=1), ops=NATIVE),
    Case("biased", attention, [*X, BIAS], also=[[*a, b] for b in (BIAS, HOLES) for a in edges()], ops=OTHER),
    Case("causal", causal, X, spec=ANY, also=ALSO, ops=OTHER),
    Case("of_jax_causal", partial(dot, is_causal=True), X, spec=ANY, also=edges(), ops=OTHER),
    Case("of_jax_masked", partial(dot, mask=MASK), X, also=edges(), ops=OTHER),
    Case("of_jax_bias", lambda q, k, v, b: dot(q, k, v, bias=b), [*X, BIAS], ops=OTHER),
    Case("of_jax_causal_static", partial(dot, is_causal=True), X, also=edges(), ops=[*OTHER, "!And", "!Expand"]),
    Case("of_jax_causal_grouped", partial(dot, is_causal=True), qkv(groups=2), spec=GROUPED,
         also=edges(groups=2), ops=OTHER),
    Case("of_jax_causal_decode", partial(dot, is_causal=True), qkv(t=1, s=9), ops=OTHER),
    Case("of_jax_window", partial(dot, local_window_size=2), X, also=edges(), ops=OTHER),
    Case("scores_too", scores_too, X, also=edges()),
    Case("sharp", sharp, X, ops=OTHER),
    Case("opset22", attention, X, options={"opset": 22}, ops=OTHER),
    Case("opset25", attention, X, options={"opset": 25}, ops=OTHER),
    Case("f16", attention, [x.astype(np.float16) for x in X], ops=OTHER),
    Case("f64", attention, [x.astype(np.float64) for x in X], x64=True, ops=OTHER),
]  # fmt: skip
