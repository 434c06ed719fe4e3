"""Annotations of GitHub Actions: one workflow command for each thing that went wrong."""

from __future__ import annotations

from collections.abc import Sequence

from onnxproof.evidence.findings import complaints
from onnxproof.evidence.record import Record

MAX_MESSAGE = 1000


def github_lines(records: Sequence[Record]) -> list[str]:
    """Errors, then warnings where a known limit of a runtime showed, then one notice for each record."""
    lines = []
    for record in records:
        for c in complaints(record):
            place = ", ".join(p for p in (c.run, c.case) if p) or c.stage
            title = f"{record.profile}: {place}: {c.failure or 'known limit'}"
            lines.append(f"::{c.weight} title={_property(title)}::{_message(c.message)}")
    for record in records:
        verdict = f"{record.status}, level {record.level}" + (f", {record.failure}" if record.failure else "")
        lines.append(f"::notice title={_property(record.profile)}::{_message(verdict)}")
    return lines


def _message(text: str) -> str:
    return text[:MAX_MESSAGE].replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
