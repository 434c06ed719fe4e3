"""Measure native and decomposed normalization against float64; write the gate that ``auto`` follows, and its report.

Usage: ``python scripts/measure_normalization.py`` (``--check`` compares with the committed table and writes nothing).

Each spelling that a composite knows is exported with the native operator and without. Both run in ONNX Runtime with
all graph optimizations, alone and behind a residual sum, which ONNX Runtime may fuse with the operator. The truth is
the formula in NumPy's longdouble on the same operands.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import jax
import ml_dtypes
import numpy as np
import onnx
import onnxruntime

from onnxproof import to_onnx
from onnxproof.evidence.runtimes.ort import OrtSession
from onnxproof.raising import load_composites
from onnxproof.raising.composite import COMPOSITES
from onnxproof.raising.gate import TABLE, NormalizationMode

ROOT = Path(__file__).resolve().parent.parent
GATE = ROOT / "src" / "onnxproof" / "raising" / TABLE
REPORT = ROOT / "docs" / "normalization.md"

FACTOR = 2.0  # how much larger than the decomposed form's the native form's error may be
FLOOR = 4.0  # an error that is good enough whatever the other's, in units in the last place
EPSILON = 2.0**-17  # near the 1e-5 of the frameworks, and exact in every dtype
OPSETS = tuple(range(17, 29))  # 28 is the newest that ONNX Runtime 1.32 takes
SPELLED_AT = (17, 23, 28)  # where the decomposed form is measured; it has the same kernels in between
WIDTHS = (1, 16, 19, 768)  # one element; what vector kernels divide and what they don't; a usual model
SAMPLES = 8

Array = np.ndarray[Any, Any]
Errors = Mapping[str, float]  # by kind of input


@dataclass(frozen=True)
class Family:
    """A normalization of operands [N, *shape(width)], scale and bias over the last axis.

    Attributes:
        composite: what replaces it, for results of ``dtypes``.
        shape: dimensions after the first, where ``width`` numbers are normalized together.
        centred: whether the mean is taken off and a bias added.
        groups: of the channels that are normalized together with all positions; 0: the last axis alone.
        params: of the composite's references.
    """

    composite: str
    operator: str
    dtypes: Sequence[str]
    shape: Callable[[int], tuple[int, ...]]
    widths: Sequence[int] = WIDTHS
    centred: bool = True
    groups: int = 0
    params: Mapping[str, Any] = field(default_factory=dict)

    def normalized(self, x: Array) -> tuple[Array, tuple[int, ...]]:
        """``x`` with the axes that are normalized together."""
        if not self.groups:
            return x, (x.ndim - 1,)
        return x.reshape(*x.shape[:-1], self.groups, -1), (*range(1, x.ndim - 1), x.ndim)


def _row(width: int) -> tuple[int, ...]:
    return (3, width)


def _pairs(width: int) -> tuple[int, ...]:
    """Three groups of two channels."""
    return (width // 2, 6)


def _channels(width: int) -> tuple[int, ...]:
    return (width, 3)


LAYER, RMS = "LayerNormalization", "RMSNormalization"
GROUPED = (2, 16, 38, 768)  # one position; several
FAMILIES = (
    Family("layer_norm", LAYER, ("float32", "float64"), _row),
    Family("layer_norm_half", LAYER, ("float16", "bfloat16"), _row),
    Family("rms_norm", RMS, ("float32", "float64"), _row, centred=False),
    Family("rms_norm_half", RMS, ("float16", "bfloat16"), _row, centred=False),
    Family("group_norm", LAYER, ("float32",), _pairs, GROUPED, groups=3, params={"groups": 3}),
    Family("group_norm_wide", LAYER, ("float32",), _pairs, GROUPED, groups=3, params={"groups": 3, "channel": 2}),
    Family("instance_norm", LAYER, ("float32",), _channels, groups=3),
)  # fmt: skip


@dataclass(frozen=True)
class Precision:
    """What inputs and errors are measured by."""

    dtype: np.dtype[Any]
    eps: float
    tiny: float
    root: float  # of the largest number whose square the computation holds
    most: float

    @staticmethod
    def of(name: str) -> Precision:
        dtype = np.dtype(name)
        own = ml_dtypes.finfo(dtype)
        inner = np.finfo(np.float64 if name == "float64" else np.float32)
        most = float(own.max)
        return Precision(dtype, float(own.eps), float(own.tiny), math.sqrt(float(inner.max)), most)


def inputs(shape: Sequence[int], precision: Precision) -> dict[str, Array]:
    """Operands by kind."""
    rng = np.random.default_rng(len(shape) + math.prod(shape))
    normal = rng.normal(size=shape)
    level = np.array([0.0, 1 / 3, -0.1, 7.0, -300.0, 1e3, 4e4, -1e-3]).reshape(-1, *(1,) * (len(shape) - 1))
    steps = rng.integers(-4, 5, size=shape)
    count = math.prod(shape[1:])
    special = normal.copy()
    for row, value in zip(special, (np.nan, np.inf, -np.inf, np.nan) * 2, strict=True):
        row.reshape(-1)[rng.integers(count)] = value
    top = precision.most / 8
    kinds = {
        "ordinary": normal,
        "offset": normal + 0.25 / math.sqrt(precision.eps),
        "far offset": normal + 0.02 / precision.eps,
        "tiny variance": 1 + steps * precision.eps,
        "small": normal * math.sqrt(EPSILON) / 100,
        "zero variance": np.broadcast_to(level, shape),
        "large": normal * min(precision.root / (8 * math.sqrt(count)), top),
        "squares overflow": normal * min(precision.root * 16, top),
        "denormal": normal * precision.tiny / 8,
        "NaN, inf": special,
    }
    return {name: np.clip(x, -precision.most, precision.most).astype(precision.dtype)
            if name != "NaN, inf" else x.astype(precision.dtype) for name, x in kinds.items()}  # fmt: skip


def truth(family: Family, x: Array, scale: Array, bias: Array) -> Array:
    """The formula in two passes, in longdouble."""
    wide, axes = family.normalized(x.astype(np.longdouble))
    with np.errstate(all="ignore"):
        if family.centred:
            wide = wide - wide.mean(axes, keepdims=True)
        normal = wide / np.sqrt((wide * wide).mean(axes, keepdims=True) + np.longdouble(EPSILON))
        scaled = normal.reshape(x.shape) * scale.astype(np.longdouble)
        return scaled + bias.astype(np.longdouble) if family.centred else scaled


def error(got: Array, want: Array, precision: Precision) -> float:
    """The largest error in units in the last place of the largest result of the sample; inf for NaN that is wrong."""
    got = got.astype(np.longdouble)
    finite = np.isfinite(want)
    if not np.array_equal(np.isfinite(got), finite) or not np.array_equal(np.isnan(got), np.isnan(want)):
        return math.inf
    if not finite.any():
        return 0.0
    known = np.where(finite, want, 0)
    largest = np.abs(known).max(tuple(range(1, want.ndim)), keepdims=True)
    unit = precision.eps * np.maximum(largest, precision.tiny)
    return float((np.abs(np.where(finite, got, 0) - known) / unit).max())


@dataclass(frozen=True)
class Bench:
    """One family at one dtype and width, its inputs and their results known."""

    family: Family
    precision: Precision
    width: int

    def __post_init__(self) -> None:
        rng = np.random.default_rng(7)
        channels = self.family.shape(self.width)[-1]
        dtype, shape = self.precision.dtype, (SAMPLES, *self.family.shape(self.width))
        vectors = [(rng.normal(size=channels) * 0.3 + at).astype(dtype) for at in (1.0, 0.0)]
        fed = inputs(shape, self.precision)
        wanted = {kind: truth(self.family, x, *vectors) for kind, x in fed.items()}
        object.__setattr__(self, "vectors", vectors if self.family.centred else vectors[:1])
        object.__setattr__(self, "fed", fed)
        object.__setattr__(self, "wanted", wanted)

    vectors: list[Array] = field(init=False, repr=False)
    fed: dict[str, Array] = field(init=False, repr=False)
    wanted: dict[str, Array] = field(init=False, repr=False)

    def model(self, spelling: int, residual: bool, opset: int, mode: NormalizationMode) -> onnx.ModelProto:
        """The export of one spelling; behind a sum of two operands if ``residual``."""
        reference = partial(COMPOSITES[self.family.composite].references[spelling], **self.family.params)
        eps = np.float64(EPSILON) if self.precision.dtype == np.float64 else np.float32(EPSILON)

        def alone(x: jax.Array) -> jax.Array:
            result: jax.Array = reference(x, *map(jax.numpy.asarray, self.vectors), eps)
            return result

        def summed(x: jax.Array, y: jax.Array) -> jax.Array:
            return alone(x + y)

        spec = jax.ShapeDtypeStruct((SAMPLES, *self.family.shape(self.width)), self.precision.dtype)
        wide = self.precision.dtype == np.float64
        fn, args = (summed, [spec, spec]) if residual else (alone, [spec])
        return to_onnx(fn, args, opset=opset, enable_double_precision=wide, normalization_mode=mode)

    def errors(self, model: onnx.ModelProto) -> Errors:
        session = OrtSession(model)
        found = {}
        for kind, x in self.fed.items():
            more = [np.zeros_like(x)] * (len(session.input_names) - 1)
            (got,) = session.run([x, *more])
            found[kind] = error(got, self.wanted[kind], self.precision)
        return found


@dataclass(frozen=True)
class Reading:
    """Errors of the two forms on one kind of input."""

    composite: str
    dtype: str
    opset: int
    place: str
    width: int
    spelling: int
    kind: str
    native: float
    decomposed: float

    @property
    def passed(self) -> bool:
        return self.native <= max(FLOOR, FACTOR * self.decomposed)


def spellings(composite: str) -> range:
    """Places among the references. Of half precision the second half only differs in how vectors are widened."""
    count = len(COMPOSITES[composite].references)
    return range(count // 2 if composite.endswith("_half") else count)


def measured(opsets: Sequence[int] = OPSETS, widths: slice = slice(None)) -> Iterator[Reading]:
    """Every reading, at some of the opsets and of the widths of each family."""
    load_composites()
    for family in FAMILIES:
        known = [o for o in opsets if o >= COMPOSITES[family.composite].min_opset]
        for dtype in family.dtypes:
            for width in family.widths[widths]:
                bench = Bench(family, Precision.of(dtype), width)
                for residual in (False, True):
                    yield from _readings(bench, residual, known)


def _readings(bench: Bench, residual: bool, opsets: Sequence[int]) -> Iterator[Reading]:
    family = bench.family
    spelled: dict[tuple[int, int], Errors] = {}
    for opset in opsets:
        model = bench.model(0, residual, opset, "prefer_native")
        if all(n.op_type != family.operator for n in model.graph.node):
            raise SystemExit(f"{family.composite} is not exported as {family.operator} at opset {opset}")
        native = bench.errors(model)
        at = max(o for o in SPELLED_AT if o <= opset)
        for i in spellings(family.composite):
            if (i, at) not in spelled:
                spelled[i, at] = bench.errors(bench.model(i, residual, at, "force_decomposed"))
            for kind, value in native.items():
                yield Reading(
                    family.composite,
                    bench.precision.dtype.name,
                    opset,
                    "after a sum" if residual else "alone",
                    bench.width,
                    i + 1,
                    kind,
                    value,
                    spelled[i, at][kind],
                )


Key = tuple[str, str]  # composite, dtype


def verdicts(readings: Iterable[Reading]) -> dict[Key, dict[int, bool]]:
    """Whether every reading passed, by opset."""
    found: dict[Key, dict[int, bool]] = {}
    for r in readings:
        opsets = found.setdefault((r.composite, r.dtype), {})
        opsets[r.opset] = opsets.get(r.opset, True) and r.passed
    return found


def gate(readings: Sequence[Reading]) -> str:
    """The table as ``onnxproof.raising.gate`` reads it."""
    passed: dict[str, dict[str, list[int]]] = {}
    for (composite, dtype), opsets in verdicts(readings).items():
        passed.setdefault(composite, {})[dtype] = [o for o, ok in opsets.items() if ok]
    rule = f"native error <= max({FLOOR:g} ulp, {FACTOR:g} x decomposed error), NaN and inf where float64 has them"
    table = {"measured_with": f"onnxruntime {onnxruntime.__version__}", "rule": rule, "passed": passed}
    lists = re.compile(r"\[\s*((?:\d+,?\s*)*)\]")
    text = json.dumps(table, indent=2)
    return lists.sub(lambda m: f"[{' '.join(m[1].split())}]", text) + "\n"


def _number(value: float) -> str:
    return "wrong" if math.isinf(value) else f"{value:.3g}"


def _table(readings: Sequence[Reading]) -> Iterator[str]:
    """For each kind of input the largest errors: native, best and worst spelling of the decomposed form."""
    yield "| input | native | decomposed | admitted |\n|---|---|---|---|"
    for kind in dict.fromkeys(r.kind for r in readings):
        rows = [r for r in readings if r.kind == kind]
        by_spelling = [max(r.decomposed for r in rows if r.spelling == s) for s in {r.spelling for r in rows}]
        low, high = _number(min(by_spelling)), _number(max(by_spelling))
        missed = [r for r in rows if not r.passed]
        verdict = "yes"
        if missed:
            worst = max(missed, key=lambda r: r.native / r.decomposed)
            verdict = f"no: {_number(worst.native)} against {_number(worst.decomposed)}, width {worst.width}"
        spread = low if low == high else f"{low} to {high}"
        yield f"| {kind} | {_number(max(r.native for r in rows))} | {spread} | {verdict} |"


def report(readings: Sequence[Reading]) -> str:
    """``docs/normalization.md``."""
    parts = [INTRODUCTION.format(factor=FACTOR, floor=FLOOR, version=onnxruntime.__version__)]
    parts.append("| composite | dtype | opsets at which `auto` uses the native operator |\n|---|---|---|")
    for (composite, dtype), opsets in verdicts(readings).items():
        good = [o for o, ok in opsets.items() if ok]
        parts.append(f"| {composite} | {dtype} | {', '.join(map(str, good)) or 'none'} |")
    for key in verdicts(readings):
        rows = [r for r in readings if (r.composite, r.dtype) == key]
        parts += [f"\n### {key[0]}, {key[1]}\n", *_table(rows)]
    return "\n".join(parts) + "\n"


INTRODUCTION = """# Normalization: native operators and the accuracy gate

