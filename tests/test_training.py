"""Whole training steps in ONNX Runtime, outputs fed back as inputs, held against JAX in float32 and float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

from examples import training_step as example
from onnxproof import to_onnx
from onnxproof.errors import InputSpecError
from tests.running import session

Tree = Any
Array = np.ndarray[Any, Any]
Step = Callable[[Tree, Tree, jax.Array, jax.Array], tuple[Tree, Tree, jax.Array]]

# Fifty steps amplify the rounding of each, so the measure is how far JAX's own float32 run lands from the same run in
# float64: ours may be this many times as far. What a run amplifies is chance, hence not 1.
CHAOS = 4
FLOOR = 1e-6  # of the largest magnitude; below it, JAX was lucky


def widened(tree: Tree) -> Tree:
    return jax.tree.map(
        lambda x: np.asarray(x, np.float64) if jnp.issubdtype(x.dtype, jnp.floating) else np.asarray(x), tree
    )


def train(step: Step, params: Tree, opt_state: Tree, data: Sequence[tuple[Array, Array]]) -> list[Array]:
    """Leaves of (losses, parameters, state) after a step on each batch in JAX."""
    compiled, losses = jax.jit(step), []
    for x, y in data:
        params, opt_state, loss = compiled(params, opt_state, x, y)
        losses.append(np.asarray(loss))
    return [np.stack(losses), *map(np.asarray, jax.tree.leaves((params, opt_state)))]


def check(step: Step, params: Tree, opt_state: Tree, data: Sequence[tuple[Array, Array]]) -> list[Array]:
    """Train in ONNX Runtime and in JAX; returns what ONNX Runtime gives, the losses first."""
    model = to_onnx(
        step,
        [params, opt_state, ("B", *data[0][0].shape[1:]), jax.ShapeDtypeStruct(("B",), jnp.int32)],
        output_names=["new_params", "new_opt_state", "loss"],
    )
    inputs, outputs = [i.name for i in model.graph.input], [o.name for o in model.graph.output]
    assert outputs == [*(f"new_{name}" for name in inputs[:-2]), "loss"]
    sess = session(model)
    state = dict(zip(inputs, map(np.asarray, jax.tree.leaves((params, opt_state))), strict=False))
    losses = []
    for x, y in data:
        *values, loss = sess.run(outputs, {**state, inputs[-2]: x, inputs[-1]: y})
        state = dict(zip(inputs, values, strict=False))
        losses.append(loss)
    got = [np.stack(losses), *state.values()]
    want = train(step, params, opt_state, data)
    with jax.enable_x64(True):
        exact = train(step, widened(params), widened(opt_state), [(x.astype(np.float64), y) for x, y in data])
    for name, g, w, e in zip(["loss", *inputs], got, want, exact, strict=False):
        assert (g.dtype, g.shape) == (w.dtype, w.shape), name
        scale = np.abs(e).max(initial=0)
        ours, theirs = np.abs(g - e).max(initial=0), np.abs(w - e).max(initial=0)
        assert ours <= CHAOS * max(theirs, FLOOR * scale), (
            f"{name}: {ours:.1e} from float64, JAX {theirs:.1e}"
        )
    return got


def test_example_lands_where_jax_lands() -> None:
    params, data = example.init(0), list(example.batches(1))
    losses, *_ = check(example.step, params, example.optimizer.init(params), data)
    assert len(losses) == 50
    assert losses[-1] < 0.6 * losses[0]


def test_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    example.main()
    first, last = capsys.readouterr().out.splitlines()
    assert "loss of the first step 1.1" in first
    ours, theirs = (float(word) for word in last.replace(",", "").split() if word.startswith("0."))
    assert abs(ours - theirs) <= 1e-5


def images(steps: int, *shape: int) -> list[tuple[Array, Array]]:
    """Batches whose class shows in the mean of the image."""
    rng = np.random.default_rng(5)
    labels = rng.integers(0, 3, (steps, shape[0])).astype(np.int32)
    shift = (labels - 1.0).reshape(steps, shape[0], *[1] * (len(shape) - 1))
    return list(zip((rng.normal(size=(steps, *shape)) + shift).astype(np.float32), labels, strict=True))


def step_of(apply: Callable[[Tree, jax.Array], jax.Array], optimizer: optax.GradientTransformation) -> Step:
    def step(params: Tree, opt_state: Tree, x: jax.Array, y: jax.Array) -> tuple[Tree, Tree, jax.Array]:
        def loss(params: Tree) -> jax.Array:
            return optax.softmax_cross_entropy_with_integer_labels(apply(params, x), y).mean()

        value, gradients = jax.value_and_grad(loss)(params)
        updates, opt_state = optimizer.update(gradients, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, value

    return step


class Cnn(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.conv = nnx.Conv(2, 6, (3, 3), rngs=rngs)
        self.norm = nnx.LayerNorm(6, rngs=rngs)
        self.head = nnx.Linear(6, 3, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = nnx.gelu(self.norm(self.conv(x)))
        return self.head(nnx.max_pool(x, (2, 2), strides=(2, 2)).mean((1, 2)))


def test_nnx_convolutions_under_adam() -> None:
    graphdef, params = nnx.split(Cnn(nnx.Rngs(0)))
    params = nnx.to_pure_dict(params)
    optimizer = optax.adam(optax.exponential_decay(3e-2, 10, 0.8))
    step = step_of(lambda p, x: nnx.merge(graphdef, p)(x), optimizer)
    losses, *_ = check(step, params, optimizer.init(params), images(50, 8, 6, 6, 2))
    assert losses[-1] < 0.5 * losses[0]


def test_equinox_recurrence_under_adamw() -> None:
    """A module is its own pytree of parameters; gradients go back through a scan."""

    class Gru(eqx.Module):
        cell: eqx.nn.GRUCell
        head: eqx.nn.Linear

        def __call__(self, xs: jax.Array) -> jax.Array:
            h, _ = jax.lax.scan(lambda h, x: (self.cell(x, h), None), jnp.zeros(8), xs)
            return self.head(h)

    keys = jax.random.split(jax.random.key(0))
    module = Gru(eqx.nn.GRUCell(4, 8, key=keys[0]), eqx.nn.Linear(8, 3, key=keys[1]))
    params, static = eqx.partition(module, eqx.is_array)
    optimizer = optax.adamw(optax.cosine_decay_schedule(3e-2, 50))
    step = step_of(lambda p, x: jax.vmap(eqx.combine(p, static))(x), optimizer)
    losses, *_ = check(step, params, optimizer.init(params), images(50, 8, 5, 4))
    assert losses[-1] < 0.5 * losses[0]


def test_names_for_the_parts_of_a_result() -> None:
    def fn(x: jax.Array) -> Any:
        return {"a": x, "b": [x + 1]}, x * 2

    names = [o.name for o in to_onnx(fn, [(2,)], output_names=["tree", "twice"]).graph.output]
    assert names == ["tree.a", "tree.b.0", "twice"]
    names = [o.name for o in to_onnx(fn, [(2,)], output_names=["p", "q", "r"]).graph.output]
    assert names == ["p", "q", "r"]
    with pytest.raises(InputSpecError, match="3 arrays in 2 parts"):
        to_onnx(fn, [(2,)], output_names=["one"])


def test_weights_that_are_named_like_inputs() -> None:
    """An initializer under the name of an input would be that input's default."""
    params = {"w": jnp.ones((2, 2))}

    def frozen(x: jax.Array) -> jax.Array:
        return x @ params["w"]

    def fn(w: jax.Array, x: jax.Array) -> jax.Array:
        return frozen(x) + w

    model = to_onnx(fn, [(2, 2), (2, 2)])
    assert [t.name for t in model.graph.initializer] == ["w.1"]
    w, x = np.full((2, 2), 3, np.float32), np.full((2, 2), 5, np.float32)
    (got,) = session(model).run(None, {"w": w, "x": x})
    np.testing.assert_array_equal(got, fn(w, x))
