"""The passes over the graph: what they fold, move and cancel, and that values stay what they were."""

from __future__ import annotations

import functools
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from jax import lax

from onnxproof import to_onnx
from onnxproof.capture.trace import capture
from onnxproof.lowering.driver import load_rules, lower
from onnxproof.passes.constants import EAGER
from onnxproof.passes.fold import fold_constants
from onnxproof.passes.pipeline import PassContext
from tests.cases.case import f32
from tests.running import assert_same, run, session

NHWC = ("NHWC", "HWIO", "NHWC")


def export(fn: Callable[..., Any], *args: Any, spec: Any = None, **options: Any) -> onnx.ModelProto:
    """Export, check against JAX at ``args``, and return the model."""
    model = to_onnx(fn, list(args) if spec is None else spec, **options)
    onnx.checker.check_model(model, full_check=True)
    want = jax.tree_util.tree_leaves(jax.jit(fn)(*args))
    for got, expected in zip(run(session(model), args), want, strict=True):
        assert_same(got, expected, 1e-5, 1e-5)
    return model


def ops(model: onnx.ModelProto) -> Counter[str]:
    return Counter(node.op_type for node in model.graph.node)


def weights(model: onnx.ModelProto) -> dict[str, tuple[int, ...]]:
    return {i.name: tuple(i.dims) for i in model.graph.initializer}


def conv(x: Any, w: Any, strides: Any = (1, 1), padding: Any = "SAME", **options: Any) -> Any:
    return lax.conv_general_dilated(x, w, strides, padding, dimension_numbers=NHWC, **options)


class Model:
    """A callable with named weights."""

    def __init__(self, call: Callable[..., Any], **arrays: Any) -> None:
        self.__dict__.update({k: jnp.asarray(v) for k, v in arrays.items()})
        self._call = call

    def __call__(self, *args: Any) -> Any:
        return self._call(self, *args)


def norm(x: Any, mean: Any, var: Any, scale: Any, bias: Any) -> Any:
    """Batch normalisation in inference, as Flax spells it."""
    return (x - mean) * (lax.rsqrt(var + 1e-5) * scale) + bias


def norm_arrays(prefix: str, n: int, seed: int) -> dict[str, Any]:
    return {
        f"{prefix}_mean": f32(n, seed=seed),
        f"{prefix}_var": np.abs(f32(n, seed=seed + 1)) + 0.3,
        f"{prefix}_scale": f32(n, seed=seed + 2),
        f"{prefix}_bias": f32(n, seed=seed + 3),
    }


def apply_norm(m: Any, prefix: str, x: Any) -> Any:
    return norm(x, *(getattr(m, f"{prefix}_{k}") for k in ("mean", "var", "scale", "bias")))


# -- folding ---------------------------------------------------------------------------------------


def test_transposed_weight_keeps_its_name() -> None:
    model = export(Model(lambda m, x: x @ m.kernel.T, kernel=f32(5, 4)), f32(3, 4))
    assert ops(model) == {"MatMul": 1}
    assert weights(model) == {"kernel": (4, 5)}


def test_weight_and_its_transpose_coexist() -> None:
    model = export(Model(lambda m, x: (x @ m.kernel) @ m.kernel.T, kernel=f32(4, 5)), f32(3, 4))
    assert ops(model) == {"MatMul": 2}
    assert weights(model) == {"kernel": (4, 5), "kernel.T": (5, 4)}


def test_large_tied_weight_is_stored_once() -> None:
    tied = Model(lambda m, i: jnp.take(m.table, i, axis=0, mode="clip") @ m.table.T, table=f32(3000, 8))
    model = export(tied, np.array([0, 2999], np.int32))
    assert [shape for shape in weights(model).values() if len(shape) == 2] == [(3000, 8)]


def test_arithmetic_on_small_weights_is_named_after_one() -> None:
    def call(m: Any, x: Any) -> Any:
        return jnp.tanh(x) * (lax.rsqrt(m.var + 1e-5) * m.scale)

    model = export(Model(call, var=np.abs(f32(4)), scale=f32(4, seed=1)), f32(3, 4))
    assert ops(model) == {"Tanh": 1, "Mul": 1}
    assert weights(model) == {"scale": (4,)}


