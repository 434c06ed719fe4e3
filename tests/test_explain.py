"""Seeded faults: each is found at its primitive and line, and charged to whoever made it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
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
    """A perturbed weight shows at the operator that reads it."""

    def fn(x: Any) -> Any:
        return jnp.sin(jnp.tanh(x) @ W)

    model = to_onnx(fn, [("B", 6)])
    (weight,) = [t for t in model.graph.initializer if list(t.dims) == [6, 6]]
    array = onnx.numpy_helper.to_array(weight).copy()
    array[2, 3] += 0.1
    weight.CopyFrom(onnx.numpy_helper.from_array(array, weight.name))
    finding = explain(fn, [("B", 6)], [f32(3, 6)], model)
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
