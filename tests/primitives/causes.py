"""Why a result is further from the exact value than twice JAX's error, by primitive."""

from __future__ import annotations

import re

_KERNEL = "ONNX Runtime's kernel of the one operator that this is, an approximation of a few units"

# (pattern of primitives, pattern of whole names, cause)
CAUSES = (
    ("acos|asin|atan|cos|sin", ".*float32.*", _KERNEL),
    ("atan2", ".*", "ONNX Runtime's Atan in float32, the only kernel that there is, and one more rounding"),
    ("expm1", ".*", "ONNX Runtime's Tanh, from which it is made without cancellation"),
    (
        "logistic",
        ".*",
        "ONNX Runtime's Sigmoid where the result is small; under logarithms, quotients and orderings the exact form"
        " is used, which costs more",
    ),
    ("lgamma", ".*", "9e-16 at the root 2, where JAX gives 0"),
    (
        "fft",
        ".*",
        "products with matrices of roots of unity, whose sums are longer than those of a fast transform; a fast one"
        " is no operator of ONNX",
    ),
    ("top_k", ".*nan.*", "a NaN whose sign bit is set, which no operator can see before opset 26"),
)


def cause_of(group: str, name: str) -> str:
    for primitives, names, cause in CAUSES:
        if re.fullmatch(primitives, group) and re.fullmatch(names, name):
            return cause
    return "not known"
