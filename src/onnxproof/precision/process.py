"""Starts the process that the tools run in."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from onnxproof.errors import ConformanceError, UnsupportedError
from onnxproof.evidence.runtimes.process import last_words

# The process finds modules where this one does, however its path came about.
_BOOT = (
    "import sys, json; sys.path[:] = json.loads(sys.argv.pop(1)); "
    "from onnxproof.precision.tools import main; main()"
)


def run_tool(request: Mapping[str, Any]) -> None:
    """Let a tool write ``request["output"]``.

    Raises:
        UnsupportedError: the tool would get the file wrong.
        ConformanceError: the tool failed.
    """
    done = subprocess.run(
        [sys.executable, "-P", "-c", _BOOT, json.dumps(sys.path)],
        input=json.dumps(request) + "\n",
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    if done.returncode or not done.stdout:
        lines = last_words(done.stderr).splitlines() or [f"it ended with {done.returncode}"]
        raise ConformanceError(
            f"ONNX Runtime's tool for {request['mode']} failed: {lines[-1]}",
            way_out="Nothing was written. The fault is in the tool or in the file, not in your input.",
        )
    refused = json.loads(done.stdout)["refused"]
    if refused:
        raise UnsupportedError(
            f"{request['mode']} can't be had for this file: {refused}",
            way_out="Use bfloat16, or float16 for weights only: they leave the graph as it is.",
        )
