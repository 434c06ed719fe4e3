"""The flat SSA form of a traced program.

A :class:`Program` has no call primitives: ``jit``, ``custom_jvp_call``, ``remat`` and their like are inlined.
Control flow keeps its bodies as Programs in the parameters of an :class:`Eqn`; a body refers to values of the
program around it directly (they are *captured*), so constants never travel through a carry.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np


class SymDim(str):
    """A symbolic dimension: the text that JAX prints for it, such as ``2*b + 1``."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"SymDim({str(self)!r})"


Dim = int | SymDim
Shape = tuple[Dim, ...]


def broadcast_shapes(shapes: Iterable[Shape]) -> Shape | None:
    """NumPy broadcasting over dimensions that may be symbolic; None when it can't be told."""
    out: list[Dim] = []
    for shape in shapes:
        if len(shape) > len(out):
            out = [*([1] * (len(shape) - len(out))), *out]
        for i in range(1, len(shape) + 1):
            a, b = out[-i], shape[-i]
            if a == b or b == 1:
                continue
            if a == 1:
                out[-i] = b
            elif isinstance(a, SymDim) != isinstance(b, SymDim):
                out[-i] = b if isinstance(a, SymDim) else a
            else:
                return None
    return tuple(out)


@dataclass(frozen=True, slots=True)
class Aval:
    """Abstract value: shape and dtype.

    Typed PRNG keys appear as their raw words: a trailing axis of ``uint32`` words is part of ``shape``.
    """

    shape: Shape
    dtype: np.dtype[Any]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int | None:
        """Number of elements, or None when a dimension is symbolic."""
        total = 1
        for d in self.shape:
            if isinstance(d, SymDim):
                return None
            total *= d
        return total

    @property
    def is_complex(self) -> bool:
        return self.dtype.kind == "c"

    @property
    def part(self) -> Aval:
        """The real part of a complex aval, any other aval itself."""
        return Aval(self.shape, np.dtype(f"f{self.dtype.itemsize // 2}")) if self.is_complex else self

    @property
    def stored(self) -> Aval:
        """As the graph holds it: complex numbers are a trailing axis of two reals."""
        return Aval((*self.shape, 2), self.part.dtype) if self.is_complex else self

    def __str__(self) -> str:
        return f"{self.dtype.name}[{','.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class Frame:
    """One line of Python, its path relative to the root of its own package."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} ({self.function})"


@dataclass(frozen=True, slots=True)
class Site:
    """Where an equation comes from: the user's frames, innermost first, and the name scope."""

    frames: tuple[Frame, ...] = ()
    scope: str = ""

    @property
    def line(self) -> str:
        """``file:line`` of the innermost frame that is the user's, or an empty string."""
        return f"{self.frames[0].file}:{self.frames[0].line}" if self.frames else ""

    def __str__(self) -> str:
        return str(self.frames[0]) if self.frames else ""


NOWHERE = Site()


@dataclass(frozen=True, slots=True, eq=False)
class Var:
    """A value of the program; two Vars are the same only if they are the same object."""

    aval: Aval

    def __repr__(self) -> str:
        return f"Var<{id(self) & 0xFFFF:04x}:{self.aval}>"


@dataclass(frozen=True, slots=True, eq=False)
class Lit:
    """A literal operand."""

    value: np.ndarray[Any, Any]
    aval: Aval

    def __repr__(self) -> str:
        return f"Lit({self.value!r})"


Atom = Var | Lit


@dataclass(frozen=True, slots=True)
class Param:
    """A weight: its pytree path, the array as it was found, and the other paths that share it."""

    name: str
    array: Any
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Eqn:
    """One application of a JAX primitive; ``params`` are named as JAX names them."""

    primitive: str
    inputs: tuple[Atom, ...]
    outputs: tuple[Var, ...]
    params: Mapping[str, Any]
    site: Site

    @property
    def has_bodies(self) -> bool:
        """Whether a parameter is a Program or holds one."""
        for value in self.params.values():
            kind = type(value)
            if kind is Program or (kind is tuple and any(type(item) is Program for item in value)):
                return True
        return False

    def bodies(self) -> Iterator[Program]:
        """The Programs among the parameters (of a scan, while, cond or named function)."""
        for value in self.params.values():
            if isinstance(value, Program):
                yield value
            elif isinstance(value, tuple):
                for item in value:
                    if isinstance(item, Program):
                        yield item

    def __str__(self) -> str:
        outs = " ".join(map(repr, self.outputs))
        return f"{outs} = {self.primitive} {' '.join(map(repr, self.inputs))}"


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A traced callable, flat. ``params`` is empty on the bodies of control flow: they capture."""

    inputs: tuple[Var, ...]
    eqns: tuple[Eqn, ...]
    outputs: tuple[Atom, ...]
    params: Mapping[Var, Param] = field(default_factory=dict)
    input_names: tuple[str, ...] = ()
    output_names: tuple[str, ...] = ()

    def walk(self) -> Iterator[Eqn]:
        """Every equation, bodies included, outer ones first."""
        stack: list[Program] = [self]
        while stack:
            program = stack.pop()
            for eqn in program.eqns:
                yield eqn
                stack.extend(eqn.bodies())

    def captured(self) -> tuple[Var, ...]:
        """Vars that this program uses and does not define, in order of first use."""
        return _free_vars(self)

    def __str__(self) -> str:
        lines = [f"program({', '.join(map(repr, self.inputs))})"]
        lines += [f"  {eqn}" for eqn in self.eqns]
        lines.append(f"  return {', '.join(map(repr, self.outputs))}")
        return "\n".join(lines)


def _free_vars(program: Program) -> tuple[Var, ...]:
    bound: set[Var] = {*program.inputs, *program.params}
    free: dict[Var, None] = {}
    for eqn in program.eqns:
        used = [a for a in eqn.inputs if isinstance(a, Var)]
        for body in eqn.bodies():
            used += _free_vars(body)
        for var in used:
            if var not in bound:
                free.setdefault(var)
        bound.update(eqn.outputs)
    for atom in program.outputs:
        if isinstance(atom, Var) and atom not in bound:
            free.setdefault(atom)
    return tuple(free)
