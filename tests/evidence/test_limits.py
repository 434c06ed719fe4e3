"""Known limits of runtimes: each is shown by a model, and explains what it may and nothing more."""

from __future__ import annotations

import pytest

from onnxproof.evidence.runtimes.limits import LIMITS
from tests.evidence.probes import PROBES, UNPROBED, ask

HERE = ("onnxruntime", "onnx-reference")  # runtimes that are dependencies


def test_every_limit_has_a_model() -> None:
    known = {(runtime, x.name) for runtime, limits in LIMITS.items() for x in limits}
    assert {(runtime, name) for runtime, name in known if runtime not in UNPROBED} == set(PROBES)


@pytest.mark.parametrize(("runtime", "limit"), [key for key in PROBES if key[0] in HERE])
def test_limit(runtime: str, limit: str) -> None:
    for probe in PROBES[runtime, limit]:
        answers = ask(runtime, probe)
        assert probe.shows(answers), answers
