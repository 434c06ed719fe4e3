"""Write a page: our own files, those of the bundle, and those of ONNX Runtime Web, in one folder."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from onnxproof.errors import ArtifactError, ConformanceError
from onnxproof.evidence.conform import read_bundle, refuse_existing, verify_folder
from onnxproof.evidence.files import safe_parts
from onnxproof.evidence.record import Record
from onnxproof.evidence.strict_json import pretty
from onnxproof.page.data import FORMAT, page_data
from onnxproof.page.ort_web import FILES, Build, OrtWeb

ASSETS = "assets"
DATA = "data.json"
BUNDLE = "bundle"
ORT = "ort"
_TITLE = "<title>onnxproof</title>"  # of index.html, which the builder fills in


@dataclass(frozen=True, slots=True)
class Page:
    """What was written: the folder, and bytes of the page itself, of the bundle, of ONNX Runtime Web by build."""

    folder: Path
    own: int
    bundle: int
    runtimes: dict[str, int]


def build(folder: Path, site: Path, ort: OrtWeb, *, webgpu: bool = True, force: bool = False) -> Page:
    """Write the page of the bundle in ``folder`` to ``site``: whole, or not at all.

    Args:
        webgpu: with the build that runs on WebGPU, which is 27 MB.
        force: replace a page that is there.

    Raises:
        BrokenBundle: files are not those of the record.
        InvalidRecord, ConformanceError: there is no bundle, or its model was not found sound, or can't be shown.
        ArtifactError: the page can't be written.
    """
    record = read_bundle(folder)
    verify_folder(record, folder)
    if record.stages.check.status != "passed":
        raise ConformanceError(
            f"the model of {str(folder)!r} did not pass the checker, so there is nothing to run",
            way_out=f"See why: onnxproof report {folder}",
        )
    site = site.absolute()
    refuse_existing(site, force)
    if site.is_dir() and any(site.iterdir()) and not _is_page(site):
        raise ConformanceError(
            f"{str(site)!r} holds something else than a page", way_out="Give another folder for the page."
        )
    builds: list[Build] = ["wasm", "webgpu"] if webgpu else ["wasm"]
    try:
        site.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=site.parent, prefix=f".{site.name}.") as scratch:
            made = Path(scratch) / site.name
            page = _write(made, folder, record, ort, builds)
            if site.exists():
                shutil.rmtree(site)
            made.rename(site)
    except OSError as err:
        raise ArtifactError(f"{str(site)!r} can't be written: {err.strerror or err}") from err
    return Page(site, page.own, page.bundle, page.runtimes)


def _is_page(site: Path) -> bool:
    """Whether a folder is what was written here before."""
    try:
        said = json.loads((site / DATA).read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(said, dict) and said.get("format") == FORMAT


def _write(site: Path, folder: Path, record: Record, ort: OrtWeb, builds: list[Build]) -> Page:
    data = page_data(record, folder)
    held = 0
    for file in data["files"]:
        parts = safe_parts(file["path"])
        target = site.joinpath(BUNDLE, *parts)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder.joinpath(*parts), target)
        held += file["bytes"]
    (site / ORT).mkdir()
    runtimes = {name: _copied(ort, name, site / ORT) for name in builds}
    data["runtime"] = {"version": ort.version, "builds": runtimes}
    own = _assets(site, data["title"])
    text = pretty(data).encode()
    (site / DATA).write_bytes(text)
    # GitHub Pages leaves out folders whose names begin with an underscore, unless this is there.
    (site / ".nojekyll").write_bytes(b"")
    sizes: dict[str, int] = {name: sum(f["bytes"] for f in files) for name, files in runtimes.items()}
    return Page(site, own + len(text), held, sizes)


def _copied(ort: OrtWeb, build: Build, target: Path) -> list[dict[str, Any]]:
    """The files of a build, in the order of :data:`FILES`, with sizes and hashes as the page checks them."""
    found = []
    for file, path in zip(FILES[build], ort.paths(build), strict=True):
        name = file.replace(".mjs", ".js")  # not every host knows that .mjs is JavaScript
        content = path.read_bytes()
        (target / name).write_bytes(content)
        sha256 = hashlib.sha256(content).hexdigest()
        found.append({"path": name, "bytes": len(content), "sha256": sha256})
    return found


def _assets(site: Path, title: str) -> int:
    size = 0
    for path, source in _walk(resources.files("onnxproof.page") / ASSETS, ""):
        content = source.read_bytes()
        if path == "index.html":
            content = content.decode().replace(_TITLE, f"<title>{escape(title)} · onnxproof</title>").encode()
        target = site / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        size += len(content)
    return size


def _walk(place: Traversable, prefix: str) -> Iterator[tuple[str, Traversable]]:
    for entry in sorted(place.iterdir(), key=lambda e: e.name):
        if entry.is_dir():
            yield from _walk(entry, f"{prefix}{entry.name}/")
        else:
            yield prefix + entry.name, entry
