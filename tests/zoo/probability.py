"""Normalizing flows, probabilistic programs, samplers, state-space models and Gaussian processes."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from tests.zoo.program import Built, Program, f32, ints, key, unit


def flowjax_maf() -> Built:
    from flowjax.bijections import RationalQuadraticSpline
    from flowjax.distributions import StandardNormal
    from flowjax.flows import masked_autoregressive_flow

    flow = masked_autoregressive_flow(
        jax.random.key(0),
        base_dist=StandardNormal((3,)),
        transformer=RationalQuadraticSpline(knots=6, interval=4),
        cond_dim=2,
        flow_layers=3,
        nn_width=16,
    )
    return Built(
        lambda x, c: flow.log_prob(x, c), [(f32(7, 3, seed=s), f32(7, 2, seed=s + 1)) for s in (0, 3)]
    )


def flowjax_coupling_sample() -> Built:
    from flowjax.distributions import StandardNormal
    from flowjax.flows import coupling_flow

    flow = coupling_flow(jax.random.key(0), base_dist=StandardNormal((4,)), flow_layers=3, nn_width=16)
    return Built(
        lambda k: flow.sample_and_log_prob(jax.random.wrap_key_data(k), (6,)), [(key(s),) for s in (0, 1)]
    )


def distrax_realnvp() -> Built:
    import distrax
    import haiku as hk

    def flow():
        mask = jnp.arange(4) % 2 == 0
        layers = []
        for i in range(3):

            def conditioner(x):
                return hk.Reshape((4, 2))(hk.nets.MLP([16, 8])(x))

            def bijector(p):
                return distrax.ScalarAffine(shift=p[..., 0], log_scale=jnp.tanh(p[..., 1]))

            layers.append(distrax.MaskedCoupling(mask if i % 2 else ~mask, conditioner, bijector))
        base = distrax.MultivariateNormalDiag(jnp.zeros(4), jnp.ones(4))
        return distrax.Transformed(base, distrax.Inverse(distrax.Chain(layers)))

    net = hk.without_apply_rng(hk.transform(lambda x: flow().log_prob(x)))
    params = net.init(jax.random.key(0), jnp.zeros((1, 4)))
    return Built(lambda x: net.apply(params, x), [(f32(n, 4, seed=n),) for n in (1, 5)], [("B", 4)])


def distrax_hmm() -> Built:
    import distrax

    def infer(observations, logits):
        model = distrax.HMM(
            init_dist=distrax.Categorical(logits=jnp.zeros(3)),
            trans_dist=distrax.Categorical(logits=logits),
            obs_dist=distrax.Normal(jnp.array([-1.0, 0.0, 2.0]), jnp.array([0.5, 1.0, 0.7])),
        )
        return (*model.forward_backward(observations), model.viterbi(observations))

    return Built(infer, [(f32(12, seed=s), f32(3, 3, seed=s)) for s in (0, 1)])


def numpyro_schools() -> Built:
    """The log density of a hierarchical model and its gradient, in unconstrained space."""
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer.util import initialize_model

    sigma = jnp.array([15.0, 10, 16, 11, 9, 11, 10, 18])

    def model(y):
        mu = numpyro.sample("mu", dist.Normal(0, 5))
        tau = numpyro.sample("tau", dist.HalfCauchy(5))
        with numpyro.plate("schools", 8):
            theta = numpyro.sample("theta", dist.Normal(mu, tau))
            numpyro.sample("y", dist.StudentT(4.0, theta, sigma), obs=y)

    info = initialize_model(jax.random.PRNGKey(0), model, model_args=(jnp.zeros(8),), dynamic_args=True)

    def energy(y, position):
        return jax.value_and_grad(info.potential_fn(y))(position)

    def run(s: int) -> tuple[object, ...]:
        return f32(8, seed=s, scale=10), {
            "mu": f32(seed=s),
            "tau": f32(seed=s + 1),
            "theta": f32(8, seed=s + 2),
        }

    return Built(energy, [run(0), run(5)])


def numpyro_svi() -> Built:
    """One step of variational inference on a logistic regression."""
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer import SVI, Trace_ELBO
    from numpyro.infer.autoguide import AutoNormal

    def model(x, y):
        w = numpyro.sample("w", dist.Normal(jnp.zeros(3), 1).to_event(1))
        with numpyro.plate("data", len(x)):
            numpyro.sample("y", dist.Bernoulli(logits=x @ w), obs=y)

    svi = SVI(model, AutoNormal(model), numpyro.optim.Adam(0.05), Trace_ELBO(num_particles=2))
    x, y = f32(20, 3), ints(20, high=2)
    state = svi.init(jax.random.PRNGKey(0), x, y)

    def step(k, x, y):
        new, loss = svi.update(state._replace(rng_key=k), x, y)
        return svi.get_params(new), loss

    return Built(step, [(key(s), f32(20, 3, seed=s), ints(20, high=2, seed=s)) for s in (0, 1)])


def numpyro_distributions() -> Built:
    import numpyro.distributions as dist

    def draw(k, a, b):
        ks = jax.random.split(k, 6)
        gamma = dist.Gamma(a, b).sample(ks[0])
        beta = dist.Beta(a, b)
        dirichlet = dist.Dirichlet(a)
        return (
            gamma,
            beta.log_prob(beta.sample(ks[1])),
            dirichlet.log_prob(dirichlet.sample(ks[2])),
            dist.NegativeBinomial2(a, b).log_prob(3),
            dist.VonMises(a, b).log_prob(0.3),
            dist.StudentT(a, 0.0, b).sample(ks[3]),
            dist.Poisson(a).sample(ks[4]),
            dist.LKJCholesky(3, 1.5).sample(ks[5]),
        )

    return Built(draw, [(key(s), unit(5, seed=s) * 3 + 0.4, unit(5, seed=s + 1) + 0.5) for s in (0, 1)])


def numpyro_nuts() -> Built:
    """One transition of the No-U-Turn sampler."""
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer import NUTS

    def model(y=None):
        mu = numpyro.sample("mu", dist.Normal(0, 2))
        numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)

    y = jnp.array([0.3, 1.1, -0.4])
    kernel = NUTS(model, max_tree_depth=3)
    state = kernel.init(jax.random.PRNGKey(0), 10, None, (), {"y": y})

    def step(k):
        new = kernel.sample(state._replace(rng_key=k), (), {"y": y})
        return new.z, new.potential_energy, new.num_steps

    return Built(step, [(key(s),) for s in (0, 1, 2)])


def _target(x):
    return -0.5 * jnp.sum(jnp.square(x - jnp.array([1.0, -2.0, 0.5])) * jnp.array([1.0, 2.0, 0.3]))


def blackjax_hmc() -> Built:
    import blackjax

    hmc = blackjax.hmc(_target, step_size=0.3, inverse_mass_matrix=jnp.ones(3), num_integration_steps=6)

    def chain(k, position):
        def step(state, k):
            state, info = hmc.step(k, state)
            return state, (state.position, info.acceptance_rate)

        return jax.lax.scan(step, hmc.init(position), jax.random.split(k, 8))[1]

    return Built(chain, [(key(s), f32(3, seed=s)) for s in (0, 1)])


def blackjax_nuts() -> Built:
    import blackjax

    nuts = blackjax.nuts(_target, step_size=0.4, inverse_mass_matrix=jnp.ones(3), max_num_doublings=4)

    def step(k, position):
        state, info = nuts.step(k, nuts.init(position))
        return state.position, info.num_integration_steps, info.acceptance_rate

    return Built(step, [(key(s), f32(3, seed=s)) for s in (0, 1, 2)])


def blackjax_smc() -> Built:
    import blackjax
    from blackjax.smc import resampling

    smc = blackjax.tempered_smc(
        lambda x: -0.5 * jnp.sum(x**2),
        lambda x: -2.0 * jnp.sum((x - 1.0) ** 2),
        blackjax.hmc.build_kernel(),
        blackjax.hmc.init,
        blackjax.smc.extend_params(
            {"step_size": 0.2, "inverse_mass_matrix": jnp.ones(2), "num_integration_steps": 4}
        ),
        resampling.systematic,
        num_mcmc_steps=3,
    )

    def step(k, particles):
        state, info = smc.step(k, smc.init(particles), 0.4)
        return state.particles, state.weights, info.log_likelihood_increment

    return Built(step, [(key(s), f32(10, 2, seed=s)) for s in (0, 1)])


def tfp_mixture() -> Built:
    from tensorflow_probability.substrates import jax as tfp

    tfd, tfb = tfp.distributions, tfp.bijectors

    def density(x, logits, loc):
        mixture = tfd.MixtureSameFamily(tfd.Categorical(logits=logits), tfd.Normal(loc, 0.7))
        bent = tfd.TransformedDistribution(
            mixture, tfb.Chain([tfb.Softplus(), tfb.Scale(1.5), tfb.Shift(0.2)])
        )
        y = jax.nn.softplus(x)
        return mixture.log_prob(x), mixture.cdf(x), bent.log_prob(y), tfd.Gamma(2.0, 1.5).log_prob(y)

    return Built(density, [(f32(9, seed=s), f32(3, seed=s), f32(3, seed=s + 1, scale=2)) for s in (0, 1)])


def tfp_hmc() -> Built:
    from tensorflow_probability.substrates import jax as tfp

    kernel = tfp.mcmc.HamiltonianMonteCarlo(_target, step_size=0.3, num_leapfrog_steps=3)

    def chain(k, start):
        return tfp.mcmc.sample_chain(6, start, kernel=kernel, trace_fn=None, seed=k)

    return Built(chain, [(key(s), f32(3, seed=s)) for s in (0, 1)])


def tfp_gaussian_process() -> Built:
    from tensorflow_probability.substrates import jax as tfp

    def predict(points, seen, values, scale):
        kernel = tfp.math.psd_kernels.MaternFiveHalves(1.0, jnp.exp(scale))
        model = tfp.distributions.GaussianProcessRegressionModel(
            kernel, points, seen, values, observation_noise_variance=0.1
        )
        return model.mean(), model.stddev()

    runs = [
        (f32(6, 2, seed=s), f32(9, 2, seed=s + 1), f32(9, seed=s), f32(seed=s, scale=0.3)) for s in (0, 1)
    ]
    return Built(predict, runs)


def dynamax_kalman() -> Built:
    from dynamax.linear_gaussian_ssm import LinearGaussianSSM

    model = LinearGaussianSSM(state_dim=2, emission_dim=1)
    params, _ = model.initialize(jax.random.PRNGKey(0))

    def infer(y):
        filtered, smoothed = model.filter(params, y), model.smoother(params, y)
        return (
            filtered.marginal_loglik,
            filtered.filtered_means,
            smoothed.smoothed_means,
            smoothed.smoothed_covariances,
        )

    return Built(infer, [(f32(15, 1, seed=s),) for s in (0, 1)])


def dynamax_hmm() -> Built:
    from dynamax.hidden_markov_model import GaussianHMM

    model = GaussianHMM(num_states=3, emission_dim=2)
    params, _ = model.initialize(jax.random.PRNGKey(1))

    def infer(y):
        posterior = model.smoother(params, y)
        return posterior.marginal_loglik, posterior.smoothed_probs, model.most_likely_states(params, y)

    return Built(infer, [(f32(12, 2, seed=s),) for s in (0, 1)])


def tinygp_predict() -> Built:
    from tinygp import GaussianProcess, kernels

    def predict(scale, x, y, test):
        kernel = jnp.exp(scale[0]) * kernels.ExpSquared(jnp.exp(scale[1])) + 0.3 * kernels.Matern32(2.0)
        gp = GaussianProcess(kernel, x, diag=0.1)
        conditioned = gp.condition(y, test)
        return conditioned.log_probability, conditioned.gp.loc, conditioned.gp.variance

    def run(s: int) -> tuple[object, ...]:
        return f32(2, seed=s, scale=0.3), np.sort(f32(10, seed=s)), f32(10, seed=s + 1), f32(5, seed=s + 2)

    return Built(predict, [run(0), run(4)])


def tinygp_quasisep() -> Built:
    from tinygp import GaussianProcess, kernels

    def loglike(scale, x, y):
        kernel = kernels.quasisep.SHO(jnp.exp(scale[0]), jnp.exp(scale[1])) + kernels.quasisep.Matern52(1.5)
        return GaussianProcess(kernel, x, diag=0.2).log_probability(y)

    runs = [
        (f32(2, seed=s, scale=0.3), np.sort(f32(12, seed=s, scale=3)), f32(12, seed=s + 1)) for s in (0, 4)
    ]
    return Built(jax.value_and_grad(loglike), runs)


def gpjax_posterior() -> Built:
    import gpjax as gpx

    prior = gpx.Prior(gpx.kernels.RBF(), gpx.mean_functions.Zero())

    def predict(x, y, test):
        model = prior * gpx.likelihoods.Gaussian(obs_stddev=0.3)
        latent = model.condition(gpx.Dataset(x, y)).predict(test)
        return latent.mean, latent.variance

    runs = [(f32(8, 1, seed=s), f32(8, 1, seed=s + 1), f32(5, 1, seed=s + 2)) for s in (0, 4)]
    return Built(predict, runs)


def nifty_field() -> Built:
    """A correlated random field from its standardized parameters."""
    import nifty.re as jft

    maker = jft.CorrelatedFieldMaker("cf")
    maker.set_amplitude_total_offset(offset_mean=0.5, offset_std=(1e-1, 3e-2))
    maker.add_fluctuations(
        (16,),
        distances=1.0 / 16,
        fluctuations=(1.0, 0.5),
        loglogavgslope=(-3.0, 0.5),
        flexibility=(1.0, 0.5),
        asperity=(0.5, 0.2),
        prefix="ax",
    )
    field = maker.finalize()
    draws = [field.init(jax.random.PRNGKey(s)) for s in (0, 1)]
    return Built(field, [(jax.tree.map(np.asarray, dict(d)),) for d in draws])


PROGRAMS = [
    Program("flowjax_maf", ["flowjax"], flowjax_maf),
    Program("flowjax_coupling_sample", ["flowjax"], flowjax_coupling_sample),
    Program("distrax_realnvp", ["distrax", "haiku"], distrax_realnvp),
    Program("distrax_hmm", ["distrax"], distrax_hmm),
    Program("numpyro_schools", ["numpyro"], numpyro_schools),
    Program("numpyro_svi", ["numpyro"], numpyro_svi),
    Program("numpyro_distributions", ["numpyro"], numpyro_distributions),
    Program("numpyro_nuts", ["numpyro"], numpyro_nuts),
    Program("blackjax_hmc", ["blackjax"], blackjax_hmc),
    Program("blackjax_nuts", ["blackjax"], blackjax_nuts),
    Program("blackjax_smc", ["blackjax"], blackjax_smc),
    Program("tfp_mixture", ["tensorflow_probability"], tfp_mixture),
    Program("tfp_hmc", ["tensorflow_probability"], tfp_hmc),
    Program("tfp_gaussian_process", ["tensorflow_probability"], tfp_gaussian_process),
    Program("dynamax_kalman", ["dynamax"], dynamax_kalman),
    Program("dynamax_hmm", ["dynamax"], dynamax_hmm),
    Program("tinygp_predict", ["tinygp"], tinygp_predict),
    Program("tinygp_quasisep", ["tinygp"], tinygp_quasisep, options={"drop_effects": ("debug",)}),
    Program("gpjax_posterior", ["gpjax"], gpjax_posterior),
    Program("nifty_field", ["nifty"], nifty_field),
]
