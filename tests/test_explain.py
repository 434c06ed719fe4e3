"""Seeded faults: each is found at its primitive and line, and charged to whoever made it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnx_ir
import pytest
from jax import lax

from onnxproof import to_onnx
from onnxproof._explain import describe, explain
from onnxproof.lowering.driver import load_rules
from onnxproof.lowering.registry import RULES
from tests.cases.case import f32, ints
from tests.running import run, session


@contextmanager
def faulty(primitive: str, spoil: Callable[[Any, Any], Any]) -> Iterator[None]:
    """The lowering of ``primitive`` with its first result put through ``spoil(ctx, value)``."""
    load_rules()
    sound = RULES[primitive]

    def rule(ctx: Any, *operands: Any, **params: Any) -> Any:
        results = sound.rule(ctx, *operands, **params)
        if isinstance(results, (list, tuple)):
            return [spoil(ctx, results[0]), *results[1:]]
        return spoil(ctx, results)

    RULES[primitive] = replace(sound, rule=rule)
    try:
        yield
    finally:
        RULES[primitive] = sound


def add_a_bit(ctx: Any, value: Any) -> Any:
    return ctx.op("Add", value, ctx.like(0.01, value), shape=ctx.shape(value))


def negate(ctx: Any, value: Any) -> Any:
    return ctx.op("Neg", value, shape=ctx.shape(value))


def add_one(ctx: Any, value: Any) -> Any:
    return ctx.op("Add", value, ctx.like(1, value), shape=ctx.shape(value))


def scale(ctx: Any, value: Any) -> Any:
    return ctx.op("Mul", value, ctx.like(1.001, value), shape=ctx.shape(value))


@dataclass(frozen=True)
class Seed:
    primitive: str
    spoil: Callable[[Any, Any], Any]
    fn: Callable[..., Any]
    args: tuple[Any, ...]
    words: str  # a part of the line at fault


W = f32(6, 6, seed=3)

SEEDS = [
    Seed("tanh", add_a_bit, lambda x: jnp.exp(jnp.tanh(x) * 2), (f32(3, 4),), "tanh"),
    Seed("exp", scale, lambda x: jnp.sin(jnp.exp(x) + 1), (f32(3, 4),), "exp"),
    Seed("dot_general", scale, lambda x: jnp.tanh(x @ W) @ W, (f32(2, 6),), "dot"),
    Seed("reduce_sum", add_a_bit, lambda x: jnp.sqrt(jnp.abs(x).sum(0)), (f32(3, 4),), "sum"),
    Seed("cumsum", negate, lambda x: jnp.cumsum(x * 2, 0) + 1, (f32(3, 4),), "cumsum"),
    Seed("sort", negate, lambda x: jnp.sort(x + 1) * 3, (f32(9),), "sort"),
    Seed("gather", scale, lambda x, i: jnp.sin(x)[i] * 2, (f32(7, 3), ints(4, low=0, high=7)), "gather"),
    Seed(
        "conv_general_dilated",
        scale,
        lambda x: jnp.tanh(lax.conv(x, W.reshape(2, 2, 3, 3), (1, 1), "SAME")),
        (f32(1, 2, 5, 5),),
        "conv",
    ),
    Seed("scan", add_one, lambda x: lax.scan(lambda c, v: (c * 0.5 + v, c), x[0], x)[0] * 2, (f32(5, 3),), "scan"),
    Seed("logistic", scale, lambda x: jnp.cos(jax.nn.sigmoid(x * x)), (f32(3, 4),), "sigmoid"),
    Seed("rem", add_one, lambda x, y: lax.rem(x, y) * 2, (ints(8), ints(8, low=1, high=5)), "rem"),
]  # fmt: skip


def add_beyond(ctx: Any, value: Any) -> Any:
    """A fault that depends on the value: what is beyond 0.9 is off."""
    far = ctx.op("Greater", value, ctx.like(0.9, value), dtype=np.dtype(bool), shape=ctx.shape(value))
    return ctx.op("Where", far, add_a_bit(ctx, value), value, shape=ctx.shape(value))


def scanned(x: Any, reverse: bool = False) -> Any:
    """From row to row by ``tanh``, which passes 0.9 at row 3."""

    def step(c: Any, v: Any) -> Any:
        h = jnp.tanh(c * 0.5 + v)
        return h * 0.5, jnp.where(h > 0, h, -h)

    return lax.scan(step, x[0] * 0, x, reverse=reverse)


def nested(x: Any) -> Any:
    def outer(c: Any, v: Any) -> Any:
        d, ys = lax.scan(lambda a, b: (jnp.tanh(a * 0.5 + b), a), c, x)
        return d * 0 + v * 0, ys.sum()

    return lax.scan(outer, x[0] * 0, x)


def batched_while(x: Any) -> Any:
    """Rows go on until their sum is large enough: each has its own number of iterations."""
    return jax.vmap(lambda v: lax.while_loop(lambda c: c.sum() < 12, lambda c: jnp.tanh(c) + c + 0.5, v))(x)


# tanh is beyond 0.9 at 1.5 and above
ROWS = np.array([[0.1, 0.2], [0.5, -0.3], [-0.4, 0.1], [0.2, 2.0], [3.0, 0.1]], np.float32)
IN_BODIES = [
    ("scan", scanned, ["iteration 3 of scan"]),
    ("reverse", lambda x: scanned(x, reverse=True), ["iteration 4 of scan"]),
    ("counted", lambda x: lax.scan(lambda c, _: (jnp.tanh(c) + c * 1.1, c), x * 0.5, None, length=4)[0],
     ["iteration 0 of scan"]),
    ("fori", lambda x: lax.fori_loop(0, 6, lambda i, c: jnp.tanh(c) + 0.3 * i, x[2:4] * 0.7),
     ["iteration 4 of scan"]),
    ("while", lambda x: lax.while_loop(lambda c: c.sum() < 30, lambda c: jnp.tanh(c) + c * 1.2 + 0.5, x[:3]),
     ["iteration 1 of while"]),
    ("batched", batched_while, ["iteration 0 of while"]),
    ("cond", lambda x: lax.cond(x[0, 0] > 0, lambda x: jnp.tanh(x) * 2, lambda x: jnp.sin(x), x) + 1,
     ["branch 1 of cond"]),
    ("switch", lambda x: lax.switch((x[0, 0] * 20).astype(int), [jnp.sin, jnp.cos, lambda x: jnp.tanh(x) + 1,
     jnp.abs], x) * 2, ["branch 2 of cond"]),
    ("nested", nested, ["iteration 0 of scan", "iteration 3 of scan"]),
    ("once", lambda x: lax.scan(lambda c, v: (jnp.tanh(c + v), c * 2), x[3], x[4:])[0] * 2,
     ["iteration 0 of scan"]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "fn", "inside"), IN_BODIES, ids=[name for name, *_ in IN_BODIES])
def test_fault_in_a_body(name: str, fn: Callable[..., Any], inside: Sequence[str]) -> None:
    """The pass is named in which a value first differs, and the line of what computes it there."""
    specs = [jax.ShapeDtypeStruct(ROWS.shape, ROWS.dtype)]
    with faulty("tanh", add_beyond):
        finding = explain(fn, specs, [ROWS])
    assert finding.fault == "exporter", describe(finding)
    assert finding.point is not None
    assert finding.point.primitive == "tanh"
    assert finding.point.source.startswith("tests/test_explain.py:")
    assert [place.partition(" at ")[0] for place in finding.inside] == inside, finding.inside
    assert f"in {finding.inside[-1]}" in describe(finding)
    # The part that is cut out is that of the body, and still shows the fault.
    assert finding.model is not None
    assert finding.inputs is not None
    onnx.checker.check_model(finding.model)
    assert "Scan" not in {n.op_type for n in finding.model.graph.node}
    (again,) = run(session(finding.model), list(finding.inputs.values()))
    assert not np.allclose(again, finding.point.reference, rtol=1e-5, atol=1e-5)
    sound = explain(fn, specs, [ROWS])
    assert (sound.fault, sound.inside) == ("none", ())


@pytest.mark.parametrize("primitive", ["exp", "dot_general", "reduce_sum", "sort", "logistic", "cumsum"])
def test_other_faults_in_a_body(primitive: str) -> None:
    def step(c: Any, v: Any) -> Any:
        h = jnp.sort(c @ W[:4, :4] + jnp.exp(c + v)) + jnp.cumsum(jax.nn.sigmoid(c))
        return h - h.sum(), h

    def fn(x: Any) -> Any:
        return lax.scan(step, x[0], x)[1] * 2

    x = f32(5, 4)
    with faulty(primitive, {"sort": negate, "cumsum": negate}.get(primitive, scale)):
        finding = explain(fn, [("T", 4)], [x])
    assert finding.fault == "exporter", describe(finding)
    assert finding.point is not None
    assert finding.point.primitive == primitive
    assert finding.point.source.startswith("tests/test_explain.py:")
    assert finding.inside[0].startswith("iteration 0 of scan at tests/test_explain.py:")


def test_loop_that_joins_its_passes_wrongly() -> None:
    """Every pass is right by itself, and the whole is not: the loop is at fault."""

    def turned(ctx: Any, value: Any) -> Any:
        (scan,) = [n for n in ctx.nodes if n.op_type == "Scan"]
        scan.attributes["scan_input_directions"] = onnx_ir.AttrInt64s("scan_input_directions", [1])
        return value

    with faulty("scan", turned):
        finding = explain(scanned, [(5, 2)], [ROWS])
    assert (finding.fault, finding.inside) == ("exporter", ()), describe(finding)
    assert finding.point is not None
    assert finding.point.primitive == "scan"
    assert finding.explanation.endswith("each pass through its body is right by itself")


def test_rounding_that_a_loop_makes_large() -> None:
    """The logistic map doubles an error with every pass: that is nobody's fault."""

    def fn(x: Any) -> Any:
        return lax.scan(
            lambda c, _: (3.9 * c * (1 - jnp.sin(c) / jnp.cos(c * 0.1)), None), x, None, length=24
        )[0]

    x = np.linspace(0.1, 0.4, 40, dtype=np.float32)
    finding = explain(fn, [(40,)], [x], rtol=1e-6, atol=1e-6)
    assert finding.fault in ("none", "reference"), describe(finding)


