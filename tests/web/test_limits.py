"""What ONNX Runtime Web does not do: known limits, and too little memory."""

from __future__ import annotations

import pytest

from tests.evidence.memory import blow_up
from tests.evidence.probes import PROBES, ask

THERE = (
    "ort-web-node-wasm",
    "ort-web-browser-webgpu",
)  # Chromium runs the very file of WebAssembly that Node does


@pytest.mark.parametrize(("runtime", "limit"), [key for key in PROBES if key[0] in THERE])
def test_limit(runtime: str, limit: str) -> None:
    for probe in PROBES[runtime, limit]:
        answers = ask(runtime, probe)
        assert probe.shows(answers), answers


@pytest.mark.parametrize("runtime", [*THERE, "ort-web-browser-wasm"])
def test_memory(runtime: str) -> None:
    """Too large a case is one outcome, and the next case runs in a process that is started anew."""
    record = blow_up(runtime)
    runs = [record.input_cases, *(run.input_cases for run in record.other_runs)]
    assert [[c.answer for c in cases] for cases in runs] == [["outputs", "memory", "outputs"]] * len(runs)
