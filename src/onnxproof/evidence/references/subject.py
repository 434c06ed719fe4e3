"""What is being proven: something that exports itself, and computes by itself."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from onnxproof.evidence.profile import ProfileCase
from onnxproof.evidence.record import OracleKind

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class State:
    """Digests of what an export must leave as it was; None for what a subject does not have."""

    parameters: str | None = None
    gradients: str | None = None
    modes: str | None = None


@dataclass(frozen=True, slots=True)
class Oracle:
    """Outputs in float64, and what computed them: the callable, the module, or the program traced from it."""

    kind: OracleKind
    outputs: Sequence[Array]


class Subject(Protocol):
    """A model with its own idea of what it computes. Arrays are flat, in the order of the graph's inputs."""

    def weights_sha256(self) -> str | None:
        """SHA-256 of the weights, or None where they can't be told."""

    def state(self) -> State:
        """The state as it is now."""

    def export(self, path: Path) -> None:
        """Write the model to ``path``. What it raises is recorded."""

    def inputs(self, case: ProfileCase) -> Sequence[Array]:
        """The arrays of a case."""

    def native(self, case: ProfileCase) -> Sequence[Array]:
        """What the model itself computes for a case."""

    def oracle(self, case: ProfileCase) -> Oracle | None:
        """The same in float64, or None where nothing computes it."""


def digest(arrays: Iterable[tuple[str, Array | None]]) -> str:
    """SHA-256 over names, dtypes, shapes and bytes, in the order given; None stands for an array that is not there."""
    total = hashlib.sha256()
    for name, array in arrays:
        head = f"{name}\0absent\0" if array is None else f"{name}\0{array.dtype.name}\0{list(array.shape)}\0"
        total.update(head.encode())
        if array is not None:
            total.update(np.ascontiguousarray(array).tobytes())
    return total.hexdigest()
