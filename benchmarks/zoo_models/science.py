"""A policy, a graph network, and two numerical solvers."""

from __future__ import annotations

import equinox as eqx
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jax import lax

from benchmarks.zoo_models.entry import Network, drawn, floats, haiku, ids, linen, paths


class Policy(nn.Module):
    """The actor and critic of PPO over four stacked screens, bytes [B, 84, 84, 4]."""

    @nn.compact
    def __call__(self, screens: jax.Array) -> tuple[jax.Array, jax.Array]:
        x = screens.astype(jnp.float32) / 255.0
        x = nn.relu(nn.Conv(32, (8, 8), strides=4, padding="VALID", name="conv1")(x))
        x = nn.relu(nn.Conv(64, (4, 4), strides=2, padding="VALID", name="conv2")(x))
        x = nn.relu(nn.Conv(64, (3, 3), padding="VALID", name="conv3")(x))
        x = nn.relu(nn.Dense(256, name="dense")(x.reshape(x.shape[0], -1)))
        probabilities = nn.softmax(nn.Dense(6, name="actor")(x))
        return probabilities, nn.Dense(1, name="critic")(x)[:, 0]


def policy() -> Network:
    return linen(Policy(), np.random.default_rng(3).integers(0, 256, (1, 84, 84, 4)).astype(np.uint8))


NODES, EDGES, FEATURES = 256, 1024, 64


def graph_network(
    nodes: jax.Array, edges: jax.Array, senders: jax.Array, receivers: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """One layer of message passing, as in GraphCast and its like: edges, then nodes, each with a residual."""

    def update(x: jax.Array, name: str) -> jax.Array:
        x = hk.nets.MLP([FEATURES, FEATURES], activation=jax.nn.swish, name=f"{name}_mlp")(x)
        return hk.LayerNorm(-1, True, True, name=f"{name}_norm")(x)

    message = update(jnp.concatenate([edges, nodes[senders], nodes[receivers]], axis=-1), "edge")
    received = jax.ops.segment_sum(message, receivers, num_segments=nodes.shape[0])
    return nodes + update(jnp.concatenate([nodes, received], axis=-1), "node"), edges + message


def gnn() -> Network:
    ends = ids(2, EDGES, below=NODES)
    return haiku(graph_network, floats(NODES, FEATURES), floats(EDGES, FEATURES), ends[0], ends[1])


class Field(eqx.Module):
    """dy/dt of a neural differential equation."""

    mlp: eqx.nn.MLP

    def __init__(self, key: jax.Array) -> None:
        self.mlp = eqx.nn.MLP(5, 4, 64, 2, activation=jax.nn.tanh, key=key)

    def __call__(self, time: jax.Array, y: jax.Array) -> jax.Array:
        return self.mlp(jnp.append(y, jnp.sin(time)))


def ode() -> Network:
    """The path of eight states: 50 steps of the classical Runge-Kutta method."""
    field = drawn(eqx.filter_eval_shape(Field, jax.random.key(0)))
    dt = 0.02

    def solve(y0: jax.Array) -> jax.Array:
        def step(y: jax.Array, time: jax.Array) -> tuple[jax.Array, jax.Array]:
            k1 = field(time, y)
            k2 = field(time + dt / 2, y + dt / 2 * k1)
            k3 = field(time + dt / 2, y + dt / 2 * k2)
            k4 = field(time + dt, y + dt * k3)
            y = y + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
            return y, y

        return lax.scan(step, y0, dt * jnp.arange(50))[1]

    return Network(jax.vmap(solve), (floats(8, 4),), paths(eqx.filter(field, eqx.is_array)))


def heat() -> Network:
    """The heat equation on a 128 x 128 torus: 20 explicit steps of the five-point stencil, in plain JAX."""

    def step(_: jax.Array, u: jax.Array) -> jax.Array:
        neighbours = jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0) + jnp.roll(u, 1, 1) + jnp.roll(u, -1, 1)
        return u + 0.2 * (neighbours - 4 * u)

    return Network(lambda u: lax.fori_loop(0, 20, step, u), (floats(128, 128),))
