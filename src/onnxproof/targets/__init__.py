"""What a runtime can run: for each operator and version, the types that have a kernel.

The tables are generated (see ``scripts/generate_kernel_table.py`` and ``scripts/generate_web_tables.py``), each with
its source and version inside.
A table is read on first use, and an operator's entry only when a graph holds that operator.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from typing import Any

import onnx_ir as ir

from onnxproof.errors import InputSpecError

DEFAULT = "ort-cpu"
WEB = "ort-web-wasm"  # what export_mode="web" is for
_TABLES: Mapping[str, str] = {
    "ort-cpu": "ort_cpu.json",
    "ort-web-wasm": "ort_web_wasm.json",
    "ort-web-webgpu": "ort_web_webgpu.json",
}
_DTYPES: Mapping[str, ir.DataType] = {
    **{d.short_name(): d for d in ir.DataType if d is not ir.DataType.UNDEFINED},
    "bool": ir.DataType.BOOL,
}

Dtypes = frozenset[ir.DataType]
Row = Mapping[str, Dtypes]
Binding = Mapping[str, Dtypes]


def _dtypes(text: str) -> Dtypes:
    return frozenset(_DTYPES[name] for name in text.split())


@dataclass(frozen=True, slots=True)
class Formal:
    """The formal parameters of one side of an operator: a type variable (or a fixed type) for each place."""

    letters: tuple[str, ...]
    variadic: bool

    @classmethod
    def parse(cls, text: str) -> Formal:
        return cls(tuple(t.rstrip("*") for t in text.split()), text.endswith("*"))

    def letter(self, place: int) -> str:
        """The type variable of the operand at ``place``."""
        if place >= len(self.letters):
            return self.letters[-1] if self.variadic else "?"
        return self.letters[place]


@dataclass(frozen=True, slots=True)
class OpVersion:
    """One version of an operator on a target.

    Attributes:
        rows: what kernels take: each row maps every type variable to the types it may have in that kernel.
        refused: value of ``refused_by`` → types for which a listed kernel throws when it runs.
        refused_by: the attribute that decides, or an empty string when it is always so.
        accelerated: as ``rows``, what runs on the target's accelerator.
    """

    since: int
    inputs: Formal
    outputs: Formal
    rows: tuple[Row, ...]
    refused_by: str
    refused_variable: str
    refused: Mapping[str, Dtypes]
    accelerated: tuple[Row, ...]

    @classmethod
    def parse(cls, entry: Mapping[str, Any]) -> OpVersion:
        rows = [{v: _dtypes(t) for v, t in row.items()} for row in entry["kernels"]]
        if "inlined" in entry:  # no kernel, but the runtime runs the operator's function body
            rows.append({v: _dtypes(t) for v, t in entry["inlined"].items()})
        refused = entry.get("refused", {"by": "", "variable": "", "types": {}})
        return cls(
            entry["since"],
            Formal.parse(entry["in"]),
            Formal.parse(entry["out"]),
            tuple(rows),
            refused["by"],
            refused["variable"],
            {value: _dtypes(t) for value, t in refused["types"].items()},
            tuple({v: _dtypes(t) for v, t in row.items()} for row in entry.get("accelerated", ())),
        )

    def bind(self, inputs: Iterable[ir.DataType | None], outputs: Iterable[ir.DataType | None]) -> Binding:
        """Type variable → the types that the operands and results put in it."""
        found: dict[str, set[ir.DataType]] = {}
        for formal, dtypes in ((self.inputs, inputs), (self.outputs, outputs)):
            for place, dtype in enumerate(dtypes):
                if dtype is not None:
                    found.setdefault(formal.letter(place), set()).add(dtype)
        return {letter: frozenset(dtypes) for letter, dtypes in found.items()}

    def runs(self, bound: Binding, variant: str = "") -> bool:
        """Whether a kernel takes these types; ``variant`` is the value of the attribute ``refused_by``."""
        refused = self.refused.get(variant, frozenset())
        if refused & bound.get(self.refused_variable, frozenset()):
            return False
        return any(_accepts(row, bound) for row in self.rows)

    def accelerates(self, bound: Binding) -> bool:
        """Whether a kernel of the accelerator takes these types."""
        return any(_accepts(row, bound) for row in self.accelerated)

    def accepted(self, letter: str, variant: str = "") -> Dtypes:
        """Every type that some kernel takes in a type variable."""
        found = frozenset[ir.DataType]().union(*(row.get(letter, ()) for row in self.rows))
        return found - self.refused.get(variant, frozenset()) if letter == self.refused_variable else found


def _accepts(row: Row, bound: Binding) -> bool:
    return all(letter not in row or dtypes <= row[letter] for letter, dtypes in bound.items())


@dataclass(frozen=True, slots=True)
class Target:
    """A runtime to export for.

    Attributes:
        name: as users write it.
        runtime: the runtime and version that the table was made from.
        min_opset, max_opset: the opsets that the table covers.
        limits: other facts about the runtime, by name.
        accelerator: what runs the operators that it has kernels for, where others run elsewhere; or nothing.
    """

    name: str
    runtime: str
    min_opset: int
    max_opset: int
    limits: Mapping[str, Any]
    accelerator: str
    _operators: Mapping[str, Any] = field(repr=False)
    _parsed: dict[tuple[str, int], OpVersion | None] = field(default_factory=dict, repr=False)

    def version(self, op: str, opset: int) -> OpVersion | None:
        """The version of an operator that is in force at ``opset``; None if ONNX has none there."""
        key = (op, opset)
        if key not in self._parsed:
            entries = [e for e in self._operators.get(op, ()) if e["since"] <= opset]
            self._parsed[key] = OpVersion.parse(entries[-1]) if entries else None
        return self._parsed[key]

    def runs(
        self,
        op: str,
        opset: int,
        inputs: Iterable[ir.DataType | None],
        outputs: Iterable[ir.DataType | None] = (),
        variant: str = "",
    ) -> bool:
        """Whether the target has a kernel for an operator on operands of these types."""
        version = self.version(op, opset)
        return version is not None and version.runs(version.bind(inputs, outputs), variant)


def names() -> tuple[str, ...]:
    """The known targets."""
    return tuple(_TABLES)


@lru_cache
def get(name: str) -> Target:
    """The target of a name.

    Raises:
        InputSpecError: no such target.
    """
    if name not in _TABLES:
        raise InputSpecError(f"target={name!r} is not known", way_out=f"Known targets: {', '.join(_TABLES)}.")
    table = json.loads(resources.files(__name__).joinpath(_TABLES[name]).read_text(encoding="utf-8"))
    low, high = table["opsets"]
    limits, accelerator = table.get("limits", {}), table.get("accelerator", "")
    return Target(name, table["runtime"], low, high, limits, accelerator, table["operators"])
