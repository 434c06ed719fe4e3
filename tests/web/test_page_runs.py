"""What docs/web.md shows works as written, in Node and in Chromium."""

from __future__ import annotations

from pathlib import Path

from tests.documents import ROOT, run_apart


def test_the_page_runs(tmp_path: Path) -> None:
    (tmp_path / "node_modules").symlink_to(ROOT / "web" / "node_modules")  # as after `npm install`
    run_apart("docs/web.md", tmp_path)
