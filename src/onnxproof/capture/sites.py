"""From JAX's tracebacks to the user's own line.

A line is the user's when its file is neither part of JAX, nor of this package, nor installed among the packages of
this interpreter or another; the models that ship with this package count as a user's. Inside a cached ``jit``
the traceback is the one of its *first* caller, so frames at and above the jitted function are cut off and the
frames of the present call take their place.
"""

from __future__ import annotations

import os
import sysconfig
import traceback
from functools import lru_cache
from typing import Any

from onnxproof.capture.program import NOWHERE, Frame, Site

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_MODELS = os.path.join(_PACKAGE, "models") + os.sep
_LIBRARY = tuple(
    os.path.realpath(path) + os.sep
    for path in {sysconfig.get_paths()[key] for key in ("stdlib", "platstdlib")}
)
_INSTALLED = ("site-packages", "dist-packages")  # the folders of packages, of any environment
_MAX_FRAMES = 6


@lru_cache(maxsize=4096)
def is_users(filename: str) -> bool:
    """Whether ``filename`` is the user's code rather than a library's."""
    if filename.startswith("<") and not filename.startswith("<ipython"):
        return filename in ("<stdin>", "<string>")
    real = os.path.realpath(filename)
    if real.startswith(_MODELS):
        return True
    if real.startswith((*_LIBRARY, _PACKAGE + os.sep)):
        return False
    return not any(f"{os.sep}{folder}{os.sep}" in real for folder in _INSTALLED)


@lru_cache(maxsize=4096)
def relative(filename: str) -> str:
    """``filename`` relative to the folder that holds its outermost package, with forward slashes."""
    if filename.startswith("<"):
        return filename
    folder = os.path.dirname(os.path.abspath(filename))
    while os.path.exists(os.path.join(folder, "__init__.py")):
        folder = os.path.dirname(folder)
    return os.path.relpath(os.path.abspath(filename), folder).replace(os.sep, "/")


class SiteFinder:
    """Resolves tracebacks to Sites; each (code, instruction) pair is looked up once."""

    def __init__(self) -> None:
        self._frames: dict[tuple[int, int], Frame | None] = {}
        self._sites: dict[tuple[Any, str, tuple[str, str] | None, int], Site] = {}
        self._keep: list[Any] = []

    def site(self, stack: Any, scope: str, boundary: tuple[str, str] | None, caller: Site) -> Site:
        """The Site of an equation.

        Args:
            stack: the ``jaxlib`` traceback, or None.
            scope: the name scope.
            boundary: (function, file) of the jitted function whose trace holds the equation, if any.
            caller: the Site of the call that holds the equation.
        """
        key = (stack, scope, boundary, id(caller))
        found = self._sites.get(key)
        if found is None:
            inner = () if stack is None else self._user_frames(stack, boundary)
            found = Site((inner + caller.frames)[:_MAX_FRAMES], scope)
            self._sites[key] = found
            self._keep.append(caller)
        return found

    def _user_frames(self, stack: Any, boundary: tuple[str, str] | None) -> tuple[Frame, ...]:
        codes, offsets = stack.raw_frames()
        out: list[Frame] = []
        for code, offset in zip(codes, offsets, strict=True):
            filename = code.co_filename
            if is_users(filename):
                key = (id(code), offset)
                frame = self._frames.get(key)
                if frame is None:
                    line = stack.code_addr2line(code, offset)
                    frame = Frame(relative(filename), line, code.co_qualname)
                    self._frames[key] = frame
                    self._keep.append(code)
                if len(out) < _MAX_FRAMES:
                    out.append(frame)
            if boundary is not None and boundary == (code.co_name, filename):
                return tuple(out)
        # The function that was jitted is not in sight: only the present call is sure to be the user's place.
        return tuple(out) if boundary is None else ()


def site_of_error(err: BaseException) -> Site:
    """The Site of the innermost line of the user's in the traceback of an exception."""
    steps = list(traceback.walk_tb(err.__traceback__))
    frames = [
        Frame(relative(frame.f_code.co_filename), line, frame.f_code.co_qualname)
        for frame, line in reversed(steps)
        if is_users(frame.f_code.co_filename)
    ]
    return Site(tuple(frames[:_MAX_FRAMES]), "")


def boundary_of(debug_info: Any) -> tuple[str, str] | None:
    """(function, file) from the ``func_src_info`` of a traced function, such as ``f at path/file.py:12``."""
    text = getattr(debug_info, "func_src_info", None)
    if not text or " at " not in text:
        return None
    name, _, place = text.partition(" at ")
    return name, place.rpartition(":")[0]


__all__ = ["NOWHERE", "SiteFinder", "boundary_of", "is_users", "relative", "site_of_error"]
