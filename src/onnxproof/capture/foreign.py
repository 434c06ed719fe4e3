"""Primitives without a rule of ours, through their own implementation."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax

from onnxproof.capture.jaxprs import open_jaxpr, sub_jaxprs

_HIGH = "call_hi_primitive"  # a primitive object in a parameter, which expands into ordinary ones


class Foreign:
    """Traces of implementations; what can't be traced is tried once."""

    def __init__(self) -> None:
        self._refused: set[str] = set()

    def body(self, eqn: Any) -> Any | None:
        """The traced implementation of the primitive of ``eqn``, when it does not rest on itself."""
        prim = eqn.primitive
        high = eqn.params.get("_prim") if prim.name == _HIGH else None
        label = prim.name if high is None else str(high)
        if label in self._refused:
            return None
        avals = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in eqn.invars]
        run = partial(prim.impl, **eqn.params) if high is None else partial(_expanded, high)
        try:
            traced = jax.make_jaxpr(run)(*avals)
        except Exception:  # whatever another package raises, the primitive is reported as unsupported
            self._refused.add(label)
            return None
        if prim.name != _HIGH and prim.name in _primitive_names(traced):
            self._refused.add(label)
            return None
        return traced


def _expanded(high: Any, *operands: Any) -> Any:
    return high.expand(*high.in_tree.unflatten(operands))


def _primitive_names(closed: Any) -> set[str]:
    found: set[str] = set()
    stack = [closed]
    while stack:
        jaxpr, _ = open_jaxpr(stack.pop())
        for eqn in jaxpr.eqns:
            found.add(eqn.primitive.name)
            stack.extend(sub_jaxprs(eqn))
    return found
