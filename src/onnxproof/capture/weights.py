"""Names for weights: the pytree path under which the callable holds each array.

JAX keeps the identity of arrays through tracing, so an array found by walking the callable (its own pytree, the
object a method is bound to, partial arguments, closures, defaults and the globals it names) is the same object
as the constant in the trace. NumPy leaves are copied, and are matched by the address of their memory.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from onnxproof.capture.program import Param

_ATOMIC = (str, bytes, int, float, complex, bool, type(None), types.ModuleType, type)
_MAX_DEPTH = 8


def key_of(array: Any) -> tuple[str, int]:
    """Identity of an array: the object for JAX arrays, the memory for NumPy's."""
    if isinstance(array, np.ndarray):
        return ("memory", array.__array_interface__["data"][0] if array.size else id(array))
    return ("object", id(array))


class WeightNames:
    """Paths of the arrays that a callable holds."""

    def __init__(self, fn: Callable[..., Any] | None) -> None:
        self._paths: dict[tuple[str, int], list[str]] = {}
        self._shapes: dict[tuple[str, int], tuple[tuple[int, ...], Any]] = {}
        self._keep: list[Any] = []
        roots = [] if fn is None else list(_roots(fn))
        holding = [(name, list(_leaves(obj))) for name, obj in roots]
        holding = [(name, leaves) for name, leaves in holding if leaves]
        alone = len(holding) == 1
        for name, leaves in holding:
            for path, leaf in leaves:
                parts = path if alone and path else ((name, *path) if name else path)
                self._add(".".join(parts), leaf)

    def _add(self, path: str, leaf: Any) -> None:
        key = key_of(leaf)
        paths = self._paths.setdefault(key, [])
        if path and path not in paths:
            paths.append(path)
        self._shapes.setdefault(key, (tuple(leaf.shape), leaf.dtype))
        self._keep.append(leaf)

    def find(self, array: Any) -> Param | None:
        """The Param for ``array``, or None when the callable does not hold it under a path."""
        key = key_of(array)
        paths = self._paths.get(key)
        if not paths or self._shapes[key][0] != tuple(array.shape):
            return None
        return Param(paths[0], array, tuple(paths[1:]))


def _roots(fn: Any) -> Iterator[tuple[str, Any]]:
    """(name, object) pairs that may hold weights, nearest first, each object once."""
    seen: set[int] = set()
    stack: list[tuple[Any, int]] = [(fn, 0)]
    while stack:
        obj, depth = stack.pop(0)
        if id(obj) in seen or depth > _MAX_DEPTH:
            continue
        seen.add(id(obj))
        if isinstance(obj, functools.partial):
            stack.append((obj.func, depth + 1))
            named = [*((str(i), a) for i, a in enumerate(obj.args)), *obj.keywords.items()]
        elif isinstance(obj, types.MethodType):
            stack.append((obj.__func__, depth + 1))
            named = [("", obj.__self__)]
        elif isinstance(obj, types.FunctionType):
            named = list(_function_cells(obj))
        else:
            named = []
            if callable(obj) and not isinstance(obj, type):
                yield "", obj
        wrapped = getattr(obj, "__wrapped__", None)
        if wrapped is not None:
            stack.append((wrapped, depth + 1))
        for name, value in named:
            if isinstance(value, _ATOMIC) or id(value) in seen:
                continue
            if isinstance(value, (functools.partial, types.FunctionType, types.MethodType)) or (
                hasattr(value, "__wrapped__") and callable(value)
            ):
                if _is_library(value):
                    continue
                stack.append((value, depth + 1))
            else:
                seen.add(id(value))
                yield name, value


def _is_library(value: Any) -> bool:
    module = getattr(value, "__module__", None) or ""
    return module.partition(".")[0] in ("jax", "jaxlib", "numpy", "onnxproof")


def _function_cells(fn: types.FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # a cell that is not filled yet holds nothing
            continue
    names = [*fn.__code__.co_names]
    for const in fn.__code__.co_consts:
        if isinstance(const, types.CodeType):
            names += const.co_names
    for name in names:
        if name in fn.__globals__:
            yield name, fn.__globals__[name]
    yield from zip(
        fn.__code__.co_varnames[fn.__code__.co_argcount - len(fn.__defaults__ or ()) :],
        fn.__defaults__ or (),
        strict=False,
    )
    yield from (fn.__kwdefaults__ or {}).items()


def _leaves(obj: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """(path, array) of every array under ``obj``: pytrees by their keys, other objects by attribute."""
    yield from _walk(obj, (), set(), 0)


def _walk(
    obj: Any, path: tuple[str, ...], seen: set[int], depth: int
) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(obj, _ATOMIC) or id(obj) in seen or depth > _MAX_DEPTH:
        return
    if isinstance(obj, (jax.Array, np.ndarray)):
        yield path, obj
        return
    seen.add(id(obj))
    flat, _ = jax.tree_util.tree_flatten_with_path(obj)
    if len(flat) == 1 and not flat[0][0]:  # JAX sees a leaf: an ordinary object
        for name, value in sorted(_attributes(obj), key=lambda item: item[0]):
            yield from _walk(value, (*path, name), seen, depth + 1)
        return
    for keys, leaf in flat:
        here = (*path, *path_parts(keys))
        if isinstance(leaf, (jax.Array, np.ndarray)):
            yield here, leaf
        else:
            yield from _walk(leaf, here, seen, depth + 1)


def _attributes(obj: Any) -> Iterator[tuple[str, Any]]:
    if callable(obj) and isinstance(
        obj, (types.FunctionType, types.BuiltinFunctionType, types.MethodType)
    ):
        return
    if _is_library(type(obj)):
        return
    yield from getattr(obj, "__dict__", {}).items()
    for cls in type(obj).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(obj, name):
                yield name, getattr(obj, name)


def path_parts(keys: tuple[Any, ...]) -> tuple[str, ...]:
    """The readable parts of a JAX key path; a trailing holder such as ``.value`` is left out."""
    parts = [jax.tree_util.keystr((k,), simple=True) for k in keys]
    while len(parts) > 1 and parts[-1] in ("value", "raw_value", "_value"):
        parts.pop()
    return tuple(parts)
