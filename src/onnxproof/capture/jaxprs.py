"""Reading jaxprs, closed or not, in every release of JAX."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from jax.extend import core as jex_core

from onnxproof.errors import InternalError


def is_jaxpr(value: Any) -> bool:
    """Whether ``value`` is a Jaxpr or ClosedJaxpr."""
    return isinstance(value, (jex_core.Jaxpr, jex_core.ClosedJaxpr))


def open_jaxpr(jaxpr: Any) -> tuple[Any, Sequence[Any]]:
    """(jaxpr, constants) of a Jaxpr or ClosedJaxpr."""
    inner = jaxpr.jaxpr if isinstance(jaxpr, jex_core.ClosedJaxpr) else jaxpr
    consts = list(getattr(jaxpr, "consts", None) or ())
    if len(consts) != len(inner.constvars):
        raise InternalError(f"a jaxpr has {len(inner.constvars)} constants and {len(consts)} values")
    return inner, consts


def sub_jaxprs(eqn: Any) -> Iterator[Any]:
    """The jaxprs among the parameters of an equation."""
    for value in eqn.params.values():
        items = value if isinstance(value, tuple) else (value,)
        yield from (v for v in items if is_jaxpr(v))
