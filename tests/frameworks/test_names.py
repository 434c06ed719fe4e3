"""Ways of holding weights, and the names that they give."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn
from flax import nnx

from onnxproof import onnx_function, to_onnx
from tests.frameworks.matrix import CONSTANT
from tests.frameworks.model import drawn
from tests.running import assert_same, run, session

W = np.arange(120, dtype=np.float32).reshape(10, 12)
B = np.arange(12, dtype=np.float32)
PARAMS = {"w": jnp.asarray(W), "b": jnp.asarray(B)}


def dense(params: Any, x: jax.Array) -> jax.Array:
    return x @ params["w"] + params["b"]


def dense2(params: Any, state: Any, x: jax.Array) -> jax.Array:
    return jnp.tanh(dense(params, x)) - state["mean"]


def of_global(x: jax.Array) -> jax.Array:
    return dense(PARAMS, x)


def of_default(x: jax.Array, w: Any = W, *, b: Any = B) -> jax.Array:
    return x @ w + b


class Holder:
    def __init__(self) -> None:
        self.layers = [dict(PARAMS)]
        self.inner = self

    def predict(self, x: jax.Array) -> jax.Array:
        return dense(self.layers[0], x)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.predict(x)


class Slotted:
    __slots__ = ("b", "w")

    def __init__(self) -> None:
        self.w, self.b = PARAMS["w"], PARAMS["b"]

    def __call__(self, x: jax.Array) -> jax.Array:
        return x @ self.w + self.b


class Auto(nn.Module):
    def setup(self) -> None:
        self.inner = nn.Dense(12)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.inner(x)

    def encode(self, x: jax.Array) -> jax.Array:
        return nn.relu(self.inner(x))


def logged(fn: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fn)
    def wrapper(*args: Any) -> Any:
        return fn(*args)

    return wrapper


def variables() -> Any:
    return drawn(jax.eval_shape(Auto().init, jax.random.key(0), jnp.zeros((1, 10))))


def linear() -> eqx.nn.Linear:
    return drawn(eqx.nn.Linear(10, 12, key=jax.random.key(0)))


def of_closure() -> Any:
    params, mean = PARAMS, jnp.ones(12)
    return lambda x: jnp.tanh(dense(params, x)) - mean


def of_scan() -> Any:
    params = {"w": jnp.ones((10, 10)), "b": jnp.ones(10)}

    def fn(x: jax.Array) -> jax.Array:
        return jax.lax.scan(lambda c, _: (jnp.tanh(dense(params, c)), None), x, length=3)[0]

    return fn


def of_nnx() -> Any:
    return nnx.Linear(10, 12, bias_init=nnx.initializers.normal(), rngs=nnx.Rngs(0))


W_B = ["b", "w"]


def of_list() -> Any:
    """A number says nothing by itself: the name of the list stays."""
    kernels = [jnp.ones((10, 10)), jnp.ones((10, 12))]
    return lambda x: jnp.tanh(x @ kernels[0]) @ kernels[1]


def of_unordered_keys() -> Any:
    table = {"w": PARAMS["w"], 1: PARAMS["b"]}  # no pytree of JAX's: the keys can't be sorted
    return lambda x: x @ table["w"] + table[1]


ROWS: dict[str, tuple[Callable[[], Any], list[str]]] = {
    "a global": (lambda: of_global, W_B),
    "a default": (lambda: of_default, W_B),
    "a partial": (lambda: functools.partial(dense, PARAMS), W_B),
    "a keyword partial": (lambda: functools.partial(lambda x, params: dense(params, x), params=PARAMS), W_B),
    "two partial arguments": (
        lambda: functools.partial(dense2, PARAMS, {"mean": jnp.ones(12)}),
        ["params.b", "params.w", "state.mean"],
    ),
    "NumPy arrays": (lambda: functools.partial(dense, {"w": W, "b": B}), W_B),
    "a dict without an order": (of_unordered_keys, []),
    "a closure": (of_closure, ["mean", "params.b", "params.w"]),
    "a list in a closure": (of_list, ["kernels.0", "kernels.1"]),
    "a scan": (of_scan, W_B),
    "a jitted partial": (lambda: jax.jit(functools.partial(dense, PARAMS)), W_B),
    "a decorated function": (lambda: logged(of_global), W_B),
    "an object": (Holder, ["layers.0.b", "layers.0.w"]),
    "a method": (lambda: Holder().predict, ["layers.0.b", "layers.0.w"]),
    "an object with slots": (Slotted, W_B),
    "a bound Linen module": (lambda: Auto().bind(variables()), ["params.inner.bias", "params.inner.kernel"]),
    "a method of a bound Linen module": (
        lambda: Auto().bind(variables()).encode,
        ["params.inner.bias", "params.inner.kernel"],
    ),
    "apply with a method": (
        lambda: functools.partial(Auto().apply, variables(), method="encode"),
        ["params.inner.bias", "params.inner.kernel"],
    ),
    "an NNX module": (of_nnx, ["bias", "kernel"]),
    "a method of an NNX module": (lambda: of_nnx().__call__, ["bias", "kernel"]),
    "a jitted NNX module": (lambda: jax.jit(of_nnx()), ["bias", "kernel"]),
    "an Equinox module in vmap": (lambda: jax.vmap(linear()), ["bias", "weight"]),
    "an Equinox module in filter_vmap": (lambda: eqx.filter_vmap(linear()), ["bias", "weight"]),
    "filter_jit of filter_vmap": (lambda: eqx.filter_jit(eqx.filter_vmap(linear())), ["bias", "weight"]),
    "filter_jit of a closure": (lambda: _filter_jit_closure(), ["bias", "weight"]),
}


def _filter_jit_closure() -> Any:
    module = linear()
    return eqx.filter_jit(lambda x: jax.vmap(module)(x))


@pytest.mark.parametrize("row", ROWS)
def test_names(row: str) -> None:
    make, expected = ROWS[row]
    model = to_onnx(make(), [("N", 10)])
    assert sorted(t.name for t in model.graph.initializer if not CONSTANT.match(t.name)) == expected


def _normalized(module: nn.Module) -> Callable[..., Any]:
    """A Linen layer as a function of its weights: NumPy reshapes them before JAX sees them."""
    return lambda weights, x: module.apply(weights, x)


def _in_a_loop(weights: Any, x: jax.Array) -> jax.Array:
    def body(c: jax.Array, _: Any) -> tuple[jax.Array, None]:
        return jnp.tanh(c * weights["w"].reshape(1, 1, 1, 12) + weights["k"].T.reshape(12)), None

    return jax.lax.scan(body, x, length=3)[0]


@onnx_function
def _named(weights: Any, x: jax.Array) -> jax.Array:
    return jnp.einsum("...i,ji->...j", x, weights["k"].transpose(1, 0)) * weights["w"].reshape(1, 12)


K = np.random.default_rng(2).normal(size=(12, 12)).astype(np.float32)
VIEWS: dict[str, tuple[Callable[..., Any], Any]] = {
    "layer norm": (_normalized(nn.LayerNorm()), None),
    "group norm": (_normalized(nn.GroupNorm(4)), None),
    "batch norm": (_normalized(nn.BatchNorm(use_running_average=True)), None),
    "a product with a transpose": (lambda weights, x: x @ weights["k"].T, {"k": K}),
    "a kernel of two axes in one": (lambda w, x: x.reshape(-1, 24) @ w["k"].reshape(24, 6), {"k": K}),
    "a loop": (_in_a_loop, {"k": K[:1].copy(), "w": K[1].copy()}),
    "a named function": (_named, {"k": K, "w": K[0].copy()}),
}


@pytest.mark.parametrize("row", VIEWS)
def test_views_of_numpy_weights_are_their_weights(row: str) -> None:
    """A checkpoint is often restored as NumPy arrays: the file is the same as with JAX's."""
    fn, weights = VIEWS[row]
    x = np.random.default_rng(1).normal(size=(2, 4, 4, 12)).astype(np.float32)
    if weights is None:
        module = fn.__closure__[0].cell_contents  # type: ignore[attr-defined]
        weights = drawn(jax.eval_shape(module.init, jax.random.key(0), x))
    here = jax.tree.map(lambda w: np.array(w), weights)
    models = [
        to_onnx(functools.partial(fn, held), [("N", 4, 4, 12)], model_name="m", strip_provenance=True)
        for held in (here, jax.tree.map(jnp.asarray, weights))
    ]
    named = [{t.name for t in m.graph.initializer if not CONSTANT.match(t.name)} for m in models]
    assert named[0] == named[1]
    assert len(named[0]) >= 1
    assert [n.op_type for n in models[0].graph.node] == [n.op_type for n in models[1].graph.node]
    (got,) = run(session(models[0]), [x])
    assert_same(got, jax.jit(fn)(here, x))


def test_tied_weights_are_stored_once() -> None:
    table = jnp.ones((200, 64))
    params = {"embed": table, "head": {"kernel": table}}

    def fn(tokens: jax.Array) -> jax.Array:
        return params["embed"][tokens] @ params["head"]["kernel"].T

    model = to_onnx(fn, [jax.ShapeDtypeStruct(("N",), jnp.int32)])
    assert [t.name for t in model.graph.initializer if not CONSTANT.match(t.name)] == ["embed"]
    (info,) = [v for v in model.graph.value_info if v.name == "embed"]
    assert {p.key: p.value for p in info.metadata_props} == {"onnxproof.aliases": "head.kernel"}
