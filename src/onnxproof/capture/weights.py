"""Names for weights: the pytree path under which the callable holds each array.

JAX keeps the identity of arrays through tracing, so an array found by walking the callable (its own pytree,
the object a method is bound to, partial arguments, closures, defaults and the globals it names) is the same
object as the constant in the trace. NumPy leaves are copied, and are matched by the memory that they read.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import types
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from onnxproof.capture.program import Param

_ATOMIC = (str, bytes, int, float, complex, bool, type(None), types.ModuleType, type)
_OPAQUE = frozenset({"jax", "jaxlib", "numpy", "onnxproof"})  # their objects hold no weights in their fields
_LIBRARIES = _OPAQUE | {"flax", "equinox", "haiku"}  # their functions hold none in their globals
_MAX_DEPTH = 8


Key = tuple[Any, ...]


def key_of(array: Any) -> Key:
    """Identity of an array: the object for JAX arrays, for NumPy's the memory and how it is read.

    ``w``, ``w[0]``, ``w.T`` and ``w.view(int)`` begin at one address.
    """
    if isinstance(array, np.ndarray) and array.size:
        address = array.__array_interface__["data"][0]
        return ("memory", address, array.shape, array.strides, array.dtype)
    return ("object", id(array))


@dataclass(frozen=True, slots=True)
class View:
    """How a NumPy array reads the whole of a weight: ``primitive`` with ``params``, applied to ``array``."""

    array: np.ndarray[Any, Any]
    primitive: str
    params: Mapping[str, Any]


class WeightNames:
    """Paths of the arrays that a callable holds."""

    def __init__(self, fn: Callable[..., Any] | None) -> None:
        self._paths: dict[Key, list[str]] = {}
        self._keep: list[Any] = []
        self._at: dict[int, np.ndarray[Any, Any]] = {}
        holding: list[tuple[str, list[tuple[tuple[str, ...], Any]]]] = []
        known: set[Key] = set()
        for name, obj in () if fn is None else _roots(fn):
            leaves = list(_leaves(obj))
            keys = {key_of(leaf) for _, leaf in leaves}
            if not keys <= known:  # else a second way to arrays that have names already
                holding.append((name, leaves))
                known |= keys
        alone = len(holding) == 1
        for name, leaves in holding:
            for path, leaf in leaves:
                # The one holder's name says nothing, unless there is but a number otherwise: a list of kernels.
                bare = alone and path and not path[0].isdecimal()
                parts = path if bare or not name else (name, *path)
                self._add(".".join(parts), leaf)

    def _add(self, path: str, leaf: Any) -> None:
        key = key_of(leaf)
        paths = self._paths.setdefault(key, [])
        if path and path not in paths:
            paths.append(path)
        self._keep.append(leaf)
        if isinstance(leaf, np.ndarray) and leaf.size and leaf.flags.c_contiguous:
            self._at.setdefault(leaf.__array_interface__["data"][0], leaf)

    def find(self, array: Any) -> Param | None:
        """The Param for ``array``, or None when the callable does not hold it under a path."""
        paths = self._paths.get(key_of(array))
        if not paths:
            return None
        return Param(paths[0], array, tuple(paths[1:]))

    def view(self, array: Any) -> View | None:
        """The weight that ``array`` is another shape or a transpose of, or None.

        A layer that reshapes a weight held by NumPy does so before JAX sees it: the trace has the view.
        """
        if not isinstance(array, np.ndarray) or not array.size:
            return None
        whole = self._at.get(array.__array_interface__["data"][0])
        if whole is None or (whole.size, whole.dtype) != (array.size, array.dtype):
            return None
        if array.flags.c_contiguous:
            params = {"new_sizes": array.shape, "dimensions": None, "sharding": None}
            return View(whole, "reshape", params)
        if sorted(whole.shape) != sorted(array.shape):
            return None
        for order in itertools.permutations(range(whole.ndim)):
            moved = whole.transpose(order)
            if (moved.shape, moved.strides) == (array.shape, array.strides):
                return View(whole, "transpose", {"permutation": order})
        return None


def _roots(fn: Any) -> Iterator[tuple[str, Any]]:
    """(name, object) pairs that may hold weights, nearest first, each object once.

    What a wrapper wraps comes before its own fields: those hold the same arrays under no useful path.
    """
    seen: set[int] = set()
    opened: set[int] = set()
    queue: deque[tuple[str, Any, int]] = deque([("", fn, 0)])
    while queue:
        name, obj, depth = queue.popleft()
        if id(obj) in seen or depth > _MAX_DEPTH or isinstance(obj, _ATOMIC):
            continue
        wrapped = getattr(obj, "__wrapped__", None) if callable(obj) else None
        if wrapped is not None and id(obj) not in opened:
            opened.add(id(obj))
            queue.extendleft([(name, obj, depth), (name, wrapped, depth + 1)])
            continue
        seen.add(id(obj))
        if isinstance(obj, functools.partial):
            queue.append(("", obj.func, depth + 1))
            names = _positional_names(obj.func, len(obj.args))
            queue.extend((key, arg, depth + 1) for key, arg in zip(names, obj.args, strict=True))
            queue.extend((key, arg, depth + 1) for key, arg in obj.keywords.items())
        elif isinstance(obj, types.MethodType):
            queue.append(("", obj.__self__, depth + 1))
            queue.append(("", obj.__func__, depth + 1))
        elif isinstance(obj, types.FunctionType):
            queue.extend((key, value, depth + 1) for key, value in _held_by_function(obj))
        else:
            yield name, _variables(obj)


def _positional_names(fn: Any, count: int) -> list[str]:
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)][:count]
    return names + [str(i) for i in range(len(names), count)]


def _variables(obj: Any) -> Any:
    """A Linen module that is bound keeps its variables in a scope; any other object stands for itself."""
    linen = any((c.__module__, c.__name__) == ("flax.linen.module", "Module") for c in type(obj).__mro__)
    return obj.variables if linen and obj.scope is not None else obj


def _package(value: Any) -> str:
    return (getattr(value, "__module__", None) or "").partition(".")[0]


def _held_by_function(fn: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """The cells, the globals that the code names (not of libraries), and the defaults of a function."""
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # a cell that is not filled yet holds nothing
            continue
    names = [] if _package(fn) in _LIBRARIES else [*fn.__code__.co_names]
    for const in fn.__code__.co_consts if names else ():
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
    try:
        flat, _ = jax.tree_util.tree_flatten_with_path(obj)
    except ValueError:  # a dict whose keys have no order is no pytree
        flat = [((), obj)]
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
    if callable(obj) and isinstance(obj, (types.FunctionType, types.BuiltinFunctionType, types.MethodType)):
        return
    if _package(type(obj)) in _OPAQUE:
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
