"""Bundles that several tests look at, each made once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from onnxproof.evidence import Record, read_record, run_profile
from onnxproof.evidence.profile import RuntimeSpec
from tests.evidence.faulty import ORT, profile

PLAIN = ORT.model_copy(update={"session": {**ORT.session, "graph_optimization_level": "ORT_DISABLE_ALL"}})
REFERENCE = RuntimeSpec(name="onnx-reference", provider="numpy", session={})
CRASHES = RuntimeSpec(name="crashes", provider="cpu", session={})
CRASHING = {"crashes": "tests.evidence.misbehaving:Crashes"}


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a bundle for each name in :data:`records`."""
    folder = tmp_path_factory.mktemp("made")
    for name, exporter in (("good", "onnxproof"), ("wrong", "perturbed"), ("broken", "raising")):
        runtimes = [ORT, PLAIN, REFERENCE]
        run_profile(profile(exporter, name=name, runtimes=runtimes), folder, source_revision="abc123")
    run_profile(profile(name="crash", runtimes=[ORT, CRASHES]), folder, adapters=CRASHING)
    return folder


@pytest.fixture(scope="session")
def records(made: Path) -> Mapping[str, Record]:
    """A proof that passed in three runs, one with a wrong weight, one without a file, one with a crash."""
    names = ("good", "wrong", "broken", "crash")
    return {name: read_record((made / name / "record.json").read_bytes()) for name in names}
