"""Train an actor with PPO, export it, and play CartPole with ONNX Runtime alone.

Usage: ``python examples/rl_cartpole.py [--steps 120000] [--output DIR]``; needs ``pip install 'onnxproof[rl]'``.

The environment is Gymnasium's, in NumPy. JAX trains the actor, with the running statistics that it normalizes
observations by. What is exported is one call, observation to action, normalizer inside. It has to keep the contract
of a discrete policy; then it plays 32 episodes, its actions from ONNX Runtime, and JAX plays the same episodes.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime as ort
import optax

from onnxproof import session_options, to_onnx
from onnxproof.contracts import Discrete, check, policy

ENVS, ROLLOUT, EPOCHS, MINIBATCHES = 16, 128, 4, 8
GAMMA, LAMBDA, CLIP, ENTROPY = 0.99, 0.95, 0.2, 0.01
HIDDEN, LEARNING_RATE = 64, 2.5e-3
EPISODES = 32
CONTRACT = policy(Discrete(2), obs_shape=(4,), obs_dtype="float32", name="cartpole")

Act = Callable[[np.ndarray], np.ndarray]


class Norm(NamedTuple):
    """Running statistics of observations, each (4,), and how many there were."""

    mean: Any
    var: Any
    count: float


class Batch(NamedTuple):
    """A rollout: arrays of (time, envs); ``valid`` is 0 where the environment only began anew."""

    obs: Any
    action: Any
    logp: Any
    value: Any
    reward: Any
    done: Any
    valid: Any


def initial(key: jax.Array) -> dict[str, Any]:
    """Weights of an actor and a critic, each 4 → 64 → 64 → 2 or 1."""
    nets = {}
    for net, key_net, out in zip(("actor", "critic"), jax.random.split(key), (2, 1), strict=True):
        sizes = [(4, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, out)]
        scales = (2**0.5, 2**0.5, 0.01 if net == "actor" else 1.0)
        nets[net] = [
            {"kernel": jax.nn.initializers.orthogonal(scale)(k, size), "bias": jnp.zeros(size[1])}
            for k, size, scale in zip(jax.random.split(key_net, 3), sizes, scales, strict=True)
        ]
    return nets


def forward(layers: list[dict[str, Any]], x: Any) -> Any:
    """(…, 4) → (…, outputs), tanh between layers."""
    for layer in layers[:-1]:
        x = jnp.tanh(x @ layer["kernel"] + layer["bias"])
    return x @ layers[-1]["kernel"] + layers[-1]["bias"]


def normalized(norm: Norm, obs: Any) -> Any:
    return jnp.clip((obs - norm.mean) / jnp.sqrt(norm.var + 1e-8), -10.0, 10.0)


@jax.jit
def sample(params: Any, norm: Norm, obs: Any, key: Any) -> tuple[Any, Any, Any]:
    """Actions drawn from the policy, their log-probabilities, and values: each (envs,)."""
    x = normalized(norm, obs)
    logits = jax.nn.log_softmax(forward(params["actor"], x))
    action = jax.random.categorical(key, logits)
    return action, jnp.take_along_axis(logits, action[:, None], 1)[:, 0], forward(params["critic"], x)[:, 0]


def loss(params: Any, obs: Any, action: Any, logp: Any, advantage: Any, target: Any, valid: Any) -> Any:
    """PPO's clipped loss, over transitions that are valid."""
    logits = jax.nn.log_softmax(forward(params["actor"], obs))
    now = jnp.take_along_axis(logits, action[:, None], 1)[:, 0]
    ratio = jnp.exp(now - logp)
    scaled = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    gain = jnp.minimum(ratio * scaled, jnp.clip(ratio, 1 - CLIP, 1 + CLIP) * scaled)
    entropy = -(jnp.exp(logits) * logits).sum(-1)
    error = (forward(params["critic"], obs)[:, 0] - target) ** 2
    return ((0.5 * error - gain - ENTROPY * entropy) * valid).sum() / valid.sum()


@partial(jax.jit, static_argnames="optimizer")
def improve(optimizer: Any, params: Any, state: Any, norm: Norm, batch: Batch, last: Any, key: Any) -> Any:
    """Several epochs of PPO on one rollout; ``last`` are the values after it, (envs,)."""

    def back(carry: Any, step: Any) -> Any:
        advantage, following = carry
        reward, done, value = step
        delta = reward + GAMMA * following * (1 - done) - value
        advantage = delta + GAMMA * LAMBDA * (1 - done) * advantage
        return (advantage, value), advantage

    steps = (batch.reward, batch.done, batch.value)
    _, advantage = jax.lax.scan(back, (jnp.zeros_like(last), last), steps, reverse=True)
    flat = jax.tree.map(
        lambda a: a.reshape(-1, *a.shape[2:]),
        (
            normalized(norm, batch.obs),
            batch.action,
            batch.logp,
            advantage,
            advantage + batch.value,
            batch.valid,
        ),
    )

    def minibatch(carry: Any, picked: Any) -> Any:
        params, state = carry
        grads = jax.grad(loss)(params, *(a[picked] for a in flat))
        updates, state = optimizer.update(grads, state)
        return (optax.apply_updates(params, updates), state), None

    size = flat[0].shape[0]
    orders = jax.vmap(lambda k: jax.random.permutation(k, size))(jax.random.split(key, EPOCHS))
    (params, state), _ = jax.lax.scan(minibatch, (params, state), orders.reshape(EPOCHS * MINIBATCHES, -1))
    return params, state


