"""What a runtime has to offer to be run in a worker process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

Array = np.ndarray[Any, Any]
Options = Mapping[str, Any]


class Refused(Exception):
    """The runtime's own refusal of an argument: a wrong shape, rank or element type."""


class NotLoaded(Exception):
    """The runtime does not take the model, or not on the provider asked for."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What the runtime reports of a loaded model; ``placement`` is nodes by provider, None where it says nothing."""

    providers: Sequence[str]
    placement: Mapping[str, int] | None = None


class Adapter(Protocol):
    """A runtime, in the process it runs in. It imports its package in methods.

    It can be made without arguments; those it may have say where things are on this machine, and no record has them.
    """

    def version(self) -> str:
        """The version of the runtime; an ImportError says that it is missing."""

    def load(self, model: Path, provider: str, session: Options) -> Loaded:
        """Load a model file, once. What it raises is the reason that it did not load."""

    def run(self, inputs: Sequence[Array]) -> list[tuple[str, Array]]:
        """Run on arrays in the order of the graph's inputs; names and arrays of all outputs, in order.

        Raises:
            Refused: the runtime itself calls an argument invalid.
        """
