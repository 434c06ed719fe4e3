"""Settings of JAX that change bits, and how much a model grows with each draw."""

from __future__ import annotations

from typing import Any

import jax
import jax.extend.random as jax_random
import jax.numpy as jnp
import numpy as np
import onnx
import pytest

from onnxproof import to_onnx
from onnxproof.errors import UnsupportedError
from tests.cases.case import f32
from tests.running import assert_same, run, session

KEY = jax.random.key(11)


def _draws(key: Any) -> Any:
    a, b = jax.random.split(key)
    return jax.random.bits(a, (7,)), jax.random.bits(a, (3, 2), np.uint8), jax.random.normal(b, (4,)), b


@pytest.mark.parametrize("partitionable", [True, False])
@pytest.mark.parametrize("constant", [True, False])
def test_both_forms_of_threefry(partitionable: bool, constant: bool) -> None:
    with jax.threefry_partitionable(partitionable):
        fn = (lambda x: (x, _draws(KEY))) if constant else (lambda x, k: (x, _draws(k)))
        args = [f32(1)] if constant else [f32(1), KEY]
        got = run(session(to_onnx(fn, args)), args)
        for g, w in zip(got, jax.tree_util.tree_leaves(fn(*args)), strict=True):
            assert_same(g, w)


def test_draws_share_one_cipher() -> None:
    def many(key: Any) -> Any:
        return [jax.random.bits(k, (3,)) for k in jax.random.split(key, 8)]

    model = to_onnx(many, [KEY])
    assert [f.name for f in model.functions] == ["threefry2x32"]
    onnx.checker.check_model(model, full_check=True)
    assert len(model.graph.node) <= 80  # older releases of JAX slice where newer ones unstack


def test_constant_dropout_is_a_constant() -> None:
    mask = jax.random.bernoulli(KEY, 0.5, (4, 3))
    model = to_onnx(lambda x: jnp.where(jax.random.bernoulli(KEY, 0.5, (4, 3)), x, 0), [(4, 3)])
    assert len(model.graph.node) == 1
    assert_same(run(session(model), [f32(4, 3)])[0], jnp.where(mask, f32(4, 3), 0))


def test_unused_keys_leave_nothing() -> None:
    def fn(key: Any, x: Any) -> Any:
        jax.random.split(key)
        return x + 1

    model = to_onnx(fn, [KEY, (3,)])
    assert [n.op_type for n in model.graph.node] == ["Add"]
    assert not model.functions


def test_another_generator_is_refused() -> None:
    own = jax_random.define_prng_impl(
        key_shape=(2,),
        seed=jax_random.threefry_prng_impl.seed,
        split=jax_random.threefry_prng_impl.split,
        random_bits=lambda key, width, shape: jnp.zeros(shape, np.uint32),
        fold_in=jax_random.threefry_prng_impl.fold_in,
        name="own",
        tag="own",
    )
    key = jax.random.key(3, impl=own)
    with pytest.raises(UnsupportedError, match="generator"):
        to_onnx(lambda k: jax.random.bits(k, (3,)), [key])
