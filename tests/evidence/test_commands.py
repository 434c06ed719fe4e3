"""``onnxproof conform`` and ``onnxproof verify``, and the files that they leave."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from typer.testing import CliRunner

from onnxproof import to_onnx
from onnxproof.cli import application
from onnxproof.evidence import run_profile, save_report, validate_report
from tests.evidence.faulty import HERE, WEIGHT, affine, profile

PROFILE = f"""
format = "onnxproof.profile/1"
name = "mine"
dtype = "float32"
opset = 21

[config]
net = "builder"
builder = "{HERE}:affine"
arguments = {{}}
weights_sha256 = "%s"

[exporter]
name = "onnxproof"
options = {{}}

[[runtimes]]
name = "onnxruntime"
provider = "CPUExecutionProvider"
session = {{ intra_op_num_threads = 1 }}

[[cases]]
name = "batch-2"
kind = "values"
shapes = [[2, 4]]
seed = 7
expect = "match"

[tolerances]
rtol = 1e-5
atol = 1e-5
nonfinite = "equal"

[policy]
refusals = "signature"
load_seconds = 60.0
case_seconds = 60.0
memory_bytes = 8589934592
"""


def command(*arguments: str | Path) -> Any:
    return CliRunner().invoke(application(), [str(a) for a in arguments])


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    from onnxproof.evidence.references.built import arrays_digest

    path = tmp_path / "mine.toml"
    path.write_text(PROFILE % arrays_digest(affine().weights))
    return path


def test_conform(tmp_path: Path, mine: Path) -> None:
    report = tmp_path / "r" / "report.json"
    done = command("conform", "--output", report, "--profile", mine, "--source-revision", "abc123")
    assert done.exit_code == 0, done.output
    assert "mine: passed, level executed" in done.output
    found = json.loads(report.read_text())
    assert validate_report(found) == []
    assert found["profiles"][0]["source"]["revision"] == "abc123"
    assert (tmp_path / "r" / "conformance-artifacts" / "mine" / "record.json").is_file()
    again = command("conform", "--output", report, "--profile", mine)
    assert again.exit_code == 1
    assert "--force" in again.output
    assert command("conform", "--output", report, "--profile", mine, "--force").exit_code == 0


def test_wrong_usage(tmp_path: Path, mine: Path) -> None:
    out = tmp_path / "report.json"
    assert command("conform", "--output", out, "--profile", "unheard-of").exit_code == 2
    assert command("conform", "--unheard-of").exit_code == 2
    assert command("verify", tmp_path / "unheard-of").exit_code == 2
    mine.write_text(mine.read_text().replace('name = "mine"', 'name = "feedfwd-fp32-dynamo"'))
    taken = command("conform", "--output", out, "--profile", mine)
    assert taken.exit_code == 2
    assert "other settings" in taken.output
    assert not out.exists()


def test_verify_bundle(tmp_path: Path) -> None:
    run_profile(profile(), tmp_path)
    (tmp_path / "affine-fp32").rename(tmp_path / "moved")
    done = command("verify", tmp_path / "moved", "--report", tmp_path / "report.json")
    assert done.exit_code == 0, done.output
    assert validate_report((tmp_path / "report.json").read_bytes()) == []
    (tmp_path / "moved" / "model.onnx").write_bytes(b"")
    assert command("verify", tmp_path / "moved").exit_code == 14
    (tmp_path / "moved" / "record.json").write_text("{}")
    broken = command("verify", tmp_path / "moved")
    assert broken.exit_code == 1
    assert "not valid" in broken.output


def test_verify_failed_record(tmp_path: Path) -> None:
    run_profile(profile("truncated"), tmp_path)
    assert command("verify", tmp_path / "affine-fp32").exit_code == 13


def test_verify_model(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    to_onnx(lambda x, y: (x @ WEIGHT, y + 1), [("B", 4), ("2*B",)], return_mode="file", output_path=path)
    done = command("verify", path, "--runtime", "onnxruntime", "--bundle", tmp_path / "bundle", "--json")
    assert done.exit_code == 0, done.output
    record = json.loads(done.output)
    assert [c["inputs"][1]["shape"] for c in record["input_cases"][:3]] == [[2], [4], [6]]
    assert command("verify", tmp_path / "bundle").exit_code == 0


def test_verify_model_without_kernel(tmp_path: Path) -> None:
    nodes = [helper.make_node("Where", ["c", "c", "c"], ["y"])]
    ports = [helper.make_tensor_value_info(n, onnx.TensorProto.BOOL, ["N"]) for n in ("c", "y")]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:])
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    assert command("verify", path).exit_code == 15


def test_verify_external_data(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    path = tmp_path / "source" / "model.onnx"
    onnx.save(
        to_onnx(lambda x: x @ WEIGHT, [("B", 4)]),
        path,
        save_as_external_data=True,
        location="weights.bin",
        size_threshold=0,
    )
    assert command("verify", path, "--bundle", tmp_path / "bundle").exit_code == 0
    assert (tmp_path / "bundle" / "weights.bin").is_file()
    model = onnx.load(path, load_external_data=False)
    model.graph.initializer[0].external_data[0].value = "../weights.bin"
    onnx.save(model, path)
    assert command("verify", path).exit_code == 13  # the checker refuses a path that leaves the folder
    path.write_bytes(path.read_bytes()[:50])
    assert command("verify", path).exit_code == 13


def test_save_report(tmp_path: Path) -> None:
    record = run_profile(profile(), tmp_path)
    save_report([record], tmp_path / "report.json")
    assert validate_report((tmp_path / "report.json").read_bytes()) == []


def test_cases_have_the_layout_of_backend_tests(tmp_path: Path) -> None:
    """The onnx package reads the cases as it reads those of its own backend tests."""
    run_profile(profile(), tmp_path)
    folder = tmp_path / "affine-fp32" / "cases" / "batch-3"
    x, y = (numpy_helper.to_array(onnx.load_tensor(folder / name)) for name in ("input_0.pb", "output_0.pb"))
    np.testing.assert_allclose(y, np.tanh(x @ WEIGHT), rtol=1e-6)
    trace = json.loads((tmp_path / "affine-fp32" / "trace.json").read_text())
    assert [v["program"] for v in trace["values"]] == ["dot_general", "tanh"]
    assert all(v["source"].startswith("faulty.py:") or "faulty.py:" in v["source"] for v in trace["values"])
