"""Where Node, the npm package and a browser are: as told, or where such things are by custom."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

PACKAGE = "onnxruntime-web"
NEWEST_TRIED = "1.30.0"
MIN_NODE = 20
# What package managers call Chromium and the browsers made of it.
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")
_SECONDS = 60.0  # for a program to say its version


class Missing(ImportError):
    """Something that a runtime needs is not installed: what, and the command that brings it."""


@dataclass(frozen=True, slots=True)
class Package:
    """The npm package: its version, and the folder of what browsers and Node load."""

    version: str
    dist: Path


def package(given: str | None = None) -> Package:
    """The package in ``given`` (it, its ``node_modules``, or a folder with one), or upwards from the working folder.

    Raises:
        Missing: it is not there.
    """
    starts = [Path(given)] if given is not None else [Path.cwd(), *Path.cwd().parents]
    for start in starts:
        forms = (start / "node_modules" / PACKAGE, *((start / PACKAGE, start) if given is not None else ()))
        for folder in forms:
            described = folder / "package.json"
            if described.is_file() and (folder / "dist").is_dir():
                return Package(json.loads(described.read_text())["version"], folder / "dist")
    where = f"in {given!r}" if given is not None else "in node_modules of this folder or one above it"
    raise Missing(f"{PACKAGE} is not {where}: npm install {PACKAGE}@{NEWEST_TRIED}")


def node() -> tuple[str, str]:
    """Path and version of Node.

    Raises:
        Missing: it is not on the path, or too old.
    """
    found = shutil.which("node")
    if found is None:
        raise Missing("node is not on the path: apt-get install nodejs, or https://nodejs.org")
    version = _version(found)
    if int(version.partition(".")[0]) < MIN_NODE:
        raise Missing(f"Node {version} is too old, {MIN_NODE} is needed: https://nodejs.org")
    return found, version


def browser(given: str | None = None) -> tuple[str, str]:
    """Path and version of Chromium, or of a browser made of it.

    Raises:
        Missing: there is none.
    """
    if given is not None:
        found = shutil.which(given)
        if found is None:
            raise Missing(f"there is no browser {given!r}: apt-get install chromium")
    else:
        found = next(filter(None, map(shutil.which, BROWSERS)), None)
        if found is None:
            raise Missing(f"none of {', '.join(BROWSERS)} is on the path: apt-get install chromium")
    return found, _version(found)


def script(name: str) -> Path:
    """A file of this package that Node or a browser runs."""
    return Path(str(resources.files(__package__ or "") / name))


def _version(program: str) -> str:
    try:
        said = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=_SECONDS, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError) as err:
        raise Missing(f"{program} does not start: {err}") from err
    found = re.search(r"\d+(\.\d+)+", said)
    return found.group() if found else said.strip()
