"""Export JAX callables to ONNX, with proof by running that the file computes what the model computes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onnxproof._api import to_onnx as to_onnx

__version__ = "0.1.0"
_LAZY = {"to_onnx": "onnxproof._api"}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        import importlib

        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY])
