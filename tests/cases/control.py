"""Control flow: scan, while, fori, cond, switch; carries of several dtypes, symbolic lengths, nesting."""

from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax

from tests.cases.case import Case, f32, ints


def _i32(value: int) -> Any:
    return np.asarray(value, np.int32)


def _cumulative(x: Any, reverse: bool = False) -> Any:
    return lax.scan(lambda c, v: (c + v, c * 2), jnp.zeros(x.shape[1:], x.dtype), x, reverse=reverse)


def _ys_only(x: Any) -> Any:
    return lax.scan(lambda c, v: (c, jnp.tanh(v)), (), x)[1]


def _carry_only(x: Any) -> Any:
    return lax.scan(lambda c, v: (c * 0.5 + v, None), jnp.zeros(3), x)[0]


def _no_xs(x: Any, reverse: bool = False) -> Any:
    return lax.scan(lambda c, _: (c + 1.5, c), x, None, length=5, reverse=reverse)


def _two_xs(x: Any, y: Any) -> Any:
    def step(carry: Any, xy: Any) -> Any:
        a, b = carry
        u, v = xy
        return (a + u, b + v.sum()), {"u": a * u, "v": v}

    return lax.scan(step, (jnp.zeros(3), jnp.float32(0)), (x, y), reverse=True)


def _mixed_carry(x: Any) -> Any:
    def step(carry: Any, v: Any) -> Any:
        flag, count, small, half = carry
        positive = v[0] > 0
        return (
            jnp.logical_xor(flag, positive),
            count + 1,
            small + jnp.int8(3),
            half + v.astype(jnp.bfloat16),
        ), flag

    start = (jnp.bool_(False), jnp.int32(0), jnp.int8(120), jnp.zeros(3, jnp.bfloat16))
    return lax.scan(step, start, x)


def _bf16_scan(x: Any) -> Any:
    return lax.scan(lambda c, v: (c + v, c), jnp.zeros(3, jnp.bfloat16), x, reverse=True)


def _nested(x: Any) -> Any:
    def outer(c: Any, row: Any) -> Any:
        inner, ys = lax.scan(lambda d, v: (d + v * c[0], d), jnp.float32(0), row)
        return c + inner, ys

    return lax.scan(outer, jnp.ones(1), x)


def _rnn(x: Any) -> Any:
    w = jnp.asarray(f32(4, 4, seed=1, scale=0.3))
    u = jnp.asarray(f32(3, 4, seed=2, scale=0.3))
    return lax.scan(lambda h, v: (jnp.tanh(h @ w + v @ u),) * 2, jnp.zeros((x.shape[1], 4)), x)


def _collatz(n: Any) -> Any:
    def body(state: Any) -> Any:
        v, count = state
        return lax.select(v % 2 == 0, v // 2, 3 * v + 1), count + 1

    return lax.while_loop(lambda s: s[0] > 1, body, (n, jnp.int32(0)))


def _newton(x: Any) -> Any:
    return lax.while_loop(
        lambda s: jnp.abs(s * s - x) > 1e-3 * x, lambda s: 0.5 * (s + x / s), jnp.float32(1) + x
    )


def _while_dead(x: Any) -> Any:
    return lax.while_loop(lambda s: s[0] < 4, lambda s: (s[0] + 1, s[1] * 2, s[1] + s[2]), (0, x, x))[1]


def _batched_while(x: Any) -> Any:
    return jax.vmap(lambda v: lax.while_loop(lambda s: s < 10, lambda s: s * 2 + 1, v))(x)


def _fori_traced(x: Any, n: Any) -> Any:
    return lax.fori_loop(0, n, lambda i, c: c * 1.5 + i, x)


def _fori_from(x: Any, lo: Any, hi: Any) -> Any:
    return lax.fori_loop(lo, hi, lambda i, c: c + x[0] * i, x)


def _fori_static(x: Any) -> Any:
    return lax.fori_loop(2, 7, lambda i, c: c.at[i].add(c[i - 1]), x)


def _while_in_scan(x: Any) -> Any:
    def step(c: Any, v: Any) -> Any:
        grown = lax.while_loop(lambda s: s < 5, lambda s: s + 1 + c * 0, v)
        return c + grown, grown

    return lax.scan(step, jnp.float32(0), x)


def _cond(p: Any, x: Any) -> Any:
    return lax.cond(p, lambda v: (v + 1, v), lambda v: (v * 2, v - 1), x)


def _cond_captured(p: Any, x: Any) -> Any:
    return lax.cond(p, lambda: (x, x), lambda: (x * 2, x))


def _cond_value(x: Any) -> Any:
    return lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x)


