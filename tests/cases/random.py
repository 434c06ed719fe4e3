"""Random bits and samples: constant keys, keys as inputs (typed, raw), moves of keys, every generator."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.cases.case import Case, f32, rng

KEY = jax.random.key(7)
RAW = jax.random.PRNGKey(2**31 + 11)
OTHERS = [[jax.random.key(s)] for s in (0, 1, 2**32 - 1)]


def _bits(width: Any, shape: Any = (5,)) -> Any:
    return lambda key: jax.random.bits(key, shape, width)


def _split_chain(key: Any) -> Any:
    key, a = jax.random.split(key)
    key, b = jax.random.split(key)
    return jax.random.bits(a, (3,)), jax.random.bits(b, (3,)), key


def _keys_move(key: Any, i: Any) -> Any:
    keys = jax.random.split(key, (4, 3))
    return (
        keys[1],
        keys[i],
        keys[1:3, ::2],
        keys.reshape(2, 6),
        keys.T,
        jnp.concatenate([keys, keys[:1]]),
        jnp.broadcast_to(key, (2, 3)),
        jnp.stack([keys[0], keys[2]]),
        jnp.where(i > 1, keys[0], keys[1]),
        jnp.where(jnp.arange(3) > 1, keys[0], keys[1]),
        keys[:, jnp.asarray([2, 0])],
        lax.dynamic_slice(keys, (i, i), (2, 2)),
        lax.dynamic_update_slice(keys, keys[:2, :2], (i, i)),
        jnp.flip(keys, 0),
        jnp.expand_dims(keys, 1),
        keys.at[i, 0].set(key),
        keys == keys[i],
        keys != keys[::-1],
    )


def _scan_keys(key: Any, x: Any) -> Any:
    def step(carry: Any, v: Any) -> Any:
        carry, now = jax.random.split(carry)
        return carry, v + jax.random.uniform(now, v.shape)

    return lax.scan(step, key, x)


def _scan_over_keys(key: Any) -> Any:
    return lax.map(lambda k: jax.random.bits(k, (2,)), jax.random.split(key, 4))


def _while_keys(key: Any) -> Any:
    def more(state: Any) -> Any:
        return jax.random.uniform(state[0]) < 0.8

    def step(state: Any) -> Any:
        return jax.random.split(state[0])[0], state[1] + 1

    return lax.while_loop(more, step, (key, jnp.int32(0)))


def _cond_keys(p: Any, key: Any) -> Any:
    return lax.cond(p, lambda: jax.random.split(key)[0], lambda: key)


def _fold_in(key: Any, i: Any) -> Any:
    return jax.random.fold_in(key, i), jax.random.fold_in(key, 3)


def _dropout(key: Any, x: Any) -> Any:
    return jnp.where(jax.random.bernoulli(key, 0.7, x.shape), x / 0.7, 0)


def _seed(s: Any) -> Any:
    return jax.random.key(s), jax.random.bits(jax.random.key(s), (2,))


def _raw(fn: Any) -> Any:
    return lambda words: fn(jax.random.wrap_key_data(words))


def _generator(shape: Any, algorithm: Any, dtype: Any = np.uint32) -> Any:
    return lambda key: lax.rng_bit_generator(key, shape, dtype, algorithm=algorithm)


def _generate(key: Any) -> Any:
    return jax.random.normal(key, (5,)), jax.random.split(key), jax.random.fold_in(key, 2)


_SAMPLERS = {
    "normal": lambda k: jax.random.normal(k, (4, 3)),
    "uniform": lambda k: jax.random.uniform(k, (4, 3), minval=-2, maxval=3),
    "randint": lambda k: jax.random.randint(k, (20,), -5, 100),
    "bernoulli": lambda k: jax.random.bernoulli(k, 0.3, (20,)),
    "gumbel": lambda k: jax.random.gumbel(k, (6,)),
    "exponential": lambda k: jax.random.exponential(k, (6,)),
    "truncated_normal": lambda k: jax.random.truncated_normal(k, -1, 2, (6,)),
    "permutation": lambda k: jax.random.permutation(k, 12),
    "permutation_rows": lambda k: jax.random.permutation(k, jnp.arange(12).reshape(6, 2)),
    "choice": lambda k: jax.random.choice(k, 10, (5,)),
    "choice_p": lambda k: jax.random.choice(k, 4, (5,), p=jnp.asarray([0.1, 0.2, 0.3, 0.4])),
    "choice_without": lambda k: jax.random.choice(k, 10, (5,), replace=False),
    "categorical": lambda k: jax.random.categorical(k, jnp.asarray(f32(5, 4))),
    "laplace": lambda k: jax.random.laplace(k, (6,)),
    "gamma": lambda k: jax.random.gamma(k, 1.5, (3,)),
    "gamma_small": lambda k: jax.random.gamma(k, 0.3, (3,)),
    "vmapped": lambda k: jax.vmap(lambda q: jax.random.normal(q, (2,)))(jax.random.split(k, 3)),
    "ball": lambda k: jax.random.rademacher(k, (9,)),
}

CASES = [
    *(Case(f"{name}_typed", fn, [KEY], also=OTHERS) for name, fn in _SAMPLERS.items()),
    *(Case(f"{name}_raw", _raw(fn), [RAW]) for name, fn in _SAMPLERS.items()),
    *(Case(f"{name}_constant", lambda x, fn=fn: (x, fn(KEY)), [f32(2)], ops=["!threefry2x32"])
      for name, fn in _SAMPLERS.items() if not name.startswith("gamma")),
    *(Case(f"bits_{np.dtype(t).name}", _bits(t), [KEY], also=OTHERS)
      for t in (np.uint8, np.uint16, np.uint32)),
    Case("bits_uint64", _bits(np.uint64), [KEY], also=OTHERS, x64=True),
    Case("bits_scalar", _bits(np.uint32, ()), [KEY], also=OTHERS),
    Case("bits_empty", _bits(np.uint32, (0, 3)), [KEY]),
    Case("bits_large", _bits(np.uint32, (70, 70)), [KEY]),
    Case("bits_large_constant", lambda x: (x, _bits(np.uint32, (70, 70))(KEY)), [f32(1)]),
    Case("bits_symbolic", lambda k, x: jax.random.bits(k, x.shape), [KEY, f32(4, 3)],
         spec=[KEY, ("B", "T")], also=[[KEY, f32(1, 1)], [KEY, f32(7, 2)], [KEY, f32(2, 0)]]),
    Case("normal_f64", lambda k: jax.random.normal(k, (4,)), [KEY], x64=True),
    Case("normal_f16", lambda k: jax.random.normal(k, (4,), jnp.float16), [KEY]),
    Case("normal_bf16", lambda k: jax.random.normal(k, (4,), jnp.bfloat16), [KEY]),
    Case("split", lambda k: jax.random.split(k, 5), [KEY], also=OTHERS),
    Case("split_shape", lambda k: jax.random.split(k, (2, 3)), [KEY], also=OTHERS),
    Case("split_chain", _split_chain, [KEY], also=OTHERS),
    Case("fold_in", _fold_in, [KEY, np.int32(5)], also=[[KEY, np.int32(0)], [KEY, np.int32(-1)]]),
    Case("seed", _seed, [np.int32(5)], also=[[np.int32(-1)], [np.int32(2**31 - 1)]]),
    Case("seed_64", _seed, [np.int64(5)], x64=True, also=[[np.int64(-1)], [np.int64(2**40 + 3)]]),
    Case("clone", lambda k: jax.random.clone(k), [KEY]),
    Case("key_data", lambda k: jax.random.key_data(jax.random.split(k)), [KEY]),
    Case("keys_batched", lambda k: jax.vmap(lambda q: jax.random.uniform(q, (2,)))(k),
         [jax.random.split(KEY, 3)], also=[[jax.random.split(jax.random.key(1), 3)]]),
    Case("keys_move", _keys_move, [KEY, np.int32(1)], also=[[KEY, np.int32(i)] for i in (0, 2)]),
    Case("scan_keys", _scan_keys, [KEY, f32(4, 3)]),
    Case("scan_over_keys", _scan_over_keys, [KEY], also=OTHERS),
    Case("while_keys", _while_keys, [KEY], also=OTHERS),
    Case("cond_keys", _cond_keys, [np.bool_(True), KEY], also=[[np.bool_(False), KEY]]),
    Case("multinomial", jax.random.multinomial, [KEY, np.float32(9), np.array([0.2, 0.5, 0.3, 0], np.float32)]),
    Case("binomial_certain", jax.random.binomial, [KEY, np.float32(9), np.array([0.5, 1], np.float32)]),
    Case("dropout", _dropout, [KEY, f32(4, 3)], spec=[KEY, ("B", 3)], also=[[KEY, f32(7, 3)]]),
    Case("dropout_constant", lambda x: _dropout(KEY, x), [f32(4, 3)]),
    *(Case(f"generator_{impl}", _generate, [jax.random.key(3, impl=impl)]) for impl in ("rbg", "unsafe_rbg")),
    *(Case(f"rng_bit_generator_{a.name}_{len(s)}_{np.dtype(t).name}", _generator(s, a, t),
           [rng().integers(0, 2**32, 4).astype(np.uint32)],
           also=[[np.full(4, 2**32 - 1, np.uint32)]])
      for a in lax.RandomAlgorithm.__members__.values()
      for s, t in (((), np.uint32), ((5, 7), np.uint32), ((3, 4), np.uint8), ((2, 2, 3), np.uint16))),
]  # fmt: skip
