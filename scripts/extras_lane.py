"""The lane of CI for what only some users install, in one environment that rests on the main one.

Usage: ``python3 scripts/extras_lane.py MAIN VENV OUTPUT [--all-profiles]``. MAIN is the environment of ``make
setup``; VENV sees its packages and gets those of the extras beside them.

1. Tests of the Dask executor, of signatures, of a proof on four runtimes, and of examples: an actor that is trained
   and plays, models of Keras and of safetensors; none is skipped.
2. JAX profiles that ship reach ``executed``, one of each architecture and several of each dtype; with
   ``--all-profiles`` every one. OUTPUT holds the report and the bundles.
"""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
import sys
import time
import tomllib
import venv
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXTRAS = ("dask", "sign", "openvino", "tract", "rl", "keras", "safetensors")
TESTS = (
    "tests/evidence_dask",
    "tests/evidence_sign",
    "tests/evidence_runtimes",
    "tests/examples_rl",
    "tests/examples_keras",
    "tests/examples_safetensors",
)

DTYPES = ("fp32", "fp16", "bf16", "fp64")


def make(main: Path, folder: Path) -> Path:
    """An environment in ``folder`` over that of ``main``, with the packages of the extras; its interpreter."""
    python = folder / "bin" / "python"
    venv.EnvBuilder(clear=True, with_pip=True, symlinks=True).create(folder)
    (packages,) = main.glob("lib/python*/site-packages")
    (own,) = folder.glob("lib/python*/site-packages")
    # A plain path would leave out the .pth files of the main environment, and with them this package.
    (own / "main.pth").write_text(f"import site; site.addsitedir({str(packages.resolve())!r})\n")
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    wanted = [requirement for extra in EXTRAS for requirement in listed[extra]]
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted)
    return python


def run(python: Path, *arguments: str) -> None:
    done = subprocess.run([str(python), *arguments], cwd=ROOT, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(arguments[:3])} ended with {done.returncode}")


def tests(python: Path, output: Path) -> str:
    junit = output / "tests.xml"
    run(python, "-m", "pytest", "-n", "2", *TESTS, f"--junitxml={junit}")
    suite = next(ElementTree.parse(junit).getroot().iter("testsuite"))
    ran, skipped = int(suite.attrib["tests"]), int(suite.attrib["skipped"])
    if skipped or not ran:
        sys.exit(f"{skipped} of {ran} tests were skipped")
    return f"{ran} tests, none skipped"


def chosen() -> list[str]:
    """The profiles to run: the dtype goes round from architecture to architecture."""
    if "--all-profiles" in sys.argv:
        return ["jax"]
    files = sorted((ROOT / "src/onnxproof/evidence/profiles").glob("*-jax.toml"))
    return [
        f"{file.stem.removesuffix('-jax')}-{dtype}-jax"
        for file, dtype in zip(files, itertools.cycle(DTYPES), strict=False)
    ]


def profiles(python: Path, output: Path) -> str:
    report = output / "jax.json"
    options = [part for name in chosen() for part in ("--profile", name)]
    options += ["--executor", "processes", "--output", str(report), "--force"]
    with open(output / "jax.txt", "w") as summary:
        done = subprocess.run(
            [str(python), "-m", "onnxproof", "conform", *options], cwd=ROOT, stdout=summary, check=False
        )
    records = json.loads(report.read_text())["profiles"] if report.is_file() else []
    levels = [r["level"] for r in records]
    if done.returncode or set(levels) != {"executed"}:
        bad = [f"{r['profile']} {r['level']} {r['failure']}" for r in records if r["level"] != "executed"]
        sys.exit(f"the JAX profiles ended with {done.returncode}: {', '.join(bad)}")
    return f"{len(levels)} JAX profiles executed"


def main() -> None:
    base, folder, output = (Path(argument) for argument in sys.argv[1:4])
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    before = time.monotonic()
    python = make(base, folder)
    for name, step in (("tests", tests), ("profiles", profiles)):
        started = time.monotonic()
        print(f"extras: {name}: {step(python, output)}, {time.monotonic() - started:.0f} s", flush=True)
    print(f"extras: {time.monotonic() - before:.0f} s; files are in {output}")


if __name__ == "__main__":
    main()