def test_runtime_fault_in_a_body() -> None:
    """ONNX Runtime's integer sum saturates where ONNX's reference wraps: told of the pass in which it does."""

    def saturating(ctx: Any, value: Any) -> Any:
        return ctx.op("ReduceSum", ctx.read(ctx.eqn.inputs[0]), keepdims=0, shape=())

    def fn(x: Any) -> Any:
        def step(c: Any, v: Any) -> Any:
            total = (v + c).sum()
            return total & 1, total

        return lax.scan(step, jnp.int32(0), x)[1]

    x = np.array([[1, 2, 3], [4, 5, 6], [2**30, 2**30, 2**30]], np.int32)
    with faulty("reduce_sum", saturating):
        finding = explain(fn, [jax.ShapeDtypeStruct((3, 3), jnp.int32)], [x])
    assert finding.fault == "runtime", describe(finding)
    assert finding.point is not None
    assert finding.point.primitive == "reduce_sum"
    assert finding.inside[0].startswith("iteration 2 of scan")


def test_complex_values_and_64_bits() -> None:
    """Values that graphs hold as pairs, and those that JAX narrows by default."""

    def fn(x: Any) -> Any:
        z = lax.scan(lambda c, v: (c * 0.5 + lax.complex(v, v * 2), c), x[0] * 1j, x)[0]
        return jnp.sin(jnp.abs(z * (1 + 2j)))

    with faulty("sin", scale):
        finding = explain(fn, [(4, 3)], [f32(4, 3)])
    assert finding.fault == "exporter", describe(finding)
    assert finding.point is not None
    assert finding.point.primitive == "sin"
    wide = f32(4, 3).astype(np.float64)
    assert explain(fn, [(4, 3)], [wide], enable_double_precision=True).fault == "none"