def _switch(i: Any, x: Any, n: int = 3) -> Any:
    return lax.switch(i, [lambda v, k=k: v * (k + 1) + k for k in range(n)], x)


def _cond_in_scan(x: Any) -> Any:
    def step(c: Any, v: Any) -> Any:
        c = lax.cond(v[0] > 0, lambda: c + v, lambda: c * 2)
        return c, c.sum()

    return lax.scan(step, jnp.zeros(3), x)


def _bool_select(p: Any, x: Any) -> Any:
    return lax.cond(p, lambda: x > 0, lambda: x < 0)


def _by_length(x: Any) -> Any:
    return lax.fori_loop(0, x.shape[0], lambda i, c: c + x[i], jnp.zeros(x.shape[1:]))


def _map(x: Any) -> Any:
    return lax.map(lambda v: v @ v, x)


def _associative(x: Any) -> Any:
    return lax.associative_scan(jnp.add, x)


def _grad_of_scan(x: Any) -> Any:
    def loss(v: Any) -> Any:
        return lax.scan(lambda c, t: (jnp.sin(c * t), c), jnp.float32(0.3), v)[0]

    return jax.grad(loss)(x)


_SWITCHED = [[_i32(i), f32(4)] for i in (-1, 0, 1, 2, 3, 4, 7, 2**31 - 1, -(2**31))]

def _square_root(x: Any) -> Any:
    """By Newton's method."""

    def solve(f: Any, start: Any) -> Any:
        return lax.fori_loop(0, 20, lambda _, y: y - f(y) / (2 * y), start)

    return lax.custom_root(lambda y: y**2 - x, jnp.ones_like(x), solve, lambda f, y: y / f(jnp.ones_like(y)))


def _kept(x: Any) -> Any:
    lax.dce_sink(x * 2)
    return x + 1


