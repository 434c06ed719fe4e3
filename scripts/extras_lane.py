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
from pathlib import Path

import environments
from environments import ROOT

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


def tests(python: Path, output: Path) -> str:
    return environments.tests(python, output / "tests.xml", "-n", "2", *TESTS)


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
    python = environments.over(base, folder, *EXTRAS)
    for name, step in (("tests", tests), ("profiles", profiles)):
        started = time.monotonic()
        print(f"extras: {name}: {step(python, output)}, {time.monotonic() - started:.0f} s", flush=True)
    print(f"extras: {time.monotonic() - before:.0f} s; files are in {output}")


if __name__ == "__main__":
    main()
