"""The lane of CI for what users install: the wheel, in an environment that knows nothing of this folder.

Usage: ``python3 scripts/wheel_lane.py OUTPUT [--versions locked|minimum|newest]``.

1. Wheel and sdist are built twice, from copies of the tree in two places, and have the same bytes; a wheel that is
   built from the sdist has those of the wheel that is built from the tree. What they hold is checked.
2. The wheel goes into a new environment in a temporary folder, with the versions that ``requirements/`` pins
   (``locked``), the oldest that ``pyproject.toml`` allows (``minimum``), or the newest.
3. A new user's ten commands run there, each with its exit code and its time.
4. Those of our tests that need nothing but the wheel run from a copy; ``onnxproof`` is the installed one.

OUTPUT holds wheel and sdist, what the commands printed, and the report of the tests.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import resource
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import environments
from environments import LEAN, PIP, ROOT

TAG = f"{sys.version_info.major}{sys.version_info.minor}"
PARTS = """
    src tests docs examples benchmarks scripts schemas requirements web README.md CHANGELOG.md CONTRIBUTING.md
    SECURITY.md CITATION.cff LICENSE Makefile mkdocs.yml pyproject.toml
""".split()
EPOCH = "1735689600"  # 2025-01-01, the date of every file in both archives
TESTS = """
    tests/test_api.py tests/test_cli.py tests/test_contracts.py tests/test_page.py tests/test_reentrant.py
    tests/evidence/test_plugin.py tests/evidence/test_records.py tests/inspection
""".split()
# Not about the wheel: this one reads the folder src.
LEFT_OUT = ["tests/test_page.py::test_assets_need_nothing_from_elsewhere"]
# What older releases do otherwise.
BEYOND = {
    "minimum": [
        "tests/test_api.py::test_versions[28-10]",  # ONNX Runtime 1.27 loads opsets up to 26
        "tests/evidence/test_records.py::test_schemas_are_current",  # pydantic 2.10 writes them in another order
        "tests/test_page.py::test_page_is_written",  # the evaluator of onnx 1.20 loses the third output of LSTM
    ]
}
NEEDED = ("onnxproof/py.typed", "onnxproof/targets/ort_cpu.json", "onnxproof/page/assets/index.html")
MINE = '''"""A model of somebody's own."""

import jax
import jax.numpy as jnp

KERNEL = jax.random.normal(jax.random.key(0), (16, 4))


def classify(x):
    """Features (B, 16) to probabilities (B, 4)."""
    return jax.nn.softmax(jnp.tanh(x) @ KERNEL)
