"""LSTM and GRU cells scanned over time: the native operators, their edges, and cells that are neither."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.cases.case import Case, f32

IN, HID = 3, 5
sigmoid, tanh = jax.nn.sigmoid, jnp.tanh


def weights(gates: int, inputs: int = IN, hidden: int = HID, seed: int = 0) -> dict[str, Any]:
    return {
        "ih": jnp.asarray(f32(inputs, gates * hidden, seed=seed)),
        "hh": jnp.asarray(f32(hidden, gates * hidden, seed=seed + 1, scale=0.5)),
        "b": jnp.asarray(f32(gates * hidden, seed=seed + 2)),
        "bh": jnp.asarray(f32(gates * hidden, seed=seed + 3)),
    }


P, G, ONE = weights(4), weights(3), weights(4, 1, 1)
HALF, GRU_HALF = (jax.tree.map(lambda a: a.astype(jnp.float16), p) for p in (P, G))


def lstm_cell(
    p: Any, carry: Any, x: Any, order: str = "ifgo", squash: Any = tanh, peephole: bool = False
) -> Any:
    h, c = carry
    at = dict(zip(order, jnp.split(x @ p["ih"] + h @ p["hh"] + p["b"], 4, -1), strict=True))
    forget = at["f"] + (c if peephole else 0.0)
    c = sigmoid(forget) * c + sigmoid(at["i"]) * tanh(at["g"])
    return sigmoid(at["o"]) * squash(c), c


def lstm(x: Any, p: Any = P, reverse: bool = False, start: Any = None, **options: Any) -> Any:
    """Time-major, over x[T, B, I]: (stack, (h, c))."""

    def step(carry: Any, xt: Any) -> Any:
        h, c = lstm_cell(p, carry, xt, **options)
        return (h, c), h

    zero = jnp.zeros((*x.shape[1:-1], p["hh"].shape[0]), x.dtype)
    last, ys = lax.scan(step, (zero, zero) if start is None else start, x, reverse=reverse)
    return ys, last


def split_lstm(x: Any) -> Any:
    """A matrix for each gate, the cell state first in the carry, a bias on either side, forget bias 1."""
    kernels = [jnp.split(P[k], 4, -1) for k in ("ih", "hh", "b", "bh")]

    def step(carry: Any, xt: Any) -> Any:
        c, h = carry
        i, f, g, o = ((xt @ w + b) + (h @ r + d) for w, r, b, d in zip(*kernels, strict=True))
        c = tanh(g) * sigmoid(i) + c * sigmoid(f + 1.0)
        h = tanh(c) * sigmoid(o)
        return (c, h), h

    zero = jnp.zeros((x.shape[1], HID))
    return lax.scan(step, (zero, zero), x)


def joined_lstm(x: Any) -> Any:
    """One matrix for the input and the state joined, activations before the split, an output in the loop."""
    kernel, head = jnp.concatenate([P["ih"], P["hh"]]), jnp.asarray(f32(HID, 2, seed=9))

    def step(carry: Any, xt: Any) -> Any:
        h, c = carry
        joined = jnp.concatenate([xt, h], -1) @ kernel + P["b"]
        i, f, o = jnp.split(sigmoid(joined[..., : 3 * HID]), 3, -1)
        c = f * c + i * tanh(joined[..., 3 * HID :])
        h = o * tanh(c)
        return (h, c), jnp.maximum(h, 0) @ head

    zero = jnp.zeros((x.shape[1], HID))
    return lax.scan(step, (zero, zero), x)


def gru(
    x: Any, p: Any = G, late: bool = True, hidden_bias: bool = True, flip: bool = False, start: Any = None,
    reverse: bool = False, squash: Any = tanh, twice: bool = False,
) -> Any:  # fmt: skip
    """Time-major, over x[T, B, I]: (stack, h)."""

    def step(h: Any, xt: Any) -> Any:
        rx, zx, nx = jnp.split(xt @ p["ih"] + p["b"], 3, -1)
        if late:
            rh, zh, nh = jnp.split(h @ p["hh"] + (p["bh"] if hidden_bias else 0.0), 3, -1)
            n = squash(nx + sigmoid(rx + rh) * nh)
        else:
            rh, zh = jnp.split(h @ p["hh"][:, : 2 * HID], 2, -1)
            n = squash(nx + (sigmoid(rx + rh) * h) @ p["hh"][:, 2 * HID :])
        z = sigmoid(zx + zh)
        new = (1 - z) * h + z * n if flip else n + z * (h - n)
        return new, new + h if twice else new

    zero = jnp.zeros((*x.shape[1:-1], p["hh"].shape[0]), x.dtype)
    last, ys = lax.scan(step, zero if start is None else start, x, reverse=reverse)
    return ys, last


def batch_major(fn: Any, x: Any) -> Any:
    ys, last = fn(x.swapaxes(0, 1))
    return ys.swapaxes(0, 1), last


def coupled(x: Any) -> Any:
    """The input gate is what the forget gate leaves: no LSTM of ONNX's default kind."""

    def step(carry: Any, xt: Any) -> Any:
        h, c = carry
        f, g, o = jnp.split(xt @ G["ih"] + h @ G["hh"], 3, -1)
        c = sigmoid(f) * c + (1 - sigmoid(f)) * tanh(g)
        h = sigmoid(o) * tanh(c)
        return (h, c), h

    zero = jnp.zeros((x.shape[1], HID))
    return lax.scan(step, (zero, zero), x)[1]


