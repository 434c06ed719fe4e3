"""ONNX Runtime Web: WebAssembly in Node and in Chromium, WebGPU in Chromium."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from onnxproof.evidence.files import read_inside
from onnxproof.evidence.runtimes.adapter import Array, Loaded, NotLoaded, Options, Refused
from onnxproof.evidence.runtimes.web import locate, wire
from onnxproof.evidence.runtimes.web.link import Ended, Link

CPU = "CPUExecutionProvider"
WEBGPU = "WebGpuExecutionProvider"  # as ONNX Runtime's log names it
_OPTIONS = ("numThreads", "graphOptimizationLevel")
_LEVELS = ("disabled", "basic", "extended", "layout", "all")
_NUMPY_NAMES = {"float": "float32", "double": "float64"}
_NO_TENSORS = f"ONNX Runtime Web has tensors of {', '.join(sorted(wire.TYPES))} alone"
_TOO_LARGE = "Tensor shape is too large"  # op_kernel.cc, of a value in the graph: no argument is wrong
_MAX_BYTES = 2**32  # the memory that WebAssembly can address
_ENDED = 70  # the exit code of this process where the other end is gone


class OrtWeb:
    """ONNX Runtime Web; session options are ``numThreads`` (1 by default) and ``graphOptimizationLevel``.

    Args:
        package: where the npm package is; by default ``node_modules`` is looked for upwards from the working folder.
        browser: the browser to start; by default Chromium, by the names it has on the path.
    """

    provider = "wasm"

    def __init__(self, *, package: str | None = None, browser: str | None = None) -> None:
        self._package, self._browser = package, browser
        self._link: Link | None = None

    def version(self) -> str:
        raise NotImplementedError

    def start(self) -> Link:
        """A new session in JavaScript."""
        raise NotImplementedError

    def load(self, model: Path, provider: str, session: Options) -> Loaded:
        if provider != self.provider:
            raise NotLoaded(f"this runtime has the provider {self.provider}, not {provider}")
        threads, options = _options(session)
        names, blobs = _files(model)
        self.close()
        self._link = self.start()
        request = {"provider": provider, "threads": threads, "options": options, "external": names}
        facts, _ = self._ask({"do": "load", **request}, blobs)
        if "error" in facts:
            raise NotLoaded(facts["error"])
        if facts["threads"] != threads:
            raise NotLoaded(f"there are {facts['threads']} threads, where {threads} were asked for")
        if facts["isolated"] is False:
            raise NotLoaded("the page is not isolated from other origins, so that it has no threads")
        return self.loaded(facts)

    def loaded(self, facts: Mapping[str, Any]) -> Loaded:
        """What a session said of itself."""
        placed: dict[str, int] | None = facts["placement"]
        return Loaded(list(placed or [CPU]), placed)

    def run(self, inputs: Sequence[Array]) -> list[tuple[str, Array]]:
        unknown = next((a.dtype.name for a in inputs if a.dtype.name not in wire.TYPES), None)
        if unknown is not None:
            raise Refused(f"there is an argument of {unknown}: {_NO_TENSORS}")
        arrays = [np.ascontiguousarray(a).astype(a.dtype.newbyteorder("<"), copy=False) for a in inputs]
        described = [{"type": a.dtype.name, "dims": i.shape} for a, i in zip(arrays, inputs, strict=True)]
        answer, blobs = self._ask({"do": "run", "tensors": described}, [a.tobytes() for a in arrays])
        if _TOO_LARGE in answer.get("error", ""):
            raise MemoryError(answer["error"])
        if "error" in answer:
            raise (Refused if answer["kind"] == "refused" else RuntimeError)(answer["error"])
        return wire.tensors(answer, blobs)

    def close(self) -> None:
        """End what was started, where this process goes on without it."""
        if self._link is not None:
            self._link.close()
            self._link = None

    def _ask(self, header: Mapping[str, Any], blobs: Sequence[bytes]) -> tuple[dict[str, Any], list[bytes]]:
        assert self._link is not None
        try:
            answer, values = wire.unpack(self._link.ask(wire.pack(header, blobs)))
        except Ended as err:
            _end(str(err))
        if answer.get("kind") == "fatal":
            _end(f"WebAssembly ended: {answer['error']}")
        return answer, values


class OrtWebNode(OrtWeb):
    """ONNX Runtime Web's WebAssembly in Node."""

    def version(self) -> str:
        found = locate.package(self._package)
        return f"{found.version} in Node {locate.node()[1]}"

    def start(self) -> Link:
        from onnxproof.evidence.runtimes.web.node import Node

        return Node(locate.node()[0], locate.package(self._package))


