"""Train in ONNX Runtime: one file holds forward pass, gradients and optimizer, and its outputs are its next inputs.

Run it with ``python -m examples.training_step``. It exports one step of a small classifier under AdamW with a
schedule, takes fifty steps in ONNX Runtime and fifty in JAX, and prints both losses.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime as ort
import optax

from onnxproof import to_onnx

STEPS, BATCH, FEATURES, CLASSES = 50, 32, 8, 3

Tree = Any
Array = np.ndarray[Any, Any]

optimizer = optax.chain(
    optax.clip_by_global_norm(1.0),
    optax.adamw(optax.warmup_cosine_decay_schedule(0.0, 2e-2, 10, STEPS), weight_decay=1e-3),
)


def init(seed: int) -> Tree:
    """Parameters of a perceptron with two hidden layers: kernels [in, out] and biases [out], float32."""
    rng = np.random.default_rng(seed)
    sizes = (FEATURES, 32, 32, CLASSES)
    return {
        "layers": [
            {
                "kernel": rng.normal(size=(n, m), scale=n**-0.5).astype(np.float32),
                "bias": np.zeros(m, np.float32),
            }
            for n, m in pairwise(sizes)
        ]
    }


def loss(params: Tree, x: jax.Array, y: jax.Array) -> jax.Array:
    """Mean cross entropy of x [B, FEATURES] against the classes y [B]."""
    *hidden, last = params["layers"]
    for layer in hidden:
        x = jax.nn.relu(x @ layer["kernel"] + layer["bias"])
    logits = x @ last["kernel"] + last["bias"]
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()


def step(params: Tree, opt_state: Tree, x: jax.Array, y: jax.Array) -> tuple[Tree, Tree, jax.Array]:
    """(parameters, state of the optimizer, loss before the step) after one step on one batch."""
    value, gradients = jax.value_and_grad(loss)(params, x, y)
    updates, opt_state = optimizer.update(gradients, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, value


def batches(seed: int) -> Iterator[tuple[Array, Array]]:
    """STEPS batches of three overlapping clouds of points: x [BATCH, FEATURES] float32, y [BATCH] int32."""
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(CLASSES, FEATURES))
    for _ in range(STEPS):
        y = rng.integers(0, CLASSES, BATCH).astype(np.int32)
        yield (centers[y] + rng.normal(size=(BATCH, FEATURES))).astype(np.float32), y


def export(params: Tree) -> onnx.ModelProto:
    """The step as a model: input ``params.layers.0.kernel``, output ``new_params.layers.0.kernel``, and so on."""
    labels = jax.ShapeDtypeStruct(("B",), jnp.int32)
    model: onnx.ModelProto = to_onnx(
        step,
        [params, optimizer.init(params), ("B", FEATURES), labels],
        output_names=["new_params", "new_opt_state", "loss"],
    )
    return model


def train_in_onnxruntime(
    model: onnx.ModelProto, params: Tree, seed: int
) -> tuple[list[float], dict[str, Array]]:
    """(the loss of every step, the state after the last one by the names of the inputs)."""
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    outputs = [o.name for o in session.get_outputs()]
    start = jax.tree.leaves((params, optimizer.init(params)))
    names = [i.name for i in session.get_inputs()][: len(start)]
    state = dict(zip(names, map(np.asarray, start), strict=True))
    losses = []
    for x, y in batches(seed):
        result = dict(zip(outputs, session.run(outputs, {**state, "x": x, "y": y}), strict=True))
        losses.append(float(result.pop("loss")))
        state = {name.removeprefix("new_"): value for name, value in result.items()}
    return losses, state


def train_in_jax(params: Tree, seed: int) -> tuple[list[float], Tree]:
    """(the loss of every step, (parameters, state of the optimizer) after the last one)."""
    compiled = jax.jit(step)
    opt_state = optimizer.init(params)
    losses = []
    for x, y in batches(seed):
        params, opt_state, value = compiled(params, opt_state, x, y)
        losses.append(float(value))
    return losses, (params, opt_state)


def main() -> None:
    params = init(0)
    model = export(params)
    ours, _ = train_in_onnxruntime(model, params, seed=1)
    theirs, _ = train_in_jax(params, seed=1)
    print(f"{len(model.graph.node)} nodes; loss of the first step {ours[0]:.6f}")
    print(f"after {STEPS} steps: {ours[-1]:.6f} in ONNX Runtime, {theirs[-1]:.6f} in JAX")


if __name__ == "__main__":
    main()