'''
COMMANDS = (
    "onnxproof --version",
    "onnxproof doctor",
    "onnxproof demo",
    "onnxproof export mine.py:classify -i x=B,16 -o mine.onnx",
    "onnxproof verify mine.evidence",
    "onnxproof inspect mine.onnx",
    "onnxproof explain mine.py:classify -i x=B,16 --bundle mine.evidence",
    "onnxproof report mine.evidence -o report.html --junit report.xml",
    "onnxproof quantize mine.evidence",
    "onnxproof conform --list",
)
SECONDS = 300  # for the ten commands, installing included


def run(*command: str | Path, cwd: Path, log: Path | None = None, **env: str) -> str:
    """What a command prints; its failure ends the lane."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**clean_environment(), **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if log is not None:
        log.write_text(done.stdout)
    if done.returncode:
        print(done.stdout, end="")
        sys.exit(f"{' '.join(str(part) for part in command[:6])} ended with {done.returncode}")
    return done.stdout


def clean_environment() -> dict[str, str]:
    """Ours without what would let Python find this folder."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def install(python: Path, *wanted: str | Path, pip: Sequence[str] = LEAN) -> None:
    run(python, *pip, *wanted, cwd=python.parent)


def copied(into: Path, origin: Path = ROOT) -> Path:
    """The tree as a checkout has it, with new dates."""
    ignored = shutil.ignore_patterns("node_modules", "__pycache__", "*.egg-info", ".*")
    into.mkdir(parents=True)
    for name in PARTS:
        source, target = origin / name, into / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=ignored, copy_function=shutil.copyfile)
        elif source.exists():
            shutil.copyfile(source, target)
    return into


def built(python: Path, tree: Path, output: Path, *kinds: str) -> dict[str, str]:
    """SHA-256 of the archives by name; without ``kinds`` the wheel is made from the sdist."""
    command = (python, "-m", "build", "--no-isolation", "--outdir", output, *kinds, tree)
    run(*command, cwd=tree, SOURCE_DATE_EPOCH=EPOCH)
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(output.iterdir())}


def packages(scratch: Path, output: Path) -> str:
    """Step 1."""
    python = environments.create(scratch / "builder")
    install(python, "build", "hatchling")
    first = built(python, copied(scratch / "one"), output / "dist")
    other = copied(scratch / "elsewhere" / "two", scratch / "one")
    second = built(python, other, scratch / "again", "--sdist", "--wheel")
    if first != second:
        sys.exit(f"two builds differ: {first} and {second}")
    (wheel,), (sdist,) = (output / "dist").glob("*.whl"), (output / "dist").glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    strangers = [n for n in names if not n.startswith(("onnxproof/", "onnxproof-"))]
    if strangers or not names.issuperset(NEEDED):
        sys.exit(f"the wheel holds {strangers}, and lacks {set(NEEDED) - names}")
    with tarfile.open(sdist) as archive:
        held = {n.partition("/")[2].partition("/")[0] for n in archive.getnames()}
    if missing := {p for p in PARTS if (ROOT / p).exists()} - held:
        sys.exit(f"the sdist lacks {sorted(missing)}")
    size = sum(p.stat().st_size for p in (wheel, sdist)) / 2**20
    return f"equal bytes from two places, {len(names)} files in the wheel, {size:.1f} MiB with the sdist"


def constraints(versions: str) -> list[str | Path]:
    pins = {"locked": f"py{TAG}.txt", "minimum": "minimum.txt"}.get(versions)
    path = ROOT / "requirements" / pins if pins else None
    if path is not None and not path.exists():
        sys.exit(f"requirements/{pins} is not there: Python {TAG} has no pins; give --versions newest")
    return ["-c", path] if path else ["--upgrade"]


def commands(python: Path, work: Path, output: Path) -> str:
    """Step 3."""
    (work / "mine.py").write_text(MINE)
    for number, line in enumerate(COMMANDS):
        program, *arguments = line.split()
        started = time.monotonic()
        log = output / f"command-{number}.txt"
        run(python.parent / program, *arguments, cwd=work, log=log)
        print(f"wheel:   {time.monotonic() - started:5.1f} s  exit 0  {line}", flush=True)
    for name in ("mine.onnx", "mine.evidence", "report.html", "report.xml", "demo-output/digits.onnx"):
        if not (work / name).exists():
            sys.exit(f"the commands left no {name}")
    return f"{len(COMMANDS)} commands"


def tests(python: Path, work: Path, output: Path, versions: str) -> str:
    """Step 4."""
    copied(work)
    shutil.rmtree(work / "src")
    (work / "pyproject.toml").unlink()
    (work / "pytest.ini").write_text("[pytest]\npythonpath = .\naddopts = -q\n")
    code = "import onnxproof, pathlib; print(pathlib.Path(onnxproof.__file__).parent.parent)"
    place = Path(run(python, "-c", code, cwd=work).strip())
    if place.resolve().parent.parent.parent != python.parent.parent.resolve():
        sys.exit(f"onnxproof was imported from {place}, which is not the environment")
    junit = output / "tests.xml"
    left_out = [f"--deselect={name}" for name in [*LEFT_OUT, *BEYOND.get(versions, [])]]
    command = (python, "-m", "pytest", "-n", "2", *TESTS, *left_out, f"--junitxml={junit}")
    run(*command, cwd=work, log=output / "tests.txt")
    ran, skipped = environments.counts(junit)
    if not ran:
        sys.exit("no test ran")
    return f"{ran} tests against the installed wheel, {skipped} skipped"


def installed(python: Path, wheel: Path, versions: str) -> str:
    """Step 2."""
    wanted = f"onnxproof[demo] @ {wheel.resolve().as_uri()}"
    install(python, *constraints(versions), wanted, pip=PIP)  # as users do: the time counts
    code = "from importlib.metadata import version as v; print(*(f'{n} {v(n)}' for n in %r), sep=', ')"
    return run(
        python, "-c", code % ("jax numpy onnx onnx-ir onnxruntime pydantic typer".split(),), cwd=wheel.parent
    ).strip()


def spent() -> float:
    """Seconds of the processor in all commands so far: other work on the machine does not count."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def said(step: Callable[..., str], *arguments: Path | str) -> None:
    """Take a step, and print what came of it."""
    started, before = time.monotonic(), spent()
    found = step(*arguments)
    times = f"{time.monotonic() - started:.0f} s, {spent() - before:.0f} s of the processor"
    print(f"wheel: {step.__name__}: {found}, {times}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("--versions", choices=("locked", "minimum", "newest"), default="locked")
    given = parser.parse_args()
    output, before = given.output.resolve(), time.monotonic()
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        said(packages, scratch, output)
        (wheel,) = (output / "dist").glob("*.whl")
        python, user = environments.create(scratch / "user"), scratch / "work"
        user.mkdir()
        started = spent()
        said(installed, python, wheel, given.versions)
        said(commands, python, user, output)
        if (seconds := spent() - started) > SECONDS:
            sys.exit(
                f"installing and ten commands took {seconds:.0f} s of the processor, more than {SECONDS}"
            )
        more = ("pytest", "pytest-xdist", "hypothesis", "equinox")
        install(python, *constraints(given.versions), *more)
        said(tests, python, scratch / "tested", output, given.versions)
    print(f"wheel: {time.monotonic() - before:.0f} s in all; files are in {given.output}")


if __name__ == "__main__":
    main()
