"""``onnx_function``: calls stay calls, bodies are shared where asked; outside an export nothing changes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from flax import nnx
from jax import lax

from onnxproof import onnx_function, to_onnx
from onnxproof.errors import InputSpecError
from tests.cases.case import f32
from tests.running import assert_same, run, session


def _export(fn: Any, args: list[Any], spec: Any = None, also: Any = (), **options: Any) -> onnx.ModelProto:
    model = to_onnx(fn, spec or args, **options)
    onnx.checker.check_model(model, full_check=True)
    sess = session(model)
    for given in (args, *also):
        want = jax.tree_util.tree_leaves(fn(*given))
        for g, w in zip(run(sess, given), want, strict=True):
            assert_same(g, w)
    return model


def _calls(model: onnx.ModelProto) -> Counter[str]:
    return Counter(n.op_type for n in model.graph.node if n.domain == "onnxproof.functions")


W, V = jnp.asarray(f32(3, 3, seed=1)), jnp.asarray(f32(3, 3, seed=2))


@onnx_function
def block(x: Any, w: Any) -> Any:
    return jnp.tanh(x @ w) + 1


@onnx_function(unique=True)
def shared(x: Any, w: Any) -> Any:
    return jnp.tanh(x @ w) + 1


@onnx_function(unique=True, name="Closing")
def closing(x: Any) -> Any:
    return x @ W


def test_each_call_has_a_function() -> None:
    model = _export(lambda x: block(block(x, W), V), [f32(2, 3)])
    assert _calls(model) == {"block": 1, "block_1": 1}
    assert [f.name for f in model.functions] == ["block", "block_1"]


def test_equal_bodies_share_a_function() -> None:
    model = _export(lambda x: shared(shared(x, W), V), [f32(2, 3)])
    assert _calls(model) == {"shared": 2}
    assert len(model.functions) == 1


def test_different_shapes_have_their_own() -> None:
    model = _export(lambda x: (shared(x, W), shared(x[:1], W)), [f32(2, 3)])
    assert _calls(model) == {"shared": 1, "shared_1": 1}


def test_closed_over_weights_become_inputs() -> None:
    model = _export(lambda x: closing(closing(x)), [f32(2, 3)])
    (function,) = model.functions
    assert function.name == "Closing"
    assert len(function.input) == 2
    assert len(model.graph.initializer) == 1


def test_symbolic_dimensions() -> None:
    @onnx_function
    def flat(x: Any) -> Any:
        return x.reshape(-1) * x.shape[0], jnp.zeros((x.shape[1], x.shape[0])) + x.T

    _export(flat, [f32(2, 3)], spec=[("B", "T")], also=[[f32(5, 1)]])


def test_nested_and_in_control_flow() -> None:
    @onnx_function
    def outer(x: Any) -> Any:
        return shared(x, W) + shared(x, V)

    def fn(x: Any) -> Any:
        return lax.scan(lambda c, v: (outer(c) + v, c.sum()), x[0][None], x[:, None])

    model = _export(fn, [f32(4, 3)])
    assert {f.name for f in model.functions} == {"outer", "shared"}


def test_control_flow_inside() -> None:
    @onnx_function
    def counted(x: Any, n: Any) -> Any:
        y = lax.fori_loop(0, n, lambda i, c: c * 0.5 + W[0], x)
        return lax.cond(n > 2, lambda: y, lambda: -y)

    _export(counted, [f32(3), np.int32(4)], also=[[f32(3), np.int32(0)]])


def test_containers_settings_and_static_results() -> None:
    @onnx_function
    def mixed(parts: dict[str, Any], *, scale: float, mode: str) -> Any:
        assert isinstance(scale, float)
        return {"y": parts["a"] * scale, "z": (parts["b"][0], None, mode, 3)}

    def fn(x: Any) -> Any:
        out = mixed({"a": x, "b": [x + 1]}, scale=2.0, mode="m")
        assert out["z"][1:] == (None, "m", 3)
        return out["y"], out["z"][0]

    assert _calls(_export(fn, [f32(2)])) == {"mixed": 1}


def test_nnx_module() -> None:
    @onnx_function(unique=True)
    class Block(nnx.Module):
        def __init__(self, rngs: nnx.Rngs) -> None:
            self.linear = nnx.Linear(3, 3, rngs=rngs)

        def __call__(self, x: Any) -> Any:
            return nnx.relu(self.linear(x))

    class Net(nnx.Module):
        def __init__(self) -> None:
            rngs = nnx.Rngs(0)
            self.blocks = nnx.List([Block(rngs), Block(rngs)])

        def __call__(self, x: Any) -> Any:
            for b in self.blocks:
                x = b(x)
            return x

    model = _export(Net(), [f32(2, 3)])
    assert _calls(model) == {"Block": 2}
    assert len(model.functions) == 1
    assert {i.name for i in model.graph.initializer} >= {"blocks.0.linear.kernel", "blocks.1.linear.kernel"}


def test_equinox_module() -> None:
    class Block(eqx.Module):
        linear: eqx.nn.Linear

        @onnx_function(unique=True, name="Block")
        def __call__(self, x: Any) -> Any:
            return jnp.tanh(self.linear(x))

    blocks = [Block(eqx.nn.Linear(3, 3, key=jax.random.key(i))) for i in range(2)]
    model = _export(lambda x: blocks[1](blocks[0](x)), [f32(3)])
    assert _calls(model) == {"Block": 2}
    batched = _export(jax.vmap(lambda x: blocks[0](x)), [f32(2, 3)], spec=[("B", 3)], also=[[f32(5, 3)]])
    assert _calls(batched) == {"Block": 1}


def test_gradient_through_a_function() -> None:
    _export(jax.grad(lambda x: block(x, W).sum()), [f32(2, 3)])


def test_random_draws_inside() -> None:
    @onnx_function
    def noisy(key: Any, x: Any) -> Any:
        return x + jax.random.uniform(key, x.shape)

    _export(noisy, [jax.random.key(3), f32(4)])


def test_nothing_changes_outside_an_export() -> None:
    traced = []

    @onnx_function
    def seen(x: Any) -> Any:
        traced.append(x)
        return x * 2

    ordinary = jax.jit(lambda x: seen(x) + 1)
    assert "onnxproof" not in str(jax.make_jaxpr(ordinary)(1.0))
    assert _calls(_export(ordinary, [np.float32(1)])) == {"seen": 1}
    assert "onnxproof" not in str(jax.make_jaxpr(ordinary)(1.0))
    thing = object()
    assert onnx_function(lambda v: v, name="same")(thing) is thing


def test_export_before_the_first_call() -> None:
    fn = jax.jit(lambda x: shared(x, W))
    to_onnx(fn, [(2, 3)])
    np.testing.assert_allclose(fn(jnp.ones((2, 3))), shared(jnp.ones((2, 3)), W), rtol=1e-6)


@pytest.mark.parametrize("bad", [3, type("Plain", (), {})])
def test_refuses_what_it_cannot_mark(bad: Any) -> None:
    with pytest.raises(InputSpecError):
        onnx_function(bad)


def test_refuses_a_name_that_is_no_identifier() -> None:
    with pytest.raises(InputSpecError, match="identifier"):
        onnx_function(lambda x: x, name="a b")


def test_provenance_points_into_the_body() -> None:
    model = to_onnx(lambda x: block(x, W), [(2, 3)])
    (function,) = model.functions
    sources = {p.value for n in function.node for p in n.metadata_props if p.key == "onnxproof.source"}
    assert any("test_functions.py" in s for s in sources)
