"""The proof page without a browser: what is written, what is refused, and how a device's record is judged.

``tests/web_page`` has the page itself.
"""

from __future__ import annotations

import base64
import copy
import gzip
import hashlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

from onnxproof import to_onnx, verify
from onnxproof.cli import application
from onnxproof.contracts import Bounds, Contract
from onnxproof.errors import ConformanceError
from onnxproof.evidence.bundle import read_tensors
from onnxproof.evidence.conform import read_bundle, report_of
from onnxproof.evidence.measure import measure
from onnxproof.evidence.runtimes.ort import OrtSession
from onnxproof.evidence.validate import InvalidRecord, validate_record, validate_report
from onnxproof.page.build import build
from onnxproof.page.data import page_data
from onnxproof.page.device import judge, read_device_record
from onnxproof.page.ort_web import FILES, find

ROOT = Path(__file__).resolve().parent.parent
ASSETS = ROOT / "src" / "onnxproof" / "page" / "assets"
GALLERY = ROOT / "examples" / "gallery" / "proofs"
BUNDLE = GALLERY / "lstm-haiku"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder in the form of the npm package."""
    folder = tmp_path / "node_modules" / "onnxruntime-web"
    (folder / "dist").mkdir(parents=True)
    (folder / "package.json").write_text('{"name": "onnxruntime-web", "version": "1.30.0"}')
    for names in FILES.values():
        for name in names:
            (folder / "dist" / name).write_bytes(name.encode())
    return folder


def command(*arguments: object) -> Any:
    return CliRunner().invoke(application(), [str(a) for a in arguments])


def test_page_is_written(package: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    done = command("page", BUNDLE, "-o", site, "--ort", package, "--json")
    assert done.exit_code == 0, done.output
    sizes = json.loads(done.stdout)["bytes"]
    data = json.loads((site / "data.json").read_text())
    record = read_bundle(BUNDLE)
    assert data["record"]["digest"] == record.digest
    assert {f["path"] for f in data["files"]} == {"record.json", *(f.path for f in record.artifacts.files)}
    builds = [f for files in data["runtime"]["builds"].values() for f in files]
    for folder, files in (("bundle", data["files"]), ("ort", builds)):
        for file in files:
            content = (site / folder / file["path"]).read_bytes()
            assert (len(content), hashlib.sha256(content).hexdigest()) == (file["bytes"], file["sha256"])
    assert data["cases"][0]["takes"] == ["float32[1, 1, 16]"]
    assert dict(data["operators"])["LSTM"] == 1
    assert sizes["page"] < 150_000
    assert "<title>lstm-haiku · onnxproof</title>" in (site / "index.html").read_text()
    # The folder in it is the bundle itself.
    assert command("verify", site / "bundle").exit_code == 0


def test_page_without_webgpu(package: Path, tmp_path: Path) -> None:
    build(BUNDLE, tmp_path / "site", find(package), webgpu=False)
    assert not list((tmp_path / "site" / "ort").glob("*webgpu*"))


def test_only_a_page_is_replaced(package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "site"
    assert command("page", BUNDLE, "-o", site, "--ort", package).exit_code == 0
    (site / "old").write_text("old")
    assert "holds files already" in command("page", BUNDLE, "-o", site, "--ort", package).output
    assert (site / "old").is_file()
    assert command("page", BUNDLE, "-o", site, "--ort", package, "--force").exit_code == 0
    assert not (site / "old").exists()
    monkeypatch.chdir(tmp_path)
    for place in (".", "node_modules"):
        done = command("page", BUNDLE, "-o", place, "--force")
        assert done.exit_code == 1
        assert "holds something else than a page" in done.output
    assert sorted(p.name for p in tmp_path.iterdir()) == ["node_modules", "site"]
    assert (package / "package.json").is_file()


@pytest.mark.parametrize("path", ["model.onnx", "cases/batch-1-time-1/output_0.pb"])
def test_bundle_that_was_changed_is_refused(package: Path, tmp_path: Path, path: str) -> None:
    bundle = tmp_path / "bundle"
    shutil.copytree(BUNDLE, bundle)
    content = bytearray((bundle / path).read_bytes())
    content[-1] ^= 1
    (bundle / path).write_bytes(content)
    done = command("page", bundle, "-o", tmp_path / "site", "--ort", package)
    assert done.exit_code == 14
    assert f"'{path}' has SHA-256" in done.output
    assert not (tmp_path / "site").exists()


def test_package_that_is_missing_or_of_another_version(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    done = command("page", BUNDLE, "-o", tmp_path / "site", "--ort", empty)
    assert done.exit_code == 1
    assert "npm install onnxruntime-web@1.30.0" in done.output
    monkeypatch.chdir(tmp_path)
    assert find(None).dist == package / "dist"
    (package / "dist" / FILES["wasm"][2]).unlink()
    assert "is missing" in command("page", BUNDLE, "-o", tmp_path / "site").output
    (package / "package.json").write_text('{"name": "onnxruntime-web", "version": "1.29.0"}')
    done = command("page", BUNDLE, "-o", tmp_path / "site")
    assert "1.29.0, not 1.30.0" in done.output
    (package / "package.json").write_text("{")
    assert "can't be read" in command("page", BUNDLE, "-o", tmp_path / "site").output
    assert not (tmp_path / "site").exists()


def test_types_that_a_browser_has_not(package: Path, tmp_path: Path) -> None:
    def fn(x: Any) -> Any:
        return x * 2

    x = jnp.ones((2, 3), jnp.bfloat16)
    to_onnx(fn, [x], return_mode="file", output_path=str(tmp_path / "m.onnx"))
    verify(fn, tmp_path / "m.onnx", [x], bundle_path=tmp_path / "m.evidence")
    with pytest.raises(ConformanceError, match="ONNX Runtime Web has no tensors of bfloat16, which 'x' is"):
        build(tmp_path / "m.evidence", tmp_path / "site", find(package))
    assert not (tmp_path / "site").exists()


def test_assets_need_nothing_from_elsewhere() -> None:
    html = (ASSETS / "index.html").read_text()
    assert re.search(r"default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; [^\"]*base-uri 'none'", html)
    assert not re.search(r"<style|\son\w+=|\sstyle=|<script(?![^>]*\bsrc=)", html)
    for path in ASSETS.rglob("*"):
        if path.is_file():
            text = path.read_text()
            assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text), path.name
            for name in re.findall(r'from "\./([\w.]+)"', text):
                assert (path.parent / name).is_file(), f"{path.name} imports {name}"
            assert max(map(len, text.splitlines())) < 300, path.name


# A device's record as the page writes it, of a run in ONNX Runtime here.


def device_record(bundle: Path, provider: str = "wasm") -> dict[str, Any]:
    record = read_bundle(bundle)
    session = OrtSession(bundle / "model.onnx")
    cases = []
    for case in record.input_cases:
        fact = {"name": case.name, "answer": "invalid-argument", "error": "refused", "outputs": []}
        fact |= {"seconds": None, "warm_seconds": None, "outcome": "rejected", "failure": None}
        if case.expect == "match":
            inputs = [a for _, a in read_tensors(bundle, record.artifacts, case.name, "input")]
            want = read_tensors(bundle, record.artifacts, case.name, "output")
            fact |= {
                "answer": "outputs",
                "error": None,
                "seconds": 0.5,
                "warm_seconds": 0,
                "outcome": "match",
            }
            for i, got in enumerate(session.run(inputs)):
                found = measure(want[i][0], got, want[i][1], None, record.tolerances)
                raw = got.tobytes()
                packed = gzip.compress(raw) if i else raw
                fact["outputs"].append(
                    {
                        "name": want[i][0],
                        "dtype": got.dtype.name,
                        "shape": list(got.shape),
                        "sha256": hashlib.sha256(raw).hexdigest(),
                        "encoding": "gzip" if i else "plain",
                        "data": base64.b64encode(packed).decode(),
                        "max_abs_error": found.max_abs_error,
                        "max_rel_error": found.max_rel_error,
                        "excess": found.excess,
                    }
                )
        cases.append(fact)
    adapter = dict.fromkeys(("vendor", "architecture", "device", "description"), "x") | {"software": True}
    run = {
        "provider": provider,
        "version": "1.30.0",
        "threads": 1,
        "adapter": adapter if provider == "webgpu" else None,
        "load": "loaded",
        "error": None,
        "placement": None,
        "load_seconds": 0.25,
        "cases": cases,
        "status": "passed",
        "failure": None,
    }
    model = next(f.sha256 for f in record.artifacts.files if f.role == "model")
    return {
        "format": "onnxproof.device/1",
        "onnxproof": "0.1.0",
        "saved": "2026-01-02T03:04:05.678Z",
        "bundle": {"record": record.digest, "model": model},
        "device": {"user_agent": "A browser", "platform": "", "cores": 8, "cross_origin_isolated": False},
        "runs": [run],
        "status": "passed",
    }


@pytest.fixture(scope="module")
def good() -> dict[str, Any]:
    return device_record(BUNDLE)


def judged(value: Any, place: Path, bundle: Path = BUNDLE) -> Any:
    place.write_text(value if isinstance(value, str) else json.dumps(value))
    return judge(read_device_record(place), read_bundle(bundle), bundle)


def test_good_record(good: dict[str, Any], tmp_path: Path) -> None:
    both = copy.deepcopy(good)
    both["runs"].append(device_record(BUNDLE, "webgpu")["runs"][0])
    records = judged(both, tmp_path / "d.json")
    for record in records:
        assert (record.status, record.level, record.host.cpu) == ("passed", "executed", "A browser")
        assert validate_record(record) == []
        # The oracle of the bundle is taken into account, as it is everywhere.
        assert record.input_cases[0].outputs[0].oracle is not None
    assert validate_report(report_of(records)) == []
    done = command("verify", BUNDLE, "--device-record", tmp_path / "d.json", "--report", tmp_path / "r.json")
    assert done.exit_code == 0, done.output
    assert "software adapter x x x x" in done.output
    assert "passed, level executed [ort-web-browser-webgpu 1.30.0 webgpu float32]" in done.output
    done = command("report", tmp_path / "r.json", "-o", tmp_path / "r.html")
    assert done.exit_code == 0, done.output
    assert "A browser" in (tmp_path / "r.html").read_text()


def test_shipped_profiles_are_known_by_their_settings(tmp_path: Path) -> None:
    """A device is another runtime, so that its record is that of no profile that ships."""
    bundle = tmp_path / "mlp-fp32-jax"
    done = command(
        "conform", "--profile", "mlp-fp32-jax", "--artifacts", tmp_path, "--output", tmp_path / "c.json"
    )
    assert done.exit_code == 0, done.output
    (record,) = judged(device_record(bundle), tmp_path / "d.json", bundle)
    assert (record.profile, record.status) == ("ad-hoc", "passed")
    assert validate_record(record) == []


def test_contracts_are_not_the_devices(tmp_path: Path) -> None:
    """What the file promises was held against ONNX Runtime where the bundle was made; a device says nothing of it."""

    def fn(x: Any) -> Any:
        return x + 1

    x = np.ones((2, 3), np.float32)
    to_onnx(fn, [("B", 3)], return_mode="file", output_path=str(tmp_path / "m.onnx"))
    bundle = tmp_path / "m.evidence"
    promise = Contract("small", (Bounds("output", 0.0, 1.0),))
    record = verify(fn, tmp_path / "m.onnx", [x], bundle_path=bundle, contracts=[promise])
    assert (record.failure, record.status) == ("contract-violation", "failed")
    assert page_data(record, bundle)["promises"] == [
        {"demand": "'output' lies in [0, 1]", "status": "failed"}
    ]
    (record,) = judged(device_record(bundle), tmp_path / "d.json", bundle)
    assert (record.status, record.contracts) == ("passed", None)
    assert validate_record(record) == []


def test_failure_is_believed(good: dict[str, Any], tmp_path: Path) -> None:
    """A record that says of itself that it failed is a valid one, with an exit code."""
    value = copy.deepcopy(good)
    run = value["runs"][0]
    run |= {
        "load": "error",
        "error": "no kernel",
        "load_seconds": None,
        "status": "failed",
        "failure": "load-error",
    }
    for case in run["cases"]:
        case |= {"answer": "not_run", "outcome": "not_run", "outputs": [], "error": None}
        case |= {"seconds": None, "warm_seconds": None}
    value["status"] = "failed"
    (record,) = judged(value, tmp_path / "d.json")
    assert (record.failure, record.exit_code) == ("load-error", 15)
    assert validate_record(record) == []
    assert command("verify", BUNDLE, "--device-record", tmp_path / "d.json").exit_code == 15


def first(value: dict[str, Any]) -> Any:
    return value["runs"][0]["cases"][0]


def output(value: dict[str, Any]) -> Any:
    return first(value)["outputs"][0]


def other_values(value: dict[str, Any]) -> None:
    """The bytes of another result, with their own hash: only the comparison can tell."""
    raw = np.frombuffer(base64.b64decode(output(value)["data"]), np.float32) + np.float32(0.5)
    output(value)["data"] = base64.b64encode(raw.tobytes()).decode()
    output(value)["sha256"] = hashlib.sha256(raw.tobytes()).hexdigest()


def failed_case(value: dict[str, Any]) -> None:
    """A crash, said to have passed."""
    first(value).update(answer="crash", outputs=[], error="x", seconds=None, warm_seconds=None)


def swapped(value: dict[str, Any]) -> None:
    cases = value["runs"][0]["cases"]
    cases[0], cases[1] = cases[1], cases[0]


def bomb(value: dict[str, Any]) -> None:
    output(value)["encoding"] = "gzip"
    output(value)["data"] = base64.b64encode(gzip.compress(bytes(10**7))).decode()


DOCTORED: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "error": (lambda v: output(v).update(max_abs_error=0.0), "max_abs_error: is 0.0, but the outputs give"),
    "relative error": (lambda v: output(v).update(max_rel_error=1e-9), "max_rel_error: is 1e-09"),
    "excess": (lambda v: output(v).update(excess=None), "excess: is None, but the outputs give"),
    "values": (other_values, "outcome: is 'match', but the facts give 'mismatch'"),
    "bytes": (
        lambda v: output(v).update(data="AAAA" + output(v)["data"][4:]),
        "sha256: is not that of the bytes",
    ),
    "hash": (lambda v: output(v).update(sha256="0" * 64), "sha256: is not that of the bytes"),
    "no base64": (lambda v: output(v).update(data="?"), "data: can't be decoded"),
    "encoding": (lambda v: output(v).update(encoding="gzip"), "data: can't be decoded"),
    "bomb": (bomb, "data: is not the"),
    "shape": (lambda v: output(v).update(shape=[2]), "data: is not the 8 bytes of float32[2]"),
    "huge shape": (lambda v: output(v).update(shape=[2**40]), "bytes are too many"),
    "dtype": (lambda v: output(v).update(dtype="int32"), "outcome: is 'match'"),
    "unknown dtype": (lambda v: output(v).update(dtype="str"), "has no tensors of 'str'"),
    "output left out": (lambda v: first(v)["outputs"].pop(), "outcome: is 'match'"),
    "outputs left out": (lambda v: first(v).update(outputs=[]), "outputs: do not go with the answer"),
    "outcome": (lambda v: first(v).update(outcome="mismatch"), "outcome: is 'mismatch'"),
    "failure": (lambda v: first(v).update(failure="mismatch"), "failure: is 'mismatch'"),
    "crash that passed": (failed_case, "outcome: is 'match', but the facts give 'crash'"),
    "run's status": (lambda v: v["runs"][0].update(status="failed"), "runs.0.status: is 'failed'"),
    "run's failure": (lambda v: v["runs"][0].update(failure="load-error"), "runs.0.failure"),
    "status": (lambda v: v.update(status="failed"), "status: is 'failed', but the runs give 'passed'"),
    "negative latency": (lambda v: first(v).update(warm_seconds=-1e-3), "warm_seconds"),
    "latency": (lambda v: first(v).update(seconds="0.1"), "seconds"),
    "case left out": (lambda v: v["runs"][0]["cases"].pop(), "are not the cases of the bundle"),
    "case twice": (lambda v: v["runs"][0]["cases"].append(first(v)), "are not the cases of the bundle"),
    "order of cases": (swapped, "are not the cases of the bundle"),
    "case not run": (lambda v: first(v).update(answer="not_run", outputs=[]), "a case is run exactly when"),
    "another bundle": (lambda v: v["bundle"].update(record="0" * 64), "the device ran the bundle 000"),
    "another model": (lambda v: v["bundle"].update(model="0" * 64), "the device ran the model 000"),
    "provider twice": (lambda v: v["runs"].append(v["runs"][0]), "a provider is there twice"),
    "no adapter": (lambda v: v["runs"][0].update(provider="webgpu"), "adapter: goes with WebGPU"),
    "threads": (lambda v: v["runs"][0].update(threads=4), "no browser has 4 on a page that is not isolated"),
    "not loaded": (lambda v: v["runs"][0].update(load="not_run"), "the model was not loaded"),
    "format": (lambda v: v.update(format="onnxproof.device/2"), "format"),
    "unknown key": (lambda v: v.update(note="x"), "note"),
    "no runs": (lambda v: v.update(runs=[]), "runs"),
}


@pytest.mark.parametrize("kind", DOCTORED)
def test_doctored_record_is_refused(kind: str, good: dict[str, Any], tmp_path: Path) -> None:
    change, said = DOCTORED[kind]
    value = copy.deepcopy(good)
    change(value)
    with pytest.raises(InvalidRecord, match=re.escape(said)):
        judged(value, tmp_path / "d.json")
    done = command("verify", BUNDLE, "--device-record", tmp_path / "d.json")
    assert done.exit_code == 1
    assert "is not valid:" in done.output


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": "onnxproof.device/1", "format": 1}', "1e999"])
def test_text_that_is_no_record(text: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidRecord):
        judged(text, tmp_path / "d.json")


def test_wrong_uses_of_device_records(good: dict[str, Any], tmp_path: Path) -> None:
    place = tmp_path / "d.json"
    assert command("verify", BUNDLE, "--device-record", place).exit_code == 1
    place.write_text(json.dumps(good))
    assert command("verify", BUNDLE / "model.onnx", "--device-record", place).exit_code == 2
    assert command("verify", BUNDLE, "--device-record", place, "--rtol", "1").exit_code == 2
    bundle = tmp_path / "bundle"
    shutil.copytree(BUNDLE, bundle)
    (bundle / "model.onnx").write_bytes(b"")
    assert command("verify", bundle, "--device-record", place).exit_code == 14
