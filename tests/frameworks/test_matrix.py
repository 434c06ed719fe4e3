"""Every architecture in every framework: one file with symbolic dimensions, right at every size."""

from __future__ import annotations

import os
import subprocess
import sys

import onnx
import pytest

from tests.frameworks import matrix
from tests.frameworks.digests import digest

pytestmark = pytest.mark.parametrize("architecture", matrix.ARCHITECTURES)


@pytest.fixture(params=matrix.FRAMEWORKS)
def framework(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def test_matches_jax(framework: str, architecture: str, capfd: pytest.CaptureFixture[str]) -> None:
    proto = matrix.exported(framework, architecture)
    onnx.checker.check_model(proto, full_check=True)
    capfd.readouterr()
    sess = matrix.session(proto)
    for size, error in matrix.errors(matrix.built(framework, architecture), sess):
        assert error <= 1, f"{error:.2f} times the tolerance at (batch, time) {size}"
    assert capfd.readouterr().err == "", "ONNX Runtime has warnings"


def test_initializers(framework: str, architecture: str) -> None:
    proto = matrix.exported(framework, architecture)
    model = matrix.built(framework, architecture)
    tensors = {t.name: t for t in proto.graph.initializer}
    assert matrix.lost_names(proto, model) == [], "weights that have lost their names"
    assert matrix.unknown_names(proto, model.weights) == [], "names that say nothing"
    assert sorted(set(tensors) - matrix.used_names(proto.graph)) == [], "initializers that nothing reads"
    original = (set(tensors) & set(model.weights)) - matrix.derived_names(proto)
    assert [n for n in sorted(original) if not matrix.same_values(tensors[n], model.weights[n])] == []


def test_exports_are_equal(framework: str, architecture: str) -> None:
    again = matrix.export(matrix.built(framework, architecture), architecture)
    assert digest(again) == digest(matrix.exported(framework, architecture))


@pytest.fixture(scope="session")
def elsewhere() -> list[dict[str, str]]:
    """The digests that two fresh processes print, which hash strings differently."""
    command = [sys.executable, "-m", "tests.frameworks.digests"]
    running = [
        subprocess.Popen(
            command,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in ("1", "2")
    ]
    printed = [process.communicate(timeout=600)[0] for process in running]
    return [dict(line.split() for line in text.splitlines()) for text in printed]


def test_processes_agree(framework: str, architecture: str, elsewhere: list[dict[str, str]]) -> None:
    here = digest(matrix.exported(framework, architecture))
    assert [d.get(f"{framework}-{architecture}") for d in elsewhere] == [here, here]