def test_large_weights_are_not_read_by_folding() -> None:
    kernel = jnp.asarray(f32(600, 600))
    traced = capture(lambda x: x @ (kernel.T * 2).reshape(600, 600), [f32(2, 600)], known=load_rules())
    model = lower(traced.program, opset=21, name="f").model
    reads = []
    for value in list(model.graph.initializers.values()):
        tensor = value.const_value
        if tensor is not None and tensor.nbytes > EAGER:
            original = tensor

            def read(original: Any = original) -> Any:
                reads.append(original.name)
                return original.numpy()

            value.const_value = ir.LazyTensor(
                lambda read=read: ir.tensor(read()),
                dtype=ir.DataType.FLOAT,
                shape=original.shape,
                name=value.name,
            )
    fold_constants(model, PassContext(21, "ort-cpu"))
    assert [node.op_type for node in model.graph] == ["MatMul"]
    assert not reads
    (derived,) = [v.const_value for v in model.graph.initializers.values() if v.const_value.nbytes > EAGER]
    np.testing.assert_array_equal(derived.numpy(), np.asarray(kernel).T * 2)
    assert len(reads) == 1


def test_folding_does_not_enlarge_the_file() -> None:
    model = export(lambda x: x + jnp.broadcast_to(jnp.arange(64.0), (64, 64, 64)) * 2, f32(64, 64, 64))
    assert model.ByteSize() < 100_000


def test_nothing_is_divided_by_zero_while_folding() -> None:
    zero = Model(lambda m, x: x + 1 / m.a, a=np.zeros(3, np.float32))
    assert ops(export(zero, f32(3))) == {"Add": 1}


def test_equal_nodes_are_merged() -> None:
    def call(x: Any, y: Any, i: Any) -> Any:
        update = functools.partial(lax.dynamic_update_slice_in_dim, start_index=i, axis=0)
        return update(x, y), update(2 * x, y)

    found = ops(export(call, f32(5, 3), f32(1, 3), np.int32(2)))
    assert (found["ScatterND"], found["Clip"], found["Mul"]) == (2, 1, 1)


# -- contraction -----------------------------------------------------------------------------------


def test_batch_norm_folds_into_the_convolution() -> None:
    net = Model(lambda m, x: apply_norm(m, "n", conv(x, m.w)), w=f32(3, 3, 4, 5), **norm_arrays("n", 5, 10))
    model = export(net, f32(2, 6, 7, 4), spec=[("B", 6, 7, 4)])
    assert ops(model) == {"Transpose": 2, "Conv": 1}
    assert weights(model) == {"w": (5, 4, 3, 3), "n_bias": (5,)}
    attributes = {a.name for n in model.graph.node for a in n.attribute if n.op_type == "Conv"}
    assert "kernel_shape" in attributes


