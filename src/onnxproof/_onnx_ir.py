"""Import onnx_ir without sympy, which it imports for arithmetic on symbolic dimensions.

An export never does that arithmetic, and importing sympy takes more than half of the time that a cold export of a
small model spends outside of JAX. The name ``sympy`` that onnx_ir keeps loads it when it is first used.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any


class _Later:
    """An attribute of a module that is loaded when the attribute is called or compared with."""

    def __init__(self, module: str, name: str) -> None:
        self._module, self._name = module, name

    def _resolve(self) -> Any:
        return getattr(importlib.import_module(self._module), self._name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._resolve()(*args, **kwargs)

    def __instancecheck__(self, instance: object) -> bool:
        return isinstance(instance, self._resolve())


class _StandIn(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:  # while onnx_ir is imported
            return _Later(self.__name__, name)
        return getattr(importlib.import_module(self.__name__), name)


def load() -> None:
    """Import onnx_ir; sympy stays out unless it is loaded already, and ``import sympy`` works as ever."""
    if "sympy" in sys.modules or "onnx_ir" in sys.modules:
        return
    sys.modules["sympy"] = _StandIn("sympy")
    try:
        importlib.import_module("onnx_ir")
    finally:
        del sys.modules["sympy"]
