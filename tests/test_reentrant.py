"""Exports at the same time, before the first call, and from one process after another."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from onnxproof import to_onnx
from tests.running import assert_same, run, session


class Net(nnx.Module):
    def __init__(self, seed: int) -> None:
        rngs = nnx.Rngs(seed)
        self.first = nnx.Linear(4, 8, rngs=rngs)
        self.norm = nnx.LayerNorm(8, rngs=rngs)
        self.drop = nnx.Dropout(0.5, deterministic=True)
        self.last = nnx.Linear(8, 3, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.last(self.drop(jax.nn.gelu(self.norm(self.first(x)))))


def exported(seed: int) -> bytes:
    data: bytes = to_onnx(Net(seed), [("B", 4)]).SerializeToString()
    return data


def test_threads() -> None:
    """Four threads export at once while a fifth runs JAX; the bytes are those of an export alone."""
    alone = [exported(seed) for seed in range(4)]
    stop = threading.Event()
    computed: list[float] = []

    def compute() -> None:
        step = jax.jit(lambda x: jnp.tanh(x @ x.T).sum())
        while not stop.is_set():
            computed.append(float(step(jnp.ones((8, 8)))))

    background = threading.Thread(target=compute)
    background.start()
    try:
        with ThreadPoolExecutor(4) as pool:
            together = list(pool.map(exported, range(4)))
    finally:
        stop.set()
        background.join()
    assert together == alone
    assert len(set(computed)) == 1


def test_export_before_first_call() -> None:
    """JAX's caches hold nothing of ours: a jitted function works after it was exported."""
    weight = jnp.arange(12.0).reshape(4, 3)

    @jax.jit
    def fn(x: jax.Array) -> jax.Array:
        return jax.nn.relu(x @ weight) // 2

    model = to_onnx(fn, [("B", 4)])
    x = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    want = fn(x)
    (got,) = run(session(model), [x])
    assert_same(got, want)
    assert_same(np.asarray(jax.vmap(fn)(x)), want)
    assert jax.grad(lambda v: jax.nn.relu(v @ weight).sum())(x).shape == x.shape


def test_model_is_untouched() -> None:
    model = Net(0)
    before = jax.tree_util.tree_map(np.asarray, nnx.state(model))
    leaves = [id(leaf) for leaf in jax.tree_util.tree_leaves(model)]
    to_onnx(model, [("B", 4)])
    after = jax.tree_util.tree_map(np.asarray, nnx.state(model))
    assert jax.tree_util.tree_all(jax.tree_util.tree_map(np.array_equal, before, after))
    assert [id(leaf) for leaf in jax.tree_util.tree_leaves(model)] == leaves
    assert model.drop.deterministic
    assert not jax.config.jax_enable_x64


def test_bytes_across_processes() -> None:
    """Neither the hash seed nor the working directory shows in the file."""
    code = (
        "import hashlib; from tests.test_reentrant import exported;"
        "print(hashlib.sha256(exported(0)).hexdigest())"
    )
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    digests = {hashlib.sha256(exported(0)).hexdigest()}
    for seed, folder in (("1", root), ("2", "/")):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join([root, f"{root}/src"])}
        done = subprocess.run(
            [sys.executable, "-c", code], env=env, cwd=folder, check=True, capture_output=True, text=True
        )
        digests.add(done.stdout.strip())
    assert len(digests) == 1
