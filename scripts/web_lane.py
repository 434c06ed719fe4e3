"""The lane of CI for browsers, in an environment that rests on the main one.

Usage: ``python3 scripts/web_lane.py MAIN VENV OUTPUT [PYTEST ARGUMENT …]``. MAIN is the environment of ``make setup``;
VENV sees its packages and gets those of the extra ``web`` beside them.

1. Where Node, npm or Chromium is missing and this is root on a Debian, they are installed; elsewhere that is an error.
2. The npm packages of ``web/package-lock.json``, without their scripts.
3. The tests of the web runtimes and of the proof page; none is skipped. OUTPUT holds their report.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import environments
from environments import ROOT

TESTS = ("tests/web", "tests/web_page")
PROGRAMS = {"node": "nodejs", "npm": "npm", "chromium": "chromium"}  # Debian's package of each


def programs() -> str:
    """Install what is missing of the programs."""
    wanted = [package for program, package in PROGRAMS.items() if shutil.which(program) is None]
    if not wanted:
        return "all here"
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        sys.exit(f"missing: {', '.join(wanted)}; as root: apt-get install {' '.join(wanted)}")
    apt = ["apt-get", "-o", "Acquire::Retries=3", "-qq"]
    for command in (["update"], ["install", "-y", "--no-install-recommends", *wanted]):
        subprocess.run([*apt, *command], check=True, stdout=subprocess.DEVNULL)
    return f"installed {', '.join(wanted)}"


def packages() -> str:
    """Install what the lock of ``web/`` lists."""
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]
    done = subprocess.run(command, cwd=ROOT / "web", check=False)
    if done.returncode:
        sys.exit(f"npm ci ended with {done.returncode}: are the packages of web/package-lock.json in reach?")
    return "npm packages"


def main() -> None:
    base, folder, output = (Path(argument) for argument in sys.argv[1:4])
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    before = time.monotonic()
    print(f"web: programs: {programs()}", flush=True)
    print(f"web: {packages()}, {time.monotonic() - before:.0f} s", flush=True)
    python = environments.over(base, folder, "web")
    said = environments.tests(python, output / "tests.xml", "-n", "2", *TESTS, *sys.argv[4:])
    print(f"web: tests: {said}", flush=True)
    print(f"web: {time.monotonic() - before:.0f} s; files are in {output}")


if __name__ == "__main__":
    main()
