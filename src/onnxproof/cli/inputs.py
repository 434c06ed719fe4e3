"""``-i name=B,16:bool`` → what :func:`onnxproof.to_onnx` takes."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import ml_dtypes
import numpy as np
import typer

from onnxproof.cli.target import parameters

_SHORT = {"f16": "float16", "f32": "float32", "f64": "float64", "bf16": "bfloat16"} | {
    f"{kind}{bits}": f"{word}{bits}"
    for kind, word in (("i", "int"), ("u", "uint"))
    for bits in (4, 8, 16, 32, 64)
}
_NAMED = re.compile(r"^\s*([A-Za-z_][\w.]*)\s*=(.*)$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class InputOption:
    """One ``-i``: a name (empty when none was given), a shape, and a dtype or None for the default float."""

    name: str
    shape: tuple[int | str, ...]
    dtype: Any

    @property
    def spec(self) -> Any:
        return self.shape if self.dtype is None else jax.ShapeDtypeStruct(self.shape, self.dtype)


@dataclass(frozen=True, slots=True)
class Arguments:
    """Arguments of ``to_onnx``: positional and keyword inputs, and names where parameters don't give them."""

    inputs: list[Any]
    input_params: dict[str, Any]
    input_names: list[str] | None


def _wrong(text: str, why: str) -> typer.BadParameter:
    return typer.BadParameter(f"{text!r}: {why}", param_hint="-i")


def parse(text: str, double: bool) -> InputOption:
    """Parse one ``[name=]dims[:dtype]``.

    Raises:
        typer.BadParameter: the text has another form, or the dtype is unknown or needs 64 bits.
    """
    named = _NAMED.match(text)
    name, rest = (named[1], named[2]) if named else ("", text)
    dims, colon, dtype_name = rest.rpartition(":")
    if not colon:
        dims, dtype_name = rest, ""
    shape = tuple(_dim(d, text) for d in _split(dims))
    return InputOption(name, shape, _dtype(dtype_name.strip(), text, double) if colon else None)


def _split(dims: str) -> list[str]:
    """The dimensions between commas that stand outside parentheses."""
    parts, depth = [""], 0
    for char in dims.strip():
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    if len(parts) > 1 and not parts[-1].strip():
        parts.pop()  # "B," is a shape of one dimension, as in Python
    return [] if parts == [""] else [p.strip() for p in parts]


def _dim(dim: str, text: str) -> int | str:
    if not dim:
        raise _wrong(text, "a dimension is empty; write a shape such as x=B,16")
    if "=" in dim:
        raise _wrong(text, f"{dim!r} is no dimension; give each input an -i of its own")
    return int(dim) if re.fullmatch(r"-?\d+", dim) else dim


def _dtype(name: str, text: str, double: bool) -> Any:
    if name == "key":
        return jax.random.key(0).dtype
    full = _SHORT.get(name, name)
    try:
        dtype = np.dtype(getattr(ml_dtypes, full, full))
    except TypeError:
        raise _wrong(
            text, f"there is no dtype {name!r}; for example float32, int32, bool, bfloat16"
        ) from None
    if dtype.kind not in "biufcV":
        raise _wrong(text, f"JAX has no arrays of dtype {name!r}")
    if not double and dtype.name in ("float64", "int64", "uint64", "complex128"):
        raise _wrong(text, f"{dtype.name} needs --double; without it JAX computes in 32 bits")
    return dtype


def parse_fixed(texts: Sequence[str]) -> dict[str, Any]:
    """``train=False`` → ``{"train": False}``; what is no Python literal is a string."""
    fixed: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise typer.BadParameter(f"{text!r} is not of the form name=value", param_hint="--fix")
        try:
            fixed[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            fixed[name] = value
    return fixed


def arrange(fn: Callable[..., Any], options: Sequence[InputOption]) -> Arguments:
    """Match inputs with the parameters of ``fn``.

    Names of parameters say where an input goes, in any order. When no name is that of a parameter, inputs are
    positional in the order given and the names only name them in the file.

    Raises:
        typer.BadParameter: some names are of parameters and others aren't, or a name is given twice.
    """
    unnamed = [o for o in options if not o.name]
    if unnamed and len(unnamed) < len(options):
        raise typer.BadParameter("name all inputs or none of them", param_hint="-i")
    known = parameters(fn)
    if unnamed:
        for shape in (o.shape for o in unnamed):
            if len(shape) == 1 and shape[0] in (known or ()):
                raise _wrong(str(shape[0]), f"that names an argument; add its shape, as in {shape[0]}=B,16")
        return Arguments([o.spec for o in options], {}, None)
    tree = _nested(options)
    if known is None or not set(tree) & set(known):
        if known is not None and any(p.kind is p.VAR_KEYWORD for p in known.values()) and not any(
            p.kind is p.VAR_POSITIONAL or p.kind is p.POSITIONAL_OR_KEYWORD for p in known.values()
        ):  # fmt: skip
            return Arguments([], tree, None)
        flat = all("." not in o.name for o in options)
        return Arguments(list(tree.values()), {}, [o.name for o in options] if flat else None)
    wrong = sorted(set(tree) - set(known))
    if wrong and not any(p.kind is p.VAR_KEYWORD for p in known.values()):
        raise typer.BadParameter(
            f"the callable has no parameter {', '.join(map(repr, wrong))}; it takes {', '.join(known)}",
            param_hint="-i",
        )
    positional = []
    for p in known.values():
        if p.name not in tree or p.kind not in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD):
            break
        positional.append(tree.pop(p.name))
    return Arguments(positional, tree, None)


def check_call(fn: Callable[..., Any], given: Arguments, fixed: Mapping[str, Any]) -> None:
    """Hold what is given against the parameters of ``fn``.

    Raises:
        typer.BadParameter: an argument is missing, given twice, or one too many.
    """
    both = sorted(set(given.input_params) & set(fixed))
    if both:
        raise typer.BadParameter(f"{', '.join(both)} is given both by -i and by --fix", param_hint="--fix")
    known = parameters(fn)
    if known is None:
        return
    signature = inspect.Signature(list(known.values()))
    try:
        signature.bind(*given.inputs, **given.input_params, **fixed)
    except TypeError as err:
        raise typer.BadParameter(
            f"{err}; it takes {signature}. Give one -i for each argument, and --fix NAME=VALUE for those that stay"
            " as they are",
            param_hint="-i",
        ) from None


def _nested(options: Sequence[InputOption]) -> dict[str, Any]:
    """Dotted names as nested dicts: ``batch.image`` is the entry ``image`` of the argument ``batch``."""
    tree: dict[str, Any] = {}
    for option in options:
        *folders, last = option.name.split(".")
        node = tree
        for part in folders:
            node = node.setdefault(part, {})
            if not isinstance(node, dict):
                break
        if not isinstance(node, dict) or last in node:
            raise typer.BadParameter(f"{option.name!r} is given twice", param_hint="-i")
        node[last] = option.spec
    return tree
