"""Running out of memory is what became of a case, or of the checker, and not the end of the run."""

from __future__ import annotations

import os
import sys

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnxproof.evidence import validate_record
from onnxproof.evidence.court import runs_of
from onnxproof.evidence.proof import DEFAULT_POLICY, Recorded, verify
from onnxproof.evidence.runtimes.process import RuntimeProcess, last_words
from onnxproof.evidence.runtimes.worker import available_memory
from tests.evidence.memory import blow_up

needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="no other system bounds memory")


@needs_linux
def test_runtimes_that_run_out() -> None:
    """In ONNX Runtime, with and without optimizations, and in the reference evaluator."""
    record = blow_up("onnxruntime", "onnx-reference")
    assert validate_record(record) == []
    runs = runs_of(record)
    assert len(runs) == 3
    for run in runs:
        assert [c.outcome for c in run.input_cases] == ["match", "memory", "match"], run.input_cases
        assert [c.failure for c in run.input_cases] == [None, "runtime-error", None]
        assert "llocate" in (run.input_cases[1].detail or "")
    assert (record.failure, record.exit_code, record.level) == ("runtime-error", 18, "structural")


@needs_linux
def test_bound_by_default() -> None:
    """Without a bound in the policy a process may have what the system has left."""
    left = available_memory()
    assert left is not None
    assert 0 < left <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    record = blow_up("onnx-reference", policy=DEFAULT_POLICY.model_copy(update={"refusals": "listed"}))
    assert [c.outcome for c in record.input_cases] == ["match", "memory", "match"]


@needs_linux
def test_file_that_the_checker_can_not_read_in_bounds() -> None:
    """Shape inference writes out a Range of 2**62 elements: that is a checker's error, in its own process."""
    bounds = {"a": np.array(0), "b": np.array(2**62), "c": np.array(1)}
    nodes = [
        helper.make_node("Range", ["a", "b", "c"], ["r"]),
        helper.make_node("Cast", ["r"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["f", "x"], ["y"]),
    ]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "endless",
        [info("x", TensorProto.FLOAT, [1])],
        [info("y", TensorProto.FLOAT, ["K"])],
        [numpy_helper.from_array(array, name) for name, array in bounds.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    x = np.ones(1, np.float32)
    policy = DEFAULT_POLICY.model_copy(update={"memory_bytes": 2**28})
    record = verify(Recorded({"case-0": [x]}), model, [x], policy=policy)
    assert validate_record(record) == []
    assert (record.failure, record.exit_code) == ("checker-error", 13)
    detail = record.stages.check.detail
    assert detail is not None
    assert "the checker gave no answer: memory" in (detail.checker_error or "")
    assert [p.name for p in detail.inputs or ()] == ["x"]


PANIC = """
thread '<unnamed>' (1) panicked at data/src/blob.rs:76:13:
{reason}
stack backtrace:
   0: __rustc::rust_begin_unwind
   1: <tract_core::ops::array::broadcast::MultiBroadcastTo as tract_core::ops::EvalOp>::eval
             at ./csu/../csu/libc-start.c:360:3
   2:                0x0 - <unknown>
note: run with `RUST_BACKTRACE=full`
thread caused non-unwinding panic. aborting.
"""


@pytest.mark.parametrize(
    ("reason", "answer"),
    [("index out of bounds", "crash"), ("failed to allocate Layout { size: 32 }", "memory")],
)
def test_panic(reason: str, answer: str) -> None:
    """The line that says why is kept, the frames are not."""
    written = "a warning\n" + PANIC.format(reason=reason) * 2
    assert last_words(written).splitlines() == [
        "thread '<unnamed>' (1) panicked at data/src/blob.rs:76:13:",
        reason,
    ]
    with RuntimeProcess("tests.evidence.misbehaving:Panics") as process:
        process.start()
        found = process.ask(
            {"do": "load", "model": reason, "provider": "", "session": {}, "memory": None}, 60
        )
    assert found["answer"] == answer
    assert found["error"] == f"the process ended by signal 6. {last_words(written)}"


def test_last_words_of_others() -> None:
    assert last_words("one\ntwo\n") == "one\ntwo"
    assert last_words("loading\nterminate called after throwing 'x'\n  what():  y\n").startswith("terminate")
