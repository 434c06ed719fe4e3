"""A runtime in a process of its own: a crash, a hang and running out of memory are answers like any other."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from onnxproof.errors import ConformanceError
from onnxproof.evidence.runtimes.worker import descendants, told_of_memory

START_SECONDS = 120.0
_END_SECONDS = 10.0  # for a process to end after it closed its output
_MAX_LINE = 2**20
_KILLED = -9  # by the system when memory runs out, where it was not by us
_SAID = 1000  # characters of what a process wrote before it ended
# A panic of Rust's names its reason before the frames that it went through, and other libraries after them.
_REASON = re.compile(r"^.*panicked at |^.*terminate called |^Fatal Python error", re.M)
_FRAME = re.compile(
    r"^(stack backtrace:|note: .*|\s*\d+: .*|\s+at \S.*|thread caused non-unwinding panic.*)\n?", re.M
)
# The worker finds modules where this process does, however its path came about. What it and all that it starts
# leave in the folder of temporary files goes with it.
_BOOT = (
    "import sys, json, os; sys.path[:] = json.loads(sys.argv.pop(1)); os.environ['TMPDIR'] = sys.argv.pop(1); "
    "from onnxproof.evidence.runtimes.worker import main; main()"
)


class RuntimeProcess:
    """One worker process; it is started anew after it ended by itself or was ended.

    Args:
        adapter: name of a runtime that ships, or ``module:Class`` of one that the caller wrote.
        arguments: what the adapter is made with.
    """

    def __init__(self, adapter: str, arguments: Mapping[str, str] | None = None) -> None:
        self._adapter = adapter
        self._arguments = dict(arguments or {})
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._errors: Any = None

    def __enter__(self) -> RuntimeProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def running(self) -> bool:
        """Whether the process is there and has not ended."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the process, without waiting for it."""
        self.stop()
        self._lines = queue.Queue()
        self._errors = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115  # closed by stop()
        self._scratch = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        place = [json.dumps(sys.path), self._scratch.name]
        command = [sys.executable, "-P", "-c", _BOOT, *place, self._adapter, json.dumps(self._arguments)]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            encoding="utf-8",
            start_new_session=True,  # what the runtime starts ends with it
        )
        threading.Thread(target=_read, args=(self._process, self._lines), daemon=True).start()

    def stop(self) -> None:
        """End the process, if there is one."""
        process, self._process = self._process, None
        if process is None:
            return
        _end(process)
        with contextlib.suppress(OSError):
            process.stdin.close()  # type: ignore[union-attr]  # it is a pipe; the reader closes the other one
        self._errors.close()
        if self._scratch is not None:
            self._scratch.cleanup()

    def identify(self) -> dict[str, Any]:
        """The runtime's version, or that it is missing."""
        return self.ask({"do": "identify"}, START_SECONDS)

    def load(
        self,
        model: Path,
        provider: str,
        session: Mapping[str, Any],
        *,
        seconds: float,
        memory: int | None,
    ) -> dict[str, Any]:
        """Load a model in a process that has loaded none."""
        request = {"do": "load", "model": str(model), "provider": provider}
        return self.ask({**request, "session": dict(session), "memory": memory}, seconds)

    def check(self, model: Path, *, seconds: float, memory: int | None) -> dict[str, Any]:
        """Let ONNX's checker and shape inference read a model."""
        return self.ask({"do": "check", "model": str(model), "memory": memory}, seconds)

    def run(self, inputs: Sequence[Path], folder: Path, *, seconds: float, again: bool) -> dict[str, Any]:
        """Run on tensor files; the outputs become files in ``folder``."""
        paths = [str(p) for p in inputs]
        return self.ask({"do": "run", "inputs": paths, "folder": str(folder), "again": again}, seconds)

    def ask(self, request: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        """Send one request; the answer is the worker's, or what became of it: timeout, memory, crash."""
        if not self.running:
            self.start()
        process = self._process
        assert process is not None
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            line = self._lines.get(timeout=seconds)
        except queue.Empty:
            self.stop()
            return {"answer": "timeout", "error": f"no answer in {seconds:g} seconds", "memory": None}
        except BrokenPipeError:
            line = None
        if line is None:
            return self._ended(process)
        answer = json.loads(line)
        if not isinstance(answer, dict):
            raise ConformanceError(f"the worker of {self._adapter} gave {line[:80]!r}")
        return answer

    def _ended(self, process: subprocess.Popen[str]) -> dict[str, Any]:
        try:
            code = process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self.stop()
            return {"answer": "crash", "error": "the process closed its output and went on", "memory": None}
        self._errors.seek(0)
        written = self._errors.read()
        self.stop()
        how = f"ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        kind = "memory" if code == _KILLED or told_of_memory(written) else "crash"
        return {"answer": kind, "error": f"the process {how}. {last_words(written)}".strip(), "memory": None}


def last_words(written: str) -> str:
    """What a process that ended said of the reason, without the frames of a stack.

    Args:
        written: all that it wrote to standard error.
    """
    text = _FRAME.sub("", written).strip()
    reasons = [found.start() for found in _REASON.finditer(text)]
    return text[reasons[-1] :][:_SAID].strip() if reasons else text[-_SAID:].strip()


def _end(process: subprocess.Popen[str]) -> None:
    """Kill a process and all that it started, in whatever groups that is: a browser makes one of its own."""
    started = descendants(process.pid)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()
    for pid in started:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _read(process: subprocess.Popen[str], lines: queue.Queue[str | None]) -> None:
    assert process.stdout is not None
    with contextlib.suppress(ValueError, OSError):  # the pipe may be closed while it is read
        for line in iter(lambda: process.stdout.readline(_MAX_LINE), ""):  # type: ignore[union-attr]
            lines.put(line)
    lines.put(None)
    with contextlib.suppress(OSError):
        process.stdout.close()