def widened(norm: Norm, obs: np.ndarray) -> Norm:
    """Statistics with those of ``obs``, (…, 4), added (Chan's formula)."""
    rows = obs.reshape(-1, obs.shape[-1]).astype(np.float64)
    count = norm.count + len(rows)
    delta = rows.mean(0) - norm.mean
    spread = norm.var * norm.count + rows.var(0) * len(rows) + delta**2 * norm.count * len(rows) / count
    return Norm(norm.mean + delta * len(rows) / count, spread / count, count)


def train(steps: int, seed: int = 0) -> tuple[Any, Norm]:
    """The actor's weights and the statistics of observations after ``steps`` steps of the environment."""
    envs = gymnasium.make_vec("CartPole-v1", ENVS, vectorization_mode="vector_entry_point")
    obs, _ = envs.reset(seed=seed)
    key = jax.random.key(seed)
    params = initial(key)
    updates = max(1, steps // (ENVS * ROLLOUT))
    schedule = optax.linear_schedule(LEARNING_RATE, 0.0, updates * EPOCHS * MINIBATCHES)
    optimizer = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(schedule, eps=1e-5))
    state = optimizer.init(params)
    norm, ended = Norm(np.zeros(4), np.ones(4), 1e-4), np.zeros(ENVS, bool)
    for _ in range(updates):
        narrow = Norm(*(np.asarray(a, np.float32) for a in norm))
        taken = []
        for _ in range(ROLLOUT):
            key, drawn = jax.random.split(key)
            action, logp, value = jax.device_get(sample(params, narrow, obs, drawn))
            following, reward, terminated, truncated, _ = envs.step(action)
            done = terminated | truncated
            # after the end of an episode Gymnasium's next step is the reset
            taken.append(Batch(obs, action, logp, value, reward, done, ~ended))
            obs, ended = following, done
        batch = Batch(*(np.stack(a).astype(np.asarray(a[0]).dtype) for a in zip(*taken, strict=True)))
        batch = batch._replace(
            **{k: getattr(batch, k).astype(np.float32) for k in ("reward", "done", "valid")}
        )
        key, drawn, order = jax.random.split(key, 3)
        last = sample(params, narrow, obs, drawn)[2]
        params, state = improve(optimizer, params, state, narrow, batch, last, order)
        norm = widened(norm, batch.obs)
    envs.close()
    return params["actor"], Norm(*(np.asarray(a, np.float32) for a in norm))


def play(act: Act, episodes: int = EPISODES) -> list[float]:
    """The return of each episode; the environment of episode ``i`` begins with seed ``i``."""
    env = gymnasium.make("CartPole-v1")
    returns = []
    for seed in range(episodes):
        obs, _ = env.reset(seed=seed)
        total, done = 0.0, False
        while not done:
            obs, reward, terminated, truncated, _ = env.step(int(act(obs[None])[0]))
            total, done = total + float(reward), terminated or truncated
        returns.append(total)
    env.close()
    return returns


def run(steps: int, output: Path) -> dict[str, list[float]]:
    """Train, export, check the contract, and play; returns of ONNX Runtime, of JAX, and of random actions."""
    layers, norm = train(steps)

    def actor(obs: jax.Array) -> jax.Array:
        """Observations (B, 4) to actions (B,)."""
        return jnp.argmax(forward(layers, normalized(norm, obs)), -1).astype(jnp.int32)

    path = to_onnx(
        actor, [("B", 4)], output_names=["action"], return_mode="file", output_path=output / "cartpole.onnx"
    )
    print(check(path, CONTRACT).require())
    session = ort.InferenceSession(path, session_options(threads=1), providers=["CPUExecutionProvider"])
    compiled = jax.jit(actor)
    rng = np.random.default_rng(0)
    players: dict[str, Act] = {
        "ONNX Runtime": lambda obs: session.run(["action"], {"obs": obs})[0],
        "JAX": lambda obs: np.asarray(compiled(obs)),
        "random": lambda obs: rng.integers(0, 2, len(obs)),
    }
    return {name: play(act) for name, act in players.items()}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--steps", type=int, default=120_000, help="of the environment")
    options.add_argument("--output", type=Path, help="folder for the model; a temporary one by default")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        returns = run(given.steps, given.output or Path(scratch))
    for name, found in returns.items():
        print(f"{name:13} mean return {np.mean(found):6.1f} in {len(found)} episodes, least {min(found):.0f}")
    assert returns["ONNX Runtime"] == returns["JAX"], "ONNX Runtime and JAX play differently"
    assert np.mean(returns["JAX"]) > 5 * np.mean(returns["random"]), "the actor did not learn"


if __name__ == "__main__":
    main()
