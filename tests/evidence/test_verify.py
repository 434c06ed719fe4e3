"""``verify``: what a user exported, against what says what it should compute."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from onnx import helper

from onnxproof import to_onnx
from onnxproof.errors import InputSpecError
from onnxproof.evidence import Record, execute, summary_lines, validate_record, verify
from onnxproof.evidence.proof import Recorded

X = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)


def outcomes(record: Record) -> dict[str, set[str]]:
    """Outcomes of each case over all runs."""
    runs = [record.input_cases, *(run.input_cases for run in record.other_runs)]
    return {
        case.name: {c.outcome for cases in runs for c in cases if c.name == case.name} for case in runs[0]
    }


def assert_executed(record: Record) -> None:
    assert validate_record(record) == []
    assert (record.failure, record.level) == (None, "executed")


def test_two_inputs() -> None:
    """Both optimization levels; a shared dimension that disagrees is a known limit, not a failure."""

    def fn(x: Any, y: Any) -> Any:
        return jnp.tanh(x) @ y.T

    record = verify(fn, to_onnx(fn, [("B", 4), ("B", 4)]), {"a": [X, X], "b": [X[:1], X[:1]]})
    assert_executed(record)
    levels = [r.session["graph_optimization_level"] for r in (record.runtime, record.other_runs[0].runtime)]
    assert levels == ["ORT_ENABLE_ALL", "ORT_DISABLE_ALL"]
    kinds = {c.kind: (c.outcome, c.limit) for c in record.input_cases}
    assert kinds["width"] == kinds["rank"] == kinds["dtype"] == ("rejected", None)
    assert kinds["constraint"][1] == "dimension-names"
    output = record.input_cases[0].outputs[0]
    assert output.oracle is not None
    assert output.oracle.runtime_max_abs != 0
    assert record.execution.placement is not None
    assert record.execution.peak_memory_bytes is not None


DTYPES = ["float32", "float16", "bfloat16", "int32", "int8", "uint32", "bool"]


@pytest.mark.parametrize("name", DTYPES)
def test_dtypes(name: str) -> None:
    def fn(x: Any) -> Any:
        return jnp.concatenate([x, x[::-1]], 1)

    x = jnp.asarray(np.abs(X) * 3).astype(name)
    record = verify(fn, to_onnx(fn, [jax.ShapeDtypeStruct((3, 4), name)]), [x])
    assert_executed(record)
    assert record.dtype == name


def test_double() -> None:
    def fn(x: Any) -> Any:
        return jnp.exp(x) / 3

    model = to_onnx(fn, [(3, 4)], enable_double_precision=True)
    record = verify(fn, model, [X.astype(np.float64)], double=True)
    assert_executed(record)
    assert record.dtype == "float64"


def narrowing(x: Any) -> Any:
    """Computes in float32 whatever it is given, as models do that fix the dtype of their activations."""
    h = jnp.exp(x.astype(jnp.float32)) / 3
    return (h - h.mean(-1, keepdims=True)).astype(jnp.float32)


def convolved(x: Any) -> Any:
    """Runs in no float64: operands of a convolution have to be of one dtype."""
    return jax.lax.conv(x[None, None], jnp.ones((1, 1, 2, 2), jnp.float32), (1, 1), "SAME")


def half(x: Any) -> Any:
    """In bfloat16 throughout, with a loop."""
    step = lambda c, v: (jnp.tanh(c + v), c * 2)  # noqa: E731
    return jax.lax.scan(step, x[0].astype(jnp.bfloat16), x.astype(jnp.bfloat16))


def narrowing_not(x: Any) -> Any:
    h = jnp.exp(x) / 3
    return h - h.mean(-1, keepdims=True)


WIDE = {  # the same in float64, written by hand
    narrowing: narrowing_not,
    convolved: lambda x: jax.lax.conv(x[None, None], jnp.ones((1, 1, 2, 2)), (1, 1), "SAME"),
    half: lambda x: jax.lax.scan(lambda c, v: (jnp.tanh(c + v), c * 2), x[0], x),
}


@pytest.mark.parametrize(
    ("fn", "kind"),
    [
        (lambda x: jnp.sin(x) * 3, "callable"),
        (narrowing, "program"),
        (convolved, "program"),
        (half, "program"),
    ],
)
def test_oracle(tmp_path: Path, fn: Any, kind: str) -> None:
    """The callable itself in float64, or its program where it narrows its values: the record says which."""
    model = to_onnx(fn, [(3, 4)])
    record = verify(fn, model, [X], bundle_path=tmp_path / "b")
    assert_executed(record)
    case = record.input_cases[0]
    assert case.oracle == kind
    names = {f.path for f in record.artifacts.files if "oracle" in f.path}
    assert len(names) == len(case.outputs)
    for output in case.outputs:
        assert output.oracle is not None
        assert 0 < float(output.oracle.reference_max_abs) < 0.05
    with jax.enable_x64(True):
        true = jax.tree_util.tree_leaves(WIDE.get(fn, fn)(X.astype(np.float64)))
    for i, want in enumerate(true):
        got = onnx.numpy_helper.to_array(
            onnx.load_tensor(tmp_path / "b" / "cases" / "case-0" / f"oracle_{i}.pb")
        )
        assert got.dtype == np.float64
        np.testing.assert_allclose(got, want, rtol=1e-14, atol=1e-14)
    assert {c.oracle for c in record.input_cases if c.expect == "rejected"} == {None}


def test_oracle_that_the_files_do_not_show() -> None:
    record = verify(narrowing, to_onnx(narrowing, [(3, 4)]), [X])
    cases = [record.input_cases[0].model_copy(update={"oracle": None}), *record.input_cases[1:]]
    assert any("oracle" in p for p in validate_record(record.model_copy(update={"input_cases": cases})))


def test_no_oracle() -> None:
    record = verify(Recorded({"case-0": [np.tanh(X)]}), to_onnx(lambda x: jnp.tanh(x), [("B", 4)]), [X])
    assert record.input_cases[0].oracle is None


def test_integer_inputs() -> None:
    """The tolerance is that of the outputs' dtype; a scalar's rank is a known limit of ONNX Runtime's."""
    table = jnp.asarray(X)

    def fn(i: Any, scale: Any) -> Any:
        return jnp.tanh(table[i]) * scale

    model = to_onnx(fn, [jax.ShapeDtypeStruct((5,), "int32"), jax.ShapeDtypeStruct((), "float32")])
    record = verify(fn, model, [np.array([0, 2, 1, 0, 2], np.int32), np.float32(3)])
    assert_executed(record)
    assert (record.dtype, record.tolerances.rtol) == ("float32", 1e-5)
    assert {c.limit for c in record.input_cases if c.kind == "scalar"} == {"scalar-rank"}


