"""Write the lock file of the running interpreter: ``requirements/py311.txt`` on Python 3.11, and so on.

Usage: ``python3.11 scripts/lock.py`` (once for each interpreter that the tests run on). pip resolves the
package with its test and dev extras afresh, without looking at what is installed; only names and versions are
kept, so the file works with any index.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def resolve() -> list[str]:
    """``name==version`` of every distribution that the package and its extras need, sorted."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--dry-run",
        "--ignore-installed",
        "--quiet",
        "--report",
        "-",
    ]
    done = subprocess.run([*command, f"{ROOT}[test,dev]"], check=True, capture_output=True, text=True)
    found = [item["metadata"] for item in json.loads(done.stdout)["install"]]
    pins = {re.sub(r"[-_.]+", "-", meta["name"]).lower(): meta["version"] for meta in found}
    del pins["onnxproof"]
    return [f"{name}=={version}" for name, version in sorted(pins.items())]


def main() -> None:
    tag = f"{sys.version_info.major}{sys.version_info.minor}"
    path = ROOT / "requirements" / f"py{tag}.txt"
    path.parent.mkdir(exist_ok=True)
    pins = resolve()
    path.write_text(
        "# Made by scripts/lock.py; used by `make setup`.\n" + "".join(f"{pin}\n" for pin in pins)
    )
    print(f"{path.relative_to(ROOT)}: {len(pins)} pins")


if __name__ == "__main__":
    main()
