"""The ``onnxproof`` command as people run it: in a process of its own, in a folder of their own."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest

import onnxproof
from onnxproof.evidence import read_record, verify_artifacts
from onnxproof.evidence.references.built import arrays_digest

SRC = Path(onnxproof.__file__).resolve().parent.parent

MODELS = """
from dataclasses import dataclass

import jax
import jax.numpy as jnp


def fn(x, mask):
    return jnp.tanh(x), mask


def pair(x, *, scale):
    return x * scale


def batch(batch):
    return batch["image"] + batch["offset"]


def build():
    weight = jnp.arange(12.0).reshape(3, 4)
    return lambda x: x @ weight


class Net:
    def __init__(self):
        self.weight = jnp.ones((3, 4))

    def __call__(self, x):
        return x @ self.weight

    def doubled(self, x):
        return 2 * self(x)


net = Net()
number = 3


def raises(x):
    raise RuntimeError("no luck today")


def broken_builder():
    raise RuntimeError("no weights here")


def prints(x):
    jax.debug.print("x is {}", x)
    return x + 1


class Fickle:
    def __call__(self, x):
        return x * (2.0 if "B" in str(x.shape) else 3.0)


def only_traced(x):
    if "B" not in str(x.shape):
        raise RuntimeError("no numbers today")
    return x
"""


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


def onnxproof_command(folder: Path, *args: str) -> Done:
    # As the installed script runs, which has not the current folder on its path.
    env = {
        **os.environ,
        "PYTHONPATH": str(SRC),
        "PYTHONSAFEPATH": "1",
        "COLUMNS": "200",
        "NO_COLOR": "1",
    }
    done = subprocess.run(
        [sys.executable, "-m", "onnxproof", *args],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    package = tmp_path / "pkg"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "models.py").write_text(MODELS)
    (package / "fails.py").write_text("import a_package_that_is_not_there\n")
    return tmp_path


def shapes(path: Path) -> dict[str, list[int | str]]:
    """Dimensions of every graph input and output by name."""
    graph = onnx.load(path).graph
    return {
        v.name: [d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim]
        for v in (*graph.input, *graph.output)
    }


def test_version(tmp_path: Path) -> None:
    done = onnxproof_command(tmp_path, "--version")
    assert (done.code, done.out) == (0, f"onnxproof {onnxproof.__version__}\n")


def test_a_group_without_a_command_shows_its_help(tmp_path: Path) -> None:
    done = onnxproof_command(tmp_path, "weights")
    assert (done.code, done.err) == (2, "")
    assert "swap" in done.out


def test_a_closed_stdout(tmp_path: Path) -> None:
    program = f"{sys.executable} -m onnxproof --version >&-"
    env = {**os.environ, "PYTHONPATH": str(SRC)}
    done = subprocess.run(
        ["sh", "-c", program], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_earlier_evidence_is_told_apart(folder: Path) -> None:
    arguments = ["export", "pkg.models:fn", "-i", "x=B,3", "-i", "mask=B,3:bool", "-o", "m.onnx"]
    assert onnxproof_command(folder, *arguments).code == 0
    again = onnxproof_command(folder, *arguments, "--no-prove", "--json")
    assert again.code == 0
    json.loads(again.out)
    assert "m.evidence is of an earlier file" in again.err


def test_help_names_the_commands(tmp_path: Path) -> None:
    done = onnxproof_command(tmp_path, "--help")
    assert done.code == 0
    assert "export" in done.out
    assert "demo" in done.out


def test_export_writes_a_model_that_runs_and_a_summary(folder: Path) -> None:
    done = onnxproof_command(
        folder, "export", "pkg.models:fn", "-i", "x=B,16", "-i", "mask=B,T:bool", "-o", "model.onnx"
    )
    assert done.code == 0, done.err
    for text in ("x  float32[B, 16]", "mask  bool[B, T]", "opset", "Tanh 1", "model.onnx"):
        assert text in done.out
    session = ort.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
    x = np.linspace(-2, 2, 48, dtype=np.float32).reshape(3, 16)
    out, mask = session.run(None, {"x": x, "mask": np.ones((3, 5), bool)})
    np.testing.assert_allclose(out, np.tanh(x), rtol=1e-6)
    assert mask.shape == (3, 5)


@dataclass(frozen=True)
class Row:
    """Arguments of ``export`` after the target, and the shapes that the file must declare."""

    target: str
    args: Sequence[str]
    shapes: dict[str, list[int | str]]


ROWS = {
    "builder": Row("pkg.models:build", ["-i", "x=B,3"], {"x": ["B", 3], "output": ["B", 4]}),
    "class": Row("pkg.models:Net", ["-i", "x=B,3"], {"x": ["B", 3], "output": ["B", 4]}),
    "object": Row("pkg.models:net", ["-i", "x=2,3"], {"x": [2, 3], "output": [2, 4]}),
    "method": Row("pkg.models:net.doubled", ["-i", "B,3"], {"x": ["B", 3], "output": ["B", 4]}),
    "file": Row("pkg/models.py:net", ["-i", "x=B,3"], {"x": ["B", 3], "output": ["B", 4]}),
    "renamed": Row(
        "pkg.models:net",
        ["-i", "image=B,3", "--output-name", "logits"],
        {"image": ["B", 3], "logits": ["B", 4]},
    ),
    "any order": Row(
        "pkg.models:fn",
        ["-i", "mask=B:bool", "-i", "x=B,2*T"],
        {"x": ["B", "2*T"], "mask": ["B"], "output.0": ["B", "2*T"], "output.1": ["B"]},
    ),
    "fixed": Row("pkg.models:pair", ["-i", "x=B", "--fix", "scale=2.5"], {"x": ["B"], "output": ["B"]}),
    "keyword": Row(
        "pkg.models:pair", ["-i", "x=B", "-i", "scale="], {"x": ["B"], "scale": [], "output": ["B"]}
    ),
    "dict": Row(
        "pkg.models:batch",
        ["-i", "batch.image=B,4", "-i", "batch.offset=4"],
        {"batch.image": ["B", 4], "batch.offset": [4], "output": ["B", 4]},
    ),
    "channels first": Row(
        "pkg.models:net", ["-i", "x=B,6,3", "--input-nchw", "0"], {"x": ["B", 3, 6], "output": ["B", 6, 4]}
    ),
    "constraint": Row(
        "pkg.models:pair",
        ["-i", "x=B,T-1", "-i", "scale=T-1", "--constraint", "T >= 9", "--constraint", "B >= 2*T"],
        {"x": ["B", "T - 1"], "scale": ["T - 1"], "output": ["B", "T - 1"]},
    ),
    "dropped effect": Row(
        "pkg.models:prints", ["-i", "x=B", "--drop-effect", "debug"], {"x": ["B"], "output": ["B"]}
    ),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=list(ROWS))
def test_export(folder: Path, row: Row) -> None:
    done = onnxproof_command(folder, "export", row.target, *row.args, "-o", "out.onnx", "--json")
    assert done.code == 0, done.err
    proof = json.loads(done.out)["proof"]
    assert (proof["level"], proof["failure"], proof["evidence"]) == ("executed", None, "out.evidence")
    assert shapes(folder / "out.onnx") == row.shapes


def test_evidence(folder: Path) -> None:
    """Each dimension takes several sizes, apart from the other's; an earlier proof is replaced."""
    for _ in range(2):
        done = onnxproof_command(folder, "export", "pkg.models:fn", "-i", "x=B,T", "-i", "mask=T:bool")
        assert done.code == 0, done.err
        assert "executed, 8 cases, largest error" in done.out
    record = read_record((folder / "fn.evidence" / "record.json").read_bytes())
    verify_artifacts(record, folder)
    assert [c.shape for c in record.input_cases if c.kind == "values"] == [[1, 2], [2, 3], [3, 7], [7, 1]]
    assert (record.exporter.name, record.opset.requested) == ("onnxproof", 23)
    assert record.exporter.options["inputs"] == ["x=B,T", "mask=T:bool"]
    model = next(f for f in record.artifacts.files if f.role == "model")
    assert model.sha256 == hashlib.sha256((folder / "fn.onnx").read_bytes()).hexdigest()
    assert onnxproof_command(folder, "verify", "fn.evidence").code == 0


