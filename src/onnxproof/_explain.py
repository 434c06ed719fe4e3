"""``explain``: where, and through whose fault, a file first differs from the callable it came from."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from onnxproof._api import Built, Inputs, build, name_of
from onnxproof.capture.program import Eqn, Var
from onnxproof.capture.trips import Level, passes, whole
from onnxproof.errors import ArtifactError, InputSpecError
from onnxproof.evidence.localize import Finding, Pass, Point, localize
from onnxproof.evidence.parts import computed
from onnxproof.evidence.references.jax import JaxReference
from onnxproof.inspection.reading import read
from onnxproof.passes.edit import standing
from onnxproof.passes.pipeline import PassContext

Array = np.ndarray[Any, Any]
# Of these there are several right results: they differ in signs, order, or entries that mean nothing.
_FACTORIZATIONS = frozenset({"cholesky", "eig", "eigh", "geqrf", "householder_product", "qr", "schur", "svd"})


def explain(
    fn: Callable[..., Any],
    inputs: Inputs,
    args: Sequence[Any],
    model: str | os.PathLike[str] | onnx.ModelProto | None = None,
    *,
    input_params: Mapping[str, Any] | None = None,
    opset: int = 23,
    enable_double_precision: bool = False,
    rtol: float | None = None,
    atol: float | None = None,
) -> Finding:
    """Find the first value that is wrong although what it was computed from is right.

    Args:
        fn, inputs, input_params, opset, enable_double_precision: as they were given to ``to_onnx``.
        args: concrete arguments at which the file differs from ``fn``.
        model: the file to look into; a fresh export by default. Values are found by name, which an export of the
            same callable with the same versions repeats.
        rtol, atol: what counts as a difference, by dtype when not given.

    Raises:
        OnnxProofError: the callable can't be exported, or the model can't be run.
    """
    built = build(
        fn,
        inputs,
        input_params,
        name_of(fn),
        opset,
        double=enable_double_precision,
        names=(None, None),
        nchw=((), ()),
        normalization="auto",
        constraints=(),
        drop_effects=("debug", "checks"),
        context=PassContext(opset, "ort-cpu"),
    )
    flat = JaxReference(fn, input_params, double=enable_double_precision).flat(args)
    level = whole(built.program, [_joined(a, v) for a, v in zip(flat, built.program.inputs, strict=True)])
    if model is None:
        return _search(built, level, ir.to_proto(built.model), flat, rtol, atol)
    found = _search(built, level, _whole(model), flat, rtol, atol)
    if found.fault != "exporter":
        return found
    now = ir.to_proto(built.model)
    if _search(built, level, now, flat, rtol, atol).fault == "exporter":
        return found
    return replace(found, fault="file", explanation=_stale(found, now, opset))


def _search(
    built: Built,
    level: Level,
    proto: onnx.ModelProto,
    flat: Sequence[Array],
    rtol: float | None,
    atol: float | None,
) -> Finding:
    """The first fault of one graph of the program.

    Raises:
        InputSpecError: the graph has other inputs or outputs than the program.
    """
    sides = [
        (len(proto.graph.input), len(flat), "inputs"),
        (len(proto.graph.output), len(built.program.outputs), "outputs"),
    ]
    for held, given, kind in sides:
        if held != given:
            raise InputSpecError(
                f"the file has {held} {kind}, and the callable has {given}",
                way_out="Give the callable, inputs and keyword arguments that it was exported with.",
            )
    feed = {v.name: a for v, a in zip(proto.graph.input, flat, strict=True)}
    points = _points(built, level, computed(proto.graph))
    found = {p.name for p in points}
    for atom, output in zip(built.program.outputs, proto.graph.output, strict=True):
        if output.name not in found and isinstance(atom, Var):
            points.append(Point(output.name, "output", "", level.values[atom], None))
    return localize(proto, feed, points, rtol, atol)


def _stale(found: Finding, now: onnx.ModelProto, opset: int) -> str:
    """What is wrong with a file where an export made now is right: its weights, or its operators."""
    assert found.point is not None
    part = found.model.graph.initializer if found.model is not None else ()
    held, true = ({t.name: t for t in tensors} for tensors in (part, now.graph.initializer))
    changed = [n for n, t in held.items() if n in true and not _same(t, true[n])]
    why = (
        f"weights are not those of the callable: {', '.join(changed)}" if changed else "its operators differ"
    )
    return (
        f"this part of the file does not compute what {found.point.primitive} computes, and an export made now at"
        f" opset {opset} does: {why}. The file was changed, is of another state of the callable, or was written"
        " with other options; export it anew"
    )


def _same(a: onnx.TensorProto, b: onnx.TensorProto) -> bool:
    first, second = (onnx.numpy_helper.to_array(t) for t in (a, b))
    return (first.dtype, first.shape) == (second.dtype, second.shape) and first.tobytes() == second.tobytes()


def _whole(model: str | os.PathLike[str] | onnx.ModelProto) -> onnx.ModelProto:
    if not isinstance(model, (str, os.PathLike)):
        return model
    path = Path(os.fspath(model))
    if not path.is_file():
        raise ArtifactError(f"there is no file {str(path)!r}", way_out="Name the model file itself.")
    proto = read(path)
    onnx.load_external_data_for_model(proto, str(path.parent))
    return proto


def _points(built: Built, level: Level, present: Collection[str]) -> list[Point]:
    """The values of one pass that the finished graph still computes, in the order of the program."""
    points: dict[str, Point] = {}
    after: set[Var] = set()  # computed of a factorization
    loose: set[Var] = set()  # the same, with no point between
    for eqn in level.eqns:
        read = [a for a in eqn.inputs if isinstance(a, Var)]
        factors = eqn.primitive in _FACTORIZATIONS
        late, unique = factors or not after.isdisjoint(read), not factors and loose.isdisjoint(read)
        for var in eqn.outputs:
            name = _name(built, var)
            after.update([var] if late else [])
            loose.update([] if unique or (name in present and var in built.primitives) else [var])
            if name in present and name not in points and var in built.primitives:
                said = built.primitives[var]
                true = level.oracle[var] if level.oracle[var].dtype.kind in "fc" else None
                inside = partial(_passes, built, level, eqn, present) if any(eqn.bodies()) else None
                points[name] = Point(
                    name, said.primitive, said.site.line, level.values[var], true, inside, late, unique
                )
    return list(points.values())


def _joined(array: Array, var: Var) -> Array:
    """An input as the program takes it: complex where the graph has pairs."""
    return np.ascontiguousarray(array).view(var.aval.dtype)[..., 0] if var.aval.is_complex else array


def _passes(built: Built, level: Level, eqn: Eqn, present: Collection[str]) -> Iterator[Pass]:
    for inner in passes(level, eqn):
        feed = {_name(built, v): inner.values[v] for v in inner.inputs if v in built.values}
        yield Pass(inner.label, inner.count, inner.live, feed, _points(built, inner, present))


def _name(built: Built, var: Var) -> str:
    """The name in the finished graph of what a Var became, empty when it has none."""
    value = built.values.get(var)
    return (standing(value).name or "") if value is not None else ""


def describe(finding: Finding) -> str:
    """A few lines for a reader: the fault, the place, the values."""
    if finding.point is None:
        return finding.explanation
    point = finding.point
    lines = [
        f"fault: {finding.fault}: {finding.explanation}",
        f"value {point.name!r}, computed by {point.primitive}"
        + (f" at {point.source}" if point.source else ""),
    ]
    lines += [f"in {place}" for place in reversed(finding.inside)]
    if finding.nodes:
        lines.append("nodes: " + ", ".join(finding.nodes))
    if finding.got is not None and finding.got.shape == point.reference.shape and finding.got.size:
        with np.errstate(all="ignore"):
            wide = np.complex128 if point.reference.dtype.kind == "c" else np.float64
            error = np.abs(finding.got.astype(wide) - point.reference.astype(wide))
        at = np.unravel_index(int(np.argmax(np.where(np.isnan(error), np.inf, error))), error.shape)
        text = f"at {[int(i) for i in at]}: graph {finding.got[at]!s}, program {point.reference[at]!s}"
        lines.append(text + ("" if point.oracle is None else f", float64 {point.oracle[at]!s}"))
    return "\n".join(lines)
