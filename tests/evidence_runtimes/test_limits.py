"""What OpenVINO and tract do not do: known limits, too little memory, panics."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from onnxproof import to_onnx
from onnxproof.evidence import validate_record, verify
from onnxproof.evidence.findings import complaints
from tests.evidence.memory import blow_up
from tests.evidence.probes import PROBES, ask

THERE = ("openvino", "tract")


@pytest.mark.parametrize(("runtime", "limit"), [key for key in PROBES if key[0] in THERE])
def test_limit(runtime: str, limit: str) -> None:
    for probe in PROBES[runtime, limit]:
        answers = ask(runtime, probe)
        assert probe.shows(answers), answers


@pytest.mark.parametrize("runtime", THERE)
def test_lost_nan_is_charged_to_the_runtime(runtime: str) -> None:
    """A run that differs in NaN alone names the limit; with another difference beside it, it does not."""
    x = np.array([[np.nan, 2.0], [1.0, -1.0]], np.float32)
    model = to_onnx(lambda x: jnp.maximum(x, 0), [(2, 2)])
    record = verify(lambda x: jnp.maximum(x, 0), model, [x], runtimes=["onnxruntime", runtime])
    assert validate_record(record) == []
    assert {c.outcome for c in record.input_cases if c.kind == "values"} == {"match"}
    case = record.other_runs[-1].input_cases[0]
    assert (case.outcome, case.failure, case.limit) == ("mismatch", "mismatch", "nan-dropped")
    assert case.outputs[0].lost_nan is not None
    assert case.outputs[0].lost_nan.elements == 1
    assert [c.weight for c in complaints(record) if c.failure == "mismatch"] == ["warning"]
    other = verify(lambda x: jnp.maximum(x, 0.5), model, [x], runtimes=[runtime])
    assert (other.input_cases[0].failure, other.input_cases[0].limit) == ("mismatch", None)


@pytest.mark.parametrize("runtime", THERE)
def test_memory(runtime: str) -> None:
    """Too large a case is one outcome, and the next case runs in a process that is started anew."""
    record = blow_up(runtime)
    assert [c.answer for c in record.input_cases] == ["outputs", "memory", "outputs"]


def test_panic_is_told_without_its_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line of a panic is kept where the environment asks for a backtrace."""
    monkeypatch.setenv("RUST_BACKTRACE", "full")
    (probe,) = PROBES["tract", "lstm-symbolic-batch"]
    error = ask("tract", probe)[-1]["error"]
    assert "panicked at" in error
    assert "_PyEval" not in error
