"""ONNX Runtime Web as the evidence engine runs it: types, threads, adapters, what is missing, what hangs."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper

from onnxproof import to_onnx
from onnxproof.evidence import validate_record, verify
from onnxproof.evidence.court import runs_of
from onnxproof.evidence.profile import RuntimeSpec
from onnxproof.evidence.proof import Recorded
from onnxproof.evidence.record import Policy, Record
from onnxproof.evidence.runtimes.process import RuntimeProcess
from onnxproof.evidence.runtimes.web import locate
from onnxproof.evidence.runtimes.web.server import HEADERS, Server
from onnxproof.evidence.tensors import encode
from onnxproof.models import build
from tests.evidence.probes import Graph, f32, loop

RUNTIMES = ("ort-web-node-wasm", "ort-web-browser-wasm", "ort-web-browser-webgpu")
TYPES = "FLOAT DOUBLE FLOAT16 INT8 UINT8 INT16 UINT16 INT32 UINT32 INT64 UINT64 BOOL".split()


def passing_on(kinds: list[str]) -> ModelProto:
    """Each input passed on, one of each element type."""
    nodes = [helper.make_node("Identity", [k], [f"{k}_out"]) for k in kinds]
    return Graph({k: (["B", 3], k) for k in kinds}, nodes, {f"{k}_out": k for k in kinds}).model()


def of_any_bits(kind: str, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Two rows of three elements whose bytes are anything: NaN with payloads, infinities, large integers."""
    dtype = helper.tensor_dtype_to_np_dtype(getattr(TensorProto, kind))
    if kind == "BOOL":
        return rng.integers(0, 2, (2, 3)).astype(bool)
    return rng.integers(0, 256, 6 * dtype.itemsize, np.uint8).view(dtype).reshape(2, 3)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_every_type_keeps_its_bytes(runtime: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    arrays = [of_any_bits(kind, rng) for kind in TYPES]
    onnx.save(passing_on(TYPES), tmp_path / "model.onnx")
    with RuntimeProcess(runtime) as process:
        provider = runtime.rpartition("-")[2]
        loaded = process.load(tmp_path / "model.onnx", provider, {}, seconds=60.0, memory=None)
        assert loaded["answer"] == "loaded", loaded
        for given in (arrays, [a[:0] for a in arrays], [np.asfortranarray(a) for a in arrays]):
            paths = [tmp_path / f"input_{i}.pb" for i in range(len(given))]
            for path, array in zip(paths, given, strict=True):
                path.write_bytes(encode("x", array))
            answer = process.run(paths, tmp_path, seconds=60.0, again=True)
            assert answer["answer"] == "outputs", answer
            got = [Path(p).read_bytes() for p in answer["outputs"]]
            assert got == [encode(f"{k}_out", a) for k, a in zip(TYPES, given, strict=True)]


def test_proof(tmp_path: Path) -> None:
    """One file with a free batch, on all runs of all three runtimes, with the signature's refusals."""
    built = build("lstm", "float32", seed=3)
    path = tmp_path / "model.onnx"
    to_onnx(built.fn, built.inputs, return_mode="file", output_path=path)
    shape = built.inputs[0].shape
    rng = np.random.default_rng(0)
    cases = {
        f"size-{n}": [rng.normal(size=[d if isinstance(d, int) else n for d in shape]).astype(np.float32)]
        for n in (1, 3)
    }
    record = verify(built.fn, path, cases, runtimes=RUNTIMES, bundle_path=tmp_path / "bundle")
    assert validate_record(record) == []
    assert (record.status, record.level) == ("passed", "executed"), record
    runs = runs_of(record)
    assert [(r.runtime.name, r.runtime.session["numThreads"]) for r in runs] == [
        ("ort-web-node-wasm", 1),
        ("ort-web-browser-wasm", 1),
        ("ort-web-browser-wasm", 2),
        ("ort-web-browser-webgpu", 1),
    ]
    for run in runs:
        assert (run.runtime.version or "").startswith(f"{locate.NEWEST_TRIED} in "), run.runtime
    (gpu,) = runs[-1:]
    assert gpu.execution.providers[0].startswith("WebGpuExecutionProvider on ")
    assert {p.provider for p in gpu.execution.placement or ()} >= {"WebGpuExecutionProvider"}


def test_weights_beside_the_model(tmp_path: Path) -> None:
    x, w = f32(1, 2), f32(3, 4)
    model = to_onnx(lambda x: x * w, [(2,)])
    onnx.save(model, tmp_path / "model.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    record = verify(Recorded({"one": [x * w]}), tmp_path / "model.onnx", {"one": [x]}, runtimes=RUNTIMES[:2])
    assert record.status == "passed", record
    assert (tmp_path / "w.bin").stat().st_size == w.nbytes


def quick(runtime: str, model: ModelProto, x: Any, seconds: float = 60.0, **session: Any) -> Record:
    """The record of one case, within ``seconds``, of a model whose output is as its input."""
    model.graph.output[0].type.CopyFrom(model.graph.input[0].type)
    spec = RuntimeSpec(name=runtime, provider=runtime.rpartition("-")[2], session=session)
    policy = Policy(refusals="listed", load_seconds=60.0, case_seconds=seconds, memory_bytes=None)
    return verify(Recorded({"one": [x]}), model, {"one": [x]}, runtimes=[spec], policy=policy)


def test_nothing_runs_on_webassembly_unsaid() -> None:
    """A graph that WebGPU takes no node of is not loaded there."""
    record = quick("ort-web-browser-webgpu", passing_on(["INT16"]), np.ones((2, 3), np.int16))
    assert record.failure == "load-error"
    assert "no node runs on WebGPU" in (record.execution.error or "") or "Add" in (
        record.execution.error or ""
    )


@pytest.mark.parametrize(
    ("session", "said"),
    [
        ({"numThreads": 0}, "numThreads=0"),
        ({"graphOptimizationLevel": "most"}, "most"),
        ({"executionProviders": "webgpu"}, "executionProviders"),
    ],
)
def test_options_that_are_none(session: dict[str, Any], said: str) -> None:
    record = quick("ort-web-node-wasm", passing_on(["FLOAT"]), np.ones((2, 3), np.float32), **session)
    assert record.failure == "load-error"
    assert said in (record.execution.error or "")


def orphans() -> set[str]:
    """Browsers and Nodes whose parent is gone: others belong to tests that run at the same time."""
    listed = subprocess.run(["ps", "-eo", "pid,ppid,stat,args"], capture_output=True, text=True, check=True)
    rows = [line.split(None, 3) for line in listed.stdout.splitlines()]
    return {
        row[0]
        for row in rows
        if row[1] == "1" and "Z" not in row[2] and any(name in row[3] for name in ("chromium", "node.mjs"))
    }


@pytest.fixture
def _nothing_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No process and no file in the folder of temporary files is left behind."""
    with tempfile.TemporaryDirectory() as folder:  # with a short name: Chromium has a socket in it
        monkeypatch.setattr(tempfile, "tempdir", folder)
        before = orphans()
        yield
        deadline = time.monotonic() + 10
        while (left := orphans() - before) and time.monotonic() < deadline:
            time.sleep(0.2)
        assert not left
        assert not os.listdir(folder)


@pytest.mark.usefixtures("_nothing_left")
@pytest.mark.parametrize("runtime", RUNTIMES[:2])
def test_hang(runtime: str) -> None:
    """A model that never ends is ended with its process, and all that this started."""
    model = loop()
    (trips,) = (t for t in model.graph.initializer if t.name == "n")
    trips.CopyFrom(onnx.numpy_helper.from_array(np.array(2**62), "n"))
    record = quick(runtime, model, f32(1, 2), seconds=3.0)
    assert (record.failure, record.input_cases[0].answer) == ("runtime-error", "timeout")


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("lacking", ["package", "programs"])
def test_missing(runtime: str, lacking: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not there is a missing dependency, and the record says which command brings it."""
    if lacking == "package":
        monkeypatch.chdir(tmp_path)
    else:
        monkeypatch.setenv("PATH", str(tmp_path))
    record = quick(runtime, passing_on(["FLOAT"]), np.ones((2, 3), np.float32))
    assert (record.status, record.failure) == ("failed", "missing-dependency")
    commands = {"package": "npm install onnxruntime-web@", "programs": "apt-get install"}
    assert commands[lacking] in (record.execution.error or "")


def test_server_gives_what_it_lists(tmp_path: Path) -> None:
    (tmp_path / "a.mjs").write_text("1")
    server = Server({"a.mjs": tmp_path / "a.mjs"}, {})
    with urllib.request.urlopen(f"{server.url}a.mjs") as answer:
        assert answer.read() == b"1"
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS
    host = server.url.split("/")[2]
    for wrong in ("", "b.mjs", "../a.mjs", "%2e%2e/a.mjs", "answer"):
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(server.url + wrong)
    for url, name in ((f"http://{host}/a.mjs", host), (f"{server.url}a.mjs", "example.org")):
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(urllib.request.Request(url, headers={"Host": name}))
    server.close()
