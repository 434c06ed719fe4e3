"""The text of records, verdicts from facts, profiles and their names, schemas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onnxproof.evidence import Record, run_profile, validate_record
from onnxproof.evidence.compare import DEFAULT_TOLERANCE
from onnxproof.evidence.derive import EXIT_CODES, digest_of, settle
from onnxproof.evidence.files import UnsafePath, read_inside, safe_parts
from onnxproof.evidence.measure import measure
from onnxproof.evidence.profile import ProfileError, bound, builtin, parse
from onnxproof.evidence.record import InputCase, Tolerances
from onnxproof.evidence.strict_json import StrictJsonError, canonical
from onnxproof.evidence.strict_json import parse as parse_json
from onnxproof.evidence.tensors import DTYPES, TensorFileError, decode, dtype_of, encode
from scripts import write_schemas
from tests.evidence.faulty import profile

BAD_JSON = [
    b"",
    b"{",
    b"\xff",
    b'{"a": 1, "a": 1}',
    b'{"a": {"b": 1, "b": 2}}',
    b"NaN",
    b"[Infinity]",
    b"[-Infinity]",
    b"1e400",
    b"9" * 19,
    b"9" * 5000,
    b"0." + b"1" * 5000,
    b"[" * 33 + b"]" * 33,
    b"[" * 10**6,
    b'"\\ud800"',
    b'{"\\udfff": 1}',
    b"[1,]",
    b"// no\n1",
    b"'a'",
    b"01",
    b"\xef\xbb\xbf1",
    b" " * (16 * 2**20 + 1),
]


@pytest.mark.parametrize("text", BAD_JSON, ids=range(len(BAD_JSON)))
def test_refused_json(text: bytes) -> None:
    with pytest.raises(StrictJsonError):
        parse_json(text)


def test_accepted_json() -> None:
    text = b'{"a": [1, -2.5e3, true, null, "\\u00e9[[[[{\\"", {}], "b": ' + b"[" * 30 + b"]" * 30 + b"}"
    assert parse_json(text) == json.loads(text)
    assert canonical({"b": 1, "a": "é"}) == '{"a":"é","b":1}'


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return run_profile(profile(), tmp_path_factory.mktemp("made"))


def settled(record: dict[str, Any], **changes: Any) -> Record:
    return settle(Record.model_validate_json(json.dumps(record)).model_copy(update=changes))


# expect, answer → outcome, failure
OUTCOMES = [
    ("match", "outputs", "match", None),
    ("match", "invalid-argument", "rejected", "input-contract"),
    ("match", "error", "error", "runtime-error"),
    ("match", "crash", "crash", "runtime-error"),
    ("match", "timeout", "timeout", "runtime-error"),
    ("match", "memory", "memory", "runtime-error"),
    ("rejected", "outputs", "accepted", "input-contract"),
    ("rejected", "invalid-argument", "rejected", None),
    ("rejected", "error", "error", "runtime-error"),
    ("rejected", "crash", "crash", "runtime-error"),
]


@pytest.mark.parametrize(("expect", "answer", "outcome", "failure"), OUTCOMES)
def test_outcome(made: dict[str, Any], expect: str, answer: str, outcome: str, failure: str | None) -> None:
    cases = [InputCase.model_validate_json(json.dumps(c)) for c in made["input_cases"]]
    i = next(i for i, c in enumerate(cases) if c.expect == expect)
    changes: dict[str, Any] = {"answer": answer}
    if (expect, answer) != ("match", "outputs"):
        changes["outputs"] = []
    cases[i] = cases[i].model_copy(update=changes)
    record = settled(made, input_cases=cases)
    assert (record.input_cases[i].outcome, record.input_cases[i].failure) == (outcome, failure)
    assert record.failure == failure
    assert record.level == ("structural" if failure else "executed")
    assert record.exit_code == (EXIT_CODES[record.failure] if record.failure else 0)
    assert validate_record(record) == []


def test_exit_codes() -> None:
    assert list(EXIT_CODES.values()) == list(range(10, 20))


CONTRADICTIONS = [
    (("level",), "none"),
    (("status",), "failed"),
    (("exit_code",), 10),
    (("failure",), "mismatch"),
    (("stages", "parity", "status"), "failed"),
    (("stages", "load", "failure"), "load-error"),
    (("stages", "check", "detail"), None),
    (("input_cases", 0, "passed"), False),
    (("input_cases", 0, "max_abs_error"), 1.0),
    (("input_cases", 0, "answer"), "not_run"),
    (("input_cases", 0, "outputs", 0, "excess"), 0.5),
    (("input_cases", 3, "expect"), "match"),
    (("input_cases", 4, "name"), "dtype-y"),
    (("stages", "check", "detail", "inputs", 0, "shape"), ["B", 5]),
    (("artifacts", "files", 0, "role"), "model"),
    (("artifacts", "files", 0, "path"), "record.json"),
    (("source", "origin"), "given"),
    (("execution", "load"), "error"),
    (("runtime", "limits"), ["float64-as-float32"]),
    (("versions", "numpy"), None),
    (("opset", "model"), {"ai.onnx": 20}),
]


@pytest.mark.parametrize(("place", "value"), CONTRADICTIONS)
def test_contradictions(made: dict[str, Any], place: tuple[Any, ...], value: Any) -> None:
    """A fact or verdict that does not go with the others is named, with its place, in a record of right digest."""
    changed = json.loads(json.dumps(made))
    parent = changed
    for key in place[:-1]:
        parent = parent[key]
    assert parent[place[-1]] != value
    parent[place[-1]] = value
    changed["digest"] = digest_of(Record.model_validate_json(json.dumps(changed)))
    problems = validate_record(changed)
    assert [p for p in problems if not p.startswith("digest")]


FORM = [
    ({"extra": 1}, (), "extra"),
    ({"format": "onnxproof.record/2"}, (), "format"),
    ({"status": "unknown"}, (), "status"),
    ({"rtol": -1.0}, ("tolerances",), "rtol"),
    ({"rtol": "inf"}, ("tolerances",), "rtol"),
    ({"rtol": True}, ("tolerances",), "rtol"),
    ({"sha256": "A" * 64}, ("artifacts", "files", 0), "sha256"),
    ({"sha256": "a" * 63}, ("artifacts", "files", 0), "sha256"),
    ({"bytes": -1}, ("artifacts", "files", 0), "bytes"),
    ({"bytes": 1.5}, ("artifacts", "files", 0), "bytes"),
]


@pytest.mark.parametrize(("change", "place", "named"), FORM)
def test_form(made: dict[str, Any], change: dict[str, Any], place: tuple[Any, ...], named: str) -> None:
    changed = json.loads(json.dumps(made))
    part = changed
    for key in place:
        part = part[key]
    part.update(change)
    assert any(named in problem for problem in validate_record(changed))


def test_every_problem_is_named(made: dict[str, Any]) -> None:
    changed = {**made, "level": "nonsense", "more": 1}
    del changed["host"]
    problems = validate_record(changed)
    assert [any(p.startswith(key) for p in problems) for key in ("level", "more", "host")] == [True] * 3


def test_schemas_are_current() -> None:
    for name in write_schemas.MODELS:
        text = (write_schemas.FOLDER / f"{name}.json").read_text()
        assert text == write_schemas.text_of(name), "run scripts/write_schemas.py"


def test_shipped_profiles() -> None:
    shipped = builtin()
    assert {"feedfwd-fp32-torchscript", "feedfwd-fp32-dynamo"} <= set(shipped)
    for found in shipped.values():
        assert bound(found).name == found.name
        with pytest.raises(ProfileError, match="other settings"):
            bound(found.model_copy(update={"opset": 18}))


def test_shipped_name_in_a_record(made: dict[str, Any]) -> None:
    """A record can't take the name of a shipped profile."""
    record = settled(made, profile="feedfwd-fp32-dynamo")
    assert any("stands for other settings" in p for p in validate_record(record))


