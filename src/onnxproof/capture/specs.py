"""What the user says of inputs: shape tuples, ShapeDtypeStructs, arrays, and pytrees of these."""

from __future__ import annotations

import inspect
import keyword
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.export
import numpy as np

from onnxproof.capture import dims
from onnxproof.capture.weights import path_parts
from onnxproof.errors import InputSpecError, NameCollision, UnsupportedDimension


@dataclass(frozen=True, slots=True)
class LeafSpec:
    """One input tensor: name, shape (ints, or text of a dimension), JAX dtype."""

    name: str
    shape: tuple[int | str, ...]
    dtype: Any


@dataclass(frozen=True, slots=True)
class InputSpecs:
    """The flat inputs of a callable and the way back to its arguments."""

    leaves: tuple[LeafSpec, ...]
    treedef: Any  # of ({position: argument}, {name: argument}): neither can be taken for a shape
    static_kwargs: Mapping[str, Any]

    def call(self, fn: Callable[..., Any], flat: Sequence[Any]) -> Any:
        """Call ``fn`` with flat leaves put back into its arguments."""
        args, kwargs = jax.tree_util.tree_unflatten(self.treedef, flat)
        return fn(*args.values(), **kwargs, **self.static_kwargs)


def _is_shape(value: Any) -> bool:
    """A tuple of dimensions, or a non-empty list of them."""
    return (type(value) is tuple or (type(value) is list and bool(value))) and all(
        isinstance(d, (int, np.integer, str)) and not isinstance(d, bool) for d in value
    )


def _has_shape_dtype(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype") and not isinstance(value, type)


def _is_mistaken_shape(value: Any) -> bool:
    """A tuple or list with dimensions in it and with what is none, such as ``(None, 3)``."""
    return (
        type(value) in (tuple, list)
        and all(d is None or isinstance(d, (int, float, np.number, str)) for d in value)
        and any(_is_shape((d,)) for d in value)
    )


def _is_leaf(value: Any) -> bool:
    return _is_shape(value) or _has_shape_dtype(value) or _is_mistaken_shape(value)


def parse_inputs(
    fn: Callable[..., Any],
    inputs: Sequence[Any] | Mapping[str, Any],
    input_params: Mapping[str, Any] | None,
    input_names: Sequence[str] | None,
) -> InputSpecs:
    """Flatten what the user wrote into leaves.

    Positional inputs come from a sequence; a mapping gives them by argument name. In ``input_params`` (keyword
    arguments) arrays and specs become inputs; Python scalars, strings, None and callables are fixed at export.

    Raises:
        InputSpecError: an entry is not a shape, an array, a ShapeDtypeStruct or a pytree of these.
        NameCollision: two inputs would carry one name.
    """
    if isinstance(inputs, (str, bytes)) or not isinstance(inputs, (Sequence, Mapping)):
        raise InputSpecError(
            f"`inputs` is a {type(inputs).__name__}; it must be a list with one entry for each argument",
            way_out='For example inputs=[("B", 16)], or inputs=[jax.ShapeDtypeStruct((2, 3), "int32")].',
        )
    kwargs = dict(input_params or {})
    if isinstance(inputs, Mapping):
        clash = sorted(set(inputs) & set(kwargs))
        if clash:
            raise NameCollision(f"{clash} are given both in inputs and in input_params")
        kwargs.update(inputs)
        args: tuple[Any, ...] = ()
    else:
        args = tuple(inputs)
    static = {k: v for k, v in kwargs.items() if _is_static(v)}
    dynamic = {k: v for k, v in kwargs.items() if k not in static}
    names = _argument_names(fn, len(args))
    _check_binding(fn, args, kwargs)
    flat, treedef = jax.tree_util.tree_flatten_with_path((dict(enumerate(args)), dynamic), is_leaf=_is_leaf)
    leaves = []
    for path, value in flat:
        where = names[path[1].key] if path[0].idx == 0 else str(path[1].key)
        name = ".".join((where, *path_parts(path[2:])))
        leaves.append(_leaf(name, value))
    if input_names is not None:
        leaves = _renamed(leaves, input_names)
    _check_unique([leaf.name for leaf in leaves], "input")
    return InputSpecs(tuple(leaves), treedef, static)


def _is_static(value: Any) -> bool:
    return (
        value is None
        or isinstance(value, (bool, int, float, complex, str))
        or (callable(value) and not _has_shape_dtype(value))
    )


def _leaf(name: str, value: Any) -> LeafSpec:
    if _is_shape(value):
        shape, dtype = value, None
    elif _has_shape_dtype(value):
        shape, dtype = tuple(value.shape), value.dtype
    elif _is_mistaken_shape(value):
        raise InputSpecError(
            f"input {name!r} is {value!r}, which is no shape: dimensions are integers or names",
            way_out='Name a dimension that varies, for example ("B", 16); give scalars as np.float32(1.5).',
        )
    elif isinstance(value, (bool, int, float, complex, np.generic)):
        array = np.asarray(value)
        shape, dtype = (), jax.dtypes.canonicalize_dtype(array.dtype)
    else:
        raise InputSpecError(
            f"input {name!r} is a {type(value).__name__}, which says neither shape nor dtype",
            way_out="Give a shape tuple, an array, a jax.ShapeDtypeStruct, or a pytree of these.",
        )
    if dtype is None:
        dtype = np.dtype(jax.dtypes.canonicalize_dtype(np.float64))
    elif not jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key):
        dtype = _canonical(name, dtype)
    return LeafSpec(name, tuple(_dim(name, d) for d in shape), dtype)