class OrtWebBrowser(OrtWeb):
    """ONNX Runtime Web's WebAssembly in Chromium, with threads."""

    def version(self) -> str:
        from onnxproof.evidence.runtimes.web.browser import need_playwright

        need_playwright()
        found = locate.package(self._package)
        return f"{found.version} in Chromium {locate.browser(self._browser)[1]}"

    def start(self) -> Link:
        from onnxproof.evidence.runtimes.web.browser import Browser

        return Browser(locate.browser(self._browser)[0], locate.package(self._package), self.provider)


class OrtWebGpu(OrtWebBrowser):
    """ONNX Runtime Web's WebGPU in Chromium; nodes without a kernel there run in WebAssembly, and are counted."""

    provider = "webgpu"

    def loaded(self, facts: Mapping[str, Any]) -> Loaded:
        placed: dict[str, int] = facts["placement"]
        if not placed.get(WEBGPU):
            raise NotLoaded(f"no node runs on WebGPU: {placed or 'the log says nothing of nodes'}")
        adapter = facts["adapter"]
        parts = [adapter["vendor"], adapter["architecture"], adapter["device"], adapter["description"]]
        named = " ".join(filter(None, parts)) or "an adapter without a name"
        kind = ", a software adapter" if adapter["software"] else ""
        others = [name for name in placed if name != WEBGPU]
        return Loaded([f"{WEBGPU} on {named}{kind}", *others], placed)


def _options(session: Options) -> tuple[int, dict[str, Any]]:
    """The number of threads, and the options of the session itself."""
    unknown = next((name for name in session if name not in _OPTIONS), None)
    if unknown is not None:
        raise NotLoaded(f"{unknown!r} is no option of these sessions: {', '.join(_OPTIONS)}")
    threads = session.get("numThreads", 1)
    level = session.get("graphOptimizationLevel", "all")
    if type(threads) is not int or threads < 1 or level not in _LEVELS:
        raise NotLoaded(
            f"numThreads={threads!r}, graphOptimizationLevel={level!r}: see ONNX Runtime Web's docs"
        )
    return threads, {"graphOptimizationLevel": level}


def _files(model: Path) -> tuple[list[str], list[bytes]]:
    """Names of the files that the model's tensors are kept in, and the bytes of the model and of each of them."""
    from onnxproof.evidence.model import external_files, parsed, unchecked

    proto, unread = parsed(model)
    if proto is None:
        raise NotLoaded(unread)
    detail = unchecked(proto, None)
    for port in [*(detail.inputs or ()), *(detail.outputs or ())]:
        if _NUMPY_NAMES.get(port.dtype, port.dtype) not in wire.TYPES:
            raise NotLoaded(f"{port.name!r} is of type {port.dtype}: {_NO_TENSORS}")
    names = sorted(external_files(proto))
    return names, [model.read_bytes(), *(read_inside(model.parent, n, _MAX_BYTES) for n in names)]


def _end(reason: str) -> NoReturn:
    """End this process: what it ran in is not there any more, and the next case needs a new one."""
    sys.stderr.write(f"{reason}\n")
    sys.stderr.flush()
    os._exit(_ENDED)
