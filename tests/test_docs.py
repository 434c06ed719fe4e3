"""What the documents show works as written."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_cli import SRC, onnxproof_command

ROOT = Path(__file__).resolve().parent.parent


def blocks(document: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", (ROOT / document).read_text(), re.MULTILINE | re.DOTALL)


def test_the_readme_example_runs(tmp_path: Path) -> None:
    (example,) = blocks("README.md", "python")
    (tmp_path / "example.py").write_text(example)
    env = {**os.environ, "PYTHONPATH": str(SRC)}
    done = subprocess.run(
        [sys.executable, "-W", "error", "example.py"],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "scores.onnx").is_file()
    command = "export example:scores -i query=B,64 -i keys=K,64 -o again.onnx"
    assert command.replace("again", "scores").replace("example", "mypackage.search") in "".join(
        blocks("README.md", "console")
    )
    again = onnxproof_command(tmp_path, *command.split())
    assert again.code == 0, again.err


def test_the_examples_of_evidence_run(tmp_path: Path) -> None:
    """One after the other, in one folder: the second reads what the first wrote."""
    env = {**os.environ, "PYTHONPATH": str(SRC)}
    for i, example in enumerate(blocks("docs/evidence.md", "python")):
        script = tmp_path / f"example_{i}.py"
        script.write_text(example)
        done = subprocess.run(
            [sys.executable, script.name], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    command = "verify model.evidence"
    assert command in "".join(blocks("docs/evidence.md", "console"))
    again = onnxproof_command(tmp_path, *command.split())
    assert again.code == 0, again.err


def test_the_example_of_quantize_runs(tmp_path: Path) -> None:
    (example,) = blocks("docs/quantize.md", "python")
    (tmp_path / "smaller.py").write_text(example)
    env = {**os.environ, "PYTHONPATH": str(SRC)}
    command = [sys.executable, "-W", "error", "smaller.py"]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for line in ("convert net.evidence --to bfloat16", "quantize net.evidence --mode int4 --json"):
        assert line in "".join(blocks("docs/quantize.md", "console"))
        again = onnxproof_command(tmp_path, *line.split())
        assert again.code == 0, again.err


@pytest.mark.parametrize(
    "document", ["README.md", "CONTRIBUTING.md", *(f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md"))]
)
def test_links_lead_somewhere(document: str) -> None:
    text = (ROOT / document).read_text()
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        if not target.startswith("https://"):
            assert ((ROOT / document).parent / target).exists(), f"{document} links to {target}"


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
def test_make_targets_exist(document: str) -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = re.findall(r"make ([a-z]+)", "".join(blocks(document, "console")))
    assert set(named) <= targets
