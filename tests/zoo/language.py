"""Language, sequence and audio models."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from tests.zoo.program import Built, Program, f32, ints, key


def _tokens(*shapes: tuple[int, int]) -> list[tuple[object, ...]]:
    return [(ints(*shape, high=50, seed=i),) for i, shape in enumerate(shapes)]


def _token_spec() -> list[object]:
    return [jax.ShapeDtypeStruct(jax.export.symbolic_shape("B, T"), jnp.int32)]


def linen_decoder() -> Built:
    from flax import linen as nn

    class Decoder(nn.Module):
        @nn.compact
        def __call__(self, tokens):
            x = nn.Embed(50, 32)(tokens) + nn.Embed(64, 32)(jnp.arange(tokens.shape[1]))
            mask = nn.make_causal_mask(tokens)
            for _ in range(2):
                y = nn.LayerNorm()(x)
                x = x + nn.MultiHeadDotProductAttention(4, qkv_features=32)(y, mask=mask)
                x = x + nn.Dense(32)(nn.gelu(nn.Dense(128)(nn.LayerNorm()(x))))
            return nn.Dense(50)(nn.LayerNorm()(x))

    model = Decoder()
    variables = model.init(jax.random.key(0), jnp.zeros((1, 8), jnp.int32))
    return Built(lambda t: model.apply(variables, t), _tokens((1, 8), (3, 5)), _token_spec())


def nnx_generate() -> Built:
    """Greedy decoding with a cache, in one file."""
    from flax import nnx

    class Model(nnx.Module):
        def __init__(self, rngs):
            self.embed = nnx.Embed(30, 16, rngs=rngs)
            self.attention = nnx.MultiHeadAttention(2, 16, decode=True, rngs=rngs)
            self.norm = nnx.RMSNorm(16, rngs=rngs)
            self.head = nnx.Linear(16, 30, rngs=rngs)

        def __call__(self, token):
            x = self.embed(token)[:, None]
            return self.head(self.norm(x + self.attention(x)))[:, 0]

    model = Model(nnx.Rngs(0))
    model.attention.init_cache((2, 12, 16))
    graphdef, state = nnx.split(model)

    def generate(start):
        def step(carry, _):
            token, state = carry
            model = nnx.merge(graphdef, state)
            logits = model(token)
            token = jnp.argmax(logits, -1).astype(jnp.int32)
            return (token, nnx.state(model)), (token, logits)

        return jax.lax.scan(step, (start, state), None, length=12)[1]

    return Built(generate, [(np.array(t, np.int32),) for t in ([1, 2], [7, 29])])


def linen_bilstm() -> Built:
    from flax import linen as nn

    class Tagger(nn.Module):
        @nn.compact
        def __call__(self, tokens, lengths):
            x = nn.Embed(50, 16)(tokens)
            forward = nn.RNN(nn.OptimizedLSTMCell(24))
            backward = nn.RNN(nn.GRUCell(24))
            return nn.Dense(7)(nn.Bidirectional(forward, backward)(x, seq_lengths=lengths))

    model = Tagger()
    variables = model.init(jax.random.key(0), jnp.zeros((2, 9), jnp.int32), jnp.array([9, 9]))
    runs = [(ints(2, 9, high=50, seed=s), np.array(n, np.int32)) for s, n in enumerate(([9, 4], [1, 7]))]
    return Built(lambda t, n: model.apply(variables, t, n), runs)


def equinox_rope_gru() -> Built:
    import equinox as eqx

    class Model(eqx.Module):
        embed: eqx.nn.Embedding
        rope: eqx.nn.RotaryPositionalEmbedding
        attention: eqx.nn.MultiheadAttention
        cell: eqx.nn.GRUCell
        head: eqx.nn.Linear

        def __init__(self, key):
            a, b, c, d = jax.random.split(key, 4)
            self.embed = eqx.nn.Embedding(50, 32, key=a)
            self.rope = eqx.nn.RotaryPositionalEmbedding(8)
            self.attention = eqx.nn.MultiheadAttention(4, 32, key=b)
            self.cell = eqx.nn.GRUCell(32, 16, key=c)
            self.head = eqx.nn.Linear(16, 5, key=d)

        def __call__(self, tokens):
            x = jax.vmap(self.embed)(tokens)
            rotate = jax.vmap(self.rope, in_axes=1, out_axes=1)
            mask = jnp.tril(jnp.ones((len(tokens), len(tokens)), bool))
            x = x + self.attention(
                x, x, x, mask=mask, process_heads=lambda q, k, v: (rotate(q), rotate(k), v)
            )
            state, _ = jax.lax.scan(lambda h, v: (self.cell(v, h), None), jnp.zeros(16), x)
            return jax.nn.log_softmax(self.head(state))

    model = Model(jax.random.key(1))
    spec = [jax.ShapeDtypeStruct(jax.export.symbolic_shape("B, 10"), jnp.int32)]
    return Built(jax.vmap(model), _tokens((1, 10), (4, 10)), spec)


def haiku_lstm() -> Built:
    import haiku as hk

    def forward(tokens):
        core = hk.DeepRNN([hk.Embed(50, 16), hk.LSTM(24), jax.nn.relu, hk.GRU(12)])
        outs, _ = hk.dynamic_unroll(core, tokens, core.initial_state(tokens.shape[1]))
        return hk.BatchApply(hk.Linear(50))(outs)

    net = hk.without_apply_rng(hk.transform(forward))
    params = net.init(jax.random.key(0), jnp.zeros((6, 2), jnp.int32))
    spec = [jax.ShapeDtypeStruct(jax.export.symbolic_shape("6, B"), jnp.int32)]
    return Built(lambda t: net.apply(params, t), _tokens((6, 1), (6, 3)), spec)


def haiku_transformer_dropout() -> Built:
    """Training mode: dropout draws from a key that is an input."""
    import haiku as hk

    def forward(tokens):
        x = hk.Embed(50, 32)(tokens)
        for _ in range(2):
            y = hk.LayerNorm(-1, True, True)(x)
            y = hk.MultiHeadAttention(4, 8, w_init=hk.initializers.VarianceScaling(), model_size=32)(y, y, y)
            x = x + hk.dropout(hk.next_rng_key(), 0.2, y)
            x = x + hk.nets.MLP([64, 32])(hk.LayerNorm(-1, True, True)(x))
        return hk.Linear(3)(x.mean(1))

    net = hk.transform(forward)
    params = net.init(jax.random.key(0), jnp.zeros((2, 6), jnp.int32))
    runs = [(key(s), ints(2, 6, high=50, seed=s)) for s in (0, 1)]
    return Built(lambda k, t: net.apply(params, k, t), runs)


def keras_text() -> Built:
    from tests.zoo.keras_backend import keras_on_jax

    keras = keras_on_jax()
    keras.utils.set_random_seed(0)
    layers = keras.layers
    inputs = keras.Input((10,), dtype="int32")
    x = layers.Embedding(50, 16, mask_zero=True)(inputs)
    x = layers.Bidirectional(layers.LSTM(12, return_sequences=True))(x)
    x = layers.LayerNormalization()(x + layers.MultiHeadAttention(2, 12)(x, x))
    x = layers.GRU(8)(x)
    model = keras.Model(inputs, layers.Dense(4, activation="softmax")(layers.Dropout(0.3)(x)))
    spec = [jax.ShapeDtypeStruct(jax.export.symbolic_shape("B, 10"), jnp.int32)]
    return Built(lambda t: model(t, training=False), _tokens((2, 10), (3, 10)), spec)


def penzai_llama() -> Built:
    from penzai import pz
    from penzai.models.transformer.variants import llamalike_common

    config = llamalike_common.LlamalikeTransformerConfig(
        num_kv_heads=2,
        query_head_multiplier=2,
        embedding_dim=16,
        projection_dim=8,
        mlp_hidden_dim=32,
        num_decoder_blocks=2,
        vocab_size=40,
        mlp_variant="swiglu",
        tie_embedder_and_logits=False,
        parameter_dtype=jnp.float32,
        activation_dtype=jnp.float32,
    )
    model = llamalike_common.build_llamalike_transformer(config, init_base_rng=jax.random.key(0))

    def logits(tokens):
        named = pz.nx.wrap(tokens).tag("batch", "seq")
        return model(named, token_positions=pz.nx.arange("seq", 6), cache_end_index=None).unwrap(
            "batch", "seq", "vocabulary"
        )

    runs = [(ints(2, 6, high=40, seed=s),) for s in (0, 1)]
    return Built(logits, runs)


def mel_convnet() -> Built:
    """A log-mel spectrogram from samples, then convolutions over it."""
    from flax import linen as nn

    frames = jnp.arange(0, 4000 - 400 + 1, 160)[:, None] + jnp.arange(400)
    window = jnp.hanning(400)
    hertz = np.linspace(0, 2840, 42)
    edges = 700 * (10 ** (hertz / 2595) - 1)
    bins = np.linspace(0, 8000, 257)
    up = (bins - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    down = (edges[2:, None] - bins) / (edges[2:] - edges[1:-1])[:, None]
    filters = jnp.asarray(np.maximum(0, np.minimum(up, down)), jnp.float32)

    class Net(nn.Module):
        @nn.compact
        def __call__(self, samples):
            power = jnp.abs(jnp.fft.rfft(samples[:, frames] * window, 512)) ** 2
            x = jnp.log(power @ filters.T + 1e-5)
            x = nn.relu(nn.Conv(32, (3,))(x))
            x = nn.relu(nn.Conv(32, (3,), strides=2, kernel_dilation=1)(x))
            return nn.Dense(12)(x.max(1))

    model = Net()
    variables = model.init(jax.random.key(0), jnp.zeros((1, 4000)))
    return Built(
        lambda s: model.apply(variables, s), [(f32(n, 4000, seed=n),) for n in (1, 3)], [("B", 4000)]
    )


def spyx_snn() -> Built:
    """A spiking network, its time steps in a scan."""
    import spyx
    from flax import nnx

    rngs = nnx.Rngs(0)
    model = spyx.nn.Sequential(
        nnx.Linear(8, 20, rngs=rngs),
        spyx.nn.LIF((20,), activation=spyx.axn.superspike(), rngs=rngs),
        nnx.Linear(20, 5, rngs=rngs),
        spyx.nn.LI((5,), rngs=rngs),
    )
    runs = [((np.abs(f32(12, 2, 8, seed=s)) > 0.5).astype(np.float32),) for s in (0, 1)]
    return Built(lambda x: spyx.nn.run(model, x)[0], runs)


PROGRAMS = [
    Program("linen_decoder", ["flax"], linen_decoder),
    Program("nnx_generate", ["flax"], nnx_generate),
    Program("linen_bilstm", ["flax"], linen_bilstm),
    Program("equinox_rope_gru", ["equinox"], equinox_rope_gru),
    Program("haiku_lstm", ["haiku"], haiku_lstm),
    Program("haiku_transformer_dropout", ["haiku"], haiku_transformer_dropout),
    Program("keras_text", ["keras"], keras_text),
    Program("penzai_llama", ["penzai"], penzai_llama),
    Program("mel_convnet", ["flax"], mel_convnet),
    Program("spyx_snn", ["spyx"], spyx_snn),
]
