"""Find the first value of a graph that is wrong although what it was computed from is right, and say whose fault it is.

A :class:`Point` pairs a value of the graph with what the program computes there, as it is and in float64. The
points are gone through in the order of the program. Where the runtime's value differs, the part of the graph between
the nearest points before it and this one is cut out and run on the *program's* values: if that part agrees, the
difference came from further up or is rounding that grew on the way; if it does not, the fault is in that part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from onnxproof.evidence.compare import Difference, difference, join_complex
from onnxproof.evidence.runtimes.ort import run_graph

if TYPE_CHECKING:
    import onnx

Array = np.ndarray[Any, Any]
Fault = Literal["exporter", "runtime", "reference", "none"]

# Optimizers of ONNX Runtime that may be turned off one by one (SessionOptions' disabled_optimizers).
OPTIMIZERS = (
    "ConstantFolding", "CommonSubexpressionElimination", "ConstantSharing", "GemmActivationFusion",
    "MatMulAddFusion", "ReshapeFusion", "GeluFusionL1", "GeluFusionL2", "LayerNormFusionL1", "LayerNormFusionL2",
    "SimplifiedLayerNormFusion", "TransposeOptimizer", "ConvActivationFusion", "AttentionFusion",
    "MatmulTransposeFusion", "BiasGeluFusion", "SkipLayerNormFusion", "FastGeluFusion", "QuickGeluFusion",
    "BiasSoftmaxFusion", "MatMulScaleFusion", "NchwcTransformer", "ConvAddActivationFusion", "ConvBNFusion",
    "ConvMulFusion", "ConvAddFusion", "EliminateIdentity", "EliminateSlice", "UnsqueezeElimination",
    "EliminateDropout", "FuseReluClip", "DynamicQuantizeMatMulFusion", "NotWhereFusion", "CastElimination",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Point:
    """A value of the graph and what the program says it is.

    Attributes:
        name: of the ONNX value.
        primitive: the primitive or composite that computes it.
        source: the user's ``file:line``, empty when unknown.
        reference: the program's value.
        oracle: the same in float64, None where there is none.
    """

    name: str
    primitive: str
    source: str
    reference: Array
    oracle: Array | None


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found, with a part of the graph that still shows it.

    ``fault`` is ``exporter`` (the graph says something else than the program), ``runtime`` (the graph is right and
    the runtime is not), ``reference`` (the runtime is nearer to float64 than the program) or ``none``.
    """

    fault: Fault
    explanation: str
    point: Point | None = None
    nodes: tuple[str, ...] = ()
    got: Array | None = None
    optimizer: str | None = None
    model: onnx.ModelProto | None = None
    inputs: Mapping[str, Array] | None = None


def localize(
    model: onnx.ModelProto,
    feed: Mapping[str, Array],
    points: Sequence[Point],
    rtol: float | None = None,
    atol: float | None = None,
) -> Finding:
    """Go through ``points`` and return the first fault.

    Args:
        model: the whole graph, weights inside.
        feed: the inputs of the graph by name.
        points: in the order of the program; the outputs of the graph are among them.
    """
    known = {**dict(feed), **{p.name: p.reference for p in points}}
    outputs = {o.name for o in model.graph.output}
    names = [p.name for p in points]
    plain = dict(zip(names, run_graph(model, feed, names, optimized=False), strict=True))
    rounded: Finding | None = None
    for point in points:
        if _compare(plain[point.name], point, rtol, atol).matches:
            continue
        finding = _examine(model, known, point, rtol, atol)
        if finding is not None and finding.fault != "reference":
            return finding
        rounded = rounded or finding
    final = [p for p in points if p.name in outputs]
    optimized = run_graph(model, feed, [p.name for p in final], optimized=True)
    for point, got in zip(final, optimized, strict=True):
        if (
            not _compare(got, point, rtol, atol).matches
            and _compare(plain[point.name], point, rtol, atol).matches
        ):
            return _optimizer_fault(model, feed, point, got, rtol, atol)
    return rounded or Finding(
        "none", "every value agrees with the program, or differs by rounding that grew on the way"
    )


def _compare(got: Array, point: Point, rtol: float | None, atol: float | None) -> Difference:
    return difference(join_complex(got, point.reference), point.reference, rtol, atol)


