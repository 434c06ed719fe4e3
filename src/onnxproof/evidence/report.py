"""``report.html``: records as one page that needs nothing else, neither a script nor a network.

The text of a record is data: it is escaped wherever it stands, and the page forbids scripts altogether.
"""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from onnxproof.errors import ConformanceError
from onnxproof.evidence import charts
from onnxproof.evidence.court import runs_of
from onnxproof.evidence.findings import Complaint, complaints, differs, element, number, run_label
from onnxproof.evidence.profile import AD_HOC
from onnxproof.evidence.record import (
    STAGES,
    BuilderConfig,
    CallableConfig,
    InputCase,
    Output,
    Record,
    Run,
    Tensor,
)

if TYPE_CHECKING:
    import jinja2

TOP = 8  # rows of the tables of slowest and worst
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")
_REFERENCES = {
    "jax": "the JAX callable",
    "torch": "the PyTorch module",
    "recorded": "the recorded outputs of",
    "onnx": "the reference evaluator of the onnx package,",
}
_STAGE_WORDS = {
    "dependencies": "what is needed is installed",
    "export": "the model is exported, and stays as it was",
    "check": "the file is well-formed ONNX",
    "load": "files are unchanged, every runtime loads them",
    "parity": "every case gives what it should",
}
_TOO_OLD = frozenset({"python", "platform", "onnxproof"})


