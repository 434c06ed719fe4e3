"""The files of ONNX Runtime Web that a page needs, from the npm package; never from a server of somebody else."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from onnxproof.errors import ConformanceError
from onnxproof.evidence.runtimes.web import locate

VERSION = locate.NEWEST_TRIED
INSTALL = f"npm install {locate.PACKAGE}@{VERSION}"
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


def find(given: Path | None) -> OrtWeb:
    """The package in ``given``, or in the first ``node_modules`` from the working folder upwards that has it.

    Raises:
        ConformanceError: it is not there, or of another version than pages are tested with.
    """
    try:
        found = locate.package(None if given is None else str(given))
    except locate.Missing as err:
        raise ConformanceError(str(err).partition(":")[0], way_out=f"Bring it: {INSTALL}") from err
    except (ValueError, KeyError) as err:
        raise ConformanceError(f"the package.json of {locate.PACKAGE} can't be read: {err!r}") from err
    if found.version != VERSION:
        raise ConformanceError(
            f"{str(found.dist.parent)!r} holds {locate.PACKAGE} {found.version}, not {VERSION}",
            way_out=f"Bring the version that pages are tested with: {INSTALL}",
        )
    return OrtWeb(VERSION, found.dist)