def _index_of_scan(x: Any) -> Any:
    count, _ = lax.scan(lambda c, v: (c + (v > 0), None), jnp.int32(0), x)
    return x[count // 2]


CASES = [
    Case("scan_gives_an_index", _index_of_scan, [f32(7)], also=[[f32(7, seed=2)]]),
    Case("scan", _cumulative, [f32(5, 3)], ops=["Scan", "!Loop"]),
    Case("scan_reverse", lambda x: _cumulative(x, True), [f32(5, 3)], ops=["Scan"]),
    Case("scan_symbolic", _cumulative, [f32(5, 3)], spec=[("T", "B")],
         also=[[f32(1, 3)], [f32(7, 1)], [f32(3, 2)]]),
    Case("scan_symbolic_reverse", lambda x: _cumulative(x, True), [f32(5, 3)], spec=[("T", 3)],
         also=[[f32(1, 3)], [f32(7, 3)]]),
    Case("scan_ys_only", _ys_only, [f32(5, 3)]),
    Case("scan_carry_only", _carry_only, [f32(5, 3)]),
    Case("scan_no_xs", _no_xs, [f32(3)], ops=["Loop"]),
    Case("scan_no_xs_reverse", lambda x: _no_xs(x, True), [f32(3)]),
    Case("scan_two_xs", _two_xs, [f32(5, 3), f32(5, 2, 2, seed=1)]),
    Case("scan_length_0", _cumulative, [f32(0, 3)], ops=["!Scan"]),
    Case("scan_length_1", _cumulative, [f32(1, 3)], ops=["!Scan"]),
    Case("scan_mixed_carry", _mixed_carry, [f32(5, 3)]),
    Case("scan_bf16", _bf16_scan, [f32(5, 3).astype(ml_dtypes.bfloat16)]),
    Case("scan_f64", _cumulative, [f32(5, 3).astype(np.float64)], x64=True),
    Case("scan_i64", _cumulative, [ints(5, 3, dtype=np.int64)], x64=True),
    Case("scan_nan", _cumulative, [np.asarray([[np.nan, np.inf, -0.0], [1, -np.inf, 0]], np.float32)]),
    Case("scan_nested", _nested, [f32(4, 3)]),
    Case("scan_rnn", _rnn, [f32(6, 2, 3)], spec=[("T", "B", 3)], also=[[f32(3, 5, 3)]]),
    Case("scan_grad", _grad_of_scan, [f32(5)]),
    Case("scan_map", _map, [f32(5, 3)]),
    Case("associative_scan", _associative, [f32(13)]),
    Case("while_collatz", _collatz, [_i32(7)], also=[[_i32(1)], [_i32(-3)], [_i32(27)]], ops=["Loop"]),
    Case("while_newton", _newton, [np.float32(2)], also=[[np.float32(100)]]),
    Case("while_dead_carry", _while_dead, [f32(3)]),
    Case("while_batched", _batched_while, [f32(4)], spec=[("B",)], also=[[f32(7)], [f32(1)]]),
    Case("while_in_scan", _while_in_scan, [f32(4)]),
    Case("fori_traced", _fori_traced, [f32(3), _i32(4)], also=[[f32(3), _i32(0)], [f32(3), _i32(-2)]]),
    Case("fori_from", _fori_from, [f32(3), _i32(-2), _i32(3)],
         also=[[f32(3), _i32(3), _i32(3)], [f32(3), _i32(2**31 - 2), _i32(2**31 - 1)],
               [f32(3), _i32(2**31 - 1), _i32(-(2**31))]]),
    Case("fori_static", _fori_static, [f32(8)]),
    Case("fori_by_length", _by_length, [f32(4, 3)], spec=[("N", 3)], also=[[f32(1, 3)], [f32(9, 3)]]),
    Case("cond", _cond, [np.bool_(True), f32(4)], also=[[np.bool_(False), f32(4)]], ops=["If", "!Cast"]),
    Case("cond_captured", _cond_captured, [np.bool_(True), f32(4)], also=[[np.bool_(False), f32(4)]]),
    Case("cond_value", _cond_value, [f32(4)], also=[[-f32(4)], [f32(4) * np.nan]]),
    Case("cond_bool", _bool_select, [np.bool_(True), f32(4)], also=[[np.bool_(False), f32(4)]]),
    Case("cond_in_scan", _cond_in_scan, [f32(5, 3)]),
    Case("cond_symbolic", _cond, [np.bool_(True), f32(4)], spec=[np.bool_(True), ("B",)],
         also=[[np.bool_(False), f32(7)], [np.bool_(True), f32(1)]]),
    *(Case(f"switch_{n}", lambda i, x, n=n: _switch(i, x, n), _SWITCHED[0], also=_SWITCHED, ops=["If"])
      for n in (2, 3, 4, 5)),
    Case("switch_1", lambda i, x: _switch(i, x, 1), _SWITCHED[0], also=_SWITCHED, ops=["!If"]),
]  # fmt: skip

_W = jnp.asarray(f32(3, 4, seed=3, scale=0.5))
_H = jnp.asarray(f32(4, 4, seed=4, scale=0.5))
_A = jnp.asarray(f32(4, seed=5))


def _projected(x: Any) -> Any:
    """Input and output projections outside the recurrence."""

    def step(h: Any, v: Any) -> Any:
        h = jnp.tanh(h @ _H + (v @ _W + _A))
        return h, jax.nn.softplus(h @ _W.T).sum(-1)

    return lax.scan(step, jnp.zeros((x.shape[1], 4)), x)


def _selective(x: Any) -> Any:
    def step(h: Any, v: Any) -> Any:
        dt = jax.nn.softplus(_W.T @ v)
        h = jnp.exp(-dt * jnp.abs(_A)) * h + dt
        return h, (h * v.sum()).sum()

    return lax.scan(step, jnp.zeros(4), x, reverse=True)


def _matrix_right(x: Any) -> Any:
    return lax.scan(lambda c, m: (c + (_W.T @ m).sum(), (_W.T @ m) * 2), jnp.float32(0), x)


def _batched_dots(x: Any) -> Any:
    return lax.scan(lambda c, m: (c + jnp.einsum("bij,bkj->bik", m, m), m.max(0)), jnp.zeros((2, 3, 3)), x)


def _invariant(x: Any, y: Any) -> Any:
    return lax.scan(lambda c, v: (c * jnp.exp(y).sum() + v, jnp.sort(y)[0] + c), jnp.float32(0), x)


def _invariant_in_while(x: Any, n: Any) -> Any:
    return lax.while_loop(lambda s: s[0] < jnp.abs(n) * 2, lambda s: (s[0] + 1, s[1] * jnp.cos(x)), (0, x))[1]


def _pass_through(x: Any) -> Any:
    return lax.scan(lambda c, v: (c + v, (v, jnp.sin(v), c)), jnp.float32(0), x, reverse=True)


def _scalar_choice(x: Any) -> Any:
    return lax.scan(lambda c, v: (c + jnp.where(v[0] > 0, v, v * _A[:3]), v[0] > 0), jnp.zeros(3), x)


def _rank_mix(x: Any) -> Any:
    return lax.scan(lambda c, v: (c + v[:, None] * _A, (v[:2].sum() + _W)[0]), jnp.zeros((3, 4)), x)


def _pieces(x: Any) -> Any:
    def step(c: Any, v: Any) -> Any:
        a, b = jnp.split(jnp.tanh(v), 2)
        joined = jnp.concatenate([b, a]).reshape(2, 2).T
        return c + a, (joined, c * b, jnp.squeeze(joined[:1, 1:], 0))

    return lax.scan(step, jnp.zeros(2), x)


def _nested_hoist(x: Any) -> Any:
    def outer(c: Any, row: Any) -> Any:
        def inner(d: Any, v: Any) -> Any:
            return d + jnp.exp(v) * jnp.sin(row).sum() * jnp.cos(_A[0]), jnp.tanh(d)

        return lax.scan(inner, c, row)

    return lax.scan(outer, jnp.float32(0), x)


CASES += [
    Case("hoist_projections", _projected, [f32(5, 2, 3)], spec=[("T", "B", 3)],
         also=[[f32(1, 1, 3)], [f32(9, 4, 3)]]),
    Case("custom_root", _square_root, [np.array([0.3, 2, 9], np.float32)]),
    Case("dce_sink", _kept, [f32(4)]),
    Case("hoist_selective", _selective, [f32(6, 3)], also=[[f32(6, 3, seed=9)]]),
    Case("hoist_matrix_right", _matrix_right, [f32(4, 3, 2)]),
    Case("hoist_batched_dots", _batched_dots, [f32(4, 2, 3, 5)]),
    Case("hoist_invariant", _invariant, [f32(4), f32(3)], spec=[("T",), (3,)], also=[[f32(1), f32(3)]]),
    Case("hoist_invariant_in_while", _invariant_in_while, [f32(3), np.int32(-2)],
         also=[[f32(3), np.int32(0)]]),
    Case("hoist_pass_through", _pass_through, [f32(4)]),
    Case("hoist_scalar_choice", _scalar_choice, [f32(4, 3)]),
    Case("hoist_rank_mix", _rank_mix, [f32(4, 3)]),
    Case("hoist_pieces", _pieces, [f32(5, 4)]),
    Case("hoist_nested", _nested_hoist, [f32(4, 3)], spec=[("A", "B")], also=[[f32(1, 2)], [f32(3, 1)]]),
]  # fmt: skip
