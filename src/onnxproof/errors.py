"""The one tree of errors that onnxproof raises.

Every message says what was wrong, where (a :class:`Site` when a program line is known) and the way out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Protocol


class Located(Protocol):
    """Anything that can print the place in the user's code that it stands for."""

    def __str__(self) -> str: ...


class OnnxProofError(Exception):
    """Base of every error that onnxproof raises on purpose.

    Args:
        what: the fault, in one sentence.
        site: the user's own line, when known.
        way_out: what the reader can do about it.

    Attributes:
        exit_code: of a command that it ends.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, what: str, *, site: Located | None = None, way_out: str = "") -> None:
        self.what = what
        self.site = site
        self.way_out = way_out
        where = f"\n  at {site}" if site is not None and str(site) else ""
        hint = f"\n  {way_out}" if way_out else ""
        super().__init__(f"{what}{where}{hint}")


class InputSpecError(OnnxProofError, ValueError):
    """The description of inputs or outputs (number, name, shape, dtype) is not usable."""


class TraceError(OnnxProofError):
    """The callable raised, or leaked a tracer, while JAX traced it."""


class NestedTraceError(OnnxProofError):
    """The exporter was called from inside another JAX transformation."""


class UnsupportedError(OnnxProofError, NotImplementedError):
    """Base of what can't be exported faithfully (yet)."""


class UnsupportedPrimitive(UnsupportedError):
    """The program uses JAX primitives that have no lowering."""

    def __init__(
        self,
        what: str,
        *,
        primitives: Sequence[str] = (),
        site: Located | None = None,
        way_out: str = "",
    ) -> None:
        self.primitives = tuple(primitives)
        super().__init__(what, site=site, way_out=way_out)


class UnsupportedParam(UnsupportedError):
    """A primitive carries a parameter, or a value of it, that its lowering does not know."""


class UnsupportedDimension(UnsupportedError):
    """A symbolic dimension can't be computed from the graph's inputs, or contradicts itself."""


class UnsupportedDtype(UnsupportedError):
    """A dtype has no faithful form in ONNX or on the target."""


class IllegalForTarget(UnsupportedError):
    """The target runtime has no kernel for an operator, dtype and opset, nor a legal spelling of it."""


class OpsetError(UnsupportedError, ValueError):
    """The requested opset is out of range, or too low for an operator the program needs."""


class EffectfulProgram(UnsupportedError):
    """The program has side effects (callbacks, ordered io) that a graph can't carry."""


class NameCollision(OnnxProofError, ValueError):
    """Two inputs, outputs or weights ask for the same name."""


class ArtifactError(OnnxProofError, OSError):
    """A file could not be written or read; nothing was left half-written."""


class ConformanceError(OnnxProofError):
    """Evidence is malformed, contradicts itself, or does not match its files."""


class BrokenBundle(ConformanceError):
    """Files of a bundle are not those of its record; the exit code is that of ``hash-mismatch``."""

    exit_code = 14


class InternalError(OnnxProofError):
    """onnxproof broke one of its own invariants: please report it."""
