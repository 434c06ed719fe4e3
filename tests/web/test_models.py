"""Ten models match JAX in Node and in Chromium, at several sizes from one file each."""

from __future__ import annotations

import pytest

from tests.web.models import MODELS, PLACES, Running


@pytest.mark.parametrize("provider", ["wasm", "webgpu"])
def test_models(provider: str) -> None:
    for place in PLACES:
        if place.make.provider != provider:
            continue
        with Running(place) as running:
            for name in MODELS:
                facts = running.load(name)
                assert provider == "wasm" or facts["placement"].get("WebGpuExecutionProvider"), (name, facts)
                outcomes = list(running.outcomes(name))
                assert len(outcomes) >= 4
                assert all(outcome.excess <= 1 for outcome in outcomes), (place, name, outcomes)
