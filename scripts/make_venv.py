"""Make the project's virtual environment; run by ``make setup`` with any Python 3.11 or newer.

Usage: ``python3 scripts/make_venv.py FOLDER``. An environment of another Python version in FOLDER is
replaced; one of the same version is brought up to date.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TAG = f"{sys.version_info.major}.{sys.version_info.minor}"


def matches(folder: Path) -> bool:
    """Whether ``folder`` holds a working environment of this Python version."""
    python = folder / "bin" / "python"
    if not python.exists():
        return False
    code = "import sys, pip; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip() == TAG


def main(folder: Path) -> None:
    if sys.version_info < (3, 11):
        sys.exit(
            f"onnxproof needs Python 3.11 or newer; this is {TAG}. Give one: make setup PYTHON=python3.12"
        )
    if not matches(folder):
        print(f"Making {folder} with Python {TAG} ...", flush=True)
        venv.EnvBuilder(clear=True, with_pip=True, symlinks=True).create(folder)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    pip.append("--no-compile")  # a module is compiled when it is imported: most never are
    lock = ROOT / "requirements" / f"py{TAG.replace('.', '')}.txt"
    if lock.exists():
        print(f"Installing the packages that {lock.relative_to(ROOT)} pins (a minute or two) ...", flush=True)
        subprocess.run([*pip, "-r", str(lock)], check=True)
        subprocess.run([*pip, "--no-deps", "--no-build-isolation", "-e", str(ROOT)], check=True)
    else:
        print(f"Python {TAG} has no lock file: installing the newest versions that fit ...", flush=True)
        subprocess.run([*pip, "-e", f"{ROOT}[test,dev]"], check=True)
    print(f"{folder} is ready.", flush=True)


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except subprocess.CalledProcessError as err:
        sys.exit(f"The environment could not be made: {' '.join(err.cmd)} failed ({err.returncode}).")