def test_parameters_and_pytrees() -> None:
    def fn(batch: Any, *, scale: Any, flip: bool) -> Any:
        out = batch["a"] * scale - batch["b"]
        return {"out": -out if flip else out}

    params = {"scale": X[:1], "flip": True}
    model = to_onnx(fn, [{"a": (3, 4), "b": (3, 4)}], input_params=params)
    record = verify(fn, model, [{"a": X, "b": X}], input_params=params)
    assert_executed(record)


def test_plain_model_against_the_reference_evaluator(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    to_onnx(lambda x: jnp.tanh(x), [("B", 4)], return_mode="file", output_path=path)
    record = verify(None, path, [X], runtimes=["onnxruntime", "onnx-reference"], bundle_path=tmp_path / "b")
    assert_executed(record)
    assert execute(record, tmp_path)["level"] == "executed"
    assert outcomes(record)["case-0"] == {"match"}


def test_recorded_outputs() -> None:
    model = to_onnx(lambda x: jnp.tanh(x), [("B", 4)])
    good = Recorded({"case-0": [np.tanh(X)]})
    assert_executed(verify(good, model, [X]))
    bad = verify(Recorded({"case-0": [np.tanh(X) + 1e-3]}), model, [X])
    assert (bad.failure, bad.level) == ("mismatch", "structural")


def test_wrong_function() -> None:
    record = verify(lambda x: jnp.sin(x), to_onnx(lambda x: jnp.tanh(x), [("B", 4)]), [X])
    assert validate_record(record) == []
    assert record.failure == "mismatch"
    worst = record.input_cases[0].outputs[0].worst
    assert worst is not None
    at = tuple(worst.index)
    assert (worst.got, worst.want) == (pytest.approx(np.tanh(X[at])), pytest.approx(np.sin(X[at])))


def test_runtime_that_differs() -> None:
    """The reference evaluator computes a ``Loop`` without a condition otherwise: that run fails, and says so."""

    def fn(x: Any) -> Any:
        return jax.lax.fori_loop(0, 3, lambda i, c: c * 2, x)

    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["c2"]), helper.make_node("Add", ["v", "v"], ["v2"])],
        "body",
        [
            helper.make_tensor_value_info("i", onnx.TensorProto.INT64, []),
            helper.make_tensor_value_info("c", onnx.TensorProto.BOOL, []),
            helper.make_tensor_value_info("v", onnx.TensorProto.FLOAT, [3, 4]),
        ],
        [
            helper.make_tensor_value_info("c2", onnx.TensorProto.BOOL, []),
            helper.make_tensor_value_info("v2", onnx.TensorProto.FLOAT, [3, 4]),
        ],
    )
    graph = helper.make_graph(
        [helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)],
        "loop",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [3, 4])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [3, 4])],
        [helper.make_tensor("n", onnx.TensorProto.INT64, [], [3])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    record = verify(fn, model, [X], runtimes=["onnxruntime", "onnx-reference"])
    assert validate_record(record) == []
    assert {c.outcome for c in record.input_cases if c.kind == "values"} == {"match"}
    assert [run.level for run in record.other_runs] == ["executed", "structural"]
    assert record.level == "structural"


@pytest.mark.parametrize("name", ["openvino", "tract"])
def test_missing_runtime(name: str) -> None:
    """A runtime that was asked for and is not installed is a failure, never a skip."""
    import importlib.util

    if importlib.util.find_spec(name) is None:
        record = verify(None, to_onnx(lambda x: x + 1, [(2,)]), [X[0, :2]], runtimes=["onnxruntime", name])
        assert validate_record(record) == []
        assert (record.failure, record.exit_code) == ("missing-dependency", 10)


def test_cuda_is_a_dependency() -> None:
    """Where there is no CUDA the run fails before anything is exported, and says what is missing."""
    import onnxruntime

    if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        model = to_onnx(lambda x: x + 1, [(2,)])
        record = verify(None, model, [X[0, :2]], runtimes=["onnxruntime", "onnxruntime-cuda"])
        assert validate_record(record) == []
        assert (record.failure, record.exit_code, record.level) == ("missing-dependency", 10, "none")
        assert record.versions["onnxruntime-gpu"] is None
        assert any("install onnxruntime-gpu" in line for line in summary_lines(record))


def test_wrong_usage() -> None:
    model = to_onnx(lambda x: x + 1, [(2,)])
    with pytest.raises(InputSpecError, match="no runtime"):
        verify(None, model, [X[0, :2]], runtimes=["unheard-of"])
    with pytest.raises(InputSpecError, match="no inputs"):
        verify(None, model, {})


@pytest.mark.parametrize("kept", [True, False], ids=["bundle", "record"])
def test_external_data(tmp_path: Path, kept: bool) -> None:
    weight = jnp.asarray(np.random.default_rng(1).normal(size=(4, 512)), jnp.float32)

    def fn(x: Any) -> Any:
        return jnp.tanh(x) @ weight

    path = tmp_path / "model.onnx"
    to_onnx(fn, [("B", 4)], return_mode="file", output_path=path, external_data=True)
    record = verify(fn, path, [X], bundle_path=tmp_path / "bundle" if kept else None)
    assert_executed(record)
    assert {f.role for f in record.artifacts.files} >= {"model", "external-data"}
    assert (tmp_path / "model.onnx.data").stat().st_nlink == 1