@pytest.mark.parametrize("text", [b"", b"x = ", b"\xff", b'format = "onnxproof.profile/1"', b"[" * 9999])
def test_malformed_profile(text: bytes) -> None:
    with pytest.raises(ProfileError):
        parse(text, "p.toml")


@pytest.mark.parametrize("name", DTYPES.values())
def test_tensor_files(name: str) -> None:
    """Written and read again bit by bit, and as the onnx package reads and writes them."""
    from onnx import TensorProto, numpy_helper

    dtype = dtype_of(name)
    for shape in [(), (0,), (3,), (2, 0, 3), (2, 200)]:
        raw = np.random.default_rng(0).integers(0, 2, (*shape, dtype.itemsize)).astype(np.uint8)
        array = np.frombuffer(raw.tobytes(), dtype).reshape(shape)
        data = encode("a/b:0", array)
        back_name, back = decode(data)
        assert (back_name, back.dtype, back.shape) == ("a/b:0", dtype, shape)
        assert back.tobytes() == array.tobytes()
        assert data == numpy_helper.from_array(array, "a/b:0").SerializeToString()
        read = numpy_helper.to_array(TensorProto.FromString(data))
        assert (read.dtype, read.tobytes()) == (dtype, array.tobytes())


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x08",
        b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        b"\x10\x01",
        b"\x10\x63\x4a\x00",
        b"\x4a\x05a",
    ],
)
def test_malformed_tensors(data: bytes) -> None:
    with pytest.raises(TensorFileError):
        decode(data + b"\x4a\x01a" if data == b"\x10\x01" else data)


