"""The accuracy gate of ``normalization_mode``: where a native normalization was measured to be as exact.

``scripts/measure_normalization.py`` holds native and decomposed forms against float64 and writes the table; what it
measured is in ``docs/normalization.md``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Literal

NormalizationMode = Literal["auto", "prefer_native", "force_decomposed"]
TABLE = "normalization_gate.json"


@cache
def table() -> Mapping[str, Mapping[str, Sequence[int]]]:
    """The opsets at which the gate was passed, by composite and dtype of the result."""
    text = (resources.files("onnxproof") / "raising" / TABLE).read_text("utf-8")
    passed: Mapping[str, Mapping[str, Sequence[int]]] = json.loads(text)["passed"]
    return passed


def admits(mode: NormalizationMode, composite: str, dtype: str, opset: int) -> bool:
    """Whether a normalization of this dtype may become the native operator."""
    if mode == "auto":
        return opset in table().get(composite, {}).get(dtype, ())
    return mode == "prefer_native"
