"""The process that a runtime runs in: one line of JSON in, one out; arrays travel as tensor files.

Requests: ``{"do": "identify"}``, ``{"do": "load", "model": PATH, "provider": …, "session": {…}, "memory": BYTES}``,
``{"do": "run", "inputs": [PATH…], "folder": PATH, "again": BOOL}``, ``{"do": "check", "model": PATH, "memory": …}``.
Answers have ``answer`` and, by kind, ``version``, ``error``, ``providers``, ``placement``, ``outputs``, ``seconds``,
``warm_seconds``, ``checker``, ``inference``, and always ``memory``, the peak of this process in bytes.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TextIO

from onnxproof.evidence.checker import faults
from onnxproof.evidence.runtimes.adapter import Adapter, Refused
from onnxproof.evidence.tensors import decode, encode

ADAPTERS = {
    "onnxruntime": "onnxproof.evidence.runtimes.onnxruntime:OnnxRuntime",
    "onnxruntime-cuda": "onnxproof.evidence.runtimes.onnxruntime:OnnxRuntimeCuda",
    "onnx-reference": "onnxproof.evidence.runtimes.onnx_reference:OnnxReference",
    "openvino": "onnxproof.evidence.runtimes.openvino:OpenVino",
    "tract": "onnxproof.evidence.runtimes.tract:Tract",
    "ort-web-node-wasm": "onnxproof.evidence.runtimes.ort_web:OrtWebNode",
    "ort-web-browser-wasm": "onnxproof.evidence.runtimes.ort_web:OrtWebBrowser",
    "ort-web-browser-webgpu": "onnxproof.evidence.runtimes.ort_web:OrtWebGpu",
}
MAX_ERROR_CHARACTERS = 2000
# What NumPy, the C++ library, ONNX Runtime, OpenVINO, tract, Rust's own allocator and JavaScript say.
_OUT_OF_MEMORY = (
    "bad_alloc",
    "bad allocation",
    "failed to allocate",
    "unable to allocate",
    "memory allocation of",
    "array buffer allocation failed",
    "aborted(oom)",
)
_SHARE = 0.9  # of the memory that is free, for one process: the rest is for the one that judges
QUICK_SECONDS = 1.0  # a run below this is timed once more, warm


class Worker:
    """Answers the requests of one parent with one adapter."""

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Do what a request asks. Whatever a runtime raises becomes an answer."""
        try:
            done = getattr(self, f"_{request['do']}")(request)
        except ImportError as err:
            done = {"answer": "missing" if request["do"] == "identify" else "error", "error": _text(err)}
        except Refused as err:
            done = {"answer": "invalid-argument", "error": _text(err, named=False)}
        except MemoryError as err:
            done = {"answer": "memory", "error": _text(err)}
        except Exception as err:  # a runtime may raise anything
            done = {"answer": "memory" if told_of_memory(str(err)) else "error", "error": _text(err)}
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

    def _check(self, request: dict[str, Any]) -> dict[str, Any]:
        self._adapter.version()
        limit_memory(request["memory"])
        checker, inference = faults(Path(request["model"]))
        return {"answer": "checked", "checker": checker, "inference": inference}

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

    Linux counts the parent's memory in ``getrusage`` of a process that it started, but not in ``VmHWM``. What the
    runtime started counts too, each process with its own peak: no less than all held at once.
    """
    most = _status("/proc/self/status", "VmHWM:")
    if most is not None:
        return most + sum(_status(f"/proc/{pid}/status", "VmHWM:") or 0 for pid in descendants(os.getpid()))
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def descendants(pid: int) -> list[int]:
    """The processes that a process started, and those that they did, where the system tells."""
    children: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            parent = status.read_text().rpartition(")")[2].split()[1]  # after a name that may hold anything
            children.setdefault(int(parent), []).append(int(status.parent.name))
    found = [pid]
    for each in found:
        found += children.get(each, ())
    return found[1:]


def limit_memory(limit: int | None) -> None:
    """Let allocations fail beyond ``limit`` bytes of data, by default what the system has left, where it can.

    What is bounded is private memory that can be written (``RLIMIT_DATA``). The address space (``RLIMIT_AS``)
    would count what runtimes reserve and never touch: stacks of threads, arenas, mapped files. Watching the
    resident set would come too late: a kernel fills gigabytes between two looks, and the system then ends
    whichever process it likes.
    """
    try:
        import resource
    except ImportError:
        return
    if limit is None:
        left = available_memory()
        used = _status("/proc/self/status", "VmData:")
        if left is None or used is None:
            return
        limit = used + int(_SHARE * left)
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    within = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (within, hard))


def available_memory() -> int | None:
    """Bytes that the system, or this process's control group, can still give; None where it does not say."""
    free = _status("/proc/meminfo", "MemAvailable:")
    try:
        group = Path("/proc/self/cgroup").read_text().rpartition("0::/")[2].strip()
        folder = Path("/sys/fs/cgroup") / group
        bound, used = ((folder / f"memory.{name}").read_text().strip() for name in ("max", "current"))
    except OSError:
        return free
    if not bound.isdecimal():
        return free
    left = max(int(bound) - int(used), 0)
    return left if free is None else min(free, left)


def told_of_memory(text: str) -> bool:
    """Whether a message says that memory ran out."""
    return any(sign in text.lower() for sign in _OUT_OF_MEMORY)


def _status(path: str, key: str) -> int | None:
    """A figure in kB of a file of the proc filesystem, in bytes."""
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return None
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith(key)), None)


def make(adapter: str, arguments: Mapping[str, str]) -> Adapter:
    """The adapter of a runtime by name, or of ``module:Class``, made with ``arguments``."""
    module, _, name = ADAPTERS.get(adapter, adapter).partition(":")
    made: Adapter = getattr(importlib.import_module(module), name)(**arguments)
    return made


def serve(adapter: str, arguments: Mapping[str, str], requests: Iterable[str], answers: TextIO) -> None:
    """Answer every line of ``requests``."""
    worker = Worker(make(adapter, arguments))
    for line in requests:
        answers.write(json.dumps(worker.answer(json.loads(line))) + "\n")
        answers.flush()


def main() -> None:
    """Serve on standard input and output; what libraries print goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    serve(sys.argv[1], json.loads(sys.argv[2]), sys.stdin, answers)


def _text(err: BaseException, named: bool = True) -> str:
    text = f"{type(err).__name__}: {err}" if named else str(err)
    return text[:MAX_ERROR_CHARACTERS]


if __name__ == "__main__":
    main()