def test_no_evidence(folder: Path) -> None:
    done = onnxproof_command(folder, "export", "pkg.models:net", "-i", "x=B,3", "--no-prove", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["proof"] is None
    assert not (folder / "net.evidence").exists()


def test_a_failed_proof_has_its_exit_code(folder: Path) -> None:
    done = onnxproof_command(folder, "export", "pkg.models:Fickle", "-i", "x=B")
    assert done.code == 16
    assert "structural, mismatch" in done.out
    assert "B-7: mismatch" in done.err
    assert (folder / "Fickle.onnx").is_file()
    record = read_record((folder / "Fickle.evidence" / "record.json").read_bytes())
    assert record.failure == "mismatch"


def test_a_callable_that_does_not_run(folder: Path) -> None:
    done = onnxproof_command(folder, "export", "pkg.models:only_traced", "-i", "x=B")
    assert (done.code, done.out) == (1, "")
    assert "no numbers today" in done.err
    assert "onnxproof itself failed" not in done.err


def test_what_is_no_evidence_stays(folder: Path) -> None:
    (folder / "net.evidence").mkdir()
    (folder / "net.evidence" / "notes.txt").touch()
    done = onnxproof_command(folder, "export", "pkg.models:net", "-i", "x=B,3")
    assert done.code == 1
    assert "net.evidence" in done.err
    assert not (folder / "net.onnx").exists()
    assert onnxproof_command(folder, "export", "pkg.models:net", "-i", "x=B,3", "--no-prove").code == 0
    assert (folder / "net.evidence" / "notes.txt").is_file()


def test_export_options_reach_the_file(folder: Path) -> None:
    done = onnxproof_command(
        folder, "export", "pkg.models:net", "-i", "x=B,3", "--opset", "18", "--double", "--external-data",
        "--model-name", "tiny", "--strip-provenance", "--json",
    )  # fmt: skip
    assert done.code == 0, done.err
    facts = json.loads(done.out)
    assert facts["opset"] == 18
    assert facts["name"] == "tiny"
    assert facts["inputs"] == [{"name": "x", "dtype": "float64", "shape": ["B", 3]}]
    assert list(facts["files"]) == ["net.onnx", "net.onnx.data"]
    assert facts["files"]["net.onnx.data"] == (folder / "net.onnx.data").stat().st_size
    model = onnx.load(folder / "net.onnx")
    assert model.graph.name == "tiny"
    assert not any(node.metadata_props for node in model.graph.node)


WRONG = {  # arguments, exit code, words that the message must hold
    "no colon": (["pkg.models"], 2, ["MODULE:NAME"]),
    "no module": (["pkg.modles:fn"], 2, ["pkg.modles"]),
    "no name": (["pkg.models:nett"], 2, ["nett", "net"]),
    "no shape": (["pkg.models:net", "-i", "x"], 2, ["x=B,16"]),
    "no dtype": (["pkg.models:fn", "-i", "x=B:floot"], 2, ["floot"]),
    "64 bits": (["pkg.models:net", "-i", "x=B,3:float64"], 2, ["--double"]),
    "unknown input": (["pkg.models:fn", "-i", "x=B", "-i", "msk=B"], 2, ["msk", "mask"]),
    "twice": (["pkg.models:net", "-i", "x=B,3", "-i", "x=B,3"], 2, ["twice"]),
    "unknown option": (["pkg.models:net", "--no-such-thing"], 2, ["--no-such-thing"]),
    "not callable": (["pkg.models:number", "-i", "x=B"], 1, ["int"]),
    "import fails": (["pkg.fails:fn"], 1, ["a_package_that_is_not_there"]),
    "builder fails": (["pkg.models:broken_builder", "-i", "x=B"], 1, ["no weights here", "models.py:"]),
    "callable fails": (["pkg.models:raises", "-i", "x=B"], 1, ["no luck today", "models.py:"]),
    "effect": (["pkg.models:prints", "-i", "x=B"], 1, ["debug"]),
    "opset": (["pkg.models:net", "-i", "x=B,3", "--opset", "3"], 1, ["opset=3"]),
    "no folder": (["pkg.models:net", "-i", "x=B,3", "-o", "nowhere/out.onnx"], 1, ["nowhere"]),
}


@pytest.mark.parametrize(("args", "code", "words"), WRONG.values(), ids=list(WRONG))
def test_errors_are_short_and_leave_no_file(
    folder: Path, args: list[str], code: int, words: list[str]
) -> None:
    before = sorted(folder.rglob("*.onnx*"))
    done = onnxproof_command(folder, "export", *args)
    assert done.code == code, done.out + done.err
    assert done.out == ""
    assert "Traceback" not in done.err
    assert "onnxproof itself failed" not in done.err
    assert all(word in done.err for word in words), done.err
    assert sorted(folder.rglob("*.onnx*")) == before


def test_debug_shows_the_traceback(folder: Path) -> None:
    done = onnxproof_command(folder, "export", "pkg.models:raises", "-i", "x=B", "--debug")
    assert done.code == 1
    assert "Traceback" in done.err
    assert "no luck today" in done.err


CLAIMS = """
import numpy as np

from onnxproof.evidence import Built


def build(scale):
    kernel = np.full((4, 2), scale, np.float32)
    return Built(lambda x: x @ kernel, inputs=[("B", 4)], weights={"kernel": kernel})
"""
PROFILE = """
format = "onnxproof.profile/1"
name = "claim"
dtype = "float32"
opset = 23

[config]
net = "builder"
builder = "claims:build"
arguments = { scale = 0.5 }
weights_sha256 = "DIGEST"

[exporter]
name = "onnxproof"
options = {}

[[runtimes]]
name = "onnxruntime"
provider = "CPUExecutionProvider"
session = { intra_op_num_threads = 1 }

[[cases]]
name = "one"
kind = "values"
shapes = [[1, 4]]
seed = 1
expect = "match"

[tolerances]
rtol = 1e-6
atol = 1e-6
nonfinite = "refused"

[policy]
refusals = "signature"
load_seconds = 60.0
case_seconds = 60.0
memory_bytes = 8589934592
"""


@pytest.mark.parametrize("more", [[], ["--executor", "processes:2"]], ids=["here", "jobs"])
def test_a_profile_names_functions_of_the_current_folder(tmp_path: Path, more: list[str]) -> None:
    digest = arrays_digest({"kernel": np.full((4, 2), 0.5, np.float32)})
    (tmp_path / "claim.toml").write_text(PROFILE.replace("DIGEST", digest))
    lacking = onnxproof_command(tmp_path, "conform", "--profile", "claim.toml", *more)
    assert lacking.code == 1
    assert "'claims:build' can't be imported" in lacking.err
    assert "PYTHONPATH" in lacking.err
    (tmp_path / "claims.py").write_text(CLAIMS)
    done = onnxproof_command(tmp_path, "conform", "--profile", "claim.toml", "-o", "r.json", *more)
    assert done.code == 0, done.out + done.err
    assert "claim: passed" in done.out
