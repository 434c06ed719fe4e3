"""Charts as SVG text: marks with a tooltip each, a title and a description, colors left to the style sheet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

WIDTH, HEIGHT = 460, 270
LEFT, RIGHT, TOP, BOTTOM = 56, 14, 14, 44
COLORS = 8  # classes s0 … s7 of the style sheet
ZERO = "0"


@dataclass(frozen=True, slots=True)
class Point:
    """A mark of a scatter plot; ``y`` is at least 0, or infinite."""

    x: float
    y: float
    text: str


@dataclass(frozen=True, slots=True)
class Series:
    """Points of one kind; ``hollow`` ones stand behind the others."""

    name: str
    points: Sequence[Point]
    hollow: bool = False


@dataclass(frozen=True, slots=True)
class Range:
    """A row of a range plot: quantiles, in order, of one thing."""

    name: str
    series: int
    p50: float
    p99: float
    most: float


@dataclass(slots=True)
class _Drawing:
    title: str
    about: str
    height: int = HEIGHT
    parts: list[str] = field(default_factory=list)

    def text(self, x: float, y: float, words: str, anchor: str = "middle", style: str = "tick") -> None:
        self.parts.append(
            f'<text class="{style}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'
        )

    def line(self, x1: float, y1: float, x2: float, y2: float, style: str) -> None:
        self.parts.append(f'<line class="{style}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>')

    def mark(self, series: int, x: float, y: float, words: str, *, hollow: bool = False) -> None:
        style = "hollow" if hollow else f"s{series % COLORS}"
        path = shape_of(style)
        self.parts.append(
            f'<path class="{style}" transform="translate({x:.1f} {y:.1f})" d="{path}">'
            f"<title>{escape(words)}</title></path>"
        )

    def bar(self, series: int, x: float, y: float, width: float, height: float, words: str) -> None:
        self.parts.append(
            f'<rect class="s{series % COLORS}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}"'
            f' height="{height:.1f}"><title>{escape(words)}</title></rect>'
        )

    def done(self) -> str:
        return (
            f'<svg viewBox="0 0 {WIDTH} {self.height}" role="img" aria-label="{escape(self.title)}">'
            f"<desc>{escape(self.about)}</desc>{''.join(self.parts)}</svg>"
        )


# One shape for each series, so that color is not all that tells them apart.
_SHAPES = (
    "M-3.6 0a3.6 3.6 0 1 0 7.2 0a3.6 3.6 0 1 0 -7.2 0Z",
    "M-3.3 -3.3H3.3V3.3H-3.3Z",
    "M0 -4.4L4.2 3.2H-4.2Z",
    "M0 4.4L4.2 -3.2H-4.2Z",
)
_HOLLOW = "M0 -4.5L4.5 0L0 4.5L-4.5 0Z"


def shape_of(style: str) -> str:
    """The outline of the marks of a class of the style sheet, ``hollow`` or ``s0`` and so on, around (0, 0)."""
    return _HOLLOW if style == "hollow" else _SHAPES[int(style[1:]) % len(_SHAPES)]


@dataclass(frozen=True, slots=True)
class _LogAxis:
    """Decades between ``low`` and ``high`` over pixels ``start`` to ``end``, with a place of its own for 0."""

    low: int
    high: int
    start: float
    end: float
    zero: bool

    def at(self, value: float) -> float:
        if value <= 0:
            return self.start
        base = self.start + (self.end - self.start) * (0.09 if self.zero else 0)
        if math.isinf(value):
            return self.end
        part = (math.log10(value) - self.low) / max(self.high - self.low, 1)
        return base + (self.end - base) * min(max(part, 0.0), 1.0)

    def ticks(self) -> list[tuple[float, str]]:
        step = max(1, math.ceil((self.high - self.low) / 6))
        marks = [(self.at(10.0**e), _power(e)) for e in range(self.low, self.high + 1, step)]
        return ([(self.start, ZERO)] if self.zero else []) + marks


def _power(exponent: int) -> str:
    return f"{10**exponent:,}" if 0 <= exponent <= 3 else f"1e{exponent}"


def _log_axis(values: Sequence[float], start: float, end: float, *, least: int = 1) -> _LogAxis:
    known = [math.log10(v) for v in values if 0 < v < math.inf]
    low = math.floor(min(known, default=0.0))
    high = max(math.ceil(max(known, default=0.0) + (math.inf in values)), low + least)
    return _LogAxis(low, high, start, end, any(v <= 0 for v in values))


def _frame(drawing: _Drawing, x: _LogAxis, labels: tuple[str, str]) -> None:
    bottom = drawing.height - BOTTOM
    for at, words in x.ticks():
        drawing.line(at, TOP, at, bottom, "grid")
        drawing.text(at, bottom + 16, words)
    drawing.line(LEFT, bottom, WIDTH - RIGHT, bottom, "axis")
    drawing.text((LEFT + WIDTH - RIGHT) / 2, drawing.height - 6, labels[0], style="label")
    drawing.parts.append(
        f'<text class="label" transform="translate(12 {(TOP + bottom) / 2:.1f}) rotate(-90)"'
        f' text-anchor="middle">{escape(labels[1])}</text>'
    )


def scatter(title: str, series: Sequence[Series], labels: tuple[str, str]) -> str:
    """Points on two logarithmic axes; a value of 0 has a place of its own, an infinite one is at the edge."""
    points = [p for s in series for p in s.points]
    drawing = _Drawing(title, f"{len(points)} points; {labels[1]} against {labels[0]}.")
    x = _log_axis([p.x for p in points], LEFT + 6, WIDTH - RIGHT - 6)
    y = _log_axis([p.y for p in points], HEIGHT - BOTTOM - 6, TOP + 6)
    _frame(drawing, x, labels)
    for at, words in y.ticks():
        drawing.line(LEFT, at, WIDTH - RIGHT, at, "grid")
        drawing.text(LEFT - 6, at + 4, words, "end")
    colored = [s for s in series if not s.hollow]
    for s in sorted(series, key=lambda s: not s.hollow):
        for p in s.points:
            number = 0 if s.hollow else colored.index(s)
            drawing.mark(number, x.at(p.x), y.at(p.y), f"{s.name}: {p.text}", hollow=s.hollow)
    return drawing.done()


def histogram(
    title: str, series: Sequence[tuple[str, Sequence[float]]], labels: tuple[str, str], limit: float
) -> str:
    """Counts in half decades, one color for each series, with a line where ``limit`` is."""
    values = [v for _, vs in series for v in vs]
    x = _log_axis([*values, limit], LEFT + 20, WIDTH - RIGHT - 14, least=2)
    counts: dict[int, list[int]] = {}
    for i, (_, vs) in enumerate(series):
        for v in vs:
            counts.setdefault(_bin(v, x), [0] * len(series))[i] += 1
    most = max((sum(c) for c in counts.values()), default=1)
    drawing = _Drawing(title, f"{len(values)} outputs; {sum(v > limit for v in values)} beyond the limit.")
    _frame(drawing, x, labels)
    bottom, tall = HEIGHT - BOTTOM, HEIGHT - BOTTOM - TOP - 14
    for n in _counts(most):
        drawing.text(LEFT - 6, bottom - tall * n / most + 4, str(n), "end")
        drawing.line(LEFT, bottom - tall * n / most, WIDTH - RIGHT, bottom - tall * n / most, "grid")
    for number, found in sorted(counts.items()):
        left, right = _edges(number, x)
        top = float(bottom)
        for i, n in enumerate(found):
            if n:
                top -= tall * n / most
                words = f"{series[i][0]}: {n} {'outputs' if n > 1 else 'output'}, {_span(number)}"
                drawing.bar(i, left + 0.5, top, max(right - left - 1, 2), tall * n / most, words)
    at = x.at(limit)
    drawing.line(at, TOP, at, bottom, "limit")
    drawing.text(at - 5, TOP + 9, "allowed", "end", "limit-label")
    return drawing.done()


_ZERO_BIN, _INFINITE_BIN = -(10**6), 10**6


def _bin(value: float, x: _LogAxis) -> int:
    if value <= 0:
        return _ZERO_BIN
    return _INFINITE_BIN if math.isinf(value) else math.floor(2 * math.log10(value))


def _edges(number: int, x: _LogAxis) -> tuple[float, float]:
    if number == _ZERO_BIN:
        return x.start - 9, x.start + 9
    if number == _INFINITE_BIN:
        return x.end - 4, x.end + 10
    return x.at(10 ** (number / 2)), x.at(10 ** ((number + 1) / 2))


def _span(number: int) -> str:
    if number == _ZERO_BIN:
        return "no error at all"
    if number == _INFINITE_BIN:
        return "not finite, or of another form"
    return f"{10 ** (number / 2):.2g} to {10 ** ((number + 1) / 2):.2g} of what is allowed"


def _counts(most: int) -> list[int]:
    step = max(1, 10 ** (len(str(most)) - 1) // 2)
    while most / step > 4:
        step *= 2
    return list(range(0, most + 1, step))


def ranges(title: str, rows: Sequence[Range], label: str) -> str:
    """One row for each thing: a line from the median to the 99th percentile, a mark at the largest."""
    height = TOP + BOTTOM + 34 * len(rows)
    drawing = _Drawing(title, f"{len(rows)} rows.", height)
    x = _log_axis([v for r in rows for v in (r.p50, r.p99, r.most)], LEFT - 34, WIDTH - RIGHT - 10)
    bottom = height - BOTTOM
    for at, words in x.ticks():
        drawing.line(at, TOP, at, bottom, "grid")
        drawing.text(at, bottom + 16, words)
    drawing.text(WIDTH / 2, height - 6, label, style="label")
    for i, r in enumerate(rows):
        y = TOP + 34 * i + 22
        words = f"{r.name}: median {r.p50:g}, 99% within {r.p99:g}, largest {r.most:g}"
        drawing.text(LEFT - 40, y - 9, r.name, "start", "row")
        drawing.line(x.at(r.p50), y, x.at(r.most), y, "range")
        drawing.bar(r.series, x.at(r.p50), y - 3, max(x.at(r.p99) - x.at(r.p50), 2), 6, words)
        drawing.mark(r.series, x.at(r.most), y, words)
    return drawing.done()
