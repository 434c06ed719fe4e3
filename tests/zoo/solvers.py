"""Differential equations, implicit and linear solvers, optimizers and evolution strategies."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from tests.zoo.program import Built, Program, f32, key, unit

_CHECKS = {"drop_effects": ("checks",)}


def diffrax_tsit5() -> Built:
    import diffrax

    def lotka(t, y, args):
        a, b, c, d = args
        return jnp.stack([a * y[0] - b * y[0] * y[1], -c * y[1] + d * y[0] * y[1]])

    def solve(y0, args):
        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(lotka),
            diffrax.Tsit5(),
            0.0,
            4.0,
            0.1,
            y0,
            args=args,
            saveat=diffrax.SaveAt(ts=jnp.linspace(0.0, 4.0, 9)),
            stepsize_controller=diffrax.PIDController(rtol=1e-4, atol=1e-5),
            max_steps=256,
        )
        return solution.ys, solution.stats["num_steps"]

    return Built(
        solve, [(unit(2, seed=s).astype(float) + 1, unit(4, seed=s).astype(float) + 0.5) for s in (0, 1)]
    )


def diffrax_kvaerno() -> Built:
    """The stiff Robertson problem: an implicit solver with Newton steps inside."""
    import diffrax

    def robertson(t, y, k):
        f0 = -k[0] * y[0] + k[2] * y[1] * y[2]
        f2 = k[1] * y[1] ** 2
        return jnp.stack([f0, -f0 - f2, f2])

    def solve(k):
        return diffrax.diffeqsolve(
            diffrax.ODETerm(robertson),
            diffrax.Kvaerno5(),
            0.0,
            10.0,
            2e-4,
            jnp.array([1.0, 0.0, 0.0]),
            args=k,
            stepsize_controller=diffrax.PIDController(rtol=1e-6, atol=1e-8),
            max_steps=512,
        ).ys

    return Built(solve, [(np.array(k),) for k in ([0.04, 3e7, 1e4], [0.05, 1e7, 2e4])])


def diffrax_neural_ode() -> Built:
    """The gradient of a loss through a solver."""
    import diffrax
    import equinox as eqx

    mlp = eqx.nn.MLP(2, 2, 16, 2, activation=jax.nn.softplus, key=jax.random.key(0))
    params, static = eqx.partition(mlp, eqx.is_inexact_array)

    def loss(params, y0):
        func = eqx.combine(params, static)
        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(lambda t, y, args: func(y)),
            diffrax.Heun(),
            0.0,
            1.0,
            0.1,
            y0,
            stepsize_controller=diffrax.ConstantStepSize(),
            max_steps=16,
        )
        return jnp.sum(jnp.square(solution.ys))

    return Built(lambda y0: jax.value_and_grad(loss)(params, y0), [(f32(2, seed=s),) for s in (0, 1)])


def diffrax_sde() -> Built:
    import diffrax

    def solve(k, y0):
        noise = diffrax.VirtualBrownianTree(0.0, 1.0, tol=1e-2, shape=(2,), key=k)
        terms = diffrax.MultiTerm(
            diffrax.ODETerm(lambda t, y, args: -y),
            diffrax.ControlTerm(lambda t, y, args: jnp.diag(0.3 + 0.1 * y), noise),
        )
        saveat = diffrax.SaveAt(ts=jnp.linspace(0.0, 1.0, 5))
        return diffrax.diffeqsolve(terms, diffrax.Heun(), 0.0, 1.0, 0.05, y0, saveat=saveat, max_steps=64).ys

    return Built(solve, [(key(s), f32(2, seed=s)) for s in (0, 1)])


def optimistix_newton() -> Built:
    import optimistix as optx

    def residual(y, args):
        return jnp.stack([y[0] + 0.3 * jnp.sin(y[1]) - args[0], y[1] + 0.2 * y[0] ** 2 - args[1]])

    def solve(guess, args):
        return optx.root_find(residual, optx.Newton(rtol=1e-5, atol=1e-5), guess, args, max_steps=32).value

    return Built(solve, [(unit(2, seed=s) + 0.5, unit(2, seed=s + 1) + 0.5) for s in (0, 1)])


def optimistix_levenberg() -> Built:
    import optimistix as optx

    t = jnp.linspace(0.0, 2.0, 12)

    def residual(p, y):
        return p[0] * jnp.exp(-p[1] * t) + p[2] - y

    def fit(guess, y):
        solver = optx.LevenbergMarquardt(rtol=1e-5, atol=1e-5)
        return optx.least_squares(residual, solver, guess, y, max_steps=64, throw=False).value

    def run(s: int) -> tuple[object, ...]:
        return np.array([1.0, 1.0, 0.0], np.float32), 2 * np.exp(-1.3 * np.asarray(t)) + 0.5 + f32(
            12, seed=s, scale=0.01
        )

    return Built(fit, [run(0), run(1)])


def optimistix_bfgs() -> Built:
    import optimistix as optx

    def rosenbrock(x, a):
        return jnp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (a - x[:-1]) ** 2)

    def solve(x, a):
        return optx.minimise(
            rosenbrock, optx.BFGS(rtol=1e-5, atol=1e-5), x, a, max_steps=256, throw=False
        ).value

    return Built(solve, [(unit(3, seed=s).astype(np.float64), np.float64(1.0 + s / 10)) for s in (0, 1)])


def lineax_solvers() -> Built:
    import lineax as lx

    def solve(a, b):
        spd = lx.MatrixLinearOperator(a @ a.T + 4 * jnp.eye(5), lx.positive_semidefinite_tag)
        general = lx.MatrixLinearOperator(a + 3 * jnp.eye(5))
        wide = lx.MatrixLinearOperator(a[:3])
        banded = lx.TridiagonalLinearOperator(jnp.full(5, 4.0), a[0, :4], a[1, :4])
        return (
            lx.linear_solve(spd, b, lx.CG(1e-6, 1e-6)).value,
            lx.linear_solve(general, b, lx.LU()).value,
            lx.linear_solve(general, b, lx.GMRES(1e-6, 1e-6)).value,
            lx.linear_solve(wide, b[:3], lx.QR()).value,
            lx.linear_solve(banded, b, lx.AutoLinearSolver(well_posed=True)).value,
        )

    return Built(solve, [(f32(5, 5, seed=s, scale=0.5), f32(5, seed=s)) for s in (0, 1)])


def jaxopt_lasso() -> Built:
    import jaxopt

    def fit(x, y):
        solver = jaxopt.ProximalGradient(
            jaxopt.objective.least_squares, jaxopt.prox.prox_lasso, maxiter=60, tol=1e-6
        )
        return solver.run(jnp.zeros(4), hyperparams_prox=0.1, data=(x, y)).params

    return Built(fit, [(f32(12, 4, seed=s).astype(float), f32(12, seed=s + 1).astype(float)) for s in (0, 1)])


def jaxopt_lbfgs() -> Built:
    import jaxopt

    def loss(w, x, y):
        return jnp.mean(jnp.logaddexp(0.0, -y * (x @ w))) + 0.05 * jnp.sum(w**2)

    def fit(x, y):
        return jaxopt.LBFGS(loss, maxiter=20, tol=1e-4).run(jnp.zeros(4), x, y).params

    return Built(fit, [(f32(16, 4, seed=s), np.sign(f32(16, seed=s + 1))) for s in (0, 1)])


def jaxopt_implicit() -> Built:
    """The gradient of a validation loss through the solution of a ridge regression."""
    import jaxopt

    def solution(penalty, x, y):
        gd = jaxopt.GradientDescent(
            lambda w, p: jnp.mean((x @ w - y) ** 2) + p * jnp.sum(w**2),
            maxiter=100,
            tol=1e-6,
            implicit_diff=True,
        )
        return gd.run(jnp.zeros(3), penalty).params

    def outer(penalty, x, y):
        return jnp.mean((x[8:] @ solution(penalty, x[:8], y[:8]) - y[8:]) ** 2)

    return Built(
        jax.value_and_grad(outer),
        [(0.3, f32(12, 3, seed=s).astype(float), f32(12, seed=s).astype(float)) for s in (0, 1)],
    )


def qpax_qp() -> Built:
    import qpax

    def solve(a, q, h):
        p = a @ a.T + jnp.eye(4)
        g = jnp.concatenate([jnp.eye(4), -jnp.eye(4)])
        x, *_, converged, _ = qpax.solve_qp(p, q, jnp.ones((1, 4)), jnp.ones(1), g, h)
        return x, converged

    return Built(
        solve,
        [
            (f32(4, 4, seed=s).astype(float), f32(4, seed=s).astype(float), unit(8, seed=s) + 0.5)
            for s in (0, 1)
        ],
    )


def optax_adamw_step() -> Built:
    import optax
    from flax import linen as nn

    net = nn.Sequential([nn.Dense(16), nn.relu, nn.LayerNorm(), nn.Dense(3)])
    params = net.init(jax.random.key(0), jnp.zeros((1, 5)))
    schedule = optax.warmup_cosine_decay_schedule(0.0, 1e-2, 5, 50)
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(schedule, weight_decay=1e-3))
    start = optimizer.init(params)

    def step(params, state, x, labels):
        def loss(p):
            return optax.softmax_cross_entropy_with_integer_labels(net.apply(p, x), labels).mean()

        value, grads = jax.value_and_grad(loss)(params)
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state, value

    runs = [(params, start, f32(8, 5, seed=s), np.arange(8, dtype=np.int32) % 3) for s in (0, 1)]
    return Built(step, runs)


def optax_zoo_step() -> Built:
    import optax

    rules = [
        optax.lion(1e-3),
        optax.adafactor(1e-2, min_dim_size_to_factor=4),
        optax.lamb(1e-2),
        optax.rmsprop(1e-2, momentum=0.9),
        optax.yogi(1e-2),
        optax.contrib.prodigy(),
        optax.contrib.muon(1e-2),
    ]
    start = {"w": jnp.asarray(f32(6, 5)), "b": jnp.asarray(f32(5, seed=2))}

    def loss(p, x):
        return jnp.mean(jnp.tanh(x @ p["w"] + p["b"]) ** 2)

    def steps(x):
        out = []
        for rule in rules:
            params, state = start, rule.init(start)
            for _ in range(2):
                updates, state = rule.update(jax.grad(loss)(params, x), state, params)
                params = optax.apply_updates(params, updates)
            out.append(params)
        return out

    return Built(steps, [(f32(8, 6, seed=s),) for s in (0, 1)])


def optax_lbfgs() -> Built:
    import optax

    def loss(x):
        return jnp.sum(jnp.square(x - 0.3) * jnp.arange(1.0, 5.0)) + 0.2 * jnp.sum(x**4)

    optimizer = optax.lbfgs()

    def minimize(x):
        value_and_grad = optax.value_and_grad_from_state(loss)

        def step(carry, _):
            x, state = carry
            value, grad = value_and_grad(x, state=state)
            updates, state = optimizer.update(grad, state, x, value=value, grad=grad, value_fn=loss)
            return (optax.apply_updates(x, updates), state), value

        (x, _), values = jax.lax.scan(step, (x, optimizer.init(x)), None, length=6)
        return x, values

    return Built(minimize, [(f32(4, seed=s),) for s in (0, 1)])


def _evolve(name: str, generations: int, **arguments: object) -> Built:
    import evosax.algorithms

    strategy = getattr(evosax.algorithms, name)(population_size=8, solution=jnp.zeros(4), **arguments)
    params = strategy.default_params

    def evolve(k, mean):
        state = strategy.init(k, mean, params)

        def generation(carry, k):
            a, b = jax.random.split(k)
            population, carry = strategy.ask(a, carry, params)
            fitness = jnp.sum((population - 0.7) ** 2, -1)
            carry, metrics = strategy.tell(b, population, fitness, carry, params)
            return carry, metrics["best_fitness"]

        state, best = jax.lax.scan(generation, state, jax.random.split(k, generations))
        return best, strategy.get_mean(state)

    return Built(evolve, [(key(s), f32(4, seed=s)) for s in (0, 1)])


def evosax_cma() -> Built:
    return _evolve("Sep_CMA_ES", 4)


def evosax_openes() -> Built:
    import optax

    return _evolve("Open_ES", 6, optimizer=optax.adam(0.05))


def evosax_differential() -> Built:
    import evosax.algorithms

    strategy = evosax.algorithms.DifferentialEvolution(population_size=8, solution=jnp.zeros(3))
    params = strategy.default_params

    def evolve(k, population):
        fitness = jnp.sum(population**2, -1)
        state = strategy.init(k, population, fitness, params)
        population, state = strategy.ask(k, state, params)
        state, metrics = strategy.tell(k, population, jnp.sum(population**2, -1), state, params)
        return state.population, metrics["best_fitness"]

    return Built(evolve, [(key(s), f32(8, 3, seed=s)) for s in (0, 1)])


def ott_sinkhorn() -> Built:
    from ott.geometry import pointcloud
    from ott.problems.linear import linear_problem
    from ott.solvers.linear import sinkhorn

    def transport(x, y):
        geometry = pointcloud.PointCloud(x, y, epsilon=0.1)
        out = sinkhorn.Sinkhorn(max_iterations=100)(linear_problem.LinearProblem(geometry))
        return out.matrix, out.reg_ot_cost, out.converged

    return Built(transport, [(f32(6, 2, seed=s), f32(8, 2, seed=s + 1)) for s in (0, 5)])


def matfree_lanczos() -> Built:
    from matfree import decomp, funm, stochtrace

    def logdet(a, k):
        matrix = a @ a.T + jnp.eye(8)
        tridiag = decomp.tridiag_sym(6)
        problem = funm.monte_carlo_funm_sym_logdet(tridiag)
        sampler = stochtrace.sampler_normal(jnp.ones(8), num=5)
        estimator = stochtrace.estimator_monte_carlo(problem, sampler)
        return estimator(lambda v: matrix @ v, jax.random.wrap_key_data(k))

    return Built(logdet, [(f32(8, 8, seed=s, scale=0.5), key(s)) for s in (0, 1)])


PROGRAMS = [
    Program("diffrax_tsit5", ["diffrax"], diffrax_tsit5, x64=True, options=_CHECKS),
    Program("diffrax_kvaerno", ["diffrax"], diffrax_kvaerno, x64=True, options=_CHECKS),
    Program("diffrax_neural_ode", ["diffrax", "equinox"], diffrax_neural_ode, options=_CHECKS),
    Program("diffrax_sde", ["diffrax"], diffrax_sde, options=_CHECKS),
    Program("optimistix_newton", ["optimistix"], optimistix_newton, options=_CHECKS),
    Program("optimistix_levenberg", ["optimistix"], optimistix_levenberg, options=_CHECKS),
    Program("optimistix_bfgs", ["optimistix"], optimistix_bfgs, x64=True, options=_CHECKS),
    Program("lineax_solvers", ["lineax"], lineax_solvers, options=_CHECKS),
    Program("jaxopt_lasso", ["jaxopt"], jaxopt_lasso, x64=True),
    Program("jaxopt_lbfgs", ["jaxopt"], jaxopt_lbfgs),
    Program("jaxopt_implicit", ["jaxopt"], jaxopt_implicit, x64=True),
    Program("qpax_qp", ["qpax"], qpax_qp, x64=True),
    Program("optax_adamw_step", ["optax", "flax"], optax_adamw_step),
    Program("optax_zoo_step", ["optax"], optax_zoo_step),
    Program("optax_lbfgs", ["optax"], optax_lbfgs),
    Program("evosax_cma", ["evosax"], evosax_cma),
    Program("evosax_openes", ["evosax"], evosax_openes),
    Program("evosax_differential", ["evosax"], evosax_differential),
    Program("ott_sinkhorn", ["ott"], ott_sinkhorn),
    Program("matfree_lanczos", ["matfree"], matfree_lanczos),
]
