"""A bundle: the folder that holds a model, its data, the cases as bytes, where values come from, and the record."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

from onnxproof.errors import ConformanceError
from onnxproof.evidence.files import (
    UnsafePath,
    hash_inside,
    read_inside,
    safe_parts,
    walk,
    write_file,
)
from onnxproof.evidence.record import ArtifactFile, Artifacts, Record, Role
from onnxproof.evidence.strict_json import MAX_BYTES, pretty
from onnxproof.evidence.tensors import Array, decode, encode

RECORD = "record.json"
TRACE = "trace.json"
CASES = "cases"
MAX_TENSOR_BYTES = 2**31
MAX_PROBLEMS = 200


def case_file(case: str, part: str, position: int) -> str:
    """The path of a tensor of a case; ``part`` is ``input``, ``output`` or ``oracle``."""
    return f"{CASES}/{case}/{part}_{position}.pb"


def write_tensors(folder: Path, case: str, part: str, tensors: Sequence[tuple[str, Array]]) -> None:
    """Write the tensors of one part of a case."""
    for i, (name, array) in enumerate(tensors):
        path = folder.joinpath(*safe_parts(case_file(case, part, i)))
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, encode(name, array))


def tensor_paths(artifacts: Artifacts, case: str, part: str) -> list[str]:
    """The listed files of one part of a case, in order."""
    listed = {f.path for f in artifacts.files if f.role == "case"}
    paths: list[str] = []
    while (path := case_file(case, part, len(paths))) in listed:
        paths.append(path)
    return paths


def read_tensors(folder: Path, artifacts: Artifacts, case: str, part: str) -> list[tuple[str, Array]]:
    """Names and arrays of one part of a case.

    Raises:
        ConformanceError: a file is not a tensor, or too large.
    """
    paths = tensor_paths(artifacts, case, part)
    return [decode(read_inside(folder, path, MAX_TENSOR_BYTES)) for path in paths]


def listed_files(folder: Path, model: str, external: Collection[str]) -> list[ArtifactFile]:
    """Every file of ``folder`` but the record, with role, size and hash, in order of path.

    Raises:
        UnsafePath: something there is a link or not a regular file.
    """
    found = []
    for path, regular in walk(folder):
        if not regular:
            raise UnsafePath(f"{path!r} is not a regular file")
        if path == RECORD:
            continue
        size, sha256 = hash_inside(folder, path)
        found.append(ArtifactFile(path=path, role=_role(path, model, external), bytes=size, sha256=sha256))
    return sorted(found, key=lambda f: f.path)


def problems_of_files(folder: Path, artifacts: Artifacts) -> list[str]:
    """Every way in which ``folder`` differs from what is recorded: sizes are looked at before anything is read."""
    if folder.is_symlink() or not folder.is_dir():
        return [f"{artifacts.directory!r} is {'a symbolic link' if folder.is_symlink() else 'not a folder'}"]
    problems: list[str] = []
    try:
        present = dict(walk(folder))
    except (ConformanceError, OSError) as err:
        return [str(err)]
    listed = {f.path for f in artifacts.files}
    problems += [f"{path!r} is not a regular file" for path, regular in present.items() if not regular]
    problems += [f"{path!r} is not listed" for path in present if path not in listed and path != RECORD]
    for file in artifacts.files:
        if file.path not in present:
            problems.append(f"{file.path!r} is missing")
        elif present[file.path] and (problem := _changed(folder, file)):
            problems.append(problem)
    return [p[:1000] for p in problems[:MAX_PROBLEMS]]


def write_record(folder: Path, record: Record) -> None:
    """Write ``record.json``, whole or not at all."""
    write_file(folder / RECORD, pretty(record.as_dict()).encode())


def read_record_bytes(place: Path) -> bytes:
    """The bytes of a record: of a file, or of ``record.json`` in a bundle.

    Raises:
        ConformanceError: there is none, it is a link, or it is too large.
    """
    folder, name = (place, RECORD) if place.is_dir() else (place.parent, place.name)
    try:
        return read_inside(folder, name, MAX_BYTES)
    except FileNotFoundError as err:
        what = f"holds no {RECORD}, so it is no bundle" if place.is_dir() else "is not there"
        raise ConformanceError(
            f"{str(place)!r} {what}", way_out="Name a folder that export, verify or conform left."
        ) from err
    except (UnsafePath, OSError) as err:
        why = err.what if isinstance(err, UnsafePath) else err.strerror or str(err)
        raise ConformanceError(
            f"{str(place)!r} can't be read: {why}",
            way_out="Fetch the bundle anew, or make the evidence again.",
        ) from err


def link_or_copy(source: Path, target: Path, *, copy: bool) -> None:
    """Put the content of ``source`` at ``target``: as another name of the file where that is allowed and works."""
    import shutil

    target.parent.mkdir(parents=True, exist_ok=True)
    if not copy:
        with suppress(OSError):
            os.link(source.resolve(), target)
            return
    shutil.copyfile(source, target)


def _role(path: str, model: str, external: Collection[str]) -> Role:
    if path == model:
        return "model"
    if path in external:
        return "external-data"
    if path == TRACE:
        return "trace"
    return "case" if path.startswith(f"{CASES}/") else "sidecar"


def _changed(folder: Path, file: ArtifactFile) -> str:
    try:
        size, sha256 = hash_inside(folder, file.path, file.bytes)
    except (OSError, ConformanceError) as err:
        return f"{file.path!r} can't be read: {err}"
    if size != file.bytes:
        return f"{file.path!r} has {size} bytes, not {file.bytes}"
    return "" if sha256 == file.sha256 else f"{file.path!r} has SHA-256 {sha256}, not {file.sha256}"
