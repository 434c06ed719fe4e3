"""Files of a bundle: paths that stay inside, no links, sizes known before reading, writes whole or not at all."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path, PurePosixPath

from onnxproof.errors import ArtifactError, ConformanceError

MAX_FILES = 10_000
MAX_DEPTH = 8
_PART = re.compile(r"[^\x00-\x1f\x7f/\\:]{1,200}")


class UnsafePath(ConformanceError, ValueError):
    """A path would leave its folder, or goes through a link."""


def safe_parts(path: str) -> tuple[str, ...]:
    """The parts of a relative path with ``/`` between them.

    Raises:
        UnsafePath: it is absolute, empty, deep, or has a part such as ``..`` or one that some system reads as more
            than a name.
    """
    parts = tuple(path.split("/"))
    wrong = len(parts) > MAX_DEPTH or any(
        not _PART.fullmatch(p) or p in (".", "..") or p != p.strip() or p.endswith(".") for p in parts
    )
    if wrong:
        raise UnsafePath(f"{path!r} is not a plain path inside the bundle")
    return parts


def open_inside(folder: Path, path: str) -> BufferedReader:
    """Open a regular file of ``folder`` for reading; no part of ``path``, nor the folder itself, may be a link.

    Raises:
        UnsafePath: the path leaves the folder or goes through a link, or is not a regular file.
        OSError: it can't be opened.
    """
    place = folder
    _refuse_link(place)
    for part in safe_parts(path):
        place = place / part
        _refuse_link(place)
    before = os.lstat(place)
    if not stat.S_ISREG(before.st_mode):
        raise UnsafePath(f"{path!r} is not a regular file")
    file = open(place, "rb")  # noqa: SIM115  # the caller closes it
    if not os.path.samestat(before, os.fstat(file.fileno())):
        file.close()
        raise UnsafePath(f"{path!r} changed while it was opened")
    return file


def read_inside(folder: Path, path: str, limit: int) -> bytes:
    """The bytes of a file of ``folder`` that has at most ``limit`` of them."""
    with open_inside(folder, path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > limit:
            raise ConformanceError(f"{path!r} has {size} bytes, more than {limit}")
        return file.read(limit + 1)[: limit + 1]


def hash_inside(folder: Path, path: str, expected: int | None = None) -> tuple[int, str]:
    """Size and SHA-256 of a file of ``folder``; the hash is empty when the size is not the one expected."""
    with open_inside(folder, path) as file:
        size = os.fstat(file.fileno()).st_size
        if expected is not None and size != expected:
            return size, ""
        return size, hashlib.file_digest(file, "sha256").hexdigest()


def walk(folder: Path) -> Iterator[tuple[str, bool]]:
    """Every file below ``folder``, as (path with ``/``, whether it is a regular file), in order of name.

    Raises:
        ConformanceError: there are more files or levels than any bundle has.
    """
    pending = [(folder, "")]
    seen = 0
    while pending:
        place, prefix = pending.pop()
        for entry in sorted(os.scandir(place), key=lambda e: e.name):
            seen += 1
            path = prefix + entry.name
            if seen > MAX_FILES or path.count("/") >= MAX_DEPTH:
                raise ConformanceError(f"{folder.name!r} holds more files or levels than a bundle has")
            if entry.is_dir(follow_symlinks=False):
                pending.append((Path(entry.path), path + "/"))
            else:
                yield path, entry.is_file(follow_symlinks=False)


def write_file(path: Path, data: bytes) -> None:
    """Write a file beside its place, flush it to the disk and move it there.

    Raises:
        ArtifactError: it can't be written; what stood there before is untouched.
    """
    if path.exists() and not path.is_file():  # a device or a pipe would be replaced by a file
        raise ArtifactError(
            f"{str(path)!r} can't be written: it is no regular file", way_out="Give another file name."
        )
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with open(partial, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
        sync_folder(path.parent)
    except OSError as err:
        partial.unlink(missing_ok=True)
        raise ArtifactError(f"{str(path)!r} can't be written: {err.strerror or err}") from err


def sync_folder(folder: Path) -> None:
    """Flush the entries of a folder to the disk, where the system can."""
    if os.name != "posix":
        return
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def posix(path: Path, folder: Path) -> str:
    """``path`` relative to ``folder``, with ``/`` between parts."""
    return str(PurePosixPath(path.relative_to(folder)))


def _refuse_link(place: Path) -> None:
    try:
        mode = os.lstat(place).st_mode
    except FileNotFoundError:
        return
    if stat.S_ISLNK(mode):
        raise UnsafePath(f"{place.name!r} is a symbolic link")
