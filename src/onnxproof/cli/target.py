"""``pkg.module:name`` → the callable to export."""

from __future__ import annotations

import difflib
import functools
import importlib
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Collection
from pathlib import Path
from types import ModuleType
from typing import Any

import typer

from onnxproof.cli.console import UserCodeError


def load(text: str) -> Any:
    """The object that ``text`` names: ``pkg.module:attribute.path`` or ``file.py:attribute.path``.

    The current folder comes first on the path, as for ``python -m``.

    Raises:
        typer.BadParameter: there is no such module or attribute.
        UserCodeError: the module raised on import.
    """
    place, colon, path = text.rpartition(":")
    if not colon or not place or not path:
        raise typer.BadParameter(f"{text!r} is not of the form pkg.module:name", param_hint="MODULE:NAME")
    from_here()
    obj: Any = _module(place)
    for part in path.split("."):
        if not hasattr(obj, part):
            close = difflib.get_close_matches(part, dir(obj), 3, 0.5)
            hint = f"; did you mean {' or '.join(close)}?" if close else ""
            raise typer.BadParameter(f"{place} has no {part!r}{hint}", param_hint="MODULE:NAME")
        obj = getattr(obj, part)
    return obj


def from_here() -> None:
    """Let modules of the current folder be imported, before all others."""
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)


def _module(place: str) -> ModuleType:
    file = Path(place)
    if file.suffix == ".py":
        if not file.is_file():
            raise typer.BadParameter(f"there is no file {place!r}", param_hint="MODULE:NAME")
        sys.path.insert(0, str(file.resolve().parent))
        place = file.stem
    try:
        found = importlib.util.find_spec(place)
    except ModuleNotFoundError as err:
        if err.name is None or not f"{place}.".startswith(f"{err.name}."):
            raise UserCodeError(f"importing {place} failed: {err}") from err
        found = None
    if found is None:
        raise typer.BadParameter(f"there is no module {place!r} on the path", param_hint="MODULE:NAME")
    module = guarded(f"importing {place}", functools.partial(importlib.import_module, place))
    assert isinstance(module, ModuleType)
    return module


def build(obj: Any, text: str, input_names: Collection[str]) -> Callable[..., Any]:
    """The callable to export: ``obj``, or what it returns when it is a class or a builder.

    A builder is a function that can be called without arguments and has no parameter that an input is named
    after.
    """
    if isinstance(obj, type) or (_callable_bare(obj) and input_names and not _takes(obj, input_names)):
        obj = guarded(f"calling {text}()", obj)
    if not callable(obj):
        raise UserCodeError(
            f"{text} gives a {type(obj).__name__}, which can't be called",
            way_out="Name a function, a module object with __call__, or something that returns one.",
        )
    return obj  # type: ignore[no-any-return]


def parameters(obj: Any) -> dict[str, inspect.Parameter] | None:
    """The parameters of a callable by name, or None where Python does not know them."""
    try:
        return dict(inspect.signature(obj).parameters)
    except (TypeError, ValueError):
        return None


def _callable_bare(obj: Any) -> bool:
    if not callable(obj):
        return False
    known = parameters(obj)
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return known is not None and all(
        p.default is not p.empty for p in known.values() if p.kind not in optional
    )


def _takes(obj: Any, names: Collection[str]) -> bool:
    known = parameters(obj) or {}
    open_ended = any(p.kind is p.VAR_POSITIONAL for p in known.values())
    return open_ended or any(name in known for name in names)


def guarded(doing: str, call: Callable[[], Any]) -> Any:
    """Run code of the user's; whatever it raises becomes an error with its place."""
    try:
        return call()
    except SystemExit as err:
        raise UserCodeError(
            f"{doing} ended the program, with the exit code {err.code}\n  at {_place(err)}",
            way_out='Let a script do its work below: if __name__ == "__main__".',
        ) from err
    except Exception as err:  # the user's code may raise anything
        place = _place(err)
        raise UserCodeError(
            f"{doing} failed: {type(err).__name__}: {err}" + (f"\n  at {place}" if place else ""),
            way_out="Run it again with --debug to see the traceback.",
        ) from err


def _place(err: BaseException) -> str:
    """The last line that is neither ours nor the import system's; empty where none is."""
    if isinstance(err, SyntaxError) and err.filename and not err.filename.startswith("<"):
        return f"{os.path.relpath(err.filename)}:{err.lineno}"
    own = str(Path(__file__).parent)
    for frame in reversed(traceback.extract_tb(err.__traceback__)):
        if not frame.filename.startswith((own, "<")) and Path(frame.filename).parent.name != "importlib":
            return f"{os.path.relpath(frame.filename)}:{frame.lineno}"
    return ""
