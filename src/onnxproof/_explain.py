"""``explain``: where, and through whose fault, a file first differs from the callable it came from."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from onnxproof._api import Built, Inputs, build, name_of
from onnxproof.capture.evaluate import evaluate
from onnxproof.evidence.localize import Finding, Point, localize
from onnxproof.evidence.references.jax import JaxReference
from onnxproof.passes.edit import standing
from onnxproof.passes.pipeline import PassContext

Array = np.ndarray[Any, Any]


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
        normalization=True,
        constraints=(),
        drop_effects=("debug", "checks"),
        context=PassContext(opset, "ort-cpu"),
    )
    proto = _whole(model) if model is not None else ir.to_proto(built.model)
    flat = JaxReference(fn, input_params, double=enable_double_precision).flat(args)
    feed = {v.name: a for v, a in zip(proto.graph.input, flat, strict=True)}
    return localize(proto, feed, _points(built, proto, flat), rtol, atol)


def _whole(model: str | os.PathLike[str] | onnx.ModelProto) -> onnx.ModelProto:
    return onnx.load(os.fspath(model)) if isinstance(model, (str, os.PathLike)) else model


def _points(built: Built, proto: onnx.ModelProto, flat: Sequence[Array]) -> list[Point]:
    """The values that the finished graph still computes, in the order of the program."""
    values = evaluate(built.program, flat)
    oracle = evaluate(built.program, flat, double=True)
    present = {o for node in proto.graph.node for o in node.output}
    points: dict[str, Point] = {}
    for var, eqn in built.primitives.items():
        name = standing(built.values[var]).name
        if name is not None and name in present and var in values and name not in points:
            true = oracle[var] if oracle[var].dtype.kind in "fc" else None
            points[name] = Point(name, eqn.primitive, eqn.site.line, values[var], true)
    for atom, output in zip(built.program.outputs, proto.graph.output, strict=True):
        if output.name not in points and atom in values:
            points[output.name] = Point(output.name, "output", "", values[atom], None)
    return list(points.values())


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
