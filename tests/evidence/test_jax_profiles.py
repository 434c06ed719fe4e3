"""The JAX profiles that ship: what they state, and a few of them run. ``make test-extras`` runs all."""

from __future__ import annotations

import json
import math
from pathlib import Path

import ml_dtypes
import pytest
from typer.testing import CliRunner

from onnxproof.cli import application
from onnxproof.errors import ConformanceError
from onnxproof.evidence import run_profile, validate_record, verify_artifacts
from onnxproof.evidence.profile import Profile, ProfileError, builtin, group, load, load_all
from onnxproof.evidence.record import BuilderConfig
from onnxproof.evidence.references.built import arrays_digest, imported
from onnxproof.models import ARCHITECTURES, build
from onnxproof.models.builder import DTYPES
from tests.evidence.faulty import profile as affine

JAX = group("jax")
RUN = ("mlp-bf16-jax", "gru-fp16-jax", "embedding-fp64-jax", "decoder-fp32-jax")


def test_each_architecture_in_each_dtype() -> None:
    stated = {
        (p.config.arguments["architecture"], p.dtype) for p in JAX if isinstance(p.config, BuilderConfig)
    }
    assert stated == {(a, d) for a in ARCHITECTURES for d in DTYPES}
    assert len(JAX) == len(stated)


@pytest.mark.parametrize("profile", JAX, ids=lambda p: p.name)
def test_settings(profile: Profile) -> None:
    config = profile.config
    assert isinstance(config, BuilderConfig)
    assert config.arguments["dtype"] == profile.dtype
    assert arrays_digest(imported(config.builder)(**config.arguments).weights) == config.weights_sha256
    batches = {case.shapes[0][0] for case in profile.cases}
    assert batches == {1, 2, 3, 7}
    assert {r.session["graph_optimization_level"] for r in profile.runtimes} == {
        "ORT_ENABLE_ALL",
        "ORT_DISABLE_ALL",
    }
    assert (profile.policy.refusals, profile.tolerances.nonfinite) == ("signature", "refused")
    roundings = profile.tolerances.atol / float(ml_dtypes.finfo(profile.dtype).eps)
    assert profile.tolerances.rtol == profile.tolerances.atol
    assert 1 <= roundings <= 16
    assert math.log2(roundings).is_integer()


@pytest.mark.parametrize("name", RUN)
def test_executed(tmp_path: Path, name: str) -> None:
    record = run_profile(name, tmp_path)
    assert validate_record(record) == []
    assert (record["level"], record["failure"]) == ("executed", None)
    assert record["model_state"] == {"parameters": True, "gradients": None, "modes": None}
    for run in (record, *record["other_runs"]):
        rejected = {c["kind"] for c in run["input_cases"] if c["outcome"] == "rejected"}
        assert rejected >= {"rank", "dtype"}
        assert all(o["oracle"] for c in run["input_cases"] for o in c["outputs"])
    verify_artifacts(record, tmp_path)
    trace = (tmp_path / name / "trace.json").read_text()
    assert "onnxproof/models/" in trace


def test_groups() -> None:
    assert [p.name for p in group("torch")] == ["feedfwd-fp32-dynamo", "feedfwd-fp32-torchscript"]
    assert load_all(["all"]) == list(builtin().values())
    assert load_all(["mlp-fp32-jax", "jax"])[0].name == "mlp-fp32-jax"
    assert len(load_all(["mlp-fp32-jax", "jax"])) == len(JAX)
    with pytest.raises(ProfileError, match="several profiles"):
        load("jax")


def test_list() -> None:
    done = CliRunner().invoke(application(), ["conform", "--list"])
    assert done.exit_code == 0
    assert all(name in done.output for name in builtin())


VARIANTS = """
format = "onnxproof.profiles/1"
{common}
[variants.one]
dtype = "float32"
tolerances = {{ rtol = 1e-5, atol = 1e-6 }}
[variants.two]
dtype = "float32"
policy = {{ case_seconds = 5.0 }}
"""


def test_file_of_several(tmp_path: Path) -> None:
    """What a variant states is laid over the rest of the file."""
    data = affine().settings()
    common = "\n".join(
        f"{key} = {_toml(value)}" for key, value in data.items() if key not in ("name", "dtype")
    )
    path = tmp_path / "several.toml"
    path.write_text(VARIANTS.format(common=common))
    one, two = load_all([path])
    assert (one.name, one.tolerances.atol, two.tolerances.atol) == ("one", 1e-6, 1e-5)
    assert (two.policy.case_seconds, two.policy.load_seconds) == (5.0, one.policy.load_seconds)
    assert one.cases == two.cases
    clash = tmp_path / "clash.toml"
    clash.write_text(path.read_text().replace("atol = 1e-6", "atol = 1e-3"))
    with pytest.raises(ProfileError, match="two profiles are called 'one'"):
        load_all([path, clash])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('format = "onnxproof.profiles/1"', "no table of"),
        ('format = "onnxproof.profiles/1"\n[variants]', "no table of"),
        ('format = "onnxproof.profiles/1"\n[variants]\none = 1', "not a table"),
        (
            'format = "onnxproof.profiles/1"\n[variants.one]\ndtype = "float32"',
            "'one' of several.toml is not",
        ),
    ],
)
def test_malformed_files(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "several.toml"
    path.write_text(text)
    with pytest.raises(ProfileError, match=message):
        load_all([path])


def test_other_weights(tmp_path: Path) -> None:
    """A profile whose weights are not those it states is an error, not a record."""
    mlp = builtin()["mlp-fp32-jax"]
    config = mlp.config.model_copy(update={"weights_sha256": "0" * 64})
    other = mlp.model_copy(update={"name": "mine", "config": config})
    with pytest.raises(ConformanceError, match="have SHA-256"):
        run_profile(other, tmp_path)


def test_unknown_model() -> None:
    with pytest.raises(ConformanceError, match="there is no 'mlp' in int8"):
        build("mlp", "int8", 1)


def _toml(value: object) -> str:
    """A JSON value as TOML has it; a null is left out of its table."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{k} = {_toml(v)}" for k, v in value.items() if v is not None) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(v) for v in value) + "]"
    return json.dumps(value)