def _canonical(name: str, dtype: Any) -> np.dtype[Any]:
    """The dtype as JAX takes it: 64-bit types are narrowed unless 64-bit mode is on."""
    if np.dtype(dtype).kind in "OSUMm":
        raise InputSpecError(
            f"input {name!r} has the dtype {dtype}, which JAX does not have",
            way_out="Use a numeric or boolean dtype.",
        )
    return np.dtype(jax.dtypes.canonicalize_dtype(np.dtype(dtype)))


_LARGEST = 2**63 - 1  # of an int64, in which ONNX keeps sizes


def _dim(name: str, dim: Any) -> int | str:
    if isinstance(dim, (int, np.integer)):
        if dim < 0:
            raise InputSpecError(
                f"input {name!r} has a negative dimension {dim}",
                way_out='Name a dimension that varies, for example ("B", 16).',
            )
        if dim > _LARGEST:
            raise InputSpecError(
                f"input {name!r} has a dimension of {dim}, and ONNX counts to 2**63 - 1",
                way_out='Name a dimension that varies, for example ("B", 16).',
            )
        return int(dim)
    text = str(dim).strip()
    if not text or (keyword.iskeyword(text)):
        raise InputSpecError(
            f"input {name!r} has a dimension named {dim!r}, which is no name",
            way_out='Name a dimension that varies, for example ("B", 16).',
        )
    return text


def _argument_names(fn: Callable[..., Any], count: int) -> list[str]:
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        return [f"input_{i}" for i in range(count)]
    names: list[str] = []
    for p in parameters:
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD):
            names.append(p.name)
        elif p.kind is p.VAR_POSITIONAL:
            extra = max(0, count - len(names))
            names += [p.name if extra == 1 else f"{p.name}_{i}" for i in range(extra)]
            break
        else:
            break
    if len(names) < count:
        raise InputSpecError(
            f"{count} inputs are described, but the callable takes {len(names)} positional arguments"
            f" ({', '.join(names) or 'none'})",
            way_out="Give one entry in `inputs` for each argument; keyword-only ones go in `input_params`.",
        )
    return names[:count]


def _check_binding(fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):  # a builtin without a signature: the trace will tell
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as err:
        raise InputSpecError(
            f"the inputs do not fit the callable: {err}; it takes {signature}",
            way_out="Give one entry in `inputs` for each argument; keyword arguments go in `input_params`.",
        ) from err


