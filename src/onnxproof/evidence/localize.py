"""Find the first value of a graph that is wrong although what it was computed from is right, and say whose fault it is.

A :class:`Point` pairs a value of the graph with what the program computes there, as it is and in float64. The
points are gone through in the order of the program. Where the runtime's value differs, the part of the graph between
the nearest points before it and this one is cut out and run on the *program's* values: if that part agrees, the
difference came from further up or is rounding that grew on the way; if it does not, the fault is in that part.
Where that part is a loop or a branch, its body takes the place of the graph, one pass after the other.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from onnxproof.evidence.compare import Difference, difference, join_complex
from onnxproof.evidence.parts import behind, cut, enclosing, flattened, loop_inputs
from onnxproof.evidence.runtimes.ort import OrtSession, run_graph

if TYPE_CHECKING:
    import onnx

Array = np.ndarray[Any, Any]
Fault = Literal["exporter", "file", "runtime", "reference", "none"]
MAX_PASSES = 10_000  # through one body
_NEARER = 0.5  # at most this part of the program's error: the difference is the program's own rounding
_GROWN = 10.0  # a loop whose passes are right may be off by this many times the program's error

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
        passes: gives the passes through the bodies of what computes it, None where it has no body.
        after: whether it is computed of a factorization, of which there are several right ones.
        unique: whether there is one right value all the same, given the values of the points before it.
    """

    name: str
    primitive: str
    source: str
    reference: Array
    oracle: Array | None
    passes: Callable[[], Iterable[Pass]] | None = None
    after: bool = False
    unique: bool = True


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass through the body of a loop or a branch, as the program makes it.

    Attributes:
        label: what a reader calls it, such as ``iteration 3``.
        count: passes before this one.
        live: of a loop mapped over a batch, the elements that go on.
        feed: what the body is given, by name.
        points: what it computes, in order.
    """

    label: str
    count: int
    live: Array | None
    feed: Mapping[str, Array]
    points: Sequence[Point]


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found, with a part of the graph that still shows it.

    ``fault`` is ``exporter`` (the graph says something else than the program), ``file`` (so does the one that was
    given, but an export made now is right), ``runtime`` (the graph is right and the runtime is not), ``reference`` (the
    runtime is nearer to float64 than the program) or ``none``. ``inside`` names the passes that the point is in, outer
    ones first.
    """

    fault: Fault
    explanation: str
    point: Point | None = None
    nodes: tuple[str, ...] = ()
    got: Array | None = None
    optimizer: str | None = None
    model: onnx.ModelProto | None = None
    inputs: Mapping[str, Array] | None = None
    inside: tuple[str, ...] = ()


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
    known = {**{name: stored(a) for name, a in feed.items()}, **_known(points)}
    search = _Search(model, known, rtol, atol, [p.name for p in points if not p.unique])
    fed = {name: known[name] for name in feed}
    outputs = {o.name for o in model.graph.output}
    names = [p.name for p in points]
    plain = dict(zip(names, run_graph(model, fed, names, optimized=False), strict=True))
    rounded = search.first_fault(points, plain)
    if rounded is not None and rounded.fault != "reference":
        return rounded
    if search.several:
        return rounded or Finding("none", _another(search.several[0]))
    final = [p for p in points if p.name in outputs]
    optimized = run_graph(model, fed, [p.name for p in final], optimized=True)
    for point, got in zip(final, optimized, strict=True):
        if not search.matches(got, point) and search.matches(plain[point.name], point):
            return _optimizer_fault(model, fed, point, got, rtol, atol)
    return rounded or Finding(
        "none", "every value agrees with the program, or differs by rounding that grew on the way"
    )


def _another(point: Point) -> str:
    where = f" at {point.source}" if point.source else ""
    return (
        f"no value is wrong that has one right value; {point.primitive}{where} comes from a factorization, of which"
        " there are several (signs, order, entries that mean nothing), and is of another one than the program's"
    )


def stored(array: Array) -> Array:
    """An array as graphs hold it: complex numbers are pairs of reals."""
    return np.stack([array.real, array.imag], -1) if array.dtype.kind == "c" else array


def _known(points: Sequence[Point]) -> dict[str, Array]:
    return {p.name: stored(p.reference) for p in points}


def _compare(got: Array, point: Point, rtol: float | None, atol: float | None) -> Difference:
    return difference(join_complex(got, point.reference), point.reference, rtol, atol)


