"""Graph nets, physics, molecular dynamics, quantum systems, geometry and signal processing."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from tests.zoo.program import Built, Program, f32, ints, key, unit


def _graph(s: int) -> tuple[object, ...]:
    """Two graphs in a batch: nodes, edges, senders, receivers, globals."""
    senders, receivers = ints(12, high=7, seed=s), ints(12, high=7, seed=s + 1)
    return f32(7, 4, seed=s), f32(12, 3, seed=s), senders, receivers, f32(2, 2, seed=s)


def jraph_network() -> Built:
    import haiku as hk
    import jraph

    def forward(nodes, edges, senders, receivers, context):
        graph = jraph.GraphsTuple(
            nodes, edges, receivers, senders, context, n_node=jnp.array([3, 4]), n_edge=jnp.array([5, 7])
        )
        mlp = lambda: jraph.concatenated_args(hk.nets.MLP([16, 8]))  # noqa: E731
        for _ in range(2):
            graph = jraph.GraphNetwork(mlp(), mlp(), mlp(), aggregate_edges_for_nodes_fn=jraph.segment_mean)(
                graph
            )
        return graph.nodes, graph.globals

    net = hk.without_apply_rng(hk.transform(forward))
    params = net.init(jax.random.key(0), *_graph(0))
    return Built(lambda *graph: net.apply(params, *graph), [_graph(0), _graph(5)])


def jraph_attention() -> Built:
    import haiku as hk
    import jraph

    def forward(nodes, edges, senders, receivers, context):
        graph = jraph.GraphsTuple(nodes, None, receivers, senders, None, jnp.array([3, 4]), jnp.array([5, 7]))
        gat = jraph.GAT(
            hk.Linear(8),
            lambda s, r, e: hk.Linear(1)(jax.nn.leaky_relu(jnp.concatenate([s, r], -1))),
            jax.nn.elu,
        )
        graph = jraph.GraphConvolution(hk.Linear(6), symmetric_normalization=True)(gat(graph))
        return graph.nodes

    net = hk.without_apply_rng(hk.transform(forward))
    params = net.init(jax.random.key(0), *_graph(0))
    return Built(lambda *graph: net.apply(params, *graph[:4], None), [_graph(0)[:4], _graph(5)[:4]])


def e3nn_harmonics() -> Built:
    import e3nn_jax as e3nn

    def features(x, y):
        a = e3nn.spherical_harmonics("0e + 1o + 2e + 3o", x, normalize=True)
        b = e3nn.spherical_harmonics("0e + 1o", y, normalize=True)
        product = e3nn.tensor_product(a, b).filter(keep="0e + 1o + 2e")
        gated = e3nn.norm_activation(product, [jnp.tanh] * len(product.irreps))
        return product.array, gated.array, e3nn.norm(product).array

    return Built(features, [(f32(5, 3, seed=s), f32(5, 3, seed=s + 1)) for s in (0, 1)])


def e3nn_message_passing() -> Built:
    """Energy and forces of an equivariant network."""
    import e3nn_jax as e3nn
    from flax import linen as nn

    senders, receivers = np.array([(i, j) for i in range(5) for j in range(5) if i != j]).T

    class Net(nn.Module):
        @nn.compact
        def __call__(self, positions):
            vectors = e3nn.IrrepsArray("1o", positions[receivers] - positions[senders])
            lengths = e3nn.norm(vectors).array
            basis = e3nn.bessel(lengths[:, 0], 4, 5.0)
            harmonics = e3nn.spherical_harmonics("0e + 1o + 2e", vectors, normalize=True)
            weights = e3nn.flax.MultiLayerPerceptron((8, harmonics.irreps.num_irreps), jax.nn.silu)(basis)
            x = e3nn.scatter_sum(harmonics * weights, dst=receivers, output_size=5)
            x = e3nn.concatenate([x, e3nn.tensor_product(x, x).filter(keep="0e + 1o")])
            x = e3nn.gate(e3nn.flax.Linear("8x0e + 4x0e + 4x1o")(x))
            return jnp.sum(e3nn.flax.Linear("0e")(x).array)

    net = Net()
    params = net.init(jax.random.key(0), f32(5, 3))
    return Built(jax.value_and_grad(lambda r: net.apply(params, r)), [(f32(5, 3, seed=s),) for s in (0, 1)])


def jax_md_energy() -> Built:
    from jax_md import energy, space

    displacement, _ = space.periodic(4.0)
    potential = energy.lennard_jones_pair(displacement)

    def forces(r):
        return potential(r), -jax.grad(potential)(r)

    grid = np.stack(np.meshgrid(*[np.arange(3) * 1.3] * 2), -1).reshape(-1, 2).astype(np.float32)
    return Built(forces, [(grid + 0.1 * unit(9, 2, seed=s),) for s in (0, 1)])


def jax_md_simulation() -> Built:
    """Two hundred steps at constant temperature."""
    from jax_md import energy, simulate, space

    displacement, shift = space.periodic(6.0)
    potential = energy.soft_sphere_pair(displacement)
    init, apply = simulate.nvt_nose_hoover(potential, shift, dt=1e-3, kT=0.1)

    def run(k, r):
        state = init(k, r)
        state = jax.lax.fori_loop(0, 20, lambda i, s: apply(s), state)
        return state.position, state.velocity

    grid = np.stack(np.meshgrid(*[np.arange(3) * 1.3] * 2), -1).reshape(-1, 2).astype(np.float32)
    return Built(run, [(key(s), grid + 0.1 * unit(9, 2, seed=s)) for s in (0, 1)])


def jax_md_neighbors() -> Built:
    from jax_md import energy, space

    displacement, _ = space.periodic(8.0)
    neighbor_fn, potential = energy.lennard_jones_neighbor_list(
        displacement, 8.0, r_cutoff=2.0, dr_threshold=0.4
    )
    grid = np.stack(np.meshgrid(*[np.arange(6) * 1.3] * 2), -1).reshape(-1, 2).astype(np.float32)
    start = neighbor_fn.allocate(jnp.asarray(grid))

    def run(r):
        neighbors = start.update(r)
        return potential(r, neighbors), neighbors.did_buffer_overflow, neighbors.idx

    return Built(run, [(grid + 0.1 * unit(36, 2, seed=s),) for s in (0, 1)])


def mjx_step() -> Built:
    import mujoco
    from mujoco import mjx

    model = mujoco.MjModel.from_xml_string(
        """<mujoco><option timestep="0.01" solver="CG" iterations="6" ls_iterations="6"/><worldbody>
        <geom type="plane" size="5 5 .1"/>
        <body pos="0 0 .5"><freejoint/><geom type="sphere" size=".2"/>
        <body pos=".3 0 0"><joint name="hinge" type="hinge" axis="0 1 0"/>
        <geom type="capsule" size=".05 .2"/></body></body>
        </worldbody><actuator><motor joint="hinge"/></actuator></mujoco>"""
    )
    system = mjx.put_model(model)
    start = mjx.make_data(system)

    def step(qpos, qvel, ctrl):
        data = mjx.step(system, start.replace(qpos=qpos, qvel=qvel, ctrl=ctrl))
        return data.qpos, data.qvel

    pose = np.array([0, 0, 0.19, 1, 0, 0, 0, 0.2])
    return Built(
        step, [(pose, f32(7, seed=s, scale=0.3).astype(float), f32(1, seed=s).astype(float)) for s in (0, 1)]
    )


def jaxley_neuron() -> Built:
    import jaxley as jx
    from jaxley.channels import HH

    cell = jx.Cell([jx.Branch(jx.Compartment(), ncomp=2)] * 3, parents=[-1, 0, 0])
    cell.insert(HH())
    cell.branch(1).comp(0).record(verbose=False)
    current = jx.step_current(i_delay=0.2, i_dur=1.0, i_amp=1.0, delta_t=0.025, t_max=2.0)

    def voltage(scale):
        stimuli = cell.branch(0).comp(0).data_stimulate(scale * current)
        return jx.integrate(cell, data_stimuli=stimuli)

    return Built(voltage, [(s,) for s in (0.5, 1.0)])


def jax_cosmo_power() -> Built:
    import jax_cosmo as jc

    def power(omega_c, sigma8, k):
        cosmo = jc.Cosmology(
            Omega_c=omega_c, Omega_b=0.05, h=0.7, n_s=0.96, sigma8=sigma8, Omega_k=0.0, w0=-1.0, wa=0.0
        )
        distance = jc.background.radial_comoving_distance(cosmo, jnp.array([0.5, 0.8]))
        return (
            jc.power.linear_matter_power(cosmo, k),
            jc.power.nonlinear_matter_power(cosmo, k, 0.7),
            distance,
        )

    k = np.logspace(-3, 0.5, 9).astype(np.float32)
    return Built(power, [(np.float32(c), np.float32(s), k) for c, s in ((0.25, 0.8), (0.3, 0.7))])


def dynamiqs_schrodinger() -> Built:
    import dynamiqs as dq

    a = dq.destroy(5)

    def evolve(drive):
        hamiltonian = dq.dag(a) @ a + drive * (a + dq.dag(a))
        result = dq.sesolve(
            hamiltonian, dq.fock(5, 0), jnp.linspace(0, 1, 4), exp_ops=[dq.dag(a) @ a], progress_meter=False
        )
        return result.expects, result.states.to_jax()

    return Built(evolve, [(np.float32(s),) for s in (0.5, 1.0)])


def jaxquantum_gates() -> Built:
    import jaxquantum as jqt

    def evolve(angle):
        rotation = (-1j * angle * jqt.sigmax()).expm()
        state = rotation @ jqt.basis(2, 0)
        pair = jqt.tensor(state, jqt.basis(2, 1))
        rho = pair @ pair.dag()
        return jqt.ptrace(rho, 0).data, jqt.overlap(state, jqt.basis(2, 0)), jqt.displace(6, angle).data

    return Built(evolve, [(np.float32(s),) for s in (0.4, 1.1)])


def jaxlie_poses() -> Built:
    import jaxlie

    def poses(tangent, wxyz, point):
        a = jaxlie.SE3.exp(tangent)
        b = jaxlie.SE3.from_rotation_and_translation(jaxlie.SO3(wxyz).normalize(), point)
        c = a @ b.inverse()
        return c.log(), c.apply(point), c.adjoint(), a.jlog(), a.rotation().as_rpy_radians().yaw

    runs = [(f32(6, seed=s), f32(4, seed=s), f32(3, seed=s + 1)) for s in (0, 1)]
    small = (f32(6, seed=3, scale=1e-4), f32(4, seed=2), f32(3))
    return Built(poses, [*runs, small])


def jaxlie_optimize() -> Built:
    """Gauss-Newton on SO(3): the rotation between two sets of points."""
    import jaxlie

    def align(a, b):
        def step(rotation, _):
            def residual(delta):
                return (jax.vmap((rotation @ jaxlie.SO3.exp(delta)).apply)(a) - b).ravel()

            jacobian, r = jax.jacfwd(residual)(jnp.zeros(3)), residual(jnp.zeros(3))
            delta = jnp.linalg.solve(jacobian.T @ jacobian + 1e-3 * jnp.eye(3), -jacobian.T @ r)
            return rotation @ jaxlie.SO3.exp(delta), jnp.sum(r**2)

        rotation, costs = jax.lax.scan(step, jaxlie.SO3.identity(), None, length=6)
        return rotation.as_matrix(), costs

    turn = np.array([[0.36, 0.48, -0.8], [-0.8, 0.6, 0], [0.48, 0.64, 0.6]], np.float32)
    return Built(align, [(f32(8, 3, seed=s), f32(8, 3, seed=s) @ turn.T) for s in (0, 1)])


def jaxwt_denoise() -> Built:
    import jaxwt
    import pywt

    def denoise(x):
        coefficients = jaxwt.wavedec(x, pywt.Wavelet("db3"), mode="symmetric", level=3)
        kept = [coefficients[0]] + [jnp.sign(c) * jnp.maximum(jnp.abs(c) - 0.2, 0) for c in coefficients[1:]]
        return jaxwt.waverec(kept, pywt.Wavelet("db3"))

    return Built(denoise, [(f32(2, 64, seed=s),) for s in (0, 1)])


def jaxwt_image() -> Built:
    import jaxwt
    import pywt

    def decompose(x):
        coefficients = jaxwt.wavedec2(x, pywt.Wavelet("haar"), level=2, mode="reflect")
        return coefficients, jaxwt.waverec2(coefficients, pywt.Wavelet("haar"))

    return Built(decompose, [(f32(2, 16, 24, seed=s),) for s in (0, 1)])


def jaxwt_stationary() -> Built:
    import jaxwt
    import pywt

    def smooth(x):
        coefficients = jaxwt.swt(x, pywt.Wavelet("sym4"), level=2)
        return coefficients, jaxwt.iswt(
            [coefficients[0], *(0.5 * c for c in coefficients[1:])], pywt.Wavelet("sym4")
        )

    return Built(smooth, [(f32(2, 32, seed=s),) for s in (0, 1)])


def s2fft_roundtrip() -> Built:
    import s2fft

    def smooth(f):
        flm = s2fft.forward_jax(f, 8, sampling="mw", reality=True)
        flm = flm * jnp.exp(-0.05 * jnp.arange(8.0) ** 2)[:, None]
        return s2fft.inverse_jax(flm, 8, sampling="mw", reality=True).real

    return Built(smooth, [(f32(8, 15, seed=s).astype(np.float64),) for s in (0, 1)])


def s2fft_precomputed() -> Built:
    from s2fft.precompute_transforms.construct import spin_spherical_kernel_jax
    from s2fft.precompute_transforms.spherical import forward, inverse

    forth = spin_spherical_kernel_jax(8, 0, False, "mw", forward=True)
    back = spin_spherical_kernel_jax(8, 0, False, "mw", forward=False)

    def smooth(f):
        flm = forward(f, 8, 0, forth, "mw", False, "jax")
        flm = flm * jnp.exp(-0.05 * jnp.arange(8.0) ** 2)[:, None]
        return flm, inverse(flm, 8, 0, back, "mw", False, "jax").real

    return Built(smooth, [(f32(8, 15, seed=s).astype(np.float64),) for s in (0, 1)])


def interpax_tables() -> Built:
    import interpax

    x, y = np.linspace(0, 1, 8), np.linspace(0, 2, 9)

    def lookup(q, p, f, g):
        return (
            interpax.interp1d(q, x, f, method="cubic"),
            interpax.interp1d(q, x, f, method="monotonic", derivative=1),
            interpax.interp1d(q, x, f, method="akima", extrap=True),
            interpax.interp2d(q, p, x, y, g, method="cubic2"),
            interpax.interp2d(q, p, x, y, g, method="linear", extrap=True),
        )

    def run(s: int) -> tuple[object, ...]:
        return unit(20, seed=s) * 1.2 - 0.1, unit(20, seed=s + 1) * 2, f32(8, seed=s), f32(8, 9, seed=s)

    return Built(lookup, [run(0), run(3)])


def signax_signature() -> Built:
    import signax

    def features(path):
        return signax.signature(path, 3), signax.logsignature(path, 3)

    return Built(features, [(f32(10, 3, seed=s),) for s in (0, 1)])


def sympy2jax_module() -> Built:
    import sympy
    import sympy2jax

    x, y = sympy.symbols("x y")
    module = sympy2jax.SymbolicModule(
        [sympy.sin(x) * sympy.exp(-(y**2)) + 3 * x / 2, sympy.Max(x, y) ** 3, sympy.atan2(y, x)]
    )
    return Built(lambda a, b: module(x=a, y=b), [(f32(6, seed=s), f32(6, seed=s + 1)) for s in (0, 1)])


def healpy_pixels() -> Built:
    import jax_healpy as jhp

    def lookup(theta, phi, values):
        pixels = jhp.ang2pix(8, theta, phi)
        return pixels, values[pixels], jhp.pix2ang(8, pixels), jhp.get_interp_val(values, theta, phi)

    return Built(
        lookup,
        [(unit(20, seed=s) * 3.1 + 0.02, unit(20, seed=s + 1) * 6.2, f32(768, seed=s)) for s in (0, 1)],
    )


def jaxkd_neighbors() -> Built:
    import jaxkd

    def query(points, queries):
        return jaxkd.build_and_query(points, queries, k=4)

    return Built(query, [(f32(40, 2, seed=s), f32(6, 2, seed=s + 1)) for s in (0, 1)])


def paramax_weight_norm() -> Built:
    import equinox as eqx
    import paramax

    mlp = eqx.nn.MLP(3, 2, 8, 2, key=jax.random.key(0))
    normalized = eqx.tree_at(
        lambda m: m.layers[1].weight, mlp, paramax.WeightNormalization(mlp.layers[1].weight)
    )
    positive = eqx.tree_at(
        lambda m: m.layers[0].bias,
        normalized,
        paramax.Parameterize(jax.nn.softplus, normalized.layers[0].bias),
    )
    return Built(
        lambda x: jax.vmap(paramax.unwrap(positive))(x), [(f32(n, 3, seed=n),) for n in (1, 4)], [("B", 3)]
    )


def quax_lora() -> Built:
    """A network with low-rank changes to its weights, by dispatch on array types."""
    import equinox as eqx
    import quax
    from quax.examples import lora

    mlp = eqx.nn.MLP(4, 3, 16, 2, key=jax.random.key(0))
    model = quax.quaxify(lora.loraify(mlp, rank=2, key=jax.random.key(1)))
    return Built(jax.vmap(model), [(f32(n, 4, seed=n),) for n in (1, 3)], [("B", 4)])


PROGRAMS = [
    Program("jraph_network", ["jraph", "haiku"], jraph_network),
    Program("jraph_attention", ["jraph", "haiku"], jraph_attention),
    Program("e3nn_harmonics", ["e3nn_jax"], e3nn_harmonics),
    Program("e3nn_message_passing", ["e3nn_jax", "flax"], e3nn_message_passing),
    Program("jax_md_energy", ["jax_md"], jax_md_energy),
    Program("jax_md_simulation", ["jax_md"], jax_md_simulation),
    Program("jax_md_neighbors", ["jax_md"], jax_md_neighbors),
    Program("mjx_step", ["mujoco"], mjx_step, x64=True),
    Program("jaxley_neuron", ["jaxley"], jaxley_neuron, x64=True),
    Program("jax_cosmo_power", ["jax_cosmo"], jax_cosmo_power),
    Program(
        "dynamiqs_schrodinger", ["dynamiqs"], dynamiqs_schrodinger, options={"drop_effects": ("checks",)}
    ),
    Program("jaxquantum_gates", ["jaxquantum"], jaxquantum_gates),
    Program("jaxlie_poses", ["jaxlie"], jaxlie_poses),
    Program("jaxlie_optimize", ["jaxlie"], jaxlie_optimize),
    Program("jaxwt_denoise", ["jaxwt", "pywt"], jaxwt_denoise),
    Program("jaxwt_image", ["jaxwt", "pywt"], jaxwt_image),
    Program("jaxwt_stationary", ["jaxwt", "pywt"], jaxwt_stationary),
    Program(
        "s2fft_roundtrip",
        ["s2fft"],
        s2fft_roundtrip,
        x64=True,
        fails="the package's own primitives have a lowering to StableHLO alone, and an impl that binds itself",
    ),
    Program("s2fft_precomputed", ["s2fft"], s2fft_precomputed, x64=True),
    Program("interpax_tables", ["interpax"], interpax_tables),
    Program("signax_signature", ["signax"], signax_signature),
    Program("sympy2jax_module", ["sympy2jax", "sympy"], sympy2jax_module),
    Program("healpy_pixels", ["jax_healpy"], healpy_pixels),
    Program("jaxkd_neighbors", ["jaxkd"], jaxkd_neighbors),
    Program("quax_lora", ["quax", "equinox"], quax_lora),
    Program("paramax_weight_norm", ["paramax", "equinox"], paramax_weight_norm),
]