@pytest.mark.parametrize("seed", SEEDS, ids=lambda s: s.primitive)
def test_exporter_fault(seed: Seed) -> None:
    specs = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in seed.args]
    with faulty(seed.primitive, seed.spoil):
        finding = explain(seed.fn, specs, seed.args)
    assert finding.fault == "exporter", describe(finding)
    assert finding.point is not None
    assert finding.point.primitive == seed.primitive
    assert finding.point.source.startswith("tests/test_explain.py:")
    # The part that is cut out still shows the fault, and only that.
    assert finding.model is not None
    assert finding.inputs is not None
    onnx.checker.check_model(finding.model)
    (again,) = run(session(finding.model), list(finding.inputs.values()))
    assert not np.allclose(again, finding.point.reference, rtol=1e-5, atol=1e-5)


def test_nothing_is_wrong() -> None:
    def fn(x: Any) -> Any:
        return jax.nn.softmax(jnp.tanh(x @ W))

    finding = explain(fn, [("B", 6)], [f32(3, 6)])
    assert (finding.fault, finding.point) == ("none", None)


def test_file_that_was_changed() -> None:
    """A perturbed weight shows at the operator that reads it, and is the file's fault: an export made now is right."""

    def fn(x: Any) -> Any:
        return jnp.sin(jnp.tanh(x) @ W)

    model = to_onnx(fn, [("B", 6)])
    (weight,) = [t for t in model.graph.initializer if list(t.dims) == [6, 6]]
    array = onnx.numpy_helper.to_array(weight).copy()
    array[2, 3] += 0.1
    weight.CopyFrom(onnx.numpy_helper.from_array(array, weight.name))
    finding = explain(fn, [("B", 6)], [f32(3, 6)], model)
    assert finding.fault == "file"
    assert f"not those of the callable: {weight.name}" in finding.explanation
    assert finding.point is not None
    assert finding.point.primitive == "dot_general"