def _renamed(leaves: list[LeafSpec], names: Sequence[str]) -> list[LeafSpec]:
    if isinstance(names, str) or len(names) != len(leaves):
        raise InputSpecError(
            f"`input_names` has {len(names)} names for {len(leaves)} inputs"
            f" ({', '.join(leaf.name for leaf in leaves)})",
            way_out="Give one name for each input tensor, pytrees flattened in JAX's order.",
        )
    return [LeafSpec(str(n), leaf.shape, leaf.dtype) for n, leaf in zip(names, leaves, strict=True)]


def _check_unique(names: Sequence[str], kind: str) -> None:
    twice = sorted({n for n in names if names.count(n) > 1})
    if twice:
        raise NameCollision(
            f"more than one {kind} is named {', '.join(map(repr, twice))}",
            way_out=f"Give distinct names with `{kind}_names`.",
        )
    if any(not n for n in names):
        raise InputSpecError(f"an {kind} has an empty name")


def output_names(result: Any, given: Sequence[str] | None, inputs: Sequence[str]) -> tuple[str, ...]:
    """Names of the leaves of ``result``: those given, else ``output`` or the path of each leaf.

    As many given names as the outermost container has entries stand for these entries, and paths go on from them.
    A path that is also the name of an input gets ``output.`` in front.

    Raises:
        NameCollision: two outputs, or an input and an output, ask for one name.
    """
    paths = [path for path, _ in jax.tree_util.tree_flatten_with_path(result)[0]]
    if given is not None:
        names = _given_names(result, paths, given)
    else:
        names = []
        for path in paths:
            parts = path_parts(path)
            numbered = not parts or parts[0].isdigit() or ".".join(parts) in inputs
            names.append(".".join(("output", *parts) if numbered else parts))
    _check_unique(names, "output")
    both = sorted(set(names) & set(inputs))
    if both:
        raise NameCollision(
            f"{', '.join(map(repr, both))} names an input and an output",
            way_out="Give distinct names with `input_names` or `output_names`.",
        )
    return tuple(names)


def _given_names(result: Any, paths: Sequence[tuple[Any, ...]], given: Sequence[str]) -> list[str]:
    if not isinstance(given, str) and len(given) == len(paths):
        return [str(n) for n in given]
    entries = jax.tree_util.tree_flatten_with_path(result, is_leaf=lambda x: x is not result)[0]
    if isinstance(given, str) or len(given) != len(entries):
        arrays = f"{len(paths)} arrays"
        raise InputSpecError(
            f"`output_names` has {len(given)} names, but the callable returns"
            f" {arrays if len(entries) == len(paths) else f'{arrays} in {len(entries)} parts'}",
            way_out="Give one name for each output tensor, pytrees flattened in JAX's order, or one for each part.",
        )
    prefix = {path: str(name) for (path, _), name in zip(entries, given, strict=True)}
    return [".".join((prefix[path[:1]], *path_parts(path)[1:])) for path in paths]


def symbolic_avals(leaves: Sequence[LeafSpec], constraints: Sequence[str]) -> list[jax.ShapeDtypeStruct]:
    """One ShapeDtypeStruct per leaf, all in one symbolic scope.

    Raises:
        UnsupportedDimension: JAX can't parse a dimension, or the constraints contradict each other.
    """
    dims.check_constraints(constraints, [d for leaf in leaves for d in leaf.shape])
    try:
        scope = jax.export.SymbolicScope(tuple(constraints))
        out = []
        for leaf in leaves:
            shape: tuple[Any, ...] = leaf.shape
            if any(isinstance(d, str) for d in shape):
                text = ",".join(str(d) for d in shape)
                shape = tuple(jax.export.symbolic_shape(f"({text},)", scope=scope))
            out.append(jax.ShapeDtypeStruct(shape, leaf.dtype))
    except (ValueError, TypeError) as err:
        raise UnsupportedDimension(
            f"a symbolic dimension can't be used: {str(err).splitlines()[0]}",
            way_out='Dimensions are names and expressions such as "B", "2*T", "T+1";'
            ' constraints are comparisons such as "T >= 2".',
        ) from err
    return out
