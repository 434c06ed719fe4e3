"""Mutations of records and bundles: what changes the meaning is refused, nothing crashes, nothing outside is touched.

A few hundred run by default. ``pytest tests/evidence/test_tampering.py --mutations 10000`` runs that many of each of
the three kinds.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onnxproof.errors import ConformanceError
from onnxproof.evidence import run_profile, validate_record, verify_artifacts
from onnxproof.evidence.derive import UNSETTLED, settle
from onnxproof.evidence.record import Record
from onnxproof.evidence.strict_json import canonical, pretty
from tests.evidence.faulty import profile

Path_ = tuple[Any, ...]
ODD = [
    None,
    True,
    False,
    0,
    -1,
    1,
    2**53 + 1,
    2**70,
    1e308,
    -0.0,
    0.5,
    "",
    "x",
    "../x",
    "/etc/passwd",
    "\u0000",
    [],
    {},
    [[]],
]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    folder = tmp_path_factory.mktemp("made")
    record = run_profile(profile("external"), folder)
    assert record["level"] == "executed"
    return record, folder


@pytest.fixture
def amount(request: pytest.FixtureRequest) -> int:
    given_amount: int = request.config.getoption("--mutations")
    return given_amount


def places(value: Any, at: Path_ = ()) -> list[Path_]:
    """Every place in a JSON value but the whole."""
    keys: Any = (
        value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    )
    return [p for key in keys for p in [(*at, key), *places(value[key], (*at, key))]]


def parent_of(value: Any, place: Path_) -> Any:
    for key in place[:-1]:
        value = value[key]
    return value


def mutate_json(record: dict[str, Any], rng: random.Random) -> tuple[str, dict[str, Any]]:
    """One change at a random place: another value, a neighbour's, a key or item gone, doubled, renamed, added."""
    changed = deepcopy(record)
    place = rng.choice(places(changed))
    parent, key = parent_of(changed, place), place[-1]
    old = parent[key]
    kind = rng.choice(["odd", "near", "elsewhere", "gone", "added", "renamed"])
    if kind == "odd":
        parent[key] = rng.choice(ODD)
    elif kind == "near" and isinstance(old, str):
        parent[key] = old[:-1] + chr((ord(old[-1]) + 1) % 128) if old else "a"
    elif kind == "near" and isinstance(old, (int, float)):
        parent[key] = not old if isinstance(old, bool) else old + rng.choice([1, -1, 1e-9, 1e-3])
    elif kind == "gone":
        del parent[key]
    elif kind == "added" and isinstance(parent, dict):
        parent[f"{key}_"] = old
    elif kind == "added":
        parent.insert(key, deepcopy(old))
    elif kind == "renamed" and isinstance(parent, dict):
        parent[f"{key}2"] = parent.pop(key)
    else:
        kind = "elsewhere"
        other = rng.choice(places(record))
        parent[key] = deepcopy(parent_of(record, other)[other[-1]])
    return kind, changed


def same_meaning(a: Any, b: Any) -> bool:
    """Whether two JSON values say the same to every reader: 1 and 1.0 are one number, True is none."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same_meaning(a[k], b[k]) for k in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same_meaning, a, b))
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    return bool(a == b) and str(a).startswith("-") == str(b).startswith("-")


def test_fields(made: tuple[dict[str, Any], Path], amount: int) -> None:
    """A record with any one field changed is refused."""
    record, _ = made
    rng, kinds = random.Random(1), Counter[str]()
    while kinds.total() < amount:
        kind, changed = mutate_json(record, rng)
        if same_meaning(record, changed):
            continue
        kinds[kind] += 1
        try:
            problems = validate_record(changed)
        except ConformanceError as err:
            problems = [str(err)]
        assert problems, f"{kind}: a changed record is valid"
    print(dict(kinds))


def test_resettled_fields(made: tuple[dict[str, Any], Path], amount: int) -> None:
    """Verdicts can't be had by making the digest anew: settling gives what the facts say, for every mutation."""
    record, _ = made
    rng, kinds, refused = random.Random(2), Counter[str](), 0
    derived = {
        "status",
        "failure",
        "level",
        "exit_code",
        "outcome",
        "passed",
        "limit",
        "digest",
        "profile_sha256",
    }
    while kinds.total() < amount // 10:
        kind, changed = mutate_json(record, rng)
        try:
            parsed = Record.model_validate_json(json.dumps(changed))
        except ValueError:
            continue
        kinds[kind] += 1
        settled = settle(parsed)
        assert settle(settled) == settled
        problems = validate_record(settled)
        refused += bool(problems)
        if not problems:
            forged = settled.as_dict()
            place = rng.choice([p for p in places(forged) if p[-1] in derived])
            parent = parent_of(forged, place)
            parent[place[-1]] = "executed" if parent[place[-1]] != "executed" else "none"
            assert validate_record(forged), f"{place}: a verdict against its facts is valid"
    print(dict(kinds), "refused although settled:", refused)


@pytest.fixture(scope="module")
def text(made: tuple[dict[str, Any], Path]) -> bytes:
    return pretty(made[0]).encode()


