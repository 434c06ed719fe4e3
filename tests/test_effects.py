"""Side effects raise or are left out on request; foreign primitives go through their implementation."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import io_callback
from jax.extend import core as jex_core
from jax.interpreters import batching, mlir

from onnxproof import to_onnx
from onnxproof.capture.trace import capture
from onnxproof.errors import EffectfulProgram, UnsupportedPrimitive
from onnxproof.lowering.driver import load_rules
from tests.cases.case import f32
from tests.running import assert_same, run, session

X = jax.ShapeDtypeStruct((3,), np.float32)


def printing(x: Any) -> Any:
    jax.debug.print("sum {s}", s=x.sum())
    jax.debug.callback(lambda v: None, x)
    return x + 1


def printing_in_scan(x: Any) -> Any:
    def step(c: Any, v: Any) -> Any:
        jax.debug.print("{v}", v=v, ordered=True)
        return c + v, c

    return lax.scan(step, jnp.float32(0), x)


def printing_in_branch(x: Any) -> Any:
    return lax.cond(x.sum() > 0, lambda: printing(x), lambda: -x)


def checking(x: Any) -> Any:
    return eqx.error_if(x, x.sum() > 1e6, "too large") * 2


def checking_pytree(x: Any) -> Any:
    parts = eqx.error_if({"a": x, "b": x * 2}, x.max() > 1e6, "too large")
    return parts["a"] + parts["b"]


def checking_in_loop(x: Any) -> Any:
    return lax.fori_loop(0, 3, lambda i, c: eqx.error_if(c * 2, c[0] > 1e6, "too large"), x)


def checking_with_messages(x: Any) -> Any:
    return eqx.branched_error_if(x, x.sum() > 1e6, jnp.int32(x[0] > 0), ["too large", "too bright"]) * 2


def calling_back(x: Any) -> Any:
    return jax.pure_callback(lambda v: np.asarray(v), X, x)


def choosing_a_callback(x: Any) -> Any:
    return lax.cond(x.sum() > 0, lambda v: calling_back(v), lambda v: v, x)


def looking_up_in_a_callback(x: Any) -> Any:
    index = jnp.int32(x[0])
    return lax.cond(x.sum() > 0, lambda: jax.pure_callback(lambda i: np.full(3, i), X, index), lambda: x)


def computing_beside_a_callback(x: Any) -> Any:
    def other() -> Any:
        first = jax.pure_callback(lambda i: np.full(3, i), X, jnp.int32(x[0]))
        return jax.pure_callback(lambda v, i: v, X, first, jnp.int32(x[1]))

    return lax.cond(x.sum() > 0, other, lambda: x * 2)


def writing(x: Any) -> Any:
    return io_callback(lambda v: v, X, x)


def _same(fn: Any, drop: tuple[str, ...]) -> None:
    x = f32(3)
    got = run(session(to_onnx(fn, [x], drop_effects=drop)), [x])
    for g, w in zip(got, jax.tree_util.tree_leaves(fn(x)), strict=True):
        assert_same(g, w)


@pytest.mark.parametrize("fn", [printing, printing_in_scan, printing_in_branch])
def test_debug_output(fn: Any) -> None:
    with pytest.raises(EffectfulProgram, match=r'test_effects\.py:\d+ .*\n.*"debug"'):
        to_onnx(fn, [X], drop_effects=("checks",))
    _same(fn, ("debug",))


@pytest.mark.parametrize("fn", [checking, checking_pytree, checking_in_loop, checking_with_messages])
def test_checks(fn: Any) -> None:
    with pytest.raises(EffectfulProgram, match=r'test_effects\.py:\d+ .*\n.*"checks"'):
        to_onnx(fn, [X], drop_effects=("debug",))
    _same(fn, ("checks",))


@pytest.mark.parametrize(
    "fn",
    [
        calling_back,
        choosing_a_callback,
        looking_up_in_a_callback,
        computing_beside_a_callback,
        writing,
    ],
)
def test_what_is_never_left_out(fn: Any) -> None:
    with pytest.raises(EffectfulProgram, match=r"test_effects\.py:\d+"):
        to_onnx(fn, [X], drop_effects=("debug", "checks"))


def test_dead_callbacks_do_not_matter() -> None:
    def dead(x: Any) -> Any:
        calling_back(x)
        return x * 2

    _same(dead, ())


def test_what_was_left_out_is_said() -> None:
    def both(x: Any) -> Any:
        return printing(checking(x))

    found = capture(both, [X], known=load_rules(), drop_effects=("debug", "checks"))
    assert len(found.dropped) == 3
    assert all("test_effects.py" in text for text in found.dropped)


def _primitive(name: str, impl: Any) -> Any:
    prim = jex_core.Primitive(name)
    prim.def_abstract_eval(lambda x: x)
    if impl is not None:
        prim.def_impl(impl)
        mlir.register_lowering(prim, mlir.lower_fun(impl, multiple_results=False))
        batching.defvectorized(prim)
    return prim


def test_primitive_with_an_implementation() -> None:
    prim = _primitive("their_softsign", lambda x: x / (1 + jnp.abs(x)))
    _same(lambda x: prim.bind(x) + 1, ())
    _same(lambda x: lax.map(prim.bind, x), ())
    _same(jax.vmap(prim.bind), ())


def test_primitive_that_rests_on_itself() -> None:
    prim = _primitive("their_opaque", None)
    prim.def_impl(lambda x: prim.bind(x))
    with pytest.raises(UnsupportedPrimitive, match="their_opaque on float32"):
        to_onnx(lambda x: prim.bind(x), [X])


def test_primitive_without_an_implementation() -> None:
    prim = _primitive("their_void", None)
    with pytest.raises(UnsupportedPrimitive, match="their_void on float32"):
        to_onnx(lambda x: prim.bind(x), [X])


def test_batched_check() -> None:
    x = f32(2, 3)
    model = to_onnx(jax.vmap(checking), [("B", 3)], drop_effects=("checks",))
    assert_same(run(session(model), [x])[0], jax.vmap(checking)(x))


def test_primitive_that_rests_on_itself_with_other_parameters() -> None:
    prim = jex_core.Primitive("their_power")
    prim.def_abstract_eval(lambda x, *, n: x)
    prim.def_impl(lambda x, *, n: x if n == 0 else x * prim.bind(x, n=n - 1))
    mlir.register_lowering(prim, mlir.lower_fun(lambda x, *, n: x**n, multiple_results=False))
    _same(lambda x: prim.bind(x, n=3), ())
    _same(lambda x: prim.bind(x, n=2) + prim.bind(x, n=1), ())