@pytest.mark.parametrize("groups", [1, 2])
def test_batch_norm_folds_into_the_transposed_convolution(groups: int) -> None:
    def call(m: Any, x: Any) -> Any:
        y = conv(x, m.w, padding=[(2, 2), (1, 2)], lhs_dilation=(2, 2), feature_group_count=groups)
        return apply_norm(m, "n", y + m.b)

    net = Model(call, w=f32(3, 3, 4 // groups, 6), b=f32(6, seed=3), **norm_arrays("n", 6, 10))
    assert ops(export(net, f32(2, 5, 6, 4))) == {"Transpose": 2, "ConvTranspose": 1}


def test_convolutions_that_share_their_input_keep_their_own_biases() -> None:
    def call(m: Any, x: Any) -> Any:
        x = jax.nn.relu(x)
        a = apply_norm(m, "a", conv(x, m.wa, (2, 2)))
        b = apply_norm(m, "b", conv(x, m.wb, (2, 2)))
        return a + b

    arrays = {**norm_arrays("a", 5, 10), **norm_arrays("b", 5, 20)}
    net = Model(call, wa=f32(3, 3, 4, 5), wb=f32(1, 1, 4, 5, seed=5), **arrays)
    model = export(net, f32(2, 6, 6, 4))
    assert ops(model) == {"Transpose": 2, "Relu": 1, "Conv": 2, "Add": 1}
    assert {"a_bias", "b_bias"} <= set(weights(model))


def test_linear_layers_after_one_gather() -> None:
    def call(m: Any, i: Any) -> Any:
        x = jnp.take(m.table, i, axis=0, mode="clip")
        return apply_norm(m, "a", x @ m.wa + m.ba), apply_norm(m, "b", x @ m.wb + m.bb)

    arrays = {**norm_arrays("a", 5, 10), **norm_arrays("b", 3, 20)}
    net = Model(
        call, table=f32(9, 4), wa=f32(4, 5), wb=f32(4, 3), ba=f32(5, seed=1), bb=f32(3, seed=2), **arrays
    )
    assert ops(export(net, np.array([1, 8, 0], np.int32)))["Gemm"] == 2


def test_scaled_bias_before_batch_norm_is_scaled_once() -> None:
    net = Model(
        lambda m, x: apply_norm(m, "n", x @ m.w + 0.5 * m.b), w=f32(4, 5), b=f32(5), **norm_arrays("n", 5, 9)
    )
    assert ops(export(net, f32(3, 4))) == {"Gemm": 1}


def test_stack_of_matrices_gets_one_add() -> None:
    net = Model(
        lambda m, x: apply_norm(m, "n", x @ m.w + m.b), w=f32(4, 5), b=f32(5), **norm_arrays("n", 5, 9)
    )
    assert ops(export(net, f32(2, 3, 4), spec=[("B", "T", 4)])) == {"MatMul": 1, "Add": 1}


def test_layers_under_vmap_leave_no_transposes() -> None:
    def layer(m: Any, x: Any) -> Any:
        return m.v @ jax.nn.relu(m.w @ x + m.b) * m.s

    net = Model(lambda m, x: jax.vmap(jax.vmap(lambda r: layer(m, r)))(x),
                w=f32(5, 4), b=f32(5, seed=1), v=f32(3, 5, seed=2), s=f32(3, seed=3))  # fmt: skip
    model = export(net, f32(2, 6, 4), spec=[("B", "T", 4)])
    assert ops(model) == {"MatMul": 2, "Add": 1, "Relu": 1}
    assert weights(model) == {"w": (4, 5), "b": (5,), "v": (5, 3)}


def test_heads_split_after_the_bias() -> None:
    def call(m: Any, x: Any) -> Any:
        return (jnp.einsum("btd,dhk->bthk", x, m.w) + m.b) * m.s / 2

    net = Model(call, w=f32(4, 3, 5), b=f32(3, 5, seed=1), s=f32(3, 1, seed=2))
    model = export(net, f32(2, 6, 4), spec=[("B", "T", 4)])
    assert [n.op_type for n in model.graph.node] == ["MatMul", "Add", "Reshape"]


def test_a_shared_kernel_is_not_scaled_for_one_use() -> None:
    w = f32(40, 40)  # large enough that a copy would matter
    net = Model(lambda m, x: ((x @ m.w) * m.s, x @ m.w.T @ m.w), w=w, s=f32(40))
    model = export(net, f32(3, 40))
    assert weights(model)["w"] == (40, 40)
    assert ops(model)["Mul"] == 1


def test_a_result_with_another_use_is_left_alone() -> None:
    net = Model(lambda m, x: ((y := conv(x, m.w)), y * m.s), w=f32(3, 3, 4, 5), s=f32(5, seed=1))
    model = export(net, f32(1, 5, 5, 4))
    assert ops(model)["Mul"] == 1


@pytest.mark.parametrize(
    "constant", [np.float32(0.0), np.float32(np.inf), np.float32(1e30), np.float32(1e-30)]
)
def test_extreme_scales_keep_their_meaning(constant: Any) -> None:
    x = np.array([[1.0, 2.0], [-1.0, 1e-3]], np.float32)
    export(Model(lambda m, v: v @ m.w * constant, w=np.eye(2, dtype=np.float32)), x)


def test_half_precision_rounds_where_the_program_rounds() -> None:
    w = f32(3, 3, 4, 5).astype(jnp.bfloat16)
    model = to_onnx(Model(lambda m, x: conv(x, m.w) * m.s, w=w, s=f32(5).astype(jnp.bfloat16)),
                    [f32(1, 5, 5, 4).astype(jnp.bfloat16)])  # fmt: skip
    assert ops(model)["Mul"] == 1


def test_zeros_around_the_input_become_padding() -> None:
    def call(m: Any, x: Any) -> Any:
        return conv(jnp.pad(x, ((0, 0), (1, 2), (3, 0), (0, 0))), m.w, padding=[(1, 0), (0, 1)])

    net = Model(call, w=f32(3, 3, 4, 5))
    assert ops(export(net, f32(1, 5, 5, 4))) == {"Transpose": 2, "Conv": 1}
    ones = Model(
        lambda m, x: conv(jnp.pad(x, ((0, 0), (1, 2), (3, 0), (0, 0)), constant_values=1), m.w),
        w=f32(3, 3, 4, 5),
    )
    assert ops(export(ones, f32(1, 5, 5, 4)))["Pad"] == 1


def test_upsampling_block_has_no_batch_normalization_left(tmp_path: Any) -> None:
    from flax import nnx

    class UpsamplingBlock(nnx.Module):  # type: ignore[misc,name-defined]
        def __init__(self, rngs: Any) -> None:
            self.conv = nnx.ConvTranspose(4, 8, (3, 3), strides=(2, 2), padding="VALID", rngs=rngs)
            self.conv.bias = nnx.Param(jnp.linspace(-0.2, 0.2, 8, dtype=jnp.float32))
            self.norm = nnx.BatchNorm(8, use_running_average=True, rngs=rngs)
            self.norm.scale = nnx.Param(jnp.linspace(0.75, 1.25, 8, dtype=jnp.float32))

        def __call__(self, x: Any) -> Any:
            return self.norm(self.conv(x))

    block = UpsamplingBlock(nnx.Rngs(0))
    x = np.random.default_rng(1).normal(size=(1, 3, 3, 4)).astype(np.float32)
    model = to_onnx(block, [x])
    assert ops(model) == {"Transpose": 2, "ConvTranspose": 1}
    options = ort.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    options.log_severity_level = 3
    sess = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(run(sess, [x])[0], np.asarray(block(x)), rtol=1e-5, atol=1e-5)
    assert "BatchNormalization" not in ops(onnx.load(options.optimized_model_filepath))


# -- layout ----------------------------------------------------------------------------------------


def residual(m: Any, x: Any) -> Any:
    y = jax.nn.relu(apply_norm(m, "n", conv(x, m.w)))
    return jax.nn.relu(conv(y, m.v) + x)


def squeeze_excite(m: Any, x: Any) -> Any:
    y = conv(x, m.w)
    gate = jax.nn.sigmoid(y.mean((1, 2)) @ m.g)
    return conv(y * gate[:, None, None, :], m.v)


def unet(m: Any, x: Any) -> Any:
    a = jax.nn.relu(conv(x, m.w))
    b = conv(a, m.v, (2, 2))
    up = lax.conv_transpose(b, m.v, (2, 2), "SAME", dimension_numbers=NHWC)
    return jnp.concatenate([up, a], -1)


def classifier(m: Any, x: Any) -> Any:
    y = jnp.tanh(conv(x, m.w, (2, 2)))
    return y.reshape(y.shape[0], -1) @ m.f + 1


SQUARE = {"w": f32(3, 3, 4, 4), "v": f32(3, 3, 4, 4, seed=1), **norm_arrays("n", 4, 10)}
NETS: dict[str, tuple[Callable[..., Any], dict[str, Any], int]] = {  # function, weights, transposes left
    "residual": (residual, SQUARE, 2),
    "gate": (squeeze_excite, {**SQUARE, "g": f32(4, 4)}, 2),
    "skip": (unet, SQUARE, 2),
    "flatten": (classifier, {**SQUARE, "f": f32(4 * 4 * 4, 3)}, 1),
    "global_mean": (lambda m, x: conv(x, m.w).mean((1, 2)), SQUARE, 1),
    "global_max_kept": (lambda m, x: conv(x, m.w).max((1, 2), keepdims=True), SQUARE, 1),
    "channel_sum": (lambda m, x: conv(x, m.w).sum(-1), SQUARE, 1),
    "border": (lambda m, x: conv(jnp.pad(conv(x, m.w), ((0, 0), (1, 0), (0, 2), (1, 1))), m.z),
               {**SQUARE, "z": f32(3, 3, 6, 2)}, 2),
    "crop": (lambda m, x: conv(lax.slice_in_dim(conv(x, m.w), 1, -1, axis=1)[:, :, :5], m.v), SQUARE, 2),
    "split": (lambda m, x: sum(jnp.split(conv(x, m.w), 2, -1)), SQUARE, 2),
    "image_constant": (lambda m, x: conv(x, m.w) * m.z, {**SQUARE, "z": f32(8, 8, 4)}, 2),
    "scalar": (lambda m, x: conv(2.0 - conv(x, m.w) / 3.0, m.v), SQUARE, 2),
    "choice": (lambda m, x: (lambda y: conv(jnp.where(y > 0.5, y, -y), m.v))(conv(x, m.w)), SQUARE, 2),
    "pointwise": (lambda m, x: jax.nn.relu(conv(x, m.p) + m.n_bias), {**SQUARE, "p": f32(1, 1, 4, 4)}, 0),
    "channel_sums": (lambda m, x: (lambda y: conv(y + jnp.tanh(y.sum((0, 1, 2))), m.v))(conv(x, m.w)), SQUARE, 2),
    "two_outputs": (lambda m, x: ((y := conv(x, m.w)), jnp.exp(-y)), SQUARE, 2),
    "input_back": (lambda m, x: jnp.transpose(jnp.transpose(x, (0, 3, 1, 2)), (0, 2, 3, 1)), SQUARE, 0),
    "same_twice": (lambda m, x: (jnp.swapaxes(x, 1, 2), jnp.swapaxes(x, 1, 2)), SQUARE, 1),
}  # fmt: skip


@pytest.mark.parametrize("name", NETS)
def test_transposes_cancel(name: str) -> None:
    call, arrays, left = NETS[name]
    model = export(Model(call, **arrays), f32(2, 8, 8, 4), spec=[("B", 8, 8, 4)])
    assert ops(model)["Transpose"] == left, [(n.op_type, list(n.input)) for n in model.graph.node]


@pytest.mark.parametrize("name", ["gate", "residual", "channel_sums", "global_mean"])
def test_transposes_cancel_for_one_image(name: str) -> None:
    call, arrays, left = NETS[name]
    assert ops(export(Model(call, **arrays), f32(1, 8, 8, 4)))["Transpose"] == left


def test_reshapes_merge() -> None:
    model = export(lambda x: jnp.tanh(x).reshape(6, 4).reshape(2, 12).reshape(3, 8), f32(2, 3, 4))
    assert ops(model) == {"Tanh": 1, "Reshape": 1}


def test_layout_inside_a_loop_with_captured_values() -> None:
    def call(m: Any, x: Any) -> Any:
        outer = conv(x, m.v)

        def body(h: Any, _: Any) -> Any:
            return jnp.tanh(apply_norm(m, "n", conv(h, m.w)) + outer), h.sum((1, 2))

        return lax.scan(body, x, None, length=3)

    export(Model(call, **{**SQUARE, "w": 0.1 * SQUARE["w"], "v": 0.1 * SQUARE["v"]}), f32(1, 5, 5, 4))


def test_passes_are_named_in_metadata() -> None:
    net = Model(residual, **SQUARE)
    model = to_onnx(net, [f32(1, 5, 5, 4)])
    touched = {p.value for n in model.graph.node for p in n.metadata_props if p.key == "onnxproof.passes"}
    assert any("layout" in t for t in touched)
    assert any("contract" in t for t in touched)
    bare = to_onnx(net, [f32(1, 5, 5, 4)], strip_provenance=True)
    assert not any(n.metadata_props for n in bare.graph.node)


def _random_program(seed: int) -> tuple[Callable[..., Any], np.ndarray[Any, Any]]:
    """Operators on a few layouts, so that transposes meet everything that they can move through."""
    rng = np.random.default_rng(seed)
    perms = [tuple(rng.permutation(4)) for _ in range(3)]
    steps = rng.integers(0, 13, size=14)
    picks = rng.integers(0, 1000, size=(14, 2))
    constants = [rng.normal(size=s).astype(np.float32) for s in ((3,), (1, 3, 1), (3, 1, 3, 3), ())]

    def fn(x: Any) -> Any:
        values = [x]
        for step, (a, b) in zip(steps, picks, strict=True):
            v, w = values[-1 - a % min(3, len(values))], values[-1 - b % min(4, len(values))]
            c = constants[b % 4]
            new = {
                0: lambda v=v, a=a: jnp.transpose(v, perms[a % 3]),
                1: lambda v=v, a=a: jnp.transpose(v, np.argsort(perms[a % 3])),
                2: lambda v=v: jnp.tanh(v),
                3: lambda v=v, w=w: v + w,
                4: lambda v=v, c=c: v * c,
                5: lambda v=v, c=c: c - v,
                6: lambda v=v, a=a: v - v.mean(int(a % 4), keepdims=True),
                7: lambda v=v, a=a: v.max((int(a % 4), int((a + 1) % 4)), keepdims=True) + v,
                8: lambda v=v, w=w, a=a: jnp.concatenate([v, w], int(a % 4))[tuple(
                    slice(1, 4) if i == a % 4 else slice(None) for i in range(4))],
                9: lambda v=v, w=w: jnp.where(v > w, v, w * 0.5),
                10: lambda v=v, a=a: jnp.pad(v, [(1, 0) if i == a % 4 else (0, 0) for i in range(4)])[
                    tuple(slice(0, 3) if i == a % 4 else slice(None) for i in range(4))],
                11: lambda v=v, a=a: jnp.expand_dims(v.sum(int(a % 4)), int(a % 4)) * 0.1 + v,
                12: lambda v=v: v.reshape(9, 9).reshape(3, 3, 3, 3),
            }[int(step)]()  # fmt: skip
            values.append(new)
        return values[-1], values[-3]

    return fn, rng.normal(size=(3, 3, 3, 3)).astype(np.float32)


@pytest.mark.parametrize("seed", range(40))
def test_random_programs(seed: int) -> None:
    fn, x = _random_program(seed)
    export(fn, x)


def test_passes_are_linear() -> None:
    def chain(n: int) -> float:
        def fn(x: Any) -> Any:
            for i in range(n):
                x = jnp.transpose(jnp.tanh(jnp.transpose(x, (0, 2, 1)) + float(i)), (0, 2, 1))
            return x

        start = time.perf_counter()
        model = to_onnx(fn, [f32(2, 3, 3)])
        assert ops(model)["Transpose"] == 0
        return time.perf_counter() - start

    chain(10)
    short, long = chain(60), chain(480)
    assert long < 8 * short * 3


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
@pytest.mark.parametrize("perm", [(1, 0, 2), (1, 2, 0)], ids=str)
def test_products_of_transposed_16_bit_values(dtype: Any, perm: tuple[int, ...]) -> None:
    """ONNX Runtime dies of a cast between such a transpose and its product, whoever put it there."""
    x = jnp.asarray(np.random.default_rng(0).normal(size=(3, 5, 4)), dtype)
    w = jnp.asarray(np.random.default_rng(1).normal(size=(np.shape(x)[perm[-1]], 2)), dtype)
    model = to_onnx(lambda x: x.transpose(perm) @ w, [x])
    order = [node.op_type for node in model.graph.node]
    assert order.index("Cast") < order.index("Transpose") < order.index("MatMul")
    (got,) = run(session(model), [x])
    assert_same(got, np.asarray(x.transpose(perm) @ w), 2e-2, 2e-2)
    kept = to_onnx(lambda x: x.transpose(perm) @ w, [x.astype(jnp.float32)])
    assert ops(kept)["Cast"] == 0
