"""A runtime that takes its time and leaves a mark for every run."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from onnxproof.evidence.runtimes.adapter import Loaded
from tests.evidence.misbehaving import WEIGHT


class Slow:
    def version(self) -> str:
        return "1.0"

    def load(self, model: Path, provider: str, session: Any) -> Loaded:
        self._marks = Path(str(session["marks"]))
        return Loaded([provider])

    def run(self, inputs: Sequence[Any]) -> list[tuple[str, Any]]:
        mark = self._marks / f"{os.getppid()}-{uuid.uuid4().hex}"  # the worker that this process belongs to
        mark.touch()
        time.sleep(0.4)
        return [("output", np.tanh(inputs[0] @ WEIGHT))]