def _examine(
    model: onnx.ModelProto,
    known: Mapping[str, Array],
    point: Point,
    rtol: float | None,
    atol: float | None,
) -> Finding | None:
    """The finding on one point that differs, None when its part of the graph is right by itself."""
    part, inputs = cut(model, point.name, known)
    (got,) = run_graph(part, inputs, [point.name], optimized=False)
    nodes = tuple(f"{n.name} ({n.op_type})" for n in part.graph.node)
    told = _compare(got, point, rtol, atol)
    if told.matches:
        return None
    common: dict[str, Any] = {"point": point, "nodes": nodes, "got": got, "model": part, "inputs": inputs}
    if _nearer(got, point):
        return Finding(
            "reference",
            "the runtime is nearer to float64 than the program is: the difference is the program's own rounding",
            **common,
        )
    other = _reference_evaluator(part, inputs, point.name)
    if other is not None and _compare(other, point, rtol, atol).matches:
        return Finding(
            "runtime",
            "the ONNX reference evaluator computes what the program computes; the runtime does not,"
            " with its optimizations off",
            **common,
        )
    agreed = "" if other is None else ", and the ONNX reference evaluator agrees with the runtime"
    return Finding(
        "exporter",
        f"this part of the graph does not compute what {point.primitive} computes{agreed}",
        **common,
    )


def _nearer(got: Array, point: Point) -> bool:
    """Whether the runtime's worst error against float64 is at most half the program's."""
    if point.oracle is None or point.reference.dtype.kind not in "fc" or got.shape != point.oracle.shape:
        return False
    wide = point.oracle.dtype
    with np.errstate(all="ignore"):
        ours = np.abs(got.astype(wide) - point.oracle)
        theirs = np.abs(point.reference.astype(wide) - point.oracle)
    if not (np.isfinite(ours).all() and np.isfinite(theirs).all() and ours.size):
        return False
    return bool(ours.max() <= theirs.max() / 2)


def _optimizer_fault(
    model: onnx.ModelProto,
    feed: Mapping[str, Array],
    point: Point,
    got: Array,
    rtol: float | None,
    atol: float | None,
) -> Finding:
    """A value that is right with optimizations off and wrong with them: name the optimizer."""
    for name in OPTIMIZERS:
        (again,) = run_graph(model, feed, [point.name], optimized=True, disabled=[name])
        if _compare(again, point, rtol, atol).matches:
            text = (
                f"the value is right with optimizations off, and with the optimizer {name} alone turned off"
            )
            return Finding("runtime", text, point=point, got=got, optimizer=name, model=model, inputs=feed)
    return Finding(
        "runtime",
        "the value is right with optimizations off and wrong with them; no single optimizer is the cause",
        point=point,
        got=got,
        model=model,
        inputs=feed,
    )


def _reference_evaluator(part: onnx.ModelProto, inputs: Mapping[str, Array], name: str) -> Array | None:
    from onnx.reference import ReferenceEvaluator

    try:
        (value,) = ReferenceEvaluator(part).run([name], dict(inputs))
    except Exception:  # the evaluator raises what NumPy raises where it lacks an operator or a form of one
        return None
    return np.asarray(value)


def cut(
    model: onnx.ModelProto, output: str, known: Mapping[str, Array]
) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """The part of ``model`` that computes ``output`` from values in ``known``, and those values."""
    import onnx

    producers = {o: n for n in model.graph.node for o in n.output if o}
    weights = {t.name: t for t in model.graph.initializer}
    wanted: dict[str, None] = {}
    inputs: dict[str, Array] = {}
    stack = [output]
    seen: set[str] = set()
    while stack:
        name = stack.pop()
        if name in seen or not name:
            continue
        seen.add(name)
        if name in known and name != output:
            inputs[name] = known[name]
        elif name in producers:
            node = producers[name]
            wanted.update(dict.fromkeys(node.output))
            stack += [*node.input, *_captured(node)]
    nodes = [n for n in model.graph.node if any(o in wanted for o in n.output)]
    used = {i for n in nodes for i in (*n.input, *_captured(n))}
    make = onnx.helper
    graph = make.make_graph(
        nodes,
        f"{model.graph.name}_part",
        [_declared(model, name, array) for name, array in inputs.items()],
        [_declared(model, output, known[output])],
        [weights[name] for name in sorted(used & set(weights))],
    )
    part = make.make_model(graph, opset_imports=model.opset_import, functions=model.functions)
    part.ir_version = model.ir_version
    return part, inputs


def _captured(node: onnx.NodeProto) -> list[str]:
    """Names of outer values that the bodies of a node use."""
    free: list[str] = []
    for attribute in node.attribute:
        if attribute.HasField("g"):
            own = {i.name for i in attribute.g.input} | {t.name for t in attribute.g.initializer}
            own |= {o for n in attribute.g.node for o in n.output}
            used = [i for n in attribute.g.node for i in (*n.input, *_captured(n))]
            used += [o.name for o in attribute.g.output]
            free += [name for name in used if name and name not in own]
    return free


def _element_type(model: onnx.ModelProto, name: str) -> int:
    for value in (*model.graph.value_info, *model.graph.output, *model.graph.input):
        if value.name == name:
            return int(value.type.tensor_type.elem_type)
    return 0


def _declared(model: onnx.ModelProto, name: str, array: Array) -> onnx.ValueInfoProto:
    from onnx import helper

    kind = _element_type(model, name) or helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, kind, array.shape)
