"""What people get wrong on the command line: each ends with one paragraph, an exit code, and nothing half-written."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.test_cli import SRC

MODELS = """
import time

import jax
import jax.numpy as jnp
import numpy

weight = jnp.ones((300, 300))
number = 3


def good(x):
    return jnp.tanh(x) * 2


def large(x):
    return x @ weight


def add(x, y):
    return x + y


def counts(x):
    return sum(range(x.shape[0])) + x


def outside(x):
    return numpy.sin(x)


class Scaled:
    def __init__(self, scale):
        self.scale = scale

    def __call__(self, x):
        return x * self.scale


def raises(x):
    raise RuntimeError("no luck today")


def foreign(x):
    return jax.ffi.ffi_call("a_kernel", jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


def callback(x):
    return jax.pure_callback(lambda a: a, jax.ShapeDtypeStruct(x.shape, x.dtype), x)


def slow_to_trace(x):
    open("started", "w").close()
    time.sleep(60)
    return x


def slow_to_run(x):
    if "B" not in str(x.shape):
        open("started", "w").close()
        time.sleep(60)
    return x
"""
# Packages that some people lack: hidden, so that the rows hold wherever the tests run.
HIDE = """
import sys

for name in ("torch", "flax", "optax", "openvino", "netron", "safetensors", "model_signing"):
    sys.modules[name] = None
"""


@dataclass(frozen=True)
class Row:
    """A wrong use.

    Args:
        args: of the command.
        code: that it exits with.
        words: that stderr holds: what is wrong, where, and the way out.
        left: files that are new afterwards, below the working folder.
        says: words on stdout, where the command has a result to show.
        prepare: makes what the use needs.
    """

    args: Sequence[str]
    code: int
    words: Sequence[str]
    left: Sequence[str] = ()
    says: Sequence[str] = ()
    prepare: Callable[[Path], None] = field(default=lambda folder: None)


def environment() -> dict[str, str]:
    path = os.pathsep.join((str(SRC), "hidden"))
    return {
        **os.environ,
        "PYTHONPATH": path,
        "PYTHONSAFEPATH": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "NO_COLOR": "1",
    }


def run(folder: Path, args: Sequence[str], limit: int | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command; ``limit`` is the size of the largest file that it may write, in bytes."""
    code = "import resource, runpy, sys\n"
    if limit is not None:
        code += f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))\n"
    code += "runpy.run_module('onnxproof', run_name='__main__', alter_sys=True)"
    return subprocess.run(
        [sys.executable, "-c", code, *args],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with code, a model and its evidence."""
    folder = tmp_path_factory.mktemp("template")
    (folder / "models.py").write_text(MODELS)
    (folder / "broken.py").write_text("import a_package_that_is_not_there\n")
    (folder / "syntax.py").write_text("def fn(x:\n")
    (folder / "script.py").write_text("raise SystemExit(3)\n")
    (folder / "hidden").mkdir()
    (folder / "hidden" / "sitecustomize.py").write_text(HIDE)
    done = run(folder, ["export", "models:good", "-i", "x=B,4", "-o", "good.onnx"])
    assert done.returncode == 0, done.stderr
    (folder / "cut.onnx").write_bytes((folder / "good.onnx").read_bytes()[:100])
    return folder


@pytest.fixture
def folder(template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(template, tmp_path / "work"))


def truncated(folder: Path) -> None:
    model = folder / "good.evidence" / "model.onnx"
    model.write_bytes(model.read_bytes()[:20])


def unreadable(folder: Path) -> None:
    """A folder where a file belongs: whoever runs this may have every permission."""
    (folder / "good.evidence" / "record.json").unlink()
    (folder / "good.evidence" / "record.json").mkdir()


def doctored(folder: Path) -> None:
    record = folder / "good.evidence" / "record.json"
    record.write_text(record.read_text().replace('"executed"', '"structural"'))


def no_weights(folder: Path) -> None:
    tensor = onnx.numpy_helper.from_array(np.ones(4, np.float32), "w")
    node = helper.make_node("Add", ["x", "w"], ["y"])
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["B", 4]) for n in ("x", "y")]
    model = helper.make_model(
        helper.make_graph([node], "g", ports[:1], ports[1:], [tensor]),
        opset_imports=[helper.make_opsetid("", 21)],
        ir_version=10,
    )
    place = {"save_as_external_data": True, "location": "gone.data", "size_threshold": 0}
    onnx.save(model, folder / "beside.onnx", **place)  # type: ignore[arg-type]
    (folder / "gone.data").unlink()


def device(folder: Path) -> None:
    """What is there and is no file: a pipe here, as a device would be."""
    os.mkfifo(folder / "pipe.onnx")


def files(folder: Path) -> set[str]:
    """Every file and folder below ``folder``, hidden ones too."""
    return {str(p.relative_to(folder)) for p in folder.rglob("*")}


EXPORT = ("export", "models:good", "-i", "x=B,4", "-o", "new.onnx")
ROWS = {
    "no command": Row(["exprot", "models:good"], 2, ["exprot", "export", "--help"]),
    "no option": Row([*EXPORT, "--opsett", "21"], 2, ["--opsett", "--opset"]),
    "no number": Row([*EXPORT, "--opset", "new"], 2, ["--opset", "valid integer"]),
    "no module": Row(["export", "modles:good"], 2, ["modles"]),
    "no attribute": Row(["export", "models:god"], 2, ["god", "did you mean good"]),
    "no name": Row(["export", "models"], 2, ["pkg.module:name"]),
    "no package": Row(["export", "broken:fn"], 1, ["a_package_that_is_not_there", "broken.py:1"]),
    "syntax": Row(["export", "syntax.py:fn"], 1, ["SyntaxError", "syntax.py:1"]),
    "a script": Row(["export", "script:fn"], 1, ["exit code 3", "script.py:1", "__main__"]),
    "no arguments": Row(["export", "models:Scaled", "-i", "x=B"], 1, ["'scale'", "--debug"]),
    "a size as a number": Row(
        ["export", "models:counts", "-i", "x=B"], 1, ["as a number", "models.py:", "fori_loop"]
    ),
    "NumPy": Row(["export", "models:outside", "-i", "x=B"], 1, ["jax.numpy", "models.py:"]),
    "not callable": Row(["export", "models:number", "-i", "x=B"], 1, ["int", "can't be called", "function"]),
    "raises": Row(["export", "models:raises", "-i", "x=B"], 1, ["no luck today", "models.py:"]),
    "no input": Row(["export", "models:good"], 2, ["'x'", "-i"]),
    "spec": Row(["export", "models:good", "-i", "x=B,,4"], 2, ["x=B,,4", "x=B,16"]),
    "dimension": Row(["export", "models:good", "-i", "x=B+,4"], 1, ["B+", "2*T"]),
    "large dimension": Row([*EXPORT[:2], "-i", "x=99999999999999999999,4"], 1, ["'x'", "2**63"]),
    "no name for a dimension": Row([*EXPORT[:2], "-i", "x=None,4"], 1, ["'None'", '("B", 16)']),
    "dtype": Row(["export", "models:good", "-i", "x=B:floot"], 2, ["floot", "float32"]),
    "64 bits": Row(["export", "models:good", "-i", "x=B:float64"], 2, ["--double"]),
    "shapes that differ": Row(
        ["export", "models:add", "-i", "x=B,3", "-i", "y=B,4"], 1, ["incompatible shapes", "models.py:"]
    ),
    "dimensions that contradict": Row(
        [*EXPORT, "--constraint", "B >= 5", "--constraint", "B <= 2"], 1, ["'B'", "at least 5, at most 2"]
    ),
    "twice": Row(["export", "models:add", "-i", "x=B", "-i", "x=B"], 2, ["'x'", "twice"]),
    "fixed and given": Row(["export", "models:good", "-i", "x=B", "--fix", "x=3"], 2, ["'x'", "--fix"]),
    "web and beside": Row([*EXPORT, "--web", "--external-data"], 2, ["--external-data", "inside"]),
    "target": Row([*EXPORT, "--target", "tpu"], 1, ["'tpu'", "ort-cpu"]),
    "opset": Row([*EXPORT, "--opset", "3"], 1, ["opset=3", "17 to 28"]),
    "no primitive": Row(
        ["export", "models:foreign", "-i", "x=B"],
        1,
        ["ffi_call", "models.py:", "outside the exported function"],
    ),
    "callback": Row(["export", "models:callback", "-i", "x=B"], 1, ["pure_callback", "models.py:", "in JAX"]),
    "no folder": Row([*EXPORT[:-1], "nowhere/new.onnx"], 1, ["nowhere/new.onnx", "Create it"]),
    "a folder": Row([*EXPORT[:-1], "hidden"], 1, ["'hidden' is a folder", "file name"]),
    "a program": Row([*EXPORT[:-1], "models.py"], 2, ["'models.py'", "not replaced"]),
    "a checkpoint": Row(
        ["weights", "swap", "good.onnx", "w.npz", "-o", "w.npz"],
        2,
        ["'w.npz'", "not replaced"],
        prepare=lambda f: np.savez(f / "w.npz", w=np.ones(3)),
        left=["w.npz"],
    ),
    "a model for a page": Row(
        ["report", "good.evidence", "-o", "good.onnx"], 2, ["'good.onnx'", "not replaced"]
    ),
    "no regular file": Row(
        [*EXPORT[:-1], "pipe.onnx"], 1, ["'pipe.onnx' is no regular file"], prepare=device
    ),
    "no regular report": Row(
        ["report", "good.evidence", "-o", "pipe.onnx"], 1, ["no regular file"], prepare=device
    ),
    "no file name": Row([*EXPORT[:-1], ""], 2, ["-o", "no name of a file"]),
    "the evidence itself": Row([*EXPORT[:-1], "new.evidence"], 1, ["new.evidence", ".onnx"]),
    "the source itself": Row(
        ["convert", "good.evidence", "-o", "good.onnx"], 1, ["good.evidence", "source itself"]
    ),
    "the source as output": Row(["convert", "good.evidence", "-o", "good.evidence"], 1, ["good.evidence"]),
    "evidence is in the way": Row(
        EXPORT, 1, ["new.evidence", "--no-prove"], prepare=lambda f: (f / "new.evidence").mkdir()
    ),
    "no file": Row(["verify", "nothing.onnx"], 2, ["BUNDLE|MODEL", "'nothing.onnx'"]),
    **{
        f"no file, {' '.join(args[:2])}": Row(args, 2, ["there is no", "'nothing"])
        for args in (
            ["inspect", "nothing.onnx"],
            ["bench", "nothing.onnx"],
            ["quantize", "nothing.onnx"],
            ["convert", "good.onnx", "--cases", "nothing.npz"],
            ["report", "nothing.evidence"],
            ["sign", "nothing.evidence", "--key", "key.pem"],
            ["page", "nothing.evidence"],
            ["weights", "list", "nothing.onnx"],
            ["weights", "swap", "good.onnx", "nothing.npz", "-o", "new.onnx"],
            ["explain", "models:good", "-i", "x=B,4", "--model", "nothing.onnx"],
            ["doctor", "nothing.evidence"],
        )
    },
    "no bundle": Row(["verify", "hidden"], 1, ["'hidden' holds no record.json", "export"]),
    "negative tolerance": Row(["verify", "good.onnx", "--rtol", "-1"], 2, ["--rtol"]),
    "no contract": Row(
        ["verify", "good.onnx", "--contract", "models:good"], 1, ["models:good", "without arguments"]
    ),
    "no runtime": Row(["verify", "good.onnx", "--runtime", "cuda"], 1, ["'cuda'", "onnxruntime-cuda"]),
    "corrupt": Row(["verify", "cut.onnx"], 13, [], says=["checker-error", "DecodeError"]),
    "corrupt, inspected": Row(["inspect", "cut.onnx"], 1, ["cut.onnx", "no ONNX model", "cut short"]),
    "corrupt, quantized": Row(["quantize", "cut.onnx"], 1, ["cut.onnx", "no ONNX model", "cut short"]),
    "weights are gone": Row(
        ["verify", "beside.onnx"], 13, [], says=["checker-error", "gone.data"], prepare=no_weights
    ),
    "truncated": Row(
        ["verify", "good.evidence"], 14, [], says=["hash-mismatch", "model.onnx"], prepare=truncated
    ),
    "truncated, quantized": Row(
        ["quantize", "good.evidence"], 14, ["good.evidence", "20 bytes", "anew"], prepare=truncated
    ),
    "truncated, timed": Row(["bench", "good.evidence"], 14, ["good.evidence", "anew"], prepare=truncated),
    "truncated, inspected": Row(["inspect", "good.evidence"], 14, ["good.evidence"], prepare=truncated),
    "truncated, compared": Row(
        ["diff", "good.onnx", "good.evidence"], 14, ["good.evidence"], prepare=truncated
    ),
    "truncated, explained": Row(
        ["explain", "models:good", "-i", "x=B,4", "--bundle", "good.evidence"],
        14,
        ["good.evidence"],
        prepare=truncated,
    ),
    "truncated, swapped": Row(
        ["weights", "swap", "good.evidence", "w.npz", "-o", "new.onnx"],
        14,
        ["good.evidence"],
        prepare=lambda f: (truncated(f), np.savez(f / "w.npz", w=np.ones(3))),
        left=["w.npz"],
    ),
    "unreadable": Row(
        ["verify", "good.evidence"], 1, ["good.evidence", "record.json", "anew"], prepare=unreadable
    ),
    "doctored": Row(
        ["verify", "good.evidence"], 1, ["good.evidence", "not valid", "level"], prepare=doctored
    ),
    "exists": Row(["verify", "good.onnx", "--bundle", "good.evidence"], 1, ["good.evidence", "--force"]),
    "quantize no bundle": Row(["quantize", "hidden"], 1, ["'hidden' holds no record.json"]),
    "nothing to quantize": Row(["quantize", "good.onnx"], 1, ["good.onnx", "float32 weights"]),
    "no profile": Row(["conform", "--profile", "nope"], 2, ["'nope'", "--list"]),
    "no case": Row(
        ["explain", "models:good", "-i", "x=B,4", "--bundle", "good.evidence", "--case", "nope"],
        2,
        ["'nope'", "--case"],
    ),
    "explain a folder": Row(["explain", "models:good", "-i", "x=B,4", "--model", "hidden"], 1, ["'hidden'"]),
    "explain another": Row(
        ["explain", "models:add", "-i", "x=B,4", "-i", "y=B,4", "--model", "good.onnx"],
        1,
        ["1 inputs", "has 2"],
    ),
    "explain no model": Row(
        ["explain", "models:good", "-i", "x=B,4", "--model", "cut.onnx"], 1, ["cut.onnx", "no ONNX"]
    ),
    "no record": Row(["report", "models.py"], 1, ["models.py", "not JSON"]),
    "no node": Row(["inspect", "good.onnx", "--node", "tan"], 1, ["'tan'", "tanh"]),
    "no netron": Row(["inspect", "good.onnx", "--netron"], 1, ["Netron", "pip install netron"]),
    "no safetensors": Row(
        ["weights", "swap", "good.onnx", "new.safetensors", "-o", "new.onnx"],
        1,
        ["safetensors", "pip install 'onnxproof[safetensors]'"],
        prepare=lambda f: (f / "new.safetensors").touch(),
        left=["new.safetensors"],
    ),
    "no checkpoint": Row(
        ["weights", "swap", "good.onnx", "models.py", "-o", "new.onnx"], 1, ["models.py", ".safetensors"]
    ),
    "nothing to compare": Row(["diff", "good.onnx", "nothing.onnx"], 2, ["nothing.onnx"]),
    "corrupt, compared": Row(["diff", "good.onnx", "cut.onnx"], 1, ["cut.onnx", "no ONNX model"]),
    "no batch": Row(["bench", "good.onnx", "--batch", "0"], 2, ["--batch"]),
    "no dimension": Row(["bench", "good.onnx", "--size", "T=3"], 1, ["dimension T", "It has B"]),
    "no flax": Row(["demo"], 1, ["flax", "pip install", "onnxproof[demo]"]),
    "no signing": Row(
        ["sign", "good.evidence", "--key", "models.py"], 1, ["model-signing", "pip install 'onnxproof[sign]'"]
    ),
    "no openvino": Row(
        ["verify", "good.onnx", "--runtime", "openvino"],
        10,
        ["openvino", "pip install 'onnxproof[openvino]'"],
        says=["missing-dependency"],
    ),
    "no torch": Row(
        ["conform", "--profile", "feedfwd-fp32-dynamo"],
        10,
        ["torch", "pip install 'onnxproof[torch]'"],
        says=["missing-dependency"],
        left=["conformance.json", "conformance-artifacts"],
    ),
}


def assert_one_paragraph(text: str) -> None:
    """The first line says what; further ones are indented."""
    lines = text.rstrip("\n").split("\n")
    assert lines[0].startswith("error: "), text
    assert all(line.startswith("  ") and line.strip() for line in lines[1:]), text


@pytest.mark.parametrize("row", ROWS.values(), ids=list(ROWS))
def test_a_wrong_use(folder: Path, row: Row) -> None:
    row.prepare(folder)
    before = files(folder)
    done = run(folder, row.args)
    assert done.returncode == row.code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    assert "onnxproof itself failed" not in done.stderr
    assert all(word in done.stderr for word in row.words), done.stderr
    assert all(word in done.stdout for word in row.says), done.stdout
    if row.words:
        assert_one_paragraph(done.stderr)
    if not row.says:
        assert done.stdout == ""
    new = {name for name in files(folder) - before if not name.startswith(tuple(row.left))}
    assert new == set()
    assert before - files(folder) == set()


def test_there_are_enough_of_them() -> None:
    assert len(ROWS) >= 20


def loop_for_ever(folder: Path) -> None:
    """A model that a runtime never comes to the end of."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["again"]), helper.make_node("Identity", ["v"], ["w"])],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v", TensorProto.FLOAT, [4]),
        ],
        [
            helper.make_tensor_value_info("again", TensorProto.BOOL, []),
            helper.make_tensor_value_info("w", TensorProto.FLOAT, [4]),
        ],
    )
    graph = helper.make_graph(
        [helper.make_node("Loop", ["times", "", "x"], ["y"], body=body)],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])],
        [helper.make_tensor("times", TensorProto.INT64, [], [2**40])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(model, folder / "loop.onnx")


INTERRUPTS = {  # arguments, what shows that it is under way, files that are whole and stay
    "while tracing": (["export", "models:slow_to_trace", "-i", "x=B", "-o", "new.onnx"], "started", set()),
    "while proving": (
        ["export", "models:slow_to_run", "-i", "x=B", "-o", "new.onnx"],
        "started",
        {"new.onnx"},
    ),
    "while verifying": (["verify", "loop.onnx", "--bundle", "new.evidence"], ".new.evidence*", set()),
}


@pytest.mark.parametrize(("args", "sign", "stay"), INTERRUPTS.values(), ids=list(INTERRUPTS))
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(folder: Path, args: list[str], sign: str, stay: set[str], number: int) -> None:
    loop_for_ever(folder)
    before = files(folder)
    # What a shell starts in the background ignores SIGINT, and so does what that starts.
    inherited = signal.signal(number, signal.SIG_DFL)
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "onnxproof", *args],
            cwd=folder,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    finally:
        signal.signal(number, inherited)
    deadline = time.monotonic() + 60
    while not list(folder.glob(sign)) and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.05)
    assert list(folder.glob(sign)), process.communicate()
    time.sleep(0.2)
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 128 + number, err
    assert out == ""
    assert_one_paragraph(err)
    assert "interrupted" in err
    assert all(name in err for name in stay)
    assert files(folder) - before - {"started"} == stay
    for name in stay:
        onnx.checker.check_model(folder / name)