def mutate_text(text: bytes, rng: random.Random) -> tuple[str, bytes]:
    """One change of the bytes of a record."""
    data = bytearray(text)
    at = rng.randrange(len(data))
    kind = rng.choice(
        ["flip", "cut", "insert", "delete", "duplicate key", "huge number", "deep", "constant", "swap"]
    )
    if kind == "flip":
        data[at] ^= 1 << rng.randrange(8)
    elif kind == "cut":
        del data[at:]
    elif kind == "insert":
        data.insert(at, rng.randrange(256))
    elif kind == "delete":
        del data[at]
    elif kind == "swap":
        other = rng.randrange(len(data))
        data[at], data[other] = data[other], data[at]
    elif kind == "duplicate key":
        lines = text.splitlines(keepends=True)
        keyed = [i for i, line in enumerate(lines) if b'": ' in line and line.rstrip().endswith(b",")]
        i = rng.choice(keyed)
        return kind, b"".join([*lines[: i + 1], lines[i], *lines[i + 1 :]])
    else:
        value = {
            "huge number": b"9" * rng.choice([30, 5000]),
            "constant": rng.choice([b"NaN", b"Infinity", b"1e999"]),
        }
        new = value.get(kind, b"[" * 200_000)
        colon = text.index(b": ", at) if b": " in text[at:] else text.index(b": ")
        return kind, text[: colon + 2] + new + text[colon + 2 :]
    return kind, bytes(data)


def test_bytes(text: bytes, made: tuple[dict[str, Any], Path], amount: int) -> None:
    """A record with any of its bytes changed is refused, or says the same."""
    rng, kinds, same = random.Random(3), Counter[str](), 0
    while kinds.total() < amount:
        kind, changed = mutate_text(text, rng)
        kinds[kind] += 1
        if not validate_record(changed):
            assert same_meaning(json.loads(changed), made[0]), f"{kind}: a changed record is valid"
            same += 1
    print(dict(kinds), "without a change of meaning:", same)


def flip(folder: Path, rng: random.Random, path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


def cut(folder: Path, rng: random.Random, path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: rng.randrange(len(data))])


def grow(folder: Path, rng: random.Random, path: Path) -> None:
    with open(path, "ab") as file:
        file.write(bytes(rng.randrange(1, 100)))


def remove(folder: Path, rng: random.Random, path: Path) -> None:
    path.unlink()


def rename(folder: Path, rng: random.Random, path: Path) -> None:
    path.rename(path.with_name(path.name + rng.choice(["~", ".pb", " ", "\n", "é"])))


def add(folder: Path, rng: random.Random, path: Path) -> None:
    (path.parent / rng.choice(["new", ".hidden", "..data", "record.json.bak"])).write_bytes(b"")


def link(folder: Path, rng: random.Random, path: Path) -> None:
    kept = folder.parent / "kept"
    path.rename(kept)
    path.symlink_to(kept if rng.random() < 0.5 else os.path.relpath(kept, path.parent))


def link_folder(folder: Path, rng: random.Random, path: Path) -> None:
    inside = [p for p in folder.rglob("*") if p.is_dir()]
    place = rng.choice([folder, *inside])
    kept = folder.parent / "kept"
    place.rename(kept)
    place.symlink_to(kept)


def swap(folder: Path, rng: random.Random, path: Path) -> None:
    other = rng.choice(
        [p for p in sorted(folder.rglob("*.pb")) if p != path and p.read_bytes() != path.read_bytes()]
    )
    a, b = path.read_bytes(), other.read_bytes()
    path.write_bytes(b)
    other.write_bytes(a)


def into_folder(folder: Path, rng: random.Random, path: Path) -> None:
    path.unlink()
    path.mkdir()


CHANGES: list[Callable[[Path, random.Random, Path], None]] = [
    flip, cut, grow, remove, rename, add, link, link_folder, swap, into_folder,
]  # fmt: skip


def test_files(made: tuple[dict[str, Any], Path], amount: int, tmp_path: Path) -> None:
    """A bundle with any file changed, missing, added, renamed or linked is refused."""
    record, folder = made
    rng, kinds = random.Random(4), Counter[str]()
    outside = tmp_path / "outside"
    outside.write_text("outside")
    for i in range(amount // 5):
        copy = tmp_path / "copies" / str(i)
        shutil.copytree(folder, copy)
        bundle = copy / "affine-fp32"
        listed = [bundle / f["path"] for f in record["artifacts"]["files"]]
        change = rng.choice(CHANGES)
        change(bundle, rng, rng.choice(listed))
        kinds[change.__name__] += 1
        with pytest.raises(ConformanceError):
            verify_artifacts(record, copy)
        shutil.rmtree(copy)
    assert outside.read_text() == "outside"
    print(dict(kinds))


PATHS = [
    "../outside", "/etc/passwd", "a/../../outside", "cases/../../x", ".", "..", "", "a//b", "a\\..\\b", "C:/x", "a/",
    "a\u0000b", "a\nb", "a/" * 20 + "b", "x" * 5000, " model.onnx", "model.onnx ", "nul.", "./model.onnx",
]  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("field", ["path", "directory", "model"])
def test_paths(made: tuple[dict[str, Any], Path], path: str, field: str) -> None:
    """A path that leaves the bundle is refused, in a record that is settled around it too."""
    changed = deepcopy(made[0])
    if field == "path":
        changed["artifacts"]["files"][0]["path"] = path
    else:
        changed["artifacts"][field] = path
    changed["digest"] = UNSETTLED
    try:
        parsed = Record.model_validate_json(json.dumps(changed))
    except ValueError:
        return
    assert any("artifacts" in problem for problem in validate_record(settle(parsed)))


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
))  # fmt: skip
def test_anything(value: Any) -> None:
    """What is no record at all has problems, and nothing is raised."""
    assert validate_record(value)
    assert validate_record(json.dumps(value))


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    assert validate_record(data)


def test_canonical_text_is_one(made: tuple[dict[str, Any], Path]) -> None:
    shuffled = dict(reversed(list(made[0].items())))
    assert canonical(shuffled) == canonical(made[0])
    assert validate_record(shuffled) == []
