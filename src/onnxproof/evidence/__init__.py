"""What a runtime computes from a file, held against what the model computes.

Importing this imports neither ONNX nor a runtime nor a framework; calls import what they use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onnxproof.evidence.conform import execute as execute
    from onnxproof.evidence.conform import exit_code as exit_code
    from onnxproof.evidence.conform import run_profile as run_profile
    from onnxproof.evidence.conform import run_profiles as run_profiles
    from onnxproof.evidence.conform import save_report as save_report
    from onnxproof.evidence.conform import summary_lines as summary_lines
    from onnxproof.evidence.conform import verify_artifacts as verify_artifacts
    from onnxproof.evidence.profile import Profile as Profile
    from onnxproof.evidence.proof import verify as verify
    from onnxproof.evidence.record import Record as Record
    from onnxproof.evidence.record import Report as Report
    from onnxproof.evidence.references.built import Built as Built
    from onnxproof.evidence.validate import InvalidRecord as InvalidRecord
    from onnxproof.evidence.validate import read_record as read_record
    from onnxproof.evidence.validate import validate_record as validate_record
    from onnxproof.evidence.validate import validate_report as validate_report

_HOME = {
    "Built": "references.built",
    "InvalidRecord": "validate",
    "Profile": "profile",
    "Record": "record",
    "Report": "record",
    "execute": "conform",
    "exit_code": "conform",
    "read_record": "validate",
    "run_profile": "conform",
    "run_profiles": "conform",
    "save_report": "conform",
    "summary_lines": "conform",
    "validate_record": "validate",
    "validate_report": "validate",
    "verify": "proof",
    "verify_artifacts": "conform",
}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"onnxproof.evidence.{home}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