This page is written by `scripts/measure_normalization.py`, and so is the table that `normalization_mode="auto"`
follows (`src/onnxproof/raising/{{table}}`).

| mode | native operators are used |
|---|---|
| `auto` | where the gate below was passed for the dtype and the opset |
| `prefer_native` | wherever the operator's schema allows it |
| `force_decomposed` | never |

Every spelling of a normalization that is recognized (variance in one pass or two, scale before or after, as the
frameworks trace to them) is exported in both forms and run in ONNX Runtime {version} with all optimizations, alone and
behind a residual sum. Errors are against the formula in float64 (of float64: in 80 bits), in units in the last place
of the largest result.

**The gate.** On every kind of input, at every width and for every spelling, the native form's error is at most
{floor:g} units or {factor:g} times the decomposed form's, and NaN and infinity are where float64 has them, unless the
decomposed form has them wrong too.

Group and instance normalization become LayerNormalization over rows that hold a group. InstanceNormalization
multiplies before it takes the mean off, which cancels: on constant input it was wrong in every digit.
LayerNormalization in float32 is computed in two passes, as long as ONNX Runtime does not fuse it with the sum before
it: that kernel takes E[x²] - E[x]², and errors were 10 times larger. A residual sum is therefore exported as `Sum`,
which is not fused. In float64 the native operators lose up to three more bits than the decomposed forms, which `auto`
keeps. Widths: 1, 16, 19 and 768 (groups: 2, 16, 38, 768).

"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--check", action="store_true", help="fail if the committed table is not what is measured"
    )
    options = parser.parse_args()
    readings = list(measured())
    if options.check:
        if gate(readings) != GATE.read_text():
            sys.exit(f"{GATE.name} is not what was measured:\n{gate(readings)}")
        return
    GATE.write_text(gate(readings))
    REPORT.write_text(report(readings).replace("{table}", TABLE))


if __name__ == "__main__":
    main()
