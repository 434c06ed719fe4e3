"""Why a result is further from the exact value than twice JAX's error, by primitive."""

from __future__ import annotations

import re

# (primitive, pattern of the whole name, cause)
CAUSES: tuple[tuple[str, str, str], ...] = ()


def cause_of(group: str, name: str) -> str:
    for primitive, pattern, cause in CAUSES:
        if primitive == group and re.fullmatch(pattern, name):
            return cause
    return "not found yet"
