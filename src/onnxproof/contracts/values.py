"""Clauses on what comes out: bounds, index ranges, finite numbers, distributions, order, room below overflow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from onnxproof.contracts.clause import MAX_OFFENCES, Clause, Finding, Limits, Unmet
from onnxproof.contracts.subject import SCALES, Subject, numpy_name
from onnxproof.evidence.tensors import Array

MAX_COMPONENTS = 32  # that bounds are measured of one by one
STEPS = 17  # between the least and the greatest value of an input that something is monotone in
GREATEST = {"float16": 65504.0, "bfloat16": float.fromhex("0x1.fep127")}  # IEEE 754, and bfloat16's 8 bits
Numbers = float | tuple[float, ...] | None


@dataclass(frozen=True)
class Bounds(Clause):
    """Every element of an output lies in ``[low, high]``, for each component of the last axis where there are several.

    Attributes:
        slack: how far outside an element may be, for bounds that rounding touches.
    """

    kind: ClassVar[str] = "bounds"
    output: str
    low: Numbers = None
    high: Numbers = None
    slack: float = 0.0

    def demand(self) -> str:
        return f"{self.output!r} lies in [{_said(self.low, '-inf')}, {_said(self.high, 'inf')}]"

    def limits(self, measure: str) -> Limits:
        side, _, rest = measure.partition("[")
        at = int(rest.rstrip("]")) if rest else None
        low, high = (_component(b, at) for b in (self.low, self.high))
        if side == "least":
            return Limits(low=None if low is None else low - self.slack)
        return Limits(high=None if high is None else high + self.slack)

    def examine(self, subject: Subject) -> Finding:
        several = isinstance(self.low, tuple) or isinstance(self.high, tuple)
        values: dict[str, float] = {}
        offences: list[str] = []
        count = 0
        for where, found in subject.values(self.output):
            array = _wide(found)
            width = max((len(b) for b in (self.low, self.high) if isinstance(b, tuple)), default=1)
            if several and (array.ndim == 0 or array.shape[-1] != width):
                raise Unmet(f"{self.output!r} has the shape {list(array.shape)}, not {width} components")
            parts = np.moveaxis(array, -1, 0)[:MAX_COMPONENTS] if several else array[None]
            for i, part in enumerate(parts):
                if not part.size:
                    continue
                count += part.size
                for side, worse, extreme in (
                    ("least", min, part.min()),
                    ("greatest", max, part.max()),
                ):
                    name = f"{side}[{i}]" if several else side
                    values[name] = _worse(worse, values.get(name), float(extreme))
                    if not self.limits(name).hold(float(extreme)):
                        offences.append(f"{self.output!r} is {float(extreme)!r} on {where} ({name})")
        return Finding(count, values, tuple(offences[:MAX_OFFENCES]))


@dataclass(frozen=True)
class IndexRange(Clause):
    """An output is an index: a 32- or 64-bit integer from 0 to ``size - 1``; None is no upper bound."""

    kind: ClassVar[str] = "index-range"
    output: str
    size: int | None = None
    dtypes: tuple[str, ...] = ("int32", "int64")

    def demand(self) -> str:
        upper = "0 or more" if self.size is None else f"from 0 to {self.size - 1}"
        return f"{self.output!r} is {' or '.join(self.dtypes)}, {upper}"

    def limits(self, measure: str) -> Limits:
        return Limits(0, None if self.size is None else self.size - 1)

    def examine(self, subject: Subject) -> Finding:
        dtype = numpy_name(subject.output(self.output).dtype)
        if dtype not in self.dtypes:
            raise Unmet(f"{self.output!r} is {dtype}")
        values: dict[str, float] = {}
        offences: list[str] = []
        count = 0
        for where, array in subject.values(self.output):
            count += array.size
            if not array.size:
                continue
            for name, worse, extreme in (("least", min, array.min()), ("greatest", max, array.max())):
                values[name] = _worse(worse, values.get(name), float(extreme))
                if not self.limits(name).hold(float(extreme)):
                    offences.append(f"{self.output!r} is {int(extreme)} on {where}")
        return Finding(count, values, tuple(offences[:MAX_OFFENCES]))


@dataclass(frozen=True)
class Finite(Clause):
    """Outputs are finite on all inputs that are tried; None is every output."""

    kind: ClassVar[str] = "finite"
    output: str | None = None

    def demand(self) -> str:
        return f"{'every output' if self.output is None else repr(self.output)} is finite"

    def examine(self, subject: Subject) -> Finding:
        names = [p.name for p in subject.outputs] if self.output is None else [self.output]
        offences, count = [], 0
        for name in names:
            for where, array in subject.values(name):
                count += array.size
                bad = np.argwhere(~np.isfinite(_wide(array)))
                if len(bad):
                    offences.append(f"{name!r} is {array[tuple(bad[0])]} at {bad[0].tolist()} on {where}")
        return Finding(count, {}, tuple(offences[:MAX_OFFENCES]))


@dataclass(frozen=True)
class SumsToOne(Clause):
    """An output is not negative and sums to one along an axis, within ``atol``."""

    kind: ClassVar[str] = "sums-to-one"
    output: str
    axis: int = -1
    atol: float = 1e-5

    def demand(self) -> str:
        return f"{self.output!r} sums to one along axis {self.axis}, and nothing in it is negative"

    def limits(self, measure: str) -> Limits:
        return Limits(low=0.0) if measure == "least" else Limits(high=self.atol)

    def examine(self, subject: Subject) -> Finding:
        values: dict[str, float] = {}
        offences, count = [], 0
        for where, found in subject.values(self.output):
            array = _wide(found)
            if not -array.ndim <= self.axis < array.ndim:
                raise Unmet(f"{self.output!r} of shape {list(array.shape)} has no axis {self.axis}")
            if not array.size:
                continue
            count += array.size
            off = float(np.abs(array.sum(self.axis) - 1).max())
            least = float(array.min())
            values["sum, off by"] = _worse(max, values.get("sum, off by"), off)
            values["least"] = _worse(min, values.get("least"), least)
            if not (off <= self.atol and least >= 0):
                offences.append(
                    f"{self.output!r} has a sum that is off by {off:.3g}, and {least:.3g}, on {where}"
                )
        return Finding(count, values, tuple(offences[:MAX_OFFENCES]))


@dataclass(frozen=True)
class Monotone(Clause):
    """An output never falls (or never rises) when one component of an input grows and nothing else changes.

    Attributes:
        component: of the input's last axis; None for an input that has one element in each row.
        output_component: of the output's last axis; None looks at all.
        low, high: what the component goes through.
        slack: how far a step may go the wrong way.
    """

    kind: ClassVar[str] = "monotone"
    output: str
    input: str
    component: int | None = None
    output_component: int | None = None
    rising: bool = True
    low: float = -3.0
    high: float = 3.0
    slack: float = 1e-6

    def demand(self) -> str:
        at = "" if self.component is None else f"[{self.component}]"
        out = "" if self.output_component is None else f"[{self.output_component}]"
        way = "never falls" if self.rising else "never rises"
        return f"{self.output + out!r} {way} as {self.input + at!r} grows from {self.low:g} to {self.high:g}"

    def limits(self, measure: str) -> Limits:
        return Limits(low=-self.slack)

    def examine(self, subject: Subject) -> Finding:
        subject.input(self.input)
        subject.output(self.output)
        feed = subject.draw(8)
        last = feed[self.input].shape[-1] if feed[self.input].ndim else 1
        if self.component is not None and not -last <= self.component < last:
            raise Unmet(f"{self.input!r} has no component {self.component}")
        rows, steps = [], np.linspace(self.low, self.high, STEPS)
        for value in steps:
            changed = feed[self.input].copy()
            changed[... if self.component is None else (..., self.component)] = value
            got = _wide(subject.run({**feed, self.input: changed})[self.output])
            rows.append(got if self.output_component is None else got[..., self.output_component])
        change = np.diff(np.stack(rows), axis=0) * (1 if self.rising else -1)
        if not change.size:
            return Finding(0)
        worst = float(np.nanmin(change)) if not np.isnan(change).any() else float("nan")
        offences = []
        if not self.limits("").hold(worst):
            step, *place = np.unravel_index(int(np.argmin(np.nan_to_num(change, nan=-np.inf))), change.shape)
            offences.append(
                f"{self.output!r} goes the wrong way by {-worst:.3g} at {[int(i) for i in place]}"
                f" between {steps[step]:.4g} and {steps[step + 1]:.4g}"
            )
        return Finding(change.size, {"smallest step": worst}, tuple(offences))


@dataclass(frozen=True)
class Headroom(Clause):
    """No value inside the graph that is float16 comes nearer to overflow than ``share`` of the greatest number.

    Attributes:
        share: of 65504; None measures only.
    """

    kind: ClassVar[str] = "headroom"
    share: float | None = 0.5
    dtype: str = "float16"

    def demand(self) -> str:
        if self.share is None:
            return f"values inside that are {self.dtype}, against the greatest {self.dtype}"
        return f"values inside that are {self.dtype} stay below {self.share:.0%} of the greatest {self.dtype}"

    def limits(self, measure: str) -> Limits:
        return Limits(high=self.share) if measure == "share of the greatest" else Limits()

    def examine(self, subject: Subject) -> Finding:
        greatest = GREATEST[self.dtype]
        top, where, count, overflowing = 0.0, "", 0, list[str]()
        for name, node, array in self._inside(subject):
            wide = np.abs(_wide(array))
            count += array.size
            if np.isposinf(wide).any() and node not in overflowing:
                overflowing.append(node)
            largest = float(wide[np.isfinite(wide)].max(initial=0.0))
            if largest > top:
                top, where = largest, f"{name!r} ({node})"
        values = {"largest": top, "share of the greatest": top / greatest}
        offences = []
        if self.share is not None:
            offences = [f"infinite: {node}" for node in overflowing[:MAX_OFFENCES]]
            if top / greatest > self.share:
                offences.insert(0, f"{where} reaches {top:g} of {greatest:g}")
        return Finding(max(count, 1), values, tuple(offences))

    def _inside(self, subject: Subject) -> Iterator[tuple[str, str, Array]]:
        try:
            yield from _inside(subject, self.dtype)
        except Unmet:
            if (
                self.share is not None
            ):  # what is only measured is not held against a file that is too large for it
                raise


def _inside(subject: Subject, dtype: str) -> Iterator[tuple[str, str, Array]]:
    """Values of a dtype that nodes of the main graph compute: name, what computes it, array."""
    import onnx

    model = subject.whole()
    code = {"float16": onnx.TensorProto.FLOAT16, "bfloat16": onnx.TensorProto.BFLOAT16}[dtype]
    typed = onnx.shape_inference.infer_shapes(model)
    known = {
        v.name for v in (*typed.graph.value_info, *typed.graph.output) if v.type.tensor_type.elem_type == code
    }
    made = {name: f"{node.op_type} {node.name}".rstrip() for node in model.graph.node for name in node.output}
    wanted = [name for name in made if name in known]
    if not wanted:
        return
    graph = onnx.ModelProto()
    graph.CopyFrom(model)
    del graph.graph.output[:]
    graph.graph.output.extend(onnx.ValueInfoProto(name=n) for n in wanted)
    feeds = [probe.feed for probe in subject.probes if probe.where.startswith("case")]
    feeds = feeds or [subject.draw(8, scale=SCALES[0])]
    for arrays in subject.run_variant(graph, feeds):
        for name, array in zip(wanted, arrays, strict=True):
            yield name, made[name], array


def _wide(array: Array) -> Array:
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _worse(worse: Callable[[float, float], float], known: float | None, value: float) -> float:
    """The worse of two, and NaN where one is."""
    if known is None or np.isnan(value):
        return value
    return known if np.isnan(known) else worse(known, value)


def _component(bound: Numbers, at: int | None) -> float | None:
    if isinstance(bound, tuple):
        return bound[at or 0]
    return bound


def _said(bound: Any, unbounded: str) -> str:
    if bound is None:
        return unbounded
    return str(list(bound)) if isinstance(bound, tuple) else f"{bound:g}"
