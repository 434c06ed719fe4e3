"""Runtimes that misbehave on one case, for real. They import little, so that their processes start soon."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from onnxproof.evidence.runtimes.adapter import Loaded

WEIGHT = np.arange(12, dtype=np.float32).reshape(4, 3) / 8  # that of the model in faulty.py


class _Runtime:
    """A runtime that computes the right thing until it is asked for a batch of 3."""

    def version(self) -> str:
        return "1.0"

    def load(self, model: Path, provider: str, session: Any) -> Loaded:
        return Loaded([provider])

    def run(self, inputs: Sequence[Any]) -> list[tuple[str, Any]]:
        if inputs[0].shape[0] == 3:
            self.misbehave()
        return [("output", np.tanh(inputs[0] @ WEIGHT))]

    def misbehave(self) -> None:
        raise NotImplementedError


class Raises(_Runtime):
    def misbehave(self) -> None:
        raise RuntimeError("a kernel failed")


class Crashes(_Runtime):
    def misbehave(self) -> None:
        os.abort()


class Exits(_Runtime):
    def misbehave(self) -> None:
        sys.exit(3)


class Hangs(_Runtime):
    def misbehave(self) -> None:
        time.sleep(600)


class Devours(_Runtime):
    def misbehave(self) -> None:
        np.ones(2**33, np.uint8)


class CrashesOnLoad(_Runtime):
    def load(self, model: Path, provider: str, session: Any) -> Loaded:
        os.abort()


class Panics(_Runtime):
    """Ends as an engine written in Rust does, for the reason that the name of the model states."""

    def load(self, model: Path, provider: str, session: Any) -> Loaded:
        from tests.evidence.test_memory import PANIC

        os.write(2, PANIC.format(reason=model).encode())
        os.abort()


class Missing(_Runtime):
    def version(self) -> str:
        raise ModuleNotFoundError("No module named 'unheard_of'")


class Prints(_Runtime):
    """Right, and talkative on standard output."""

    def run(self, inputs: Sequence[Any]) -> list[tuple[str, Any]]:
        print("running", flush=True)
        os.write(1, b"from below\n")
        return [("output", np.tanh(inputs[0] @ WEIGHT))]
