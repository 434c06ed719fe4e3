"""NNX modules with state of their own, and what Haiku's own loop can't take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import haiku as hk
import jax
import jax.numpy as jnp
import pytest
from flax import nnx

from onnxproof import to_onnx
from onnxproof.errors import TraceError, UnsupportedDimension
from tests.frameworks.model import floats
from tests.running import assert_same, run, session


class Layers(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.linear = nnx.Linear(4, 4, rngs=rngs)
        self.norm = nnx.BatchNorm(4, rngs=rngs)
        self.dropout = nnx.Dropout(0.5, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.dropout(self.norm(self.linear(x)))


class Counter(nnx.Module):
    def __init__(self) -> None:
        self.calls = nnx.Variable(jnp.zeros(()))

    def __call__(self, x: jax.Array) -> jax.Array:
        self.calls[...] += 1
        return x + self.calls[...]


def layers(**mode: bool) -> Layers:
    module = Layers(nnx.Rngs(0))
    module.eval()
    module.norm.use_running_average = mode.get("norm", True)
    module.dropout.deterministic = mode.get("dropout", True)
    return module


def rnn(cell: Any, **kwargs: Any) -> nnx.RNN:
    return nnx.RNN(cell(4, 3, rngs=nnx.Rngs(0)), rngs=nnx.Rngs(1), **kwargs)


def bidirectional() -> nnx.Bidirectional:
    return nnx.Bidirectional(rnn(nnx.LSTMCell), rnn(nnx.GRUCell), rngs=nnx.Rngs(2))


RECURRENT: dict[str, Callable[[], Any]] = {
    "lstm": lambda: rnn(nnx.LSTMCell),
    "gru, reversed": lambda: rnn(nnx.GRUCell, reverse=True, keep_order=True, return_carry=True),
    "a method": lambda: rnn(nnx.SimpleCell).__call__,
    "bidirectional": bidirectional,
}


@pytest.mark.parametrize("row", RECURRENT)
def test_recurrent_modules_need_no_rng_input(row: str) -> None:
    module = RECURRENT[row]()
    sess = session(to_onnx(module, [("B", "T", 4)]))
    for shape in ((1, 1, 4), (2, 5, 4), (3, 16, 4)):
        want = jax.tree_util.tree_leaves(module(floats(*shape)))
        for g, w in zip(run(sess, [floats(*shape)]), want, strict=True):
            assert_same(g, w)


def test_sequence_lengths() -> None:
    module = rnn(nnx.LSTMCell, reverse=True, keep_order=True)
    lengths = jax.ShapeDtypeStruct(("B",), jnp.int32)
    sess = session(to_onnx(module, [("B", "T", 4)], input_params={"seq_lengths": lengths}))
    x, steps = floats(3, 6, 4), jnp.array([1, 6, 4], jnp.int32)
    assert_same(run(sess, [x, steps])[0], module(x, seq_lengths=steps))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: layers(norm=False), r"changes its own state while it runs: norm\.mean, norm\.var"),
        (lambda: layers(dropout=False), r"random numbers from its own state: dropout\.rngs"),
        (Counter, r"changes its own state while it runs: calls"),
        (lambda: _closure(layers(dropout=False)), "pass an NNX module itself"),
    ],
    ids=["training", "dropout", "counter", "closure"],
)
def test_live_state_is_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(TraceError, match=message):
        to_onnx(make(), [("B", 4)])


def test_the_module_is_untouched() -> None:
    module = rnn(nnx.LSTMCell)
    before = jax.tree_util.tree_leaves(nnx.state(module))
    to_onnx(module, [("B", "T", 4)])
    after = jax.tree_util.tree_leaves(nnx.state(module))
    assert all(a is b for a, b in zip(before, after, strict=True))


def _closure(module: Any) -> Callable[..., Any]:
    return lambda x: module(x)


def unroll(x: jax.Array) -> jax.Array:
    core = hk.LSTM(3)
    return hk.dynamic_unroll(core, x, core.initial_state(x.shape[0]), time_major=False)[0]


def test_haiku_unroll_takes_a_fixed_length() -> None:
    network = hk.without_apply_rng(hk.transform(unroll))
    params = network.init(jax.random.key(0), floats(1, 5, 4))

    def fn(x: jax.Array) -> jax.Array:
        return network.apply(params, x)

    sess = session(to_onnx(fn, [("B", 5, 4)]))
    for batch in (1, 2, 3, 7):
        assert_same(run(sess, [floats(batch, 5, 4)])[0], fn(floats(batch, 5, 4)))
    with pytest.raises(UnsupportedDimension, match="'T'"):
        to_onnx(fn, [("B", "T", 4)])
