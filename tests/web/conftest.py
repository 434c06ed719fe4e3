"""The npm package is looked for from the working folder: that of ``package.json``."""

from __future__ import annotations

from pathlib import Path

import pytest

WEB = Path(__file__).resolve().parent.parent.parent / "web"


@pytest.fixture(autouse=True)
def _in_web(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(WEB)
