"""The reference evaluator of the onnx package: slow, in NumPy, and independent of any runtime's kernels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from onnxproof.evidence.runtimes.adapter import Array, Loaded, NotLoaded, Options


class OnnxReference:
    """``onnx.reference.ReferenceEvaluator``; its provider is called ``numpy`` and it has no session options."""

    def __init__(self) -> None:
        self._evaluator: Any = None

    def version(self) -> str:
        import onnx
        import onnx.reference  # a broken one is a missing one

        return str(onnx.__version__)

    def load(self, model: Path, provider: str, session: Options) -> Loaded:
        from onnx.reference import ReferenceEvaluator

        if provider != "numpy" or session:
            raise NotLoaded(f"the reference evaluator has no provider {provider} or options {dict(session)}")
        self._evaluator = ReferenceEvaluator(str(model))
        return Loaded(["numpy"])

    def run(self, inputs: Sequence[Array]) -> list[tuple[str, Array]]:
        names = self._evaluator.input_names
        values = self._evaluator.run(None, dict(zip(names, inputs, strict=True)))
        return [(n, np.asarray(v)) for n, v in zip(self._evaluator.output_names, values, strict=True)]
