"""Raise patterns of primitives to native ONNX operators by unification with reference programs."""

from __future__ import annotations

import importlib
import os
import pkgutil
from functools import cache

_INFRASTRUCTURE = frozenset({"affine", "composite", "gate", "match"})


@cache
def load_composites() -> None:
    """Import every family of composites; each registers what it holds."""
    for module in pkgutil.iter_modules([os.path.dirname(__file__)]):
        if module.name not in _INFRASTRUCTURE:
            importlib.import_module(f"onnxproof.raising.{module.name}")