def stacked_cells(x: Any) -> Any:
    """The stack of the cell state, which the operator has not."""

    def step(carry: Any, xt: Any) -> Any:
        h, c = lstm_cell(P, carry, xt)
        return (h, c), c

    zero = jnp.zeros((x.shape[1], HID))
    return lax.scan(step, (zero, zero), x)[1]


def elman(x: Any) -> Any:
    def step(h: Any, xt: Any) -> Any:
        h = tanh(xt @ P["ih"][:, :HID] + h @ P["hh"][:, :HID])
        return h, h

    return lax.scan(step, jnp.zeros((x.shape[1], HID)), x)[1]


def hoisted(x: Any, p: Any = P, gates: int = 4) -> Any:
    """Batch-major; the product with the inputs is made for all steps before the loop."""

    def lstm_step(carry: Any, xt: Any) -> Any:
        h, c = carry
        i, f, g, o = jnp.split(xt + h @ p["hh"], 4, -1)
        c = sigmoid(f) * c + sigmoid(i) * tanh(g)
        h = sigmoid(o) * tanh(c)
        return (h, c), h

    def gru_step(h: Any, xt: Any) -> Any:
        (r, z, n), (hr, hz, hn) = jnp.split(xt, 3, -1), jnp.split(h @ p["hh"], 3, -1)
        z = sigmoid(z + hz)
        h = (1 - z) * tanh(n + sigmoid(r + hr) * hn) + z * h
        return h, h

    zero = jnp.zeros((x.shape[0], HID))
    step, start = (lstm_step, (zero, zero)) if gates == 4 else (gru_step, zero)
    return lax.scan(step, start, (x @ p["ih"] + p["b"]).swapaxes(0, 1))[1].swapaxes(0, 1)


def vectors(x: Any) -> Any:
    """Products of vectors in the loop's input, beside a state that is a batch of one."""

    def step(carry: Any, xt: Any) -> Any:
        h, c = carry
        i, f, g, o = jnp.split(xt.reshape(1, -1) + h @ P["hh"], 4, -1)
        c = sigmoid(f) * c + sigmoid(i) * tanh(g)
        h = sigmoid(o) * tanh(c)
        return (h, c), h

    zero = jnp.zeros((1, HID))
    return lax.scan(step, (zero, zero), x @ P["ih"] + P["b"])[1]


def given_weights(x: Any, ih: Any, hh: Any, b: Any) -> Any:
    return lstm(x, {"ih": ih, "hh": hh, "b": b})[0]


def with_value(value: float, *at: int) -> Any:
    x = f32(6, 3, IN, seed=5)
    x[at] = value
    return x


def two_infinities() -> Any:
    x = with_value(np.inf, 2, 1, 0)
    x[2, 1, 2] = -np.inf
    x[4, 0, :2] = np.inf
    return x


X = f32(6, 3, IN)
ANY = [("T", "B", IN)]
EDGES = [
    [x]
    for x in (
        f32(1, 1, IN), f32(1, 3, IN), f32(9, 1, IN), X * 1e4, X * 1e37, X * 1e-30, X * 0, with_value(np.nan, 2, 1, 0),
        with_value(np.inf, 2, 1, 0), with_value(-np.inf, 3, 0, 2), with_value(np.nan, 0, 0, 1), two_infinities(),
    )
]  # fmt: skip
LONG = [[f32(300, 2, IN, seed=3)]]
STATE = (f32(3, HID, seed=7), f32(3, HID, seed=8, scale=50.0))
BAD = [
    [X, (np.where(np.arange(HID) == 1, value, STATE[0]).astype(np.float32), STATE[1])]
    for value in (np.nan, np.inf)
] + [[X, (STATE[0], np.where(np.arange(HID) == 1, np.nan, STATE[1]).astype(np.float32))]]

GRU_BAD = [[x, start[0]] for x, start in BAD[:2]]


def started(x: Any, start: Any) -> Any:
    return lstm(x, start=start)


def gru_started(x: Any, h: Any, **options: Any) -> Any:
    return gru(x, start=h, **options)


