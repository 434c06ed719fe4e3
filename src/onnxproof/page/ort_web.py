"""The files of ONNX Runtime Web that a page needs, from the npm package; never from a server of somebody else."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from onnxproof.errors import ConformanceError

VERSION = "1.30.0"
PACKAGE = "onnxruntime-web"
INSTALL = f"npm install {PACKAGE}@{VERSION}"
Build = Literal["wasm", "webgpu"]
# Entry module, loader, WebAssembly. The second build runs the native WebGPU provider.
FILES: dict[Build, tuple[str, str, str]] = {
    "wasm": ("ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm"),
    "webgpu": (
        "ort.webgpu.min.mjs",
        "ort-wasm-simd-threaded.asyncify.mjs",
        "ort-wasm-simd-threaded.asyncify.wasm",
    ),
}


@dataclass(frozen=True, slots=True)
class OrtWeb:
    """An installed package: its version and the folder of its files."""

    version: str
    dist: Path

    def paths(self, build: Build) -> list[Path]:
        """Where the files of a build are.

        Raises:
            ConformanceError: one is missing.
        """
        paths = [self.dist / name for name in FILES[build]]
        for path in paths:
            if not path.is_file():
                raise ConformanceError(f"{str(path)!r} is missing", way_out=f"Install it anew: {INSTALL}")
        return paths


def find(given: Path | None, start: Path) -> OrtWeb:
    """The package in ``given``, or in the first ``node_modules`` from ``start`` upwards that has it.

    Args:
        given: the folder of the package, or its ``dist``.

    Raises:
        ConformanceError: it is not there, or of another version than pages are tested with.
    """
    if given is not None:
        places = [given, given.parent]
    else:
        places = [p / "node_modules" / PACKAGE for p in (start.resolve(), *start.resolve().parents)]
    for place in places:
        if (place / "package.json").is_file():
            return _checked(place)
    where = f"in {str(given)!r}" if given is not None else "in any node_modules from here upwards"
    raise ConformanceError(f"{PACKAGE} is not {where}", way_out=f"Bring it: {INSTALL}")


def _checked(place: Path) -> OrtWeb:
    try:
        said = json.loads((place / "package.json").read_bytes())
    except ValueError as err:
        raise ConformanceError(f"{str(place / 'package.json')!r} is not JSON: {err}") from err
    name, version = (said.get("name"), said.get("version")) if isinstance(said, dict) else (None, None)
    if (name, version) != (PACKAGE, VERSION):
        raise ConformanceError(
            f"{str(place)!r} holds {name} {version}, not {PACKAGE} {VERSION}",
            way_out=f"Bring the version that pages are tested with: {INSTALL}",
        )
    return OrtWeb(VERSION, place / "dist")