@pytest.fixture
def small_disk(folder: Path) -> Iterator[tuple[Path, int | None]]:
    """A disk of 64 KiB where one may be mounted; otherwise a folder, and the largest file that may be written."""
    place = folder / "disk"
    place.mkdir()
    mounted = shutil.which("mount") is not None and (
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)], capture_output=True, check=False
        ).returncode
        == 0
    )
    yield place, None if mounted else 2**16
    if mounted:
        subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize("more", [["--no-prove"], ["--no-prove", "--external-data"], []])
def test_a_full_disk(folder: Path, small_disk: tuple[Path, int | None], more: list[str]) -> None:
    place, limit = small_disk
    done = run(folder, ["export", "models:large", "-i", "x=B,300", "-o", "disk/new.onnx", *more], limit)
    assert done.returncode == 1, done.stdout + done.stderr
    assert_one_paragraph(done.stderr)
    assert "disk/new.onnx" in done.stderr
    assert "free space" in done.stderr
    assert list(place.iterdir()) == []


def test_a_disk_that_is_full_of_evidence(folder: Path, small_disk: tuple[Path, int | None]) -> None:
    place, limit = small_disk
    shutil.copy(folder / "good.onnx", place / "good.onnx")
    done = run(folder, ["export", "models:large", "-i", "x=B,300", "-o", "large.onnx"])
    assert done.returncode == 0, done.stderr
    done = run(folder, ["verify", "large.onnx", "--bundle", "disk/large.evidence"], limit)
    assert done.returncode == 1, done.stdout + done.stderr
    assert_one_paragraph(done.stderr)
    assert [p.name for p in place.iterdir()] == ["good.onnx"]