@dataclass(frozen=True, slots=True)
class Row:
    """One output of one case in one run."""

    run: str
    case: InputCase
    output: Output

    @property
    def excess(self) -> float:
        """The part of what is allowed that its error takes; infinite where it can't be compared."""
        return _float(self.output.excess) if self.output.excess is not None else math.inf

    @property
    def passed(self) -> bool:
        return not differs(self.output)


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart, its caption, and the names of its colors (with the class of each)."""

    title: str
    caption: str
    svg: str
    legend: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class View:
    """A record and what the page says of it."""

    anchor: str
    name: str
    record: Record
    runs: tuple[tuple[str, Run], ...]
    runtimes: str
    verdict: str
    stages: tuple[tuple[str, str, str], ...]
    complaints: tuple[tuple[str, tuple[Complaint, ...]], ...]
    figures: tuple[Figure, ...]
    facts: tuple[tuple[str, str], ...]
    worst: tuple[Row, ...]
    slowest: tuple[tuple[str, InputCase], ...]
    again: tuple[str, ...]


def html(records: Sequence[Record]) -> str:
    """The page of some records.

    Raises:
        ConformanceError: jinja2 is not installed.
    """
    views = [view(record, f"proof-{i}") for i, record in enumerate(records)]
    failed = sum(r.status == "failed" for r in records)
    template = _environment().get_template("report.html.jinja")
    return template.render(views=views, failed=failed, version=records[0].source.onnxproof_version)


@cache
def _environment() -> jinja2.Environment:
    try:
        import jinja2
    except ModuleNotFoundError as err:
        raise ConformanceError("jinja2 is not installed", way_out="pip install jinja2") from err
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("onnxproof.evidence", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "mark": charts.shape_of,
        "number": number,
        "value": element,
        "bytes": human_bytes,
        "seconds": seconds,
        "shape": shape,
        "options": options,
    }
    return environment


def view(record: Record, anchor: str) -> View:
    """What the page says of ``record``."""
    runs = tuple((run_label(run.runtime), run) for run in runs_of(record))
    rows = [Row(label, case, o) for label, run in runs for case in run.input_cases for o in case.outputs]
    timed = [(label, c) for label, run in runs for c in run.input_cases if c.seconds is not None]
    return View(
        anchor=anchor,
        name=name_of(record),
        record=record,
        runs=runs,
        runtimes=", ".join(f"{n} ({k} ways)" if k > 1 else n for n, k in _counted(runs)),
        verdict=_verdict(record),
        stages=tuple((s, record.stages.of(s).status, _STAGE_WORDS[s]) for s in STAGES),
        complaints=tuple(_complaints(record)),
        figures=tuple(_figures([label for label, _ in runs], rows)),
        facts=tuple(_facts(record, rows)),
        worst=tuple(sorted(rows, key=lambda r: -r.excess)[:TOP]),
        slowest=tuple(sorted(timed, key=lambda pair: -(pair[1].seconds or 0))[:TOP]),
        again=tuple(_again(record)),
    )


def _counted(runs: Sequence[tuple[str, Run]]) -> list[tuple[str, int]]:
    """Each runtime, and how often it ran."""
    return list(Counter(run.runtime.name for _, run in runs).items())


def _complaints(record: Record) -> Iterator[tuple[str, tuple[Complaint, ...]]]:
    found = complaints(record)
    for heading, weight in (
        ("What went wrong", "error"),
        ("Known limits of runtimes that showed", "warning"),
    ):
        if some := tuple(c for c in found if c.weight == weight):
            yield heading, some


def _verdict(record: Record) -> str:
    """The outcome in one or two sentences, for a reader who knows nothing of the stages."""
    what = reference_of(record)
    t = record.tolerances
    within = f"within {t.atol:g} + {t.rtol:g} · |expected|" if t.rtol or t.atol else "exactly"
    if record.status == "passed":
        runs = runs_of(record)
        where = " and ".join(dict.fromkeys(r.runtime.name for r in runs))
        good = sum(c.expect == "match" for c in record.input_cases)
        refused = sum(c.expect == "rejected" for c in record.input_cases)
        text = f"The file was run in {where}: on {_count(good, 'input')} it computes what {what} computes, {within}."
        return f"{text} {_count(refused, 'invalid input')} had to be refused." if refused else text
    if record.failure == "contract-violation":
        broken = [c for p in record.contracts or () for c in p.clauses if c.status == "failed"]
        words = (
            f"The file computes what {what} computes, {within}, but breaks {_count(len(broken), 'clause')}"
        )
        return (
            f"{words} of what it promises: {broken[0].demand}." if broken else f"{words} of what it promises."
        )
    failing = next(s for s in STAGES if record.stages.of(s).status == "failed")
    if failing != "parity":
        words = f"The stage “{failing}” failed with {record.failure}, so that nothing was compared."
        return words + (" The file is well formed." if record.level == "structural" else "")
    bad = [c for run in runs_of(record) for c in run.input_cases if c.failure]
    total = sum(len(run.input_cases) for run in runs_of(record))
    return (
        f"{len(bad)} of {_count(total, 'case')} did not give what {what} says, {within}:"
        f" {', '.join(sorted({c.failure for c in bad if c.failure}))}."
    )


def name_of(record: Record) -> str:
    """The profile, or what was verified without one."""
    if record.profile != AD_HOC or not isinstance(record.config, CallableConfig):
        return record.profile
    return f"{record.config.name} ({record.artifacts.directory})"


def reference_of(record: Record) -> str:
    """What the file was held against."""
    config = record.config
    if isinstance(config, CallableConfig):
        return f"{_REFERENCES[config.reference]} {config.name}".replace(", onnx.reference", "")
    if isinstance(config, BuilderConfig):
        return f"the model of {config.builder}"
    return "the PyTorch feed-forward model"


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _facts(record: Record, rows: Sequence[Row]) -> list[tuple[str, str]]:
    """Key figures: a name and a value each."""
    compared = sum(math.prod(r.output.got.shape) for r in rows if r.output.got is not None)
    memory = [r.execution.peak_memory_bytes for r in runs_of(record) if r.execution.peak_memory_bytes]
    files = [f for f in record.artifacts.files if f.role in ("model", "external-data")]
    found = [("level", record.level), ("numbers compared", f"{compared:,}")]
    if rows:
        top = max(rows, key=lambda r: r.excess)
        found.append(("largest error", number(_largest([r.output.max_abs_error for r in rows]))))
        found.append(("of tolerance", _share_words(top.excess)))
    if memory:
        found.append(("peak memory", human_bytes(max(memory))))
    if files:
        found.append(("model size", human_bytes(sum(f.bytes for f in files))))
    return found


def _share_words(excess: float) -> str:
    if math.isinf(excess):
        return "far beyond"
    return f"{100 * excess:.3g}%" if excess <= 1 else f"{excess:.3g} times"


def _largest(errors: Sequence[float | str | None]) -> float | str | None:
    known = [e for e in errors if e is not None]
    return "inf" if "inf" in known else max((float(e) for e in known), default=None)


def _figures(labels: Sequence[str], rows: Sequence[Row]) -> list[Figure]:
    if not rows:
        return []
    legend = tuple((label, f"s{i % charts.COLORS}") for i, label in enumerate(labels))
    figures = [_share(labels, rows, legend)]
    if any(r.output.max_abs_error is not None for r in rows):
        figures.append(_by_size(labels, rows, legend))
    quantiles = list(_quantiles(labels, rows))
    if quantiles:
        svg = charts.ranges("Units in the last place", quantiles, "units in the last place")
        figures.append(
            Figure(
                "Distance in units of the last place",
                "From the median to the 99th percentile (bar) and the largest (mark), of the case where each is"
                " largest. Values near 0 are far apart in these units even when both are right.",
                svg,
                legend,
            )
        )
    return figures


def _share(labels: Sequence[str], rows: Sequence[Row], legend: tuple[tuple[str, str], ...]) -> Figure:
    series = [(label, [r.excess for r in rows if r.run == label]) for label in labels]
    return Figure(
        "How much of the tolerance each output takes",
        "Largest error of each output of each case as a part of what is allowed there. Right of the line is"
        " a mismatch; at 0 every bit is equal.",
        charts.histogram(
            "Histogram of errors as a part of what is allowed",
            series,
            ("part of what is allowed", "outputs"),
            1.0,
        ),
        legend,
    )


def _by_size(labels: Sequence[str], rows: Sequence[Row], legend: tuple[tuple[str, str], ...]) -> Figure:
    def point(row: Row, error: float, words: str) -> charts.Point:
        size = math.prod(row.output.want.shape) if row.output.want else 0
        text = f"{row.output.name} of {row.case.name}, {size:,} values, {words} {error:.3g}"
        return charts.Point(float(max(size, 1)), error, text)

    series = []
    for label in labels:
        own = [r for r in rows if r.run == label and r.output.max_abs_error is not None]
        points = [point(r, _float(r.output.max_abs_error), "largest error") for r in own]
        series.append(charts.Series(label, points))
    first = [r for r in rows if r.run == labels[0] and r.output.oracle is not None]
    entries = legend
    if first:
        name = "the reference itself, against float64"
        points = [
            point(r, _float(r.output.oracle.reference_max_abs), "rounding") for r in first if r.output.oracle
        ]
        series.append(charts.Series(name, points, hollow=True))
        entries = (*legend, (name, "hollow"))
    return Figure(
        "Error by size",
        "Largest absolute error of each output by how many values it has.",
        charts.scatter("Error by size of the output", series, ("values in the output", "largest error")),
        entries,
    )


def _quantiles(labels: Sequence[str], rows: Sequence[Row]) -> list[charts.Range]:
    names = list(dict.fromkeys(r.output.name for r in rows))
    found = []
    for name in names:
        for i, label in enumerate(labels):
            ulps = [r.output.ulp for r in rows if r.run == label and r.output.name == name]
            known = [u for u in ulps if u is not None]
            if known:
                parts = [(u.p50, u.p99, u.max) for u in known]
                top = [max(_float(v) for v in vs) for vs in zip(*parts, strict=True)]
                found.append(charts.Range(f"{name}, {label}", i, *top))
    return found[:24]


def _again(record: Record) -> list[str]:
    """Commands that run the evidence again. What comes from the record is quoted for the shell."""
    known = {k: v for k, v in record.versions.items() if v and v != "unknown" and k not in _TOO_OLD}
    pins = [f"onnxproof=={record.source.onnxproof_version}", *(f"{k}=={v}" for k, v in known.items())]
    lines = [f"pip install {shlex.join(pins)}"]
    lines.append(f"onnxproof verify {shlex.quote(record.artifacts.directory)}")
    if not isinstance(record.config, CallableConfig):
        lines.append(f"onnxproof conform --profile {shlex.quote(record.profile)}")
    return lines


def _float(value: float | str | None) -> float:
    return math.inf if value in (None, "inf") else float(value or 0)


def human_bytes(count: int) -> str:
    """``1536`` → ``1.5 KiB``."""
    size, unit = float(count), 0
    while size >= 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{count} bytes" if unit == 0 else f"{size:.1f} {_UNITS[unit]}"


def seconds(value: float | None) -> str:
    """A time with the unit that suits it."""
    if value is None:
        return "-"
    if value >= 1:
        return f"{value:.3g} s"
    return f"{value * 1e3:.3g} ms" if value >= 1e-3 else f"{value * 1e6:.3g} µs"


def shape(tensor: Tensor | None) -> str:
    """``float32[3, 4]``."""
    return "-" if tensor is None else f"{tensor.dtype}[{', '.join(map(str, tensor.shape))}]"


def options(given: dict[str, Any]) -> str:
    """Options on one line."""
    return ", ".join(f"{k} = {v}" for k, v in given.items()) or "none"
