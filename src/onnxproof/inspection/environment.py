"""What a report of a fault needs: versions, the machine, runtimes, browsers, and what fails in a bundle."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from onnxproof.errors import BrokenBundle, ConformanceError
from onnxproof.inspection import apart

# Distributions that a fault may depend on, by what they are for.
PACKAGES = {
    "needed": (
        "jax", "jaxlib", "numpy", "ml_dtypes", "onnx", "onnx-ir", "onnxruntime", "protobuf", "pydantic", "typer",
        "rich", "jinja2",
    ),
    "frameworks": ("flax", "equinox", "dm-haiku", "optax", "keras", "torch", "onnxscript", "tensorflow"),
    "runtimes": (
        "onnxruntime-gpu", "onnxruntime-openvino", "onnxruntime-directml", "openvino", "tract", "playwright",
        "jax-cuda12-plugin", "jax-cuda13-plugin", "libtpu",
    ),
    "others": ("orbax-checkpoint", "safetensors", "msgpack", "netron", "model-signing", "distributed", "sympy"),
}  # fmt: skip
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome", "microsoft-edge", "firefox")
FEATURES = (
    "avx",
    "avx2",
    "fma",
    "f16c",
    "avx512f",
    "avx512_vnni",
    "avx_vnni",
    "avx512_bf16",
    "amx_int8",
    "asimd",
)
STAGES = ("import", "export", "load", "compare")  # of the check, in order
_SECONDS = 10.0  # that a program may take to tell its version
_CHECK_SECONDS = 300.0  # on a slow disk JAX alone takes most of a minute to import


@dataclass(frozen=True, slots=True)
class Machine:
    """The system and the processor; ``memory`` in bytes, None where the system does not say."""

    system: str
    cpu: str
    cores: int
    features: tuple[str, ...]
    memory: int | None


@dataclass(frozen=True, slots=True)
class Check:
    """An export of a small function, run in ONNX Runtime by a process of its own.

    Args:
        stage: the stage that failed, None when none did.
        message: what it said.
        devices: JAX's devices.
        providers: those that ONNX Runtime has.
    """

    passed: bool
    stage: str | None
    message: str
    seconds: float | None
    devices: tuple[str, ...]
    providers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BundleFault:
    """What a bundle says of itself: the first stage that failed, None when none did, and the record in text."""

    bundle: str
    stage: str | None
    failure: str | None
    message: str


@dataclass(frozen=True, slots=True)
class Environment:
    """Everything that a report of a fault needs."""

    onnxproof: str
    python: str
    machine: Machine
    packages: dict[str, dict[str, str]]
    web: dict[str, str | None]
    check: Check
    bundle: BundleFault | None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def environment(bundle: Path | None = None) -> Environment:
    """What is installed, whether it works, and what a bundle says."""
    from onnxproof.evidence.source import onnxproof_version

    return Environment(
        onnxproof=onnxproof_version(),
        python=f"{platform.python_version()} ({platform.python_implementation()}, {platform.architecture()[0]})",
        machine=machine(),
        packages=packages(),
        web=web(Path.cwd()),
        check=check(),
        bundle=None if bundle is None else fault_of(bundle),
    )


def packages() -> dict[str, dict[str, str]]:
    """Versions of the packages that are installed, by what they are for; nothing is imported."""
    found: dict[str, dict[str, str]] = {}
    for group, names in PACKAGES.items():
        found[group] = {}
        for name in names:
            try:
                found[group][name] = importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                if group == "needed":
                    found[group][name] = "missing"
    return found


def machine() -> Machine:
    """The machine that this process runs on."""
    from onnxproof.evidence.source import host

    here = host()
    said = platform.freedesktop_os_release().get("PRETTY_NAME", "") if sys.platform == "linux" else ""
    system = f"{platform.platform()}{f' ({said})' if said else ''}, {platform.machine()}"
    return Machine(system, here.cpu, here.cores, _features(), _memory())


def _features() -> tuple[str, ...]:
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return ()
    flags = next((line.split() for line in lines if line.lower().startswith(("flags", "features"))), [])
    return tuple(name for name in FEATURES if name in flags)


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not on every system
        return None


def web(folder: Path) -> dict[str, str | None]:
    """Versions of Node, of onnxruntime-web in a ``node_modules`` at or above ``folder``, and of a browser."""
    found: dict[str, str | None] = {"node": _version("node"), "onnxruntime-web": None}
    for place in (folder, *folder.parents):
        manifest = place / "node_modules" / "onnxruntime-web" / "package.json"
        if manifest.is_file():
            try:
                found["onnxruntime-web"] = str(json.loads(manifest.read_text())["version"])
            except (OSError, ValueError, KeyError):
                found["onnxruntime-web"] = "unreadable"
            break
    found["browser"] = next((v for v in map(_version, BROWSERS) if v is not None), None)
    return found


def _version(program: str) -> str | None:
    place = shutil.which(program)
    if place is None:
        return None
    try:
        done = subprocess.run(
            [place, "--version"], capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return f"{program}, which does not tell its version"
    lines = (done.stdout or done.stderr).strip().splitlines()
    return lines[0].strip()[:200] if lines else f"{program}, which does not tell its version"


def check() -> Check:
    """Export a small function, run it, compare; in a process of its own, since an installation may end it."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = apart.run("onnxproof.cli.selfcheck", {}, _CHECK_SECONDS, Path(folder))
        except subprocess.TimeoutExpired:
            return Check(False, "import", f"it takes longer than {_CHECK_SECONDS:g} seconds", None, (), ())
    facts = apart.facts(done)
    stage = next((s for s in STAGES if s not in facts.get("done", ())), None)
    passed = done.returncode == 0 and stage is None
    message = "" if passed else apart.last_words(done)
    return Check(
        passed,
        stage,
        message,
        facts.get("seconds"),
        tuple(facts.get("devices", ())),
        tuple(facts.get("providers", ())),
    )


def fault_of(bundle: Path) -> BundleFault:
    """What a bundle says of itself; one that can't be read says why."""
    from onnxproof.evidence.conform import read_bundle, summary_lines, verify_folder
    from onnxproof.evidence.record import STAGES as RECORDED

    try:
        record = read_bundle(bundle)
        verify_folder(record, bundle)
    except BrokenBundle as err:
        return BundleFault(str(bundle), "load", "hash-mismatch", str(err))
    except ConformanceError as err:
        return BundleFault(str(bundle), "read", "unreadable", str(err))
    stage = next((s for s in RECORDED if record.stages.of(s).status == "failed"), None)
    return BundleFault(str(bundle), stage, record.failure, "\n".join(summary_lines(record)))
