"""The process that a runtime runs in: one line of JSON in, one out; arrays travel as tensor files.

Requests: ``{"do": "identify"}``, ``{"do": "load", "model": PATH, "provider": …, "session": {…}, "memory": BYTES}``,
``{"do": "run", "inputs": [PATH…], "folder": PATH, "again": BOOL}``. Answers have ``answer`` and, by kind, ``version``,
``error``, ``providers``, ``placement``, ``outputs``, ``seconds``, ``warm_seconds``, and always ``memory``, the peak of
this process in bytes.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TextIO

from onnxproof.evidence.runtimes.adapter import Adapter, Refused
from onnxproof.evidence.tensors import decode, encode

ADAPTERS = {
    "onnxruntime": "onnxproof.evidence.runtimes.onnxruntime:OnnxRuntime",
    "onnx-reference": "onnxproof.evidence.runtimes.onnx_reference:OnnxReference",
    "openvino": "onnxproof.evidence.runtimes.openvino:OpenVino",
    "tract": "onnxproof.evidence.runtimes.tract:Tract",
}
MAX_ERROR_CHARACTERS = 2000
_OUT_OF_MEMORY = ("bad_alloc", "bad allocation", "Failed to allocate memory", "Unable to allocate")
QUICK_SECONDS = 1.0  # a run below this is timed once more, warm


class Worker:
    """Answers the requests of one parent with one adapter."""

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Do what a request asks. Whatever a runtime raises becomes an answer."""
        try:
            done = {"identify": self._identify, "load": self._load, "run": self._run}[request["do"]](request)
        except ImportError as err:
            done = {"answer": "missing" if request["do"] == "identify" else "error", "error": _text(err)}
        except Refused as err:
            done = {"answer": "invalid-argument", "error": _text(err, named=False)}
        except MemoryError as err:
            done = {"answer": "memory", "error": _text(err)}
        except Exception as err:  # a runtime may raise anything
            text = _text(err)
            memory = any(sign in text for sign in _OUT_OF_MEMORY)
            done = {"answer": "memory" if memory else "error", "error": text}
        return {**done, "memory": peak_memory()}

    def _identify(self, request: dict[str, Any]) -> dict[str, Any]:
        return {"answer": "identity", "version": self._adapter.version()}

    def _load(self, request: dict[str, Any]) -> dict[str, Any]:
        self._adapter.version()  # imported before memory is bounded
        limit_memory(request["memory"])
        start = time.perf_counter()
        loaded = self._adapter.load(Path(request["model"]), request["provider"], request["session"])
        seconds = time.perf_counter() - start
        placement = None if loaded.placement is None else dict(loaded.placement)
        return {
            "answer": "loaded",
            "providers": list(loaded.providers),
            "placement": placement,
            "seconds": seconds,
        }

    def _run(self, request: dict[str, Any]) -> dict[str, Any]:
        inputs = [decode(Path(path).read_bytes())[1] for path in request["inputs"]]
        start = time.perf_counter()
        outputs = self._adapter.run(inputs)
        seconds = time.perf_counter() - start
        paths = []
        for i, (name, array) in enumerate(outputs):
            path = Path(request["folder"]) / f"output_{i}.pb"
            path.write_bytes(encode(name, array))
            paths.append(str(path))
        warm = None
        if request["again"] and seconds < QUICK_SECONDS:
            start = time.perf_counter()
            self._adapter.run(inputs)
            warm = time.perf_counter() - start
        return {"answer": "outputs", "outputs": paths, "seconds": seconds, "warm_seconds": warm}


def peak_memory() -> int | None:
    """The most memory that this process held at once, in bytes, or None where the system does not say.

    Linux counts the parent's memory in ``getrusage`` of a process that it started, but not in ``VmHWM``.
    """
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        pass
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def limit_memory(limit: int | None) -> None:
    """Let allocations fail beyond ``limit`` bytes of data, where the system can."""
    try:
        import resource
    except ImportError:
        return
    if limit is not None:
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        within = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (within, hard))


def make(adapter: str) -> Adapter:
    """The adapter of a runtime by name, or of ``module:Class``."""
    module, _, name = ADAPTERS.get(adapter, adapter).partition(":")
    made: Adapter = getattr(importlib.import_module(module), name)()
    return made


def serve(adapter: str, requests: Iterable[str], answers: TextIO) -> None:
    """Answer every line of ``requests``."""
    worker = Worker(make(adapter))
    for line in requests:
        answers.write(json.dumps(worker.answer(json.loads(line))) + "\n")
        answers.flush()


def main() -> None:
    """Serve on standard input and output; what libraries print goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    serve(sys.argv[1], sys.stdin, answers)


def _text(err: BaseException, named: bool = True) -> str:
    text = f"{type(err).__name__}: {err}" if named else str(err)
    return text[:MAX_ERROR_CHARACTERS]


if __name__ == "__main__":
    main()