def flattened(x: Any) -> Any:
    """Channels last, flattened: the file flattens channels first, with the rows of the matrix in that order."""
    x = lax.conv_general_dilated(
        x, f32(3, 3, 2, 4), (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    return jax.nn.relu(x).reshape(x.shape[0], -1) @ f32(64, 5)


def vectors(x: Any) -> Any:
    """Something of eigenvectors, whose signs are anyone's choice."""
    return jnp.tanh(jnp.linalg.eigh(jnp.sin(x) @ jnp.sin(x).T)[1])


def test_results_of_which_there_are_several() -> None:
    """They are charged to nobody; what stands before and behind them still is."""
    x = f32(6, 6)
    turned = explain(vectors, [(6, 6)], [x])
    assert (turned.fault, turned.point) == ("none", None), describe(turned)
    for primitive in ("sin", "tanh"):
        with faulty(primitive, scale):
            finding = explain(vectors, [(6, 6)], [x])
        assert finding.fault == "exporter", describe(finding)
        assert finding.point is not None
        assert finding.point.primitive == primitive


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x + jax.random.normal(jax.random.split(jax.random.key(0))[1], x.shape),
        lambda x: x.at[jnp.array([0, 2])].apply(jnp.sin),
    ],
    ids=["random", "apply"],
)
def test_primitives_that_are_run_in_ways_of_their_own(fn: Callable[..., Any]) -> None:
    finding = explain(fn, [(5,)], [f32(5)])
    assert (finding.fault, finding.point) == ("none", None), describe(finding)


def test_values_that_the_file_holds_in_another_order() -> None:
    """Layouts are no fault, and do not hide one."""
    x = f32(3, 4, 4, 2)
    finding = explain(flattened, [("B", 4, 4, 2)], [x])
    assert (finding.fault, finding.point) == ("none", None), describe(finding)
    with faulty("dot_general", scale):
        finding = explain(flattened, [("B", 4, 4, 2)], [x])
    assert finding.fault == "exporter"
    assert finding.point is not None
    assert finding.point.primitive == "dot_general"


def test_runtime_fault() -> None:
    """ONNX Runtime's integer sum saturates where ONNX's reference wraps: the runtime is named."""
    from onnx import TensorProto, helper

    def fn(x: Any) -> Any:
        return jnp.sum(x)

    data = np.full(4, 2**30, np.int32)
    graph = helper.make_graph(
        [helper.make_node("ReduceSum", ["x"], ["output"], keepdims=0, name="reduce_sum")],
        "fn",
        [helper.make_tensor_value_info("x", TensorProto.INT32, [4])],
        [helper.make_tensor_value_info("output", TensorProto.INT32, [])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    model.ir_version = 10
    finding = explain(fn, [jax.ShapeDtypeStruct((4,), jnp.int32)], [data], model)
    assert finding.fault == "runtime", describe(finding)
    assert "reference evaluator" in finding.explanation