@dataclass(frozen=True, slots=True)
class _Search:
    """A graph, the values that are known in it by name, and what counts as a difference.

    ``factors`` are the results of factorizations, by name; ``several`` the points that differ, and may, for they
    come from one.
    """

    model: onnx.ModelProto
    known: Mapping[str, Array]
    rtol: float | None
    atol: float | None
    factors: Sequence[str] = ()
    several: list[Point] = field(default_factory=list)

    def matches(self, got: Array, point: Point) -> bool:
        return _compare(got, point, self.rtol, self.atol).matches

    def first_fault(self, points: Sequence[Point], got: Mapping[str, Array]) -> Finding | None:
        """The first finding on points that differ; one that charges the reference only where there is no other."""
        rounded: Finding | None = None
        for point in points:
            if self.matches(got[point.name], point):
                continue
            finding = self.examine(point)
            if finding is not None and finding.fault != "reference":
                return finding
            rounded = rounded or finding
        return rounded

    def examine(self, point: Point) -> Finding | None:
        """The finding on one point that differs, None when its part of the graph is right by itself."""
        part, inputs = cut(self.model, _known([point]), self.known)
        (got,) = run_graph(part, inputs, [point.name], optimized=False)
        if self.matches(got, point):
            return None
        if point.after and (not point.unique or self.factorizes(part)):
            self.several.append(point)
            return None
        whole = self.charged(point, got, part, inputs)
        return whole if point.passes is None else self.within(point, whole)

    def factorizes(self, part: onnx.ModelProto) -> bool:
        """Whether a part goes back behind the results of a factorization, and so has its own."""
        own = {output for node in part.graph.node for output in node.output}
        return not own.isdisjoint(behind(self.model.graph, self.factors))

    def charged(
        self, point: Point, got: Array, part: onnx.ModelProto, inputs: Mapping[str, Array]
    ) -> Finding:
        """Whose fault it is that ``got`` is not the point's value."""
        nodes = tuple(f"{n.name} ({n.op_type})" for n in part.graph.node)
        common: dict[str, Any] = {"point": point, "nodes": nodes, "got": got, "model": part, "inputs": inputs}
        if _error_ratio(got, point) <= _NEARER:
            return Finding(
                "reference",
                "the runtime is nearer to float64 than the program is: the difference is the program's own rounding",
                **common,
            )
        other = _reference_evaluator(part, inputs, point.name)
        if other is not None and self.matches(other, point):
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

    def within(self, point: Point, whole: Finding) -> Finding | None:
        """The first fault inside a loop or branch, else the finding on the ``whole`` of it.

        Every pass is given the program's values. Where all of them are right by themselves, the whole is off by
        rounding that grew from one to the next as it did in the program, or it joins them wrongly.
        """
        assert point.passes is not None
        assert whole.model is not None
        assert whole.got is not None
        step: _Step | None = None
        for one in itertools.islice(point.passes(), MAX_PASSES):
            step = step or _Step.made(self, whole.model, one)
            if step is None:
                return whole
            found = step.fault(self, one)
            if found is not None and found.fault != "reference":
                place = f"{one.label} of {point.primitive}" + (f" at {point.source}" if point.source else "")
                return replace(found, inside=(place, *found.inside))
        if step is None or whole.fault == "reference":
            return whole
        if _error_ratio(whole.got, point) <= _GROWN:
            return None
        said = f"{whole.explanation}; each pass through its body is right by itself"
        return replace(whole, explanation=said)


@dataclass(frozen=True, slots=True)
class _Step:
    """A body in the place of the graph, and a session that computes what is known of it.

    Attributes:
        loop: of a Loop, the inputs of its body: the count, whether it goes on, then what it carries.
    """

    model: onnx.ModelProto
    session: OrtSession
    loop: Sequence[str]

    @classmethod
    def made(cls, search: _Search, part: onnx.ModelProto, one: Pass) -> _Step | None:
        """None where the graph has no body with these values."""
        graphs = enclosing(part.graph, {p.name for p in one.points})
        if not graphs:
            return None
        model = flattened(part, graphs[1:])
        loop = loop_inputs(graphs)
        own = {o for node in model.graph.node for o in node.output}
        wanted = {name: array for name, array in _known(one.points).items() if name in own}
        computing, _ = cut(model, wanted, {**search.known, **_given(one, loop)})
        return cls(model, OrtSession(computing, optimized=False), loop)

    def fault(self, search: _Search, one: Pass) -> Finding | None:
        """The first fault in one pass."""
        given = {**search.known, **_given(one, self.loop)}
        values = self.session.run([given[name] for name in self.session.input_names])
        got = dict(zip(self.session.output_names, values, strict=True))
        points = [p for p in one.points if p.name in got]
        if all(search.matches(got[p.name], p) for p in points):
            return None
        factors = [*search.factors, *(p.name for p in points if not p.unique)]
        inner = replace(search, model=self.model, known={**given, **_known(points)}, factors=factors)
        return inner.first_fault(points, got)


def _given(one: Pass, loop: Sequence[str]) -> dict[str, Array]:
    """What a body is given, by name."""
    given = {name: stored(array) for name, array in one.feed.items()}
    if loop:
        given |= {loop[0]: np.asarray(one.count, np.int64), loop[1]: np.asarray(True)}
        if one.live is not None:
            given[loop[2]] = one.live
    return given


def _error_ratio(got: Array, point: Point) -> float:
    """The runtime's worst error against float64 as a part of the program's; infinite where it can't be told."""
    got = join_complex(got, point.reference)
    if point.oracle is None or point.reference.dtype.kind not in "fc" or got.shape != point.oracle.shape:
        return float("inf")
    wide = point.oracle.dtype
    with np.errstate(all="ignore"):
        ours = np.abs(got.astype(wide) - point.oracle)
        theirs = np.abs(point.reference.astype(wide) - point.oracle)
    if not (np.isfinite(ours).all() and np.isfinite(theirs).all() and ours.size and theirs.max() > 0):
        return float("inf")
    return float(ours.max() / theirs.max())


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
