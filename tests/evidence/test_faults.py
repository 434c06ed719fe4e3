"""Every failure class and exit code, each from a real fault."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from onnxproof.errors import ConformanceError
from onnxproof.evidence import execute, exit_code, run_profile, validate_record, verify_artifacts
from onnxproof.evidence.profile import RuntimeSpec
from onnxproof.evidence.record import Policy
from tests.evidence.faulty import ORT, profile

RUNTIMES_HERE = "tests.evidence.misbehaving"
STAGES = ("dependencies", "export", "check", "load", "parity")

# exporter, stage that fails, failure, exit code, level
EXPORTERS = [
    ("raising", "export", "export-error", 11, "none"),
    ("silent", "export", "export-error", 11, "none"),
    ("changing", "export", "state-changed", 12, "none"),
    ("truncated", "check", "checker-error", 13, "none"),
    ("unsorted", "check", "checker-error", 13, "none"),
    ("wrong_shape", "check", "checker-error", 13, "none"),
    ("unloadable", "load", "load-error", 15, "structural"),
    ("perturbed", "parity", "mismatch", 16, "structural"),
    ("another_dtype", "parity", "mismatch", 16, "structural"),
    ("two_outputs", "parity", "mismatch", 16, "structural"),
    ("static", "parity", "input-contract", 17, "structural"),
]
# runtime, answer to the case that it misbehaves on
RUNTIMES = [
    ("Raises", "error"),
    ("Crashes", "crash"),
    ("Exits", "crash"),
    ("Hangs", "timeout"),
    ("Devours", "memory"),
]


def assert_failed(record: dict[str, Any], stage: str, failure: str, code: int, level: str) -> None:
    assert validate_record(record) == []
    assert (record["failure"], record["level"], exit_code(record)) == (failure, level, code)
    at = STAGES.index(stage)
    statuses = [record["stages"][s]["status"] for s in STAGES]
    assert statuses == ["passed"] * at + ["failed"] + ["not_run"] * (len(STAGES) - at - 1)
    assert record["stages"][stage]["failure"] == failure


def test_nothing_wrong(tmp_path: Path) -> None:
    record = run_profile(profile(), tmp_path)
    assert validate_record(record) == []
    assert (record["status"], record["level"], exit_code(record)) == ("passed", "executed", 0)
    assert [c["outcome"] for c in record["input_cases"]] == ["match"] * 2 + ["rejected"] * 3
    verify_artifacts(record, tmp_path)
    assert execute(record, tmp_path)["level"] == "executed"


@pytest.mark.parametrize(("exporter", "stage", "failure", "code", "level"), EXPORTERS)
def test_exporter(tmp_path: Path, exporter: str, stage: str, failure: str, code: int, level: str) -> None:
    record = run_profile(profile(exporter), tmp_path)
    assert_failed(record, stage, failure, code, level)
    verify_artifacts(record, tmp_path)


def test_accepted_width(tmp_path: Path) -> None:
    """A profile that lists a width to be refused, and a file that takes any."""
    cases = [
        *profile().cases,
        profile()
        .cases[0]
        .model_copy(update={"name": "width-5", "kind": "width", "shapes": [[3, 5]], "expect": "rejected"}),
    ]
    policy = profile().policy.model_copy(update={"refusals": "listed"})
    record = run_profile(profile("any_width", cases=cases, policy=policy), tmp_path)
    assert_failed(record, "parity", "input-contract", 17, "structural")
    assert record["input_cases"][-1]["outcome"] == "accepted"


@pytest.mark.parametrize(("name", "answer"), RUNTIMES)
def test_runtime(tmp_path: Path, name: str, answer: str) -> None:
    """A runtime that fails on one case: the others are still run, in a process that is started anew."""
    spec = RuntimeSpec(name=name, provider="here", session={})
    policy = Policy(refusals="listed", load_seconds=30.0, case_seconds=2.0, memory_bytes=2**31)
    cases = [profile().cases[1], profile().cases[0]]
    record = run_profile(
        profile(runtime=spec, policy=policy, cases=cases),
        tmp_path,
        adapters={name: f"{RUNTIMES_HERE}:{name}"},
    )
    assert_failed(record, "parity", "runtime-error", 18, "structural")
    assert [(c["name"], c["answer"]) for c in record["input_cases"]] == [
        ("batch-3", answer),
        ("batch-1", "outputs"),
    ]


def test_crash_while_loading(tmp_path: Path) -> None:
    spec = RuntimeSpec(name="CrashesOnLoad", provider="here", session={})
    record = run_profile(
        profile(runtime=spec), tmp_path, adapters={"CrashesOnLoad": f"{RUNTIMES_HERE}:CrashesOnLoad"}
    )
    assert_failed(record, "load", "load-error", 15, "structural")
    assert record["execution"]["load"] == "crash"


def test_talkative_runtime(tmp_path: Path) -> None:
    spec = RuntimeSpec(name="Prints", provider="here", session={})
    policy = profile().policy.model_copy(update={"refusals": "listed"})
    record = run_profile(
        profile(runtime=spec, policy=policy), tmp_path, adapters={"Prints": f"{RUNTIMES_HERE}:Prints"}
    )
    assert record["level"] == "executed"


def test_missing_runtime(tmp_path: Path) -> None:
    spec = RuntimeSpec(name="Missing", provider="here", session={})
    record = run_profile(profile(runtime=spec), tmp_path, adapters={"Missing": f"{RUNTIMES_HERE}:Missing"})
    assert_failed(record, "dependencies", "missing-dependency", 10, "none")
    assert list(tmp_path.iterdir()) == []


def test_provider_that_is_not_there(tmp_path: Path) -> None:
    """A runtime may not fall back on another provider."""
    spec = ORT.model_copy(update={"provider": "TensorrtExecutionProvider"})
    record = run_profile(profile(runtime=spec), tmp_path)
    assert_failed(record, "load", "load-error", 15, "structural")


def test_unknown_runtime_is_an_error(tmp_path: Path) -> None:
    spec = RuntimeSpec(name=f"{RUNTIMES_HERE}:Prints", provider="here", session={})
    with pytest.raises(ConformanceError, match="no runtime"):
        run_profile(profile(runtime=spec), tmp_path)


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def unlisted(folder: Path) -> None:
    (folder / "more.bin").write_bytes(b"1")


def missing(folder: Path) -> None:
    (folder / "notes.txt").unlink()


def grown(folder: Path) -> None:
    with open(folder / "model.onnx.data", "ab") as file:
        file.write(b"0")


def linked(folder: Path) -> None:
    (folder / "model.onnx.data").rename(folder.parent / "elsewhere")
    (folder / "model.onnx.data").symlink_to(folder.parent / "elsewhere")


def linked_folder(folder: Path) -> None:
    folder.rename(folder.parent / "elsewhere")
    folder.symlink_to(folder.parent / "elsewhere")


def linked_case(folder: Path) -> None:
    (folder / "cases" / "batch-1").rename(folder.parent / "elsewhere")
    (folder / "cases" / "batch-1").symlink_to(folder.parent / "elsewhere")


def fifo(folder: Path) -> None:
    (folder / "notes.txt").unlink()
    os.mkfifo(folder / "notes.txt")


TAMPERING = [
    lambda folder: flip(folder / "model.onnx", 40),
    lambda folder: flip(folder / "model.onnx.data", 3),
    lambda folder: flip(folder / "cases" / "batch-1" / "output_0.pb", -1),
    lambda folder: flip(folder / "trace.json", 5),
    unlisted,
    missing,
    grown,
    linked,
    linked_folder,
    linked_case,
    fifo,
]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    folder = tmp_path_factory.mktemp("kept")
    return run_profile(profile("external"), folder), folder


@pytest.mark.parametrize("tamper", TAMPERING)
def test_tampered_files(tmp_path: Path, kept: tuple[dict[str, Any], Path], tamper: Any) -> None:
    record, folder = kept
    roles = {f["path"]: f["role"] for f in record["artifacts"]["files"]}
    assert record["level"] == "executed"
    assert (roles["model.onnx.data"], roles["notes.txt"]) == ("external-data", "sidecar")
    shutil.copytree(folder, tmp_path / "copy")
    tamper(tmp_path / "copy" / "affine-fp32")
    with pytest.raises(ConformanceError):
        verify_artifacts(record, tmp_path / "copy")
    again = execute(record, tmp_path / "copy")
    assert_failed(again, "load", "hash-mismatch", 14, "structural")
    assert again["execution"]["load"] == "not_run"


def test_earlier_bundle_is_refused(tmp_path: Path) -> None:
    (tmp_path / "affine-fp32").mkdir()
    (tmp_path / "affine-fp32" / "mine.txt").write_text("mine")
    with pytest.raises(ConformanceError, match="holds files already"):
        run_profile(profile("silent"), tmp_path)
    assert (tmp_path / "affine-fp32" / "mine.txt").read_text() == "mine"
    run_profile(profile("raising"), tmp_path, force=True)
    assert [p.name for p in (tmp_path / "affine-fp32").iterdir()] == ["record.json"]
    assert [p.name for p in tmp_path.iterdir()] == ["affine-fp32"]