NATIVE = ["LSTM", "!Scan"]
GRU = ["GRU", "!Scan"]
OTHER = ["!LSTM", "!GRU"]
CASES = [
    Case("lstm", lstm, [X], spec=ANY, also=EDGES + LONG, ops=NATIVE),
    Case("lstm_gate_order", partial(lstm, order="fogi"), [X], spec=ANY, also=EDGES, ops=NATIVE),
    Case("lstm_reverse", partial(lstm, reverse=True), [X], spec=ANY, also=EDGES, ops=NATIVE),
    Case("lstm_batch_major", partial(batch_major, lstm), [X], spec=ANY, also=EDGES, ops=NATIVE),
    Case("lstm_no_batch", lstm, [f32(6, IN)], spec=[("T", IN)], also=[[f32(1, IN)]], ops=NATIVE),
    Case("lstm_no_batch_started", started, [f32(6, IN), (STATE[0][0], STATE[1][0])], ops=NATIVE),
    Case("lstm_mapped", jax.vmap(lstm), [f32(3, 6, IN)], spec=[("B", "T", IN)], ops=NATIVE),
    Case("lstm_one_by_one", partial(lstm, p=ONE), [f32(4, 2, 1)], also=[[f32(4, 2, 1, seed=1)]], ops=NATIVE),
    Case("lstm_one_trip", lstm, [f32(1, 3, IN)], ops=NATIVE),
    Case("lstm_no_trip", lstm, [f32(0, 3, IN)], ops=OTHER),
    Case("lstm_last_only", lambda x: lstm(x)[1][0], [X], spec=ANY, also=EDGES, ops=NATIVE),
    Case("lstm_started", started, [X, STATE], also=BAD, ops=NATIVE),
    Case("lstm_split", split_lstm, [X], spec=ANY, also=EDGES, ops=NATIVE),
    Case("lstm_joined", joined_lstm, [X], spec=ANY, also=EDGES, ops=NATIVE),
    Case("lstm_hoisted", hoisted, [f32(3, 6, IN)], spec=[("B", "T", IN)], ops=NATIVE),
    Case("lstm_one_sequence", hoisted, [f32(1, 6, IN)], also=[[f32(1, 6, IN, seed=1) * 1e4]], ops=NATIVE),
    Case("lstm_one_sequence_split", split_lstm, [f32(6, 1, IN)], ops=NATIVE),
    Case("lstm_vectors", vectors, [f32(6, IN)], spec=[("T", IN)], ops=OTHER),
    Case("lstm_one_feature", partial(lstm, p=ONE), [f32(4, 1, 1)], also=[[f32(4, 1, 1, seed=1)]], ops=NATIVE),
    Case("lstm_one_of_all", hoisted, [f32(1, 1, IN)], ops=NATIVE),
    Case("gru_hoisted", partial(hoisted, p=G, gates=3), [f32(3, 6, IN)], spec=[("B", "T", IN)], ops=GRU),
    Case("gru_one_sequence", partial(hoisted, p=G, gates=3), [f32(1, 6, IN)], ops=GRU),
    Case("lstm_unrolled", lambda x: lstm(x)[0][:3], [X], ops=NATIVE),
    Case("lstm_f16", partial(lstm, p=HALF), [X.astype(np.float16)], ops=OTHER),
    Case("lstm_f64", partial(lstm, p=jax.tree.map(np.float64, P)), [X.astype(np.float64)], x64=True, ops=OTHER),
    Case("lstm_given_weights", given_weights, [X, P["ih"], P["hh"], P["b"]], ops=OTHER),
    Case("lstm_other_activation", partial(lstm, squash=jax.nn.relu), [X], ops=OTHER),
    Case("lstm_peephole", partial(lstm, peephole=True), [X], ops=OTHER),
    Case("lstm_coupled", coupled, [X], ops=OTHER),
    Case("lstm_stacked_cells", stacked_cells, [X], ops=OTHER),
    Case("elman", elman, [X], ops=OTHER),
    Case("gru", gru, [X], spec=ANY, also=EDGES + LONG, ops=GRU),
    Case("gru_no_hidden_bias", partial(gru, hidden_bias=False), [X], spec=ANY, also=EDGES + LONG, ops=GRU),
    Case("gru_before", partial(gru, late=False), [X], spec=ANY, also=EDGES + LONG, ops=GRU),
    Case("gru_flipped", partial(gru, flip=True), [X], spec=ANY, also=EDGES, ops=GRU),
    Case("gru_flipped_before", partial(gru, flip=True, late=False), [X], spec=ANY, also=EDGES, ops=GRU),
    Case("gru_reverse", partial(gru, reverse=True), [X], spec=ANY, also=EDGES, ops=GRU),
    Case("gru_batch_major", partial(batch_major, gru), [X], spec=ANY, also=EDGES, ops=GRU),
    Case("gru_no_batch", gru, [f32(6, IN)], spec=[("T", IN)], ops=GRU),
    Case("gru_started", gru_started, [X, STATE[0]], also=GRU_BAD, ops=OTHER),
    Case("gru_started_no_bias", partial(gru_started, hidden_bias=False), [X, STATE[0]], also=GRU_BAD, ops=OTHER),
    Case("gru_started_before", partial(gru_started, late=False), [X, STATE[0]], also=GRU_BAD, ops=GRU),
    Case("gru_other_activation", partial(gru, squash=jax.nn.relu), [X], ops=OTHER),
    Case("gru_state_used_twice", partial(gru, twice=True), [X], ops=OTHER),
    Case("gru_large", partial(gru, p=weights(3, IN, 32)), [f32(2, 64, IN)], ops=OTHER),
    Case("gru_f16", partial(gru, p=GRU_HALF), [X.astype(np.float16)], ops=OTHER),
]  # fmt: skip
