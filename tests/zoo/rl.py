"""Policies, losses, environments and searches of reinforcement learning."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tests.zoo.program import Built, Program, f32, ints, key, unit


def rlax_returns() -> Built:
    import rlax

    def targets(rewards, discounts, values, rhos):
        lambdas = rlax.lambda_returns(rewards, discounts, values, 0.9)
        general = rlax.vtrace_td_error_and_advantage(values, jnp.roll(values, -1), rewards, discounts, rhos)
        gae = rlax.truncated_generalized_advantage_estimation(
            rewards, discounts, 0.95, jnp.concatenate([values, values[:1]])
        )
        return lambdas, general.errors, general.pg_advantage, general.q_estimate, gae

    runs = [(f32(9, seed=s), unit(9, seed=s), f32(9, seed=s + 9), unit(9, seed=s + 9) + 0.5) for s in (0, 1)]
    return Built(targets, runs)


def rlax_losses() -> Built:
    import rlax

    atoms = jnp.linspace(-2.0, 2.0, 11)

    def losses(logits, target, action, reward, q, q_next):
        distributional = jax.vmap(rlax.categorical_q_learning, in_axes=(None, 0, 0, 0, 0, None, 0))
        c51 = distributional(atoms, logits, action, reward, 0.9 * jnp.ones_like(reward), atoms, target)
        td = jax.vmap(rlax.double_q_learning)(q, action, reward, jnp.full_like(reward, 0.9), q_next, q)
        entropy = rlax.softmax().entropy(q)
        return c51, rlax.huber_loss(td), entropy, rlax.epsilon_greedy(0.1).probs(q)

    def run(s: int) -> tuple[Any, ...]:
        return (
            f32(4, 3, 11, seed=s),
            f32(4, 3, 11, seed=s + 1),
            ints(4, high=3, seed=s),
            f32(4, seed=s),
            f32(4, 3, seed=s + 2),
            f32(4, 3, seed=s + 3),
        )

    return Built(losses, [run(0), run(7)])


def distrax_policy() -> Built:
    """An actor that samples: discrete and squashed continuous actions, their log densities and entropy."""
    import distrax

    def act(k, logits, loc, log_scale):
        a, b = jax.random.split(k)
        discrete = distrax.Categorical(logits=logits)
        normal = distrax.MultivariateNormalDiag(loc, jnp.exp(log_scale))
        squashed = distrax.Transformed(normal, distrax.Block(distrax.Tanh(), 1))
        choice, choice_log = discrete.sample_and_log_prob(seed=a)
        action, action_log = squashed.sample_and_log_prob(seed=b)
        return (
            choice,
            choice_log,
            action,
            action_log,
            discrete.entropy(),
            normal.kl_divergence(distrax.MultivariateNormalDiag(jnp.zeros_like(loc), jnp.ones_like(loc))),
        )

    runs = [(key(s), f32(5, 4, seed=s), f32(5, 3, seed=s), f32(5, 3, seed=s, scale=0.3)) for s in (0, 1)]
    return Built(act, runs)


def ppo_update() -> Built:
    """One clipped-surrogate step of an actor-critic, as single-file PPO writes it."""
    import distrax
    import optax
    from flax import linen as nn
    from flax.training.train_state import TrainState

    class ActorCritic(nn.Module):
        @nn.compact
        def __call__(self, x):
            init = nn.initializers.orthogonal(np.sqrt(2))
            a = nn.tanh(nn.Dense(32, kernel_init=init)(x))
            v = nn.tanh(nn.Dense(32, kernel_init=init)(x))
            return distrax.Categorical(logits=nn.Dense(4)(a)), nn.Dense(1)(v)[..., 0]

    net = ActorCritic()
    params = net.init(jax.random.key(0), jnp.zeros(6))
    optimizer = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(3e-4, eps=1e-5))

    def update(params, observations, actions, old_log, advantages, returns):
        state = TrainState.create(apply_fn=net.apply, params=params, tx=optimizer)

        def loss(params):
            policy, value = state.apply_fn(params, observations)
            ratio = jnp.exp(policy.log_prob(actions) - old_log)
            gain = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
            actor = -jnp.minimum(ratio * gain, jnp.clip(ratio, 0.8, 1.2) * gain).mean()
            return actor + 0.5 * jnp.square(value - returns).mean() - 0.01 * policy.entropy().mean()

        value, grads = jax.value_and_grad(loss)(state.params)
        return value, state.apply_gradients(grads=grads).params

    def run(s: int) -> tuple[Any, ...]:
        return (
            params,
            f32(16, 6, seed=s),
            ints(16, high=4, seed=s),
            -np.abs(f32(16, seed=s)),
            f32(16, seed=s + 1),
            f32(16, seed=s + 2),
        )

    return Built(update, [run(0), run(5)])


def _gymnax(name: str, steps: int) -> Built:
    import gymnax

    env, params = gymnax.make(name)

    def rollout(k):
        k, start = jax.random.split(k)
        observation, state = env.reset(start, params)

        def step(carry, k):
            observation, state = carry
            act, move = jax.random.split(k)
            action = env.action_space(params).sample(act)
            observation, state, reward, *rest = env.step(move, state, action, params)
            return (observation, state), (observation, reward, rest[0] if len(rest) == 2 else rest[:-1])

        return jax.lax.scan(step, (observation, state), jax.random.split(k, steps))[1]

    return Built(rollout, [(key(s),) for s in (0, 1, 2)])


def gymnax_cartpole() -> Built:
    return _gymnax("CartPole-v1", 40)


def gymnax_pendulum() -> Built:
    return _gymnax("Pendulum-v1", 20)


def gymnax_breakout() -> Built:
    return _gymnax("Breakout-MinAtar", 30)


def gymnax_policy_rollout() -> Built:
    """A Linen policy inside an environment loop."""
    import gymnax
    from flax import linen as nn

    env, params = gymnax.make("Acrobot-v1")
    policy = nn.Sequential([nn.Dense(16), nn.tanh, nn.Dense(3)])
    weights = policy.init(jax.random.key(0), jnp.zeros(6))

    def rollout(k):
        observation, state = env.reset(k, params)

        def step(carry, k):
            observation, state, total = carry
            action = jnp.argmax(policy.apply(weights, observation))
            observation, state, reward, *_ = env.step(k, state, action, params)
            return (observation, state, total + reward), observation

        carry, seen = jax.lax.scan(step, (observation, state, 0.0), jax.random.split(k, 12))
        return carry[2], seen

    return Built(rollout, [(key(s),) for s in (0, 1)])


def _jumanji(name: str, act: Any, steps: int = 8) -> Built:
    import jumanji

    env = jumanji.make(name)

    def play(k):
        state, timestep = env.reset(k)

        def step(carry, k):
            state, timestep = carry
            state, timestep = env.step(state, act(timestep.observation, k))
            return (state, timestep), (timestep.observation, timestep.reward, timestep.discount)

        return jax.lax.scan(step, (state, timestep), jax.random.split(k, steps))[1]

    return Built(play, [(key(s),) for s in (0, 1)])


def _masked(observation: Any, k: Any) -> Any:
    mask = observation.action_mask
    return jax.random.categorical(k, jnp.where(mask, 0.0, -jnp.inf)).astype(jnp.int32)


def jumanji_game2048() -> Built:
    return _jumanji("Game2048-v1", _masked)


def jumanji_snake() -> Built:
    return _jumanji("Snake-v1", _masked)


def jumanji_knapsack() -> Built:
    return _jumanji("Knapsack-v1", _masked)


def jumanji_tsp() -> Built:
    return _jumanji("TSP-v1", _masked)


def _pgx(name: str, steps: int) -> Built:
    import pgx

    env = pgx.make(name)

    def play(k):
        state = env.init(k)

        def step(state, k):
            logits = jnp.where(state.legal_action_mask, 0.0, jnp.finfo(jnp.float32).min)
            state = env.step(state, jax.random.categorical(k, logits))
            return state, (state.observation, state.rewards, state.terminated, state.legal_action_mask)

        return jax.lax.scan(step, state, jax.random.split(k, steps))[1]

    return Built(play, [(key(s),) for s in (0, 1)])


def pgx_connect_four() -> Built:
    return _pgx("connect_four", 12)


def pgx_go() -> Built:
    return _pgx("go_9x9", 12)


def mctx_muzero() -> Built:
    """A Gumbel MuZero search over a small learned model."""
    import mctx

    rng = np.random.default_rng(0)
    dynamics = jnp.asarray(rng.normal(size=(5, 8, 8)) / 3, jnp.float32)
    policy_head = jnp.asarray(rng.normal(size=(8, 5)), jnp.float32)
    value_head = jnp.asarray(rng.normal(size=8), jnp.float32)

    def recurrent(params, k, action, embedding):
        following = jnp.tanh(jnp.einsum("bij,bj->bi", dynamics[action], embedding))
        out = mctx.RecurrentFnOutput(
            reward=following[:, 0],
            discount=jnp.full(len(action), 0.97),
            prior_logits=following @ policy_head,
            value=following @ value_head,
        )
        return out, following

    def search(k, embedding):
        root = mctx.RootFnOutput(
            prior_logits=embedding @ policy_head, value=embedding @ value_head, embedding=embedding
        )
        out = mctx.gumbel_muzero_policy((), k, root, recurrent, num_simulations=12, max_depth=6)
        return out.action, out.action_weights, out.search_tree.node_visits

    return Built(search, [(key(s), f32(3, 8, seed=s)) for s in (0, 1)])


def brax_pendulum() -> Built:
    from brax import envs

    env = envs.get_environment("inverted_pendulum", backend="generalized")
    reset = jax.jit(env.reset)(jax.random.PRNGKey(0))

    def step(q, qd, action):
        state = reset.replace(pipeline_state=env.pipeline_init(q, qd))
        state = env.step(state, action)
        return state.obs, state.reward, state.done

    runs = [(f32(2, seed=s, scale=0.1), f32(2, seed=s + 1, scale=0.1), f32(1, seed=s)) for s in (0, 1)]
    return Built(step, runs)


def brax_ant_spring() -> Built:
    from brax import envs

    env = envs.get_environment("ant", backend="spring")
    start = jax.jit(env.reset)(jax.random.PRNGKey(0))

    def step(action):
        state = env.step(start, action)
        return state.obs, state.reward, state.done

    return Built(step, [(np.tanh(f32(8, seed=s)).astype(float),) for s in (0, 1)])


PROGRAMS = [
    Program("rlax_returns", ["rlax"], rlax_returns),
    Program("rlax_losses", ["rlax"], rlax_losses),
    Program("distrax_policy", ["distrax"], distrax_policy),
    Program("ppo_update", ["optax", "distrax", "flax"], ppo_update),
    Program("gymnax_cartpole", ["gymnax"], gymnax_cartpole),
    Program("gymnax_pendulum", ["gymnax"], gymnax_pendulum),
    Program("gymnax_breakout", ["gymnax"], gymnax_breakout),
    Program("gymnax_policy_rollout", ["gymnax", "flax"], gymnax_policy_rollout),
    Program("jumanji_game2048", ["jumanji"], jumanji_game2048),
    Program("jumanji_snake", ["jumanji"], jumanji_snake),
    Program("jumanji_knapsack", ["jumanji"], jumanji_knapsack),
    Program("jumanji_tsp", ["jumanji"], jumanji_tsp),
    Program("pgx_connect_four", ["pgx"], pgx_connect_four),
    Program("pgx_go", ["pgx"], pgx_go),
    Program("mctx_muzero", ["mctx"], mctx_muzero),
    Program("brax_pendulum", ["brax"], brax_pendulum),
    Program("brax_ant_spring", ["brax"], brax_ant_spring, x64=True),
]
