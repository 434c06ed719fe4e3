"""Clauses on what a file says of itself: names, dtypes, shapes, and operators that have no place in it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from onnxproof.contracts.clause import MAX_OFFENCES, Clause, Finding
from onnxproof.contracts.subject import Subject, graphs, numpy_name
from onnxproof.evidence.record import Port

Dim = int | str | None  # a size, a name of any dimension that varies, or anything
# Words of names that a training step has and a deployed model should not.
FORBIDDEN = (
    "key",
    "keys",
    "rng",
    "rngs",
    "prng",
    "seed",
    "params",
    "param",
    "parameters",
    "train",
    "training",
    "deterministic",
    "dropout",
)
# onnx/defs/generator and onnx/defs/nn: operators whose outputs depend on a seed
RANDOM = (
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
    "Multinomial",
    "Bernoulli",
)


@dataclass(frozen=True)
class Input(Clause):
    """There is an input of this name, dtype and shape.

    Attributes:
        dtype: NumPy's name of it; None is any.
        shape: sizes, names for dimensions that have to vary, None for any; None for the whole is any shape.
        low, high: what the input holds where it is deployed: clauses on values draw it from there.
    """

    kind: ClassVar[str] = "input"
    name: str
    dtype: str | None = None
    shape: tuple[Dim, ...] | None = None
    low: float | None = None
    high: float | None = None

    def demand(self) -> str:
        return f"takes {_described(self.name, self.dtype, self.shape)}"

    def examine(self, subject: Subject) -> Finding:
        return _port_finding(subject.input(self.name), self.dtype, self.shape)


@dataclass(frozen=True)
class Output(Clause):
    """There is an output of this name, dtype and shape, as for :class:`Input`; ``dtype`` may be several."""

    kind: ClassVar[str] = "output"
    name: str
    dtype: str | tuple[str, ...] | None = None
    shape: tuple[Dim, ...] | None = None

    def demand(self) -> str:
        return f"gives {_described(self.name, self.dtype, self.shape)}"

    def examine(self, subject: Subject) -> Finding:
        return _port_finding(subject.output(self.name), self.dtype, self.shape)


@dataclass(frozen=True)
class OnlyPorts(Clause):
    """There are no inputs and outputs but these; None is any."""

    kind: ClassVar[str] = "only-ports"
    inputs: tuple[str, ...] | None = None
    outputs: tuple[str, ...] | None = None

    def demand(self) -> str:
        said = [
            f"no {what} but {', '.join(names) or 'none'}"
            for what, names in (("inputs", self.inputs), ("outputs", self.outputs))
            if names is not None
        ]
        return "has " + (" and ".join(said) or "any inputs and outputs")

    def examine(self, subject: Subject) -> Finding:
        offences = []
        for what, ports, names in (
            ("input", subject.inputs, self.inputs),
            ("output", subject.outputs, self.outputs),
        ):
            if names is not None:
                there = [p.name for p in ports]
                offences += [f"there is an {what} {n!r} as well" for n in there if n not in names]
                offences += [f"there is no {what} {n!r}" for n in names if n not in there]
        return Finding(len(subject.inputs) + len(subject.outputs), {}, tuple(offences[:MAX_OFFENCES]))


@dataclass(frozen=True)
class NoForbiddenInputs(Clause):
    """No input has a name such as ``key``, ``rng``, ``params`` or ``training``: parts of names are compared."""

    kind: ClassVar[str] = "no-forbidden-inputs"
    words: tuple[str, ...] = FORBIDDEN

    def demand(self) -> str:
        return f"no input is named after {', '.join(self.words[:4])} and the like"

    def examine(self, subject: Subject) -> Finding:
        offences = [
            f"the input {port.name!r} is {word!r}"
            if word == port.name
            else f"the input {port.name!r} has {word!r}"
            for port in subject.inputs
            for word in _words(port.name)
            if word in self.words
        ]
        return Finding(len(subject.inputs), {}, tuple(offences[:MAX_OFFENCES]))


@dataclass(frozen=True)
class NoRandomness(Clause):
    """No operator draws numbers or drops values, in the graph, inside loops and branches, or in functions."""

    kind: ClassVar[str] = "no-randomness"
    operators: tuple[str, ...] = (*RANDOM, "Dropout")

    def demand(self) -> str:
        return "no random and no dropout operators, also inside loops, branches and functions"

    def examine(self, subject: Subject) -> Finding:
        offences, count = [], 0
        for where, nodes in graphs(subject.model):
            count += len(nodes)
            offences += [
                f"{node.op_type} {node.name!r} in {where}" for node in nodes if node.op_type in self.operators
            ]
        return Finding(max(count, 1), {}, tuple(offences[:MAX_OFFENCES]))


def fits(pattern: Sequence[Dim], shape: Sequence[int | str] | None) -> bool:
    """Whether a shape is of a pattern; a name stands for one dimension that varies wherever it is."""
    if shape is None or len(pattern) != len(shape):
        return False
    bound: dict[str, str] = {}
    for want, got in zip(pattern, shape, strict=True):
        if isinstance(want, str):
            if not isinstance(got, str) or not got or bound.setdefault(want, got) != got:
                return False
        elif want is not None and want != got:
            return False
    return True


def _port_finding(port: Port, dtype: str | tuple[str, ...] | None, shape: tuple[Dim, ...] | None) -> Finding:
    offences = []
    got = numpy_name(port.dtype)
    if dtype is not None and got not in ((dtype,) if isinstance(dtype, str) else dtype):
        offences.append(f"{port.name!r} is {got}")
    if shape is not None and not fits(shape, port.shape):
        offences.append(f"{port.name!r} has the shape {_dims(port.shape)}")
    return Finding(1, {}, tuple(offences))


def _described(name: str, dtype: str | tuple[str, ...] | None, shape: tuple[Dim, ...] | None) -> str:
    kinds = "" if dtype is None else f" {dtype if isinstance(dtype, str) else ' or '.join(dtype)}"
    return f"{name!r}{kinds}" + ("" if shape is None else f" of shape {_dims(shape)}")


def _dims(shape: Sequence[Dim] | None) -> str:
    if shape is None:
        return "that it does not say"
    return "[" + ", ".join("any" if d is None else str(d) for d in shape) + "]"


def _words(name: str) -> list[str]:
    """``rngKey_0`` → ``rng``, ``key``."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    return [w.rstrip("0123456789").lower() for w in re.split(r"[^A-Za-z0-9]+", spaced) if w]
