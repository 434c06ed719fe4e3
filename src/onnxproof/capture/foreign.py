"""Primitives without a rule of ours, through their own implementation."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import jax

from onnxproof.capture.jaxprs import open_jaxpr, sub_jaxprs

_LEVELS = 4  # how often an implementation may rest on its own primitive
_HIGH = "call_hi_primitive"  # a primitive object in a parameter, which expands into ordinary ones


class Foreign:
    """Traces of implementations; what can't be traced at some operands is tried once there."""

    def __init__(self) -> None:
        self._refused: set[str] = set()

    def body(self, eqn: Any, levels: int = _LEVELS) -> Any | None:
        """The traced implementation of the primitive of ``eqn``, when it ends.

        It may rest on the same primitive with other parameters, as a solver does that chooses another.
        """
        prim = eqn.primitive
        high = eqn.params.get("_prim") if prim.name == _HIGH else None
        avals = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in eqn.invars]
        label = f"{prim.name if high is None else high} {avals}"
        if label in self._refused:
            return None
        run = partial(prim.impl, **eqn.params) if high is None else partial(_expanded, high)
        try:
            traced = jax.make_jaxpr(run)(*avals)
        except Exception:  # whatever another package raises, the primitive is reported as unsupported
            self._refused.add(label)
            return None
        if prim.name != _HIGH:
            again = [e for e in _equations(traced) if e.primitive is prim]
            if again and (levels == 0 or any(self.body(e, levels - 1) is None for e in again)):
                self._refused.add(label)
                return None
        return traced


def _expanded(high: Any, *operands: Any) -> Any:
    return high.expand(*high.in_tree.unflatten(operands))


def _equations(closed: Any) -> Iterator[Any]:
    stack = [closed]
    while stack:
        jaxpr, _ = open_jaxpr(stack.pop())
        for eqn in jaxpr.eqns:
            yield eqn
            stack.extend(sub_jaxprs(eqn))
