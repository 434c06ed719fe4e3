"""Cases from people who export models: one small program of each kind, by the number it has in our list.

A case is a function that raises when ONNX Runtime does otherwise than JAX. Kinds that have a test of their own are
named in ``ELSEWHERE``, with the test.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from flax import linen, nnx
from jax import lax
from jax.nn import gelu

from examples.policies import discrete, export
from onnxproof import allclose, explain, to_onnx, verify
from onnxproof.contracts import Discrete, check, policy
from onnxproof.errors import InputSpecError, TraceError
from tests.running import assert_same, run, session

Array = np.ndarray[Any, Any]
CASES: dict[int, list[Callable[[], None]]] = {}
COUNT = 40
# What the tests elsewhere show in whole.
ELSEWHERE: dict[int, list[str]] = {
    5: ["tests.test_reentrant:test_threads"],
    29: ["tests.test_user_cases:test_weights_beside_the_model"],
    32: ["tests.test_explain:test_runtime_fault"],
    33: ["tests.evidence.test_contract_records:test_float16_is_measured_against_its_limit"],
    36: ["tests.test_contracts:test_examples_keep_their_contracts"],
}


def case(number: int) -> Callable[[Callable[[], None]], Callable[[], None]]:
    def add(fn: Callable[[], None]) -> Callable[[], None]:
        CASES.setdefault(number, []).append(fn)
        return fn

    return add


def f32(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def same(
    fn: Callable[..., Any],
    *calls: Sequence[Any],
    spec: Any = None,
    rtol: float | None = None,
    atol: float | None = None,
    **options: Any,
) -> onnx.ModelProto:
    """Export once, run on each of ``calls``, and hold every output against JAX; the model."""
    model = to_onnx(fn, list(calls[0]) if spec is None else spec, **options)
    sess = session(model)
    with jax.enable_x64(options.get("enable_double_precision", False)):
        for args in calls:
            want = jax.tree.leaves(fn(*(jnp.asarray(a) if isinstance(a, np.ndarray) else a for a in args)))
            got = run(sess, args)
            assert len(got) == len(want)
            for a, b in zip(got, want, strict=True):
                assert_same(a, b, rtol, atol)
    return model


def ops(model: onnx.ModelProto) -> Counter[str]:
    """Operators of the main graph and of all graphs inside, and how often each is there."""
    found: Counter[str] = Counter()
    stack = [model.graph]
    while stack:
        graph = stack.pop()
        for node in graph.node:
            found[node.op_type] += 1
            stack += [a.g for a in node.attribute if a.type == onnx.AttributeProto.GRAPH]
    for function in model.functions:
        found.update(n.op_type for n in function.node)
    return found


@case(1)
def newest_jax() -> None:
    helper = jax.jit(lambda x: jax.nn.relu(x) * 2)
    same(jax.nn.relu, [f32(3)])
    same(lambda x: x // 2, [np.arange(-5, 5, dtype=np.int32)])
    same(lambda x: helper(x) + helper(x + 1), [f32(2, 3)])

    class Mlp(nnx.Module):
        def __init__(self) -> None:
            rngs = nnx.Rngs(0)
            self.first, self.last = nnx.Linear(4, 8, rngs=rngs), nnx.Linear(8, 2, rngs=rngs)

        def __call__(self, x: Any) -> Any:
            return self.last(nnx.relu(self.first(x)))

    same(Mlp(), [f32(3, 4)], [f32(1, 4)], spec=[("B", 4)])


@case(2)
def styles_of_arguments_and_imports() -> None:
    image = f32(1, 6, 6, 2)
    same(lambda x: linen.max_pool(x, (2, 2), strides=(2, 2)), [image])
    same(lambda x: linen.avg_pool(x, window_shape=(2, 2), strides=(2, 2), padding="SAME"), [image])
    x = np.array([3, 1, 2, 1], np.int32)
    same(lambda x: jnp.sort(x, stable=True), [x])
    same(lambda x: jnp.where(x > 1, size=3, fill_value=-1), [x])
    same(lambda x: jnp.cumsum(x, 1), [f32(2, 5)])
    same(lambda x: jnp.cumsum(x, axis=1), [f32(2, 5)])
    direct = to_onnx(lambda x: gelu(x), [("B", 4)], strip_provenance=True)
    through = to_onnx(lambda x: jax.nn.gelu(x), [("B", 4)], strip_provenance=True)
    assert direct.SerializeToString() == through.SerializeToString()


@case(3)
def scans_backwards() -> None:
    w = f32(3, 3)
    step = lambda h, x: (jnp.tanh(h @ w + x),) * 2  # noqa: E731
    same(lambda x: lax.scan(step, jnp.zeros(3), x, reverse=True), [f32(5, 3)])
    same(jax.grad(lambda x: lax.scan(step, jnp.zeros(3), x)[0].sum()), [f32(5, 3)])
    cell = linen.RNN(linen.LSTMCell(4))
    model = linen.Bidirectional(cell, linen.RNN(linen.LSTMCell(4)))
    x = f32(2, 6, 3)
    params = model.init(jax.random.key(0), x)
    same(lambda x: model.apply(params, x), [x], spec=[("B", 6, 3)])


@case(4)
def export_before_the_first_call() -> None:
    w = f32(4, 4)
    for wrap in (jax.jit, eqx.filter_jit):
        fn = wrap(lambda x: jax.nn.softmax(x @ w))
        model = to_onnx(fn, [("B", 4)])
        x = f32(3, 4)
        (got,) = run(session(model), [x])
        assert_same(got, fn(x))


@case(6)
def switch_clamps() -> None:
    branches = [lambda x: x + 1, lambda x: x * 2, lambda x: -x]
    same(lambda i, x: lax.switch(i, branches, x), *[[np.int32(i), f32(3)] for i in (-1, 0, 2, 7)])


@case(7)
def associative_scans() -> None:
    def linear(a: Any, b: Any) -> Any:
        join = lambda p, q: (p[0] * q[0], q[0] * p[1] + q[1])  # noqa: E731
        return lax.associative_scan(join, (a, b))[1]

    model = same(lambda x: lax.associative_scan(jnp.add, x), [f32(13)])
    assert not set(ops(model)) & {"Loop", "Scan"}
    same(linear, [f32(13), f32(13, seed=1)], atol=1e-5)
    # JAX itself has no associative scan over a length that it doesn't know; the other forms take one
    with pytest.raises(TraceError, match="non-constant size: N"):
        to_onnx(linear, [("N",), ("N",)])
    same(jnp.cumsum, [f32(13)], [f32(4)], spec=[("N",)], atol=1e-5)
    step = lambda h, ab: (ab[0] * h + ab[1],) * 2  # noqa: E731
    pairs = [[f32(n), f32(n, seed=1)] for n in (13, 6)]
    same(lambda a, b: lax.scan(step, 0.0, (a, b))[1], *pairs, spec=[("N",), ("N",)], atol=1e-5)


@case(8)
def traced_indices() -> None:
    x = f32(5)
    indices = [[x, np.int32(i)] for i in (0, 4, 5, -1, -6, 100)]
    same(lambda x, i: x[i], *indices)
    same(lambda x, i: jnp.take(x, i), *indices)
    table = f32(4, 3)
    columns = np.array([[0], [2], [5], [-1]], np.int32)
    same(lambda t, i: jnp.take_along_axis(t, i, 1), [table, columns])
    assert len(to_onnx(lambda x: x[jnp.arange(3)], [(5,)]).graph.node) == 1  # in bounds for certain


@case(9)
def cancellation() -> None:
    tiny = np.array([1e-10, 1e-7, -1e-6, 3e-5, 1e-4], np.float32)
    few = 4 * float(np.finfo(np.float32).eps)
    for fn in (jnp.log1p, jnp.expm1, jnp.sinh, jnp.arctanh):
        same(fn, [tiny], rtol=few, atol=0)
    large = np.array([20.0, 15.0, 30.0], np.float32)
    same(jax.nn.log_sigmoid, [large], rtol=few, atol=0)
    same(jnp.logaddexp, [large, -large], rtol=few, atol=0)


@case(10)
def rows_that_are_masked_whole() -> None:
    q, k, v = (f32(1, 3, 2, 4, seed=s) for s in range(3))
    mask = np.ones((1, 1, 3, 3), bool)
    mask[..., 1, :] = False
    same(lambda q, k, v, m: jax.nn.dot_product_attention(q, k, v, mask=m), [q, k, v, mask])
    bias = np.where(mask, 0, -np.inf).astype(np.float32)
    same(lambda q, k, v, b: jax.nn.dot_product_attention(q, k, v, bias=b), [q, k, v, bias])


@case(11)
def numbers_that_are_not_finite() -> None:
    x = np.array([1.5, np.nan, -np.inf, -0.0, np.inf, -2.0, 0.0, 3e9], np.float32)
    for fn in (jnp.sort, jnp.argsort, jnp.median, jnp.argmax, jnp.max, jnp.min, jax.nn.relu):
        same(fn, [x])
    same(lax.cummax, [x])
    same(lambda x: lax.top_k(x, 3), [x])
    same(lambda x: jnp.clip(x, -1, 1), [x])
    for dtype in (jnp.int32, jnp.uint8):
        same(lambda x, dtype=dtype: x.astype(dtype), [x])


@case(12)
def resizing() -> None:
    for method in ("linear", "cubic", "lanczos3", "lanczos5"):
        for size in (5, 12):
            resize = lambda x, m=method, n=size: jax.image.resize(x, (x.shape[0], n, n, 2), m)  # noqa: E731
            same(resize, [f32(1, 7, 7, 2)], [f32(3, 7, 7, 2)], spec=[("B", 7, 7, 2)], atol=1e-5)


@case(13)
def linear_algebra() -> None:
    a = f32(6, 6) + 3 * np.eye(6, dtype=np.float32)
    symmetric = (a + a.T) / 2
    near = {"rtol": 2e-4, "atol": 2e-5}
    for fn in (jnp.linalg.inv, jnp.linalg.det, jnp.linalg.slogdet, jnp.linalg.pinv, jnp.linalg.svdvals):
        same(fn, [a], **near)
    same(jnp.linalg.solve, [a, f32(6)], **near)
    same(lambda a, b: jnp.linalg.lstsq(a, b)[0], [a, f32(6)], **near)
    same(jnp.linalg.eigvalsh, [symmetric], **near)
    same(jax.scipy.linalg.expm, [a / 4], **near)
    same(jnp.linalg.matrix_rank, [np.outer(f32(6), f32(6, seed=1))])
    same(lambda a: jnp.linalg.norm(a, 2), [a], **near)
    batch = a[None, :3, :3] + np.zeros((2, 1, 1), np.float32)
    same(jnp.linalg.inv, [batch], [batch[:1]], spec=[("B", 3, 3)], **near)
    wide = f32(40, 40) / 8 + 4 * np.eye(40, dtype=np.float32)
    assert sum(ops(same(jnp.linalg.cholesky, [wide @ wide.T], **near)).values()) < 100
    same(jnp.linalg.det, [np.ones((4, 4), np.float32)], atol=1e-5)
    same(jnp.linalg.eigvalsh, [np.eye(5, dtype=np.float32)], **near)


@case(14)
def fourier_transforms() -> None:
    same(jnp.fft.fft, [f32(8)], atol=1e-5)
    same(lambda x: jnp.fft.irfft(jnp.fft.rfft(x)), [f32(4, 10)], atol=1e-5)
    same(lambda x: jnp.abs(jnp.fft.fft2(x)), [f32(4, 6)], atol=1e-4)
    same(lambda x: jax.scipy.signal.welch(x, nperseg=64)[1], [f32(128)], atol=1e-5)
    same(lambda z: jnp.conj(z) * 2j, [(f32(3) + 1j * f32(3, seed=1)).astype(np.complex64)])


@case(15)
def random_numbers() -> None:
    key = jax.random.key(7)

    def draws(key: Any) -> Any:
        a, b = jax.random.split(key)
        return (
            jax.random.bits(a, (5,)),
            jax.random.uniform(a, (5,)),
            jax.random.normal(b, (5,)),
            jax.random.categorical(b, jnp.log(jnp.arange(1.0, 5.0)), shape=(6,)),
            jax.random.permutation(a, 8),
        )

    same(draws, [key], atol=1e-5)
    same(lambda x: [x.astype(d.dtype)[:1] * 0 + d[:1] for d in draws(key)], [f32(3)], atol=1e-5)


@case(16)
def bfloat16() -> None:
    bf = lambda *s: jnp.asarray(f32(*s), jnp.bfloat16)  # noqa: E731
    same(jnp.matmul, [bf(4, 8), bf(8, 3)])
    same(jax.nn.softmax, [bf(4, 8)])
    same(jax.nn.standardize, [bf(4, 8)])
    same(jnp.sum, [bf(4, 8)])
    convolve = lambda x, w: lax.conv(x, w, (1, 1), "SAME")  # noqa: E731
    same(convolve, [bf(1, 2, 5, 5), bf(3, 2, 3, 3)])


@case(17)
def float16_with_constants() -> None:
    w, b = f32(8, 3).astype(np.float16), f32(3).astype(np.float16)
    same(lambda x: x @ w + b * 2, [f32(4, 8).astype(np.float16)])


@case(18)
def float64() -> None:
    wide = {"enable_double_precision": True}
    x = np.linspace(-3, 3, 7)
    same(jax.lax.erf, [x], **wide)
    same(jnp.cos, [x], **wide)
    image, kernel = f32(1, 2, 6, 6).astype(np.float64), f32(3, 2, 3, 3).astype(np.float64)
    same(lambda x, w: lax.conv(x, w, (1, 1), "VALID"), [image, kernel], **wide)
    same(lambda x: linen.avg_pool(x, (2, 2), (2, 2)), [image], **wide)


@case(19)
def opsets() -> None:
    for opset in (17, 18, 21, 23):
        model = same(jnp.cumprod, [f32(6)], opset=opset)
        assert model.opset_import[0].version == opset
        onnx.checker.check_model(model, full_check=True)
        if opset > 17:  # bitwise operators are of opset 18
            same(lax.population_count, [np.array([0, 7, 255, 2**31 - 1], np.int32)], opset=opset)
        same(lambda x: lax.bitcast_convert_type(x, jnp.int32), [f32(6)], opset=opset)


@case(20)
def sizes_that_vary() -> None:
    kernel = f32(3, 3, 2, 4)
    convolve = lambda x: lax.conv_general_dilated(  # noqa: E731
        x, kernel, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    sizes = [[f32(1, 5, 5, 2)], [f32(2, 6, 9, 2)], [f32(3, 8, 4, 2)]]
    same(convolve, *sizes, spec=[("B", "H", "W", 2)], atol=1e-5)
    lengths = [[f32(2, n)] for n in (1, 4, 9)]
    same(jnp.sort, *lengths, spec=[("B", "N")])
    same(lambda x: x + jnp.arange(x.shape[1]), *lengths, spec=[("B", "N")])
    same(lambda x: x.reshape(x.shape[0], -1), *sizes, spec=[("B", "H", "W", 2)])


class Parts(NamedTuple):
    image: Any
    mask: Any


@case(21)
def pytrees_and_names() -> None:
    def fn(batch: dict[str, Any]) -> dict[str, Any]:
        total = batch["left"] + batch["right"]
        return {"total": total, "again": total, "left": batch["left"]}

    model = to_onnx(fn, [{"left": ("B", "2*T", 3), "right": ("B", "2*T", 3)}])
    assert [i.name for i in model.graph.input] == ["batch.left", "batch.right"]
    assert [o.name for o in model.graph.output] == ["again", "left", "total"]
    dims = [d.dim_param or d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    assert dims == ["B", "2*T", 3]
    assert ops(model) == {"Add": 1, "Identity": 2}
    x = f32(2, 4, 3)
    again, left, total = run(session(model), [x, x])
    assert_same(again, 2 * x)
    assert_same(left, x)
    assert_same(total, 2 * x)
    swapped = to_onnx(lambda parts: Parts(parts.mask, parts.image), [Parts((2, 3), (3,))])
    assert [o.name for o in swapped.graph.output] == ["image", "mask"]
    named = to_onnx(lambda image, mask: image, [(2,), (2,)], output_names=["same"])
    assert [i.name for i in named.graph.input] == ["image", "mask"]
    flat = to_onnx(lambda x: x.reshape(-1), [("B", "2*T", 3)])
    assert "B" in flat.graph.output[0].type.tensor_type.shape.dim[0].dim_param


@case(22)
def long_chains() -> None:
    def chain(n: int) -> Callable[[Any], Any]:
        def fn(x: Any) -> Any:
            for _ in range(n):
                x = jnp.tanh(x) * 0.5 + x
            return x

        return fn

    counts = [len(to_onnx(chain(n), [("B", 4)]).graph.node) for n in (25, 100)]
    assert counts[1] == 4 * counts[0]

    def updates(x: Any) -> Any:
        for i in range(160):
            x = x.at[i % 5].add(1.0)
        return x

    same(updates, [f32(5)])


@case(23)
def long_scans_hoist_what_they_can() -> None:
    w, u = f32(16, 16) / 4, f32(4, 16)

    def recurrence(x: Any) -> Any:
        return lax.scan(lambda h, x: (jnp.tanh(h @ w + x @ u), None), jnp.zeros(16), x)[0]

    model = same(recurrence, [f32(200, 4)], atol=1e-4)
    inside = [a.g for n in model.graph.node for a in n.attribute if a.type == onnx.AttributeProto.GRAPH]
    products = [n.op_type for g in inside for n in g.node if n.op_type in ("MatMul", "Gemm")]
    assert len(products) <= 1, "the product with the input does not depend on the state"
    decay = jax.nn.sigmoid(f32(16))
    same(lambda x: lax.scan(lambda h, x: (decay * h + x,) * 2, jnp.zeros(16), x)[1], [f32(50, 16)], atol=1e-4)


@case(24)
def recurrent_layers() -> None:
    rnn = linen.RNN(linen.LSTMCell(5), return_carry=True)
    x, lengths = f32(3, 7, 4), np.array([7, 3, 5], np.int32)
    params = rnn.init(jax.random.key(0), x)
    same(lambda x, n: rnn.apply(params, x, seq_lengths=n), [x, lengths], atol=1e-5)
    cell = nnx.RNN(nnx.GRUCell(4, 5, rngs=nnx.Rngs(0)))
    same(cell, [x], [x[:1]], spec=[("B", 7, 4)], atol=1e-5)


@case(25)
def derivatives() -> None:
    kernel = f32(2, 1, 3, 3)

    def pooled(x: Any) -> Any:
        y = lax.conv(x, kernel, (1, 1), "SAME")
        return (linen.max_pool(jnp.moveaxis(y, 1, -1), (2, 2), (2, 2)) ** 2).sum()

    same(jax.grad(pooled), [f32(1, 1, 6, 6)], atol=1e-4)
    w = f32(3, 3)
    same(jax.hessian(lambda x: jnp.tanh(jnp.tanh(x @ w) @ w).sum()), [f32(3)], atol=1e-5)
    same(jax.jacobian(jax.nn.standardize), [f32(4)], atol=1e-4)
    loss = lambda x, y: -jnp.take_along_axis(jax.nn.log_softmax(x), y[:, None], 1).mean()  # noqa: E731
    same(jax.grad(loss), [f32(3, 4), np.array([0, 3, 1], np.int32)])


class Downsample(nnx.Module):
    """Two branches from one input, each a convolution and a normalization."""

    def __init__(self) -> None:
        rngs = nnx.Rngs(0)
        self.left, self.right = (nnx.Conv(3, 4, (k, k), strides=2, rngs=rngs) for k in (3, 1))
        self.norms = nnx.List([nnx.BatchNorm(4, use_running_average=True, rngs=rngs) for _ in range(2)])
        for i, norm in enumerate(self.norms):
            norm.bias[...] = jnp.asarray(f32(4, seed=i))
            norm.mean[...] = jnp.asarray(f32(4, seed=i + 5))
            norm.var[...] = jnp.asarray(np.abs(f32(4, seed=i + 9)) + 0.5)

    def __call__(self, x: Any) -> Any:
        return nnx.relu(self.norms[0](self.left(x)) + self.norms[1](self.right(x)))


@case(26)
def branches_keep_their_biases() -> None:
    same(Downsample(), [f32(2, 8, 8, 3)], [f32(1, 8, 8, 3)], spec=[("B", 8, 8, 3)], atol=1e-5)
    rngs = nnx.Rngs(1)
    table = f32(5, 4)
    linears = [nnx.Linear(4, 3, rngs=rngs) for _ in range(2)]
    norms = [nnx.BatchNorm(3, use_running_average=True, rngs=rngs) for _ in range(2)]
    norms[1].mean[...] = jnp.asarray(f32(3))

    def both(i: Any) -> Any:
        x = jnp.asarray(table)[i]
        return [norm(linear(x)) for linear, norm in zip(linears, norms, strict=True)]

    same(both, [np.array([0, 4, 2], np.int32)], atol=1e-5)


@case(27)
def a_scaled_bias_is_scaled_once() -> None:
    w, b = f32(4, 3), f32(3)
    norm = nnx.BatchNorm(3, use_running_average=True, rngs=nnx.Rngs(0))
    norm.mean[...] = jnp.asarray(f32(3, seed=1))
    norm.var[...] = jnp.asarray(np.abs(f32(3, seed=2)) + 0.5)
    same(lambda x: norm(0.5 * (x @ w) + 3.0 * b), [f32(2, 4)], [f32(5, 4)], spec=[("B", 4)], atol=1e-5)


@case(28)
def a_table_is_stored_once() -> None:
    table = f32(3000, 8)
    model = same(
        lambda i: jnp.asarray(table)[i] @ jnp.asarray(table).T, [np.array([3, 1], np.int32)], atol=1e-4
    )
    large = [t for t in model.graph.initializer if np.prod(t.dims) >= table.size]
    assert len(large) == 1


def test_weights_beside_the_model(tmp_path: Path) -> None:
    """The kind of a layer of 4 GB, with a small one: weights go to a file beside, and all checks take the path."""
    w = f32(256, 512)
    place = tmp_path / "model.onnx"
    fn = lambda x: x @ w  # noqa: E731
    to_onnx(fn, [("B", 256)], return_mode="file", output_path=place, external_data=True)
    assert place.stat().st_size < 10_000
    onnx.checker.check_model(place, full_check=True)
    matches, message = allclose(fn, str(place), inputs=[f32(3, 256)], rtol=1e-4, atol=1e-4)
    assert matches, message


@case(30)
def gates() -> None:
    x, h = f32(2, 4), f32(2, 5)
    gru = linen.GRUCell(5)
    gru_params = gru.init(jax.random.key(0), h, x)
    same(lambda h, x: gru.apply(gru_params, h, x), [h, x], atol=1e-5)
    lstm = linen.RNN(linen.OptimizedLSTMCell(5, bias_init=linen.initializers.ones))
    sequence = f32(2, 6, 4)
    params = lstm.init(jax.random.key(1), sequence)
    same(lambda x: lstm.apply(params, x), [sequence], atol=1e-5)
    layer = linen.RNN(gru)
    params = layer.init(jax.random.key(2), sequence)
    model = same(lambda x: layer.apply(params, x), [sequence], atol=1e-5)
    for node in model.graph.node:  # its reset gate comes after the product
        if node.op_type == "GRU":
            assert any(a.name == "linear_before_reset" and a.i == 1 for a in node.attribute)


@case(31)
def one_query_against_a_longer_buffer() -> None:
    def decode(q: Any, k: Any, v: Any, length: Any) -> Any:
        mask = (jnp.arange(k.shape[1]) < length)[None, None, None, :]
        return jax.nn.dot_product_attention(q, k, v, mask=mask)

    q, k, v = f32(2, 1, 2, 4), f32(2, 9, 2, 4, seed=1), f32(2, 9, 2, 4, seed=2)
    model = same(decode, *[[q, k, v, np.int32(n)] for n in (1, 5, 9)])
    for node in model.graph.node:  # runtimes disagree on what is_causal means without a past
        assert not any(a.name == "is_causal" and a.i for a in node.attribute)


@case(32)
def optimizations_on_and_off() -> None:
    fn = lambda x: jax.nn.softmax(jnp.tanh(x) @ f32(4, 4))  # noqa: E731
    record = verify(fn, to_onnx(fn, [("B", 4)]), {f"run-{n}": [f32(n, 4)] for n in (1, 2, 3)})
    levels = {record.runtime.session["graph_optimization_level"]}
    levels |= {run.runtime.session["graph_optimization_level"] for run in record.other_runs}
    assert levels == {"ORT_ENABLE_ALL", "ORT_DISABLE_ALL"}
    assert record.status == "passed"
    assert explain(fn, [("B", 4)], [f32(3, 4)], to_onnx(fn, [("B", 4)])).fault == "none"


@case(34)
def index_arithmetic_in_32_bits() -> None:
    def fn(x: Any, i: Any) -> Any:
        return x[(i * 2 + 1) % x.shape[0]] + jnp.arange(4)[i % 4]

    model = same(fn, [f32(6), np.int32(2)], export_mode="web")
    wide = [
        t.name for t in model.graph.initializer if t.data_type == onnx.TensorProto.INT64 and len(t.dims) == 0
    ]
    assert not [n for n in model.graph.node if n.op_type in ("Mul", "Mod") and set(n.input) & set(wide)]
    shaped = to_onnx(lambda x: x.reshape(2, -1).T, [(4, 3)], export_mode="web")
    assert "Shape" not in ops(shaped)


@case(35)
def convolutions_say_their_kernel_and_versions_are_low() -> None:
    model = same(
        lambda x: lax.conv(x, f32(2, 3, 3, 3), (1, 1), "SAME"),
        [f32(1, 3, 5, 5)],
        opset=17,
        strip_provenance=True,
    )
    (conv,) = [n for n in model.graph.node if n.op_type == "Conv"]
    assert [list(a.ints) for a in conv.attribute if a.name == "kernel_shape"] == [[3, 3]]
    # sources of nodes are metadata, which IR 10 brought; without them the lowest will do
    assert (model.ir_version, model.opset_import[0].version) == (8, 17)


@case(36)
def a_policy_with_its_normalizer() -> None:
    check(export("discrete"), policy(Discrete(3), obs_shape=(8,))).require()
    same(discrete, [f32(1, 8)], [f32(7, 8)], spec=[("B", 8)])


@case(37)
def transforms_of_lengths_that_are_no_power_of_two() -> None:
    model = same(
        lambda x: jnp.abs(jnp.fft.rfft(x)), [f32(8, 100)], [f32(2, 100)], spec=[("B", 100)], atol=1e-4
    )
    assert "DFT" not in ops(model)
    assert set(ops(model)) & {"MatMul", "Gemm"}


@case(38)
def scatters() -> None:
    x, i = f32(5, 3), np.array([1, 1, 9, -1, 1], np.int32)
    same(lambda x, i, u: x.at[i].max(u), [x, i, f32(5, 3, seed=1)])
    same(lambda x, i, u: x.at[i].add(u), [x, i, f32(5, 3, seed=1)])
    same(
        lambda x, i, u: x.at[i].set(u, mode="drop"),
        [x, np.array([0, 7, 2, 3, -9], np.int32), f32(5, 3, seed=1)],
    )
    batched = jax.vmap(lambda x, i, u: x.at[i].add(u))
    same(batched, [f32(2, 4), np.array([[0, 0], [3, 9]], np.int32), f32(2, 2)])


@case(39)
def sets_have_no_order() -> None:
    fn = lambda features: features["a"] + features["b"]  # noqa: E731
    blocks = {"b": (3,), "a": (3,)}
    names = [i.name for i in to_onnx(fn, [{k: blocks[k] for k in set(blocks)}]).graph.input]
    assert names == ["features.a", "features.b"]  # whatever order a set gave them
    with pytest.raises(InputSpecError):
        to_onnx(lambda xs: sum(xs), [{(3,), (4,)}])


@case(40)
def sorts() -> None:
    x = np.array([2, 1, 2, 3, 1, 2], np.int32)
    for descending in (False, True):
        same(lambda x, d=descending: jnp.sort(x, stable=True, descending=d), [x])
        same(lambda x, d=descending: jnp.argsort(x, stable=True, descending=d), [x])
    same(lambda a, b: lax.sort((a, b), num_keys=1), [x, np.arange(6, dtype=np.int32)])
    same(lambda a, b, c: lax.sort((a, b, c), num_keys=2), [x, x[::-1].copy(), f32(6)])


ROWS = [(number, fn) for number in sorted(CASES) for fn in CASES[number]]


@pytest.mark.parametrize(("number", "fn"), ROWS, ids=[f"{n}-{fn.__name__}" for n, fn in ROWS])
def test_case(number: int, fn: Callable[[], None]) -> None:
    fn()


def test_every_case_is_tried() -> None:
    assert {*CASES, *ELSEWHERE} == set(range(1, COUNT + 1))
    for places in ELSEWHERE.values():
        for place in places:
            module, _, name = place.partition(":")
            found = importlib.import_module(module)
            assert not name or callable(getattr(found, name))
