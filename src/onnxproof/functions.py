"""``onnx_function``: a Python function that stays a function in the exported model."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, overload

from onnxproof.capture.marks import EXPORTING, marked
from onnxproof.errors import InputSpecError

F = TypeVar("F", bound=Callable[..., Any] | type)


@overload
def onnx_function(fn: F, *, name: str | None = None, unique: bool = False) -> F: ...


@overload
def onnx_function(fn: None = None, *, name: str | None = None, unique: bool = False) -> Callable[[F], F]: ...


def onnx_function(fn: Any = None, *, name: str | None = None, unique: bool = False) -> Any:
    """Mark a function, a method or a class with ``__call__``: exported models hold its calls as calls.

    Each call becomes a node, and its body an ONNX function in the domain ``onnxproof.functions``. Outside an
    export the mark does nothing: the function is called as it is. What the function closes over (weights, the
    object that a method is bound to) reaches the ONNX function as further inputs.

    Args:
        fn: what to mark; left out when the mark is used with arguments.
        name: of the ONNX function; by default that of ``fn``. Bodies that differ get numbered names.
        unique: let calls with equal bodies share one ONNX function, whatever weights they use.

    Raises:
        InputSpecError: ``fn`` can't be marked, or ``name`` is no identifier.

    Example:
        >>> @onnx_function(unique=True)
        ... def block(x, w):
        ...     return jax.nn.relu(x @ w)
    """
    if fn is None:
        return functools.partial(onnx_function, name=name, unique=unique)
    if not callable(fn):
        raise InputSpecError(f"onnx_function marks functions and classes, not a {type(fn).__name__}")
    label = name or str(getattr(fn, "__name__", type(fn).__name__))
    if not label.isidentifier():
        raise InputSpecError(
            f"{label!r} can't name an ONNX function", way_out='Give an identifier: name="block".'
        )
    if isinstance(fn, type):
        if "__call__" not in fn.__dict__:
            raise InputSpecError(
                f"{fn.__name__} defines no __call__", way_out="Mark the class that defines it, or a method."
            )
        fn.__call__ = _mark(fn.__call__, label, unique)  # type: ignore[method-assign]
        return fn
    return _mark(fn, label, unique)


def _mark(fn: Callable[..., Any], label: str, unique: bool) -> Callable[..., Any]:
    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        return marked(fn, label, unique, args, kwargs) if EXPORTING.value else fn(*args, **kwargs)

    return call
