"""Widening: compute in a larger type that has a kernel, and narrow the result.

What makes that exact depends on the operator, so each has a *kind*:

* ``MOVE``: values are only moved or compared for equality; any one-to-one image of them will do.
* ``ORDER``: results depend on the order of the values only; the image has to be monotone.
* ``WRAP``: arithmetic modulo 2^n; any larger integer type will do, since narrowing takes the remainder.
* ``EXACT``: the value itself is needed; the larger type has to hold it.

Floating point needs no kind: bfloat16 and float16 are computed in float32 and rounded once, as JAX does it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxproof.passes.legalize_emit import DType, Emitter, dims_of, dtype_of, small_constant
from onnxproof.targets import OpVersion


class Kind(Enum):
    """Why computing in a larger type gives the same result."""

    MOVE = auto()
    ORDER = auto()
    WRAP = auto()
    EXACT = auto()
    ROUND = auto()


_BY_KIND = {
    Kind.MOVE: """Compress Concat DepthToSpace Equal Expand EyeLike Gather GatherElements GatherND Identity
        NonZero Pad Reshape ReverseSequence Shape Size Slice SpaceToDepth Split Squeeze TensorScatter
        Tile Transpose Trilu Unsqueeze Where""",
    Kind.ORDER: """ArgMax ArgMin Clip GlobalMaxPool Greater GreaterOrEqual Less LessOrEqual Max MaxPool Min
        ReduceMax ReduceMin TopK Unique""",
    Kind.WRAP: """Add BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Col2Im CumProd CumSum Einsum MatMul Mul Neg
        Range Sub Sum""",
    Kind.EXACT: "Abs Div Mod Relu Sign",
}
KINDS: Mapping[str, Kind] = {op: kind for kind, ops in _BY_KIND.items() for op in ops.split()}

_SCATTER = {"none": Kind.MOVE, "max": Kind.ORDER, "min": Kind.ORDER, "add": Kind.WRAP, "mul": Kind.WRAP}
# Results that need no rounding when the operands were of the smaller float type.
_EXACT_IN_FLOAT = frozenset(["Abs", "Ceil", "Floor", "Neg", "Relu", "Round", "Sign"])
_FLOATS = frozenset({DType.BFLOAT16, DType.FLOAT16})
# Larger types in order of preference. Floats hold the integers exactly that they are listed for.
_LADDER: Mapping[DType, Sequence[DType]] = {
    DType.BFLOAT16: (DType.FLOAT,),
    DType.FLOAT16: (DType.FLOAT,),
    DType.BOOL: (DType.UINT8, DType.INT32, DType.INT64),
    DType.INT8: (DType.INT32, DType.INT64, DType.FLOAT),
    DType.UINT8: (DType.INT32, DType.INT64, DType.FLOAT),
    DType.INT16: (DType.INT32, DType.INT64, DType.FLOAT),
    DType.UINT16: (DType.INT32, DType.INT64, DType.FLOAT),
    DType.INT32: (DType.INT64, DType.DOUBLE),
    DType.UINT32: (DType.INT64, DType.DOUBLE),
    DType.UINT64: (DType.INT64,),
}
_SIGN_BIT = np.uint64(1 << 63)

Key = tuple[ir.Value, DType, bool]


@dataclass(frozen=True, slots=True)
class _Plan:
    """How a node is widened: to which type, in which type variables, and why that is exact."""

    wide: DType
    letters: frozenset[str]
    kind: Kind
    keeps: bool  # a result is one of the operands' values, or exact anyway: its own wide form


class Widener:
    """Widens nodes. The wide form of a value is made once, next to its source."""

    def __init__(self) -> None:
        self._wide: dict[Key, ir.Value] = {}
        self._casts: list[ir.Node] = []
        self._plans: dict[tuple[Any, ...], _Plan | None] = {}

    def widen(
        self, emitter: Emitter, version: OpVersion, missing: DType, variant: str
    ) -> Sequence[ir.Value] | None:
        """The results of the node computed in a larger type, or None where that is not exact or possible."""
        node = emitter.node
        kind = _kind(node)
        types = tuple([None if v is None else v.dtype for v in (*node.inputs, *node.outputs)])
        key = (node.op_type, len(node.inputs), types, missing, variant, kind)
        if key not in self._plans:
            self._plans[key] = _plan(node, version, missing, variant, kind)
        plan = self._plans[key]
        return None if plan is None else self._rewrite(emitter, version, missing, plan)

    def sweep(self) -> None:
        """Remove the casts that turned out to have no reader."""
        for node in reversed(self._casts):
            out = node.outputs[0]
            if node.graph is not None and not out.uses() and not out.is_graph_output():
                node.graph.remove(node, safe=True)

    def _rewrite(
        self, emitter: Emitter, version: OpVersion, missing: DType, plan: _Plan
    ) -> Sequence[ir.Value]:
        node, wide, letters = emitter.node, plan.wide, plan.letters
        biased = plan.kind is Kind.ORDER and missing is DType.UINT64
        inputs = [
            self._widened(emitter, v, wide, biased)
            if v is not None and v.dtype == missing and version.inputs.letter(i) in letters
            else v
            for i, v in enumerate(node.inputs)
        ]
        narrowed = [
            v.dtype == missing and version.outputs.letter(i) in letters for i, v in enumerate(node.outputs)
        ]
        dtypes = [wide if n else dtype_of(v) for v, n in zip(node.outputs, narrowed, strict=True)]
        attributes = [
            ir.AttrInt64("dtype", int(wide)) if a.name == "dtype" and a.value == int(missing) else a
            for a in node.attributes.values()
        ]
        new = emitter.build(node.op_type, inputs, attributes, dtypes)
        for value, old in zip(new.outputs, node.outputs, strict=True):
            value.shape = old.shape
        results = []
        for value, narrow in zip(emitter.insert(new), narrowed, strict=True):
            result = value
            if narrow:
                result = self._narrowed(emitter, value, missing, biased)
                if plan.keeps:
                    self._wide[result, wide, biased] = value
            results.append(result)
        return results

    # -- to and from the larger type ----------------------------------------------------------

    def _widened(self, emitter: Emitter, value: ir.Value, wide: DType, biased: bool) -> ir.Value:
        key = (value, wide, biased)
        found = self._wide.get(key)
        if found is None:
            array = small_constant(value)
            if array is not None:
                flipped = array + _SIGN_BIT if biased else array
                found = emitter.const(flipped.astype(wide.numpy()))
            else:
                source = value
                if biased:  # adding half the range turns the order of uint64 into the order of int64
                    half = emitter.const(_SIGN_BIT)
                    shifted = emitter.build("Add", [value, half], [], [dtype_of(value)])
                    source = self._after(emitter, value, shifted)
                to = [ir.AttrInt64("to", int(wide))]
                found = self._after(emitter, source, emitter.build("Cast", [source], to, [wide]))
            self._wide[key] = found
        return found

    def _after(self, emitter: Emitter, value: ir.Value, node: ir.Node) -> ir.Value:
        """Put a node right behind the one that computes ``value``, where it serves every reader of it."""
        node.outputs[0].shape = value.shape
        producer = value.producer()
        graph = value.graph
        if producer is not None and producer.graph is not None:
            producer.graph.insert_after(producer, node)
        elif graph is not None:
            # Constants of a function stand first, and the node may read one.
            graph.insert_before(next(n for n in graph if n.op_type != "Constant"), node)
        self._casts.append(node)
        return node.outputs[0]

    def _narrowed(self, emitter: Emitter, value: ir.Value, dtype: DType, biased: bool) -> ir.Value:
        result = emitter.op("Cast", value, to=dtype, dtype=dtype, shape=dims_of(value))
        self._remember(result)
        if biased:
            result = emitter.op("Add", result, emitter.const(_SIGN_BIT))
            self._remember(result)
        return result

    def _remember(self, value: ir.Value) -> None:
        node = value.producer()
        if node is not None:
            self._casts.append(node)


def _kind(node: ir.Node) -> Kind | None:
    """The kind of an operator; that of some depends on an attribute."""
    if node.op_type in ("ScatterElements", "ScatterND"):
        reduction = node.attributes.get("reduction")
        return _SCATTER["none" if reduction is None else reduction.as_string()]
    if node.op_type == "Resize":
        mode = node.attributes.get("mode")
        return Kind.MOVE if mode is None or mode.as_string() == "nearest" else None
    return KINDS.get(node.op_type)


def _plan(
    node: ir.Node, version: OpVersion, missing: DType, variant: str, by_operator: Kind | None
) -> _Plan | None:
    kind = Kind.ROUND if missing in _FLOATS else by_operator
    if kind is None or (missing is DType.BOOL and kind not in (Kind.MOVE, Kind.ORDER)):
        return None
    if kind is Kind.EXACT and missing is DType.UINT64:
        return None
    keeps = by_operator in (Kind.MOVE, Kind.ORDER)
    if kind is Kind.ROUND:
        keeps = keeps or node.op_type in _EXACT_IN_FLOAT
    for wide in _LADDER.get(missing, ()):
        if kind is Kind.WRAP and wide in (DType.FLOAT, DType.DOUBLE):
            continue
        letters = _letters(node, version, missing, wide, variant)
        if letters:
            return _Plan(wide, letters, kind, keeps)
    return None


def _letters(
    node: ir.Node, version: OpVersion, missing: DType, wide: DType, variant: str
) -> frozenset[str] | None:
    """The type variables that have to be widened so that a kernel takes the node, or None if none does."""
    bound = version.bind(
        [None if v is None else v.dtype for v in node.inputs], [v.dtype for v in node.outputs]
    )
    for row in version.rows:
        widened: set[str] = set()
        trial = dict(bound)
        for letter, dtypes in bound.items():
            takes = row.get(letter)
            if takes is not None and missing in dtypes and (
                missing not in takes or missing in version.refused.get(variant, ())
            ):  # fmt: skip
                trial[letter] = dtypes - {missing} | {wide}
                widened.add(letter)
        if widened and version.runs(trial, variant):
            return frozenset(widened)
    return None