def test_links_are_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a").write_bytes(b"1")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "real" / "b").symlink_to(tmp_path / "real" / "a")
    assert read_inside(tmp_path, "real/a", 10) == b"1"
    for folder, path in [
        (tmp_path, "link/a"),
        (tmp_path / "link", "a"),
        (tmp_path, "real/b"),
        (tmp_path, "real"),
    ]:
        with pytest.raises(UnsafePath):
            read_inside(folder, path, 10)
    with pytest.raises(UnsafePath):
        safe_parts("real/../real/a")


MEASURES = [
    ("float32", [1.0, 2.0], [1.0, 2.0], True),
    ("float32", [1.0, 2.0], [1.0, 2.1], False),
    ("float32", [np.nan, np.inf], [np.nan, np.inf], True),
    ("float32", [np.inf], [-np.inf], False),
    ("float32", [np.nan], [0.0], False),
    ("bfloat16", [1.0, -2.0], [1.0, -2.0], True),
    ("float16", [0.0], [-0.0], True),
    ("int64", [2**60 + 1], [2**60], False),
    ("bool", [True, False], [True, True], False),
    ("complex64", [1 + 1j], [1 + 1.5j], False),
    ("float64", [], [], True),
    ("float8_e4m3fn", [0.5], [0.5], True),
]


@pytest.mark.parametrize(("name", "got", "want", "same"), MEASURES)
def test_measure(name: str, got: Any, want: Any, same: bool) -> None:
    from onnxproof.evidence.derive import output_matches

    rtol, atol = DEFAULT_TOLERANCE.get(name, (0.0, 0.0))
    tolerances = Tolerances(rtol=rtol, atol=atol, nonfinite="equal")
    a, b = (np.asarray(v).astype(dtype_of(name)) for v in (got, want))
    wide = None if a.dtype.kind in "ib" else b.astype(np.complex128 if a.dtype.kind == "c" else np.float64)
    output = measure("y", a, b, wide, tolerances)
    assert output_matches(output, tolerances) == same
    refusing = tolerances.model_copy(update={"nonfinite": "refused"})
    assert output_matches(output, refusing) == (same and output.nonfinite == 0)


def test_ulp() -> None:
    one = np.ones(100, np.float32)
    next_up = np.nextafter(one, np.float32(2))
    tolerances = Tolerances(rtol=1e-5, atol=0.0, nonfinite="equal")
    ulp = measure("y", np.where(np.arange(100) < 95, one, next_up), one, None, tolerances).ulp
    assert ulp is not None
    assert (ulp.p50, ulp.p90, ulp.p99, ulp.max) == (0, 0, 1, 1)
    tiny = np.nextafter(np.float32(0), np.float32([1, -1]))
    across = measure("y", tiny[:1], tiny[1:], None, tolerances).ulp
    assert across is not None
    assert across.max == 2
