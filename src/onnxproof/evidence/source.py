"""Where the code came from, which packages and which machine ran it."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from onnxproof.evidence.record import Host, Source

_GIT_SECONDS = 10.0
PACKAGE = Path(__file__).resolve().parent.parent


def onnxproof_version() -> str:
    """The version of this package; by name, since its front door leads to the compiler."""
    return str(importlib.import_module("onnxproof").__version__)


def source(revision: str | None = None) -> Source:
    """The revision given, or that of the git checkout which this package was imported from."""
    version = onnxproof_version()
    if revision is not None:
        return Source(revision=revision, origin="given", dirty=None, onnxproof_version=version)
    top = _git("rev-parse", "--show-toplevel")
    if top is None or Path(top).resolve() / "src" / "onnxproof" != PACKAGE:
        return Source(revision=None, origin="unknown", dirty=None, onnxproof_version=version)
    head, changes = _git("rev-parse", "HEAD"), _git("status", "--porcelain")
    if head is None or changes is None:
        return Source(revision=None, origin="unknown", dirty=None, onnxproof_version=version)
    return Source(revision=head, origin="git", dirty=bool(changes), onnxproof_version=version)


def host() -> Host:
    """The processor's name, and how many of its cores this process may use."""
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    for line in lines:
        if line.startswith("model name"):
            name = line.partition(":")[2].strip()
            break
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return Host(cpu=name, cores=cores)


def base_versions() -> dict[str, str | None]:
    """Versions that every record holds."""
    return {
        "python": platform.python_version(),
        "platform": f"{platform.system()}-{platform.machine()}",
        "onnxproof": onnxproof_version(),
        "numpy": version_of("numpy"),
    }


def import_versions(packages: Sequence[str]) -> dict[str, str | None]:
    """Version of each package that can be imported, None for the others."""
    return {name: version_of(name) for name in packages}


def version_of(package: str) -> str | None:
    """The version of a package, or None when importing it fails."""
    try:
        module = importlib.import_module(package)
    except Exception:  # a broken package raises anything while it is imported: it is as good as missing
        return None
    said = getattr(module, "__version__", None)
    if isinstance(said, str) and said:
        return said
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(PACKAGE), *arguments],
            capture_output=True,
            text=True,
            timeout=_GIT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
