"""Export JAX callables to ONNX, with proof by running that the file computes what the model computes."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onnxproof._allclose import allclose as allclose
    from onnxproof._allclose_web import allclose_onnxruntime_web as allclose_onnxruntime_web
    from onnxproof._api import to_onnx as to_onnx
    from onnxproof._explain import explain as explain
    from onnxproof.artifact.describe import Metadata as Metadata
    from onnxproof.errors import (
        ArtifactError as ArtifactError,
    )
    from onnxproof.errors import (
        ConformanceError as ConformanceError,
    )
    from onnxproof.errors import (
        EffectfulProgram as EffectfulProgram,
    )
    from onnxproof.errors import (
        IllegalForTarget as IllegalForTarget,
    )
    from onnxproof.errors import (
        InputSpecError as InputSpecError,
    )
    from onnxproof.errors import (
        OnnxProofError as OnnxProofError,
    )
    from onnxproof.errors import (
        UnsupportedDimension as UnsupportedDimension,
    )
    from onnxproof.errors import (
        UnsupportedParam as UnsupportedParam,
    )
    from onnxproof.errors import (
        UnsupportedPrimitive as UnsupportedPrimitive,
    )
    from onnxproof.evidence.proof import verify as verify
    from onnxproof.evidence.runtimes.recommended import (
        recommended_options as recommended_options,
    )
    from onnxproof.evidence.runtimes.recommended import (
        session_options as session_options,
    )
    from onnxproof.functions import onnx_function as onnx_function
    from onnxproof.precision.narrow import convert as convert
    from onnxproof.precision.narrow import quantize as quantize

__version__ = "0.1.0"

_HOME = {
    "to_onnx": "_api",
    "Metadata": "artifact.describe",
    "allclose": "_allclose",
    "allclose_onnxruntime_web": "_allclose_web",
    "explain": "_explain",
    "convert": "precision.narrow",
    "quantize": "precision.narrow",
    "verify": "evidence.proof",
    "onnx_function": "functions",
    "session_options": "evidence.runtimes.recommended",
    "recommended_options": "evidence.runtimes.recommended",
    "ArtifactError": "errors",
    "ConformanceError": "errors",
    "EffectfulProgram": "errors",
    "IllegalForTarget": "errors",
    "InputSpecError": "errors",
    "OnnxProofError": "errors",
    "UnsupportedDimension": "errors",
    "UnsupportedParam": "errors",
    "UnsupportedPrimitive": "errors",
}
_NEEDS_ONNX_IR = (
    "_api",
    "artifact.describe",
    "_allclose",
    "_allclose_web",
    "_explain",
    "functions",
    "precision.narrow",
)
__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if home in _NEEDS_ONNX_IR:
        from onnxproof import _onnx_ir

        _onnx_ir.load()
    return getattr(importlib.import_module(f"onnxproof.{home}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
