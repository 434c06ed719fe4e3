"""tract, an engine written in Rust; what makes it panic ends the process that it runs in."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from onnxproof.evidence.runtimes.adapter import Array, Loaded, NotLoaded, Options, Refused

# What core/src/plan.rs says of a rank or element type that does not fit, and of a dimension.
_REFUSALS = ("has incorrect dtype or shape", "Clashing resolution for expression")
_BACKTRACE = "\n\nStack backtrace:"  # follows the reason where the environment asks for it


class Tract:
    """tract; its provider on the CPU is called ``cpu`` and it has no session options.

    It keeps the names of nodes and not those of outputs, so outputs bear the names of their nodes.
    """

    def __init__(self) -> None:
        self._runnable: Any = None
        self._names: list[str] = []

    def version(self) -> str:
        import tract

        return str(tract.version())

    def load(self, model: Path, provider: str, session: Options) -> Loaded:
        import tract

        if session:
            raise NotLoaded(f"tract has no options {dict(session)}")
        try:
            runtime = tract.runtime_for_name(provider)
            inferred = tract.onnx().load(model)
            self._names = [inferred.output_name(i) for i in range(inferred.output_count())]
            self._runnable = runtime.prepare(inferred.into_model())
        except tract.TractError as err:
            raise NotLoaded(_reason(err)) from err
        return Loaded([runtime.name()])

    def run(self, inputs: Sequence[Array]) -> list[tuple[str, Array]]:
        import tract

        try:
            values = self._runnable.run([np.asarray(a) for a in inputs])
        except tract.TractError as err:
            if any(sign in str(err) for sign in _REFUSALS):
                raise Refused(_reason(err)) from err
            raise RuntimeError(_reason(err)) from err
        return [(name, np.asarray(v.to_numpy())) for name, v in zip(self._names, values, strict=True)]


def _reason(err: Exception) -> str:
    return str(err).partition(_BACKTRACE)[0]
