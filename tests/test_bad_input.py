"""Wrong uses: each gives one clear error, and leaves no file behind."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from onnxproof import errors, to_onnx
from onnxproof.capture.sites import is_users


class Training(nnx.Module):
    """A model in training mode: it updates running statistics and draws dropout masks."""

    def __init__(self) -> None:
        self.norm = nnx.BatchNorm(4, rngs=nnx.Rngs(0))

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.norm(x)


class Dropping(nnx.Module):
    def __init__(self) -> None:
        self.drop = nnx.Dropout(0.5, rngs=nnx.Rngs(0))

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.drop(x)


def raises(x: jax.Array) -> jax.Array:
    raise RuntimeError("the weights are missing")


def branches(x: jax.Array) -> jax.Array:
    return x if x.sum() > 0 else -x


LEAKED: list[Any] = []


def leaks(x: jax.Array) -> jax.Array:
    if LEAKED:
        return x + LEAKED[0]
    LEAKED.append(x * 2)
    return x + 1


def leaks_twice(x: jax.Array) -> jax.Array:
    LEAKED.clear()
    jax.jit(leaks)(x)
    return x + LEAKED[0]


def calls_back(x: jax.Array) -> jax.Array:
    return jax.pure_callback(lambda v: np.asarray(v), jax.ShapeDtypeStruct(x.shape, x.dtype), x)


def prints(x: jax.Array) -> jax.Array:
    jax.debug.print("x = {}", x)
    return x + 1


def compares(x: jax.Array) -> jax.Array:
    return x[:1] if x.shape[0] > 4 else x


def xor(x: jax.Array) -> jax.Array:
    return x ^ 3


def plain(x: jax.Array) -> jax.Array:
    return x + 1


def two(x: jax.Array, y: jax.Array) -> jax.Array:
    return x + y


@dataclass(frozen=True)
class Wrong:
    """A wrong use, the error it gives, and words the message must hold."""

    name: str
    fn: Any
    inputs: Any
    error: type[Exception]
    words: tuple[str, ...]
    options: dict[str, Any] = field(default_factory=dict)


F32_4 = jax.ShapeDtypeStruct((2, 4), jnp.float32)
WRONG = [
    Wrong("raises", raises, [F32_4], errors.TraceError,
          ("RuntimeError", "weights are missing", "test_bad_input.py", "(raises)")),
    Wrong("not callable", 3, [F32_4], errors.TraceError, ("int", "not callable")),
    Wrong("branches on a value", branches, [F32_4], errors.TraceError, ("jax.lax.cond",)),
    Wrong("leak", leaks_twice, [F32_4], errors.TraceError, ("tracer",)),
    Wrong("training mode", Training(), [("B", 4)], errors.TraceError, ("inference mode",)),
    Wrong("live dropout", Dropping(), [("B", 4)], errors.TraceError, ("inference mode",)),
    Wrong("callback", calls_back, [F32_4], errors.EffectfulProgram, ("callback", "test_bad_input.py")),
    Wrong("debug print", prints, [F32_4], errors.EffectfulProgram, ("drop_effects", "test_bad_input.py")),
    Wrong("contradictory constraint", plain, [("B",)], errors.UnsupportedDimension, ("constraint",),
          {"constraints": ("B >= 5", "B <= 3")}),
    Wrong("unsolvable dimension", plain, [("B*T",)], errors.UnsupportedDimension, ("B", "T")),
    Wrong("dimension needs a value", compares, [("B", 3)], errors.UnsupportedDimension, ("constraints",)),
    Wrong("constraint on nothing", plain, [("B",)], errors.UnsupportedDimension, ("'T >= 2'", "B"),
          {"constraints": ("T >= 2",)}),
    Wrong("no dimension", plain, [(None, 3)], errors.InputSpecError, ("(None, 3)", '("B", 16)')),
    Wrong("half a dimension", plain, [(2.5, 3)], errors.InputSpecError, ("(2.5, 3)",)),
    Wrong("returns nothing", lambda x: None, [(2,)], errors.TraceError, ("no array",)),
    Wrong("returns text", lambda x: (x, "ok"), [(2,)], errors.TraceError, ("'str'", "[1]")),
    Wrong("bad dimension text", plain, [("B+", 3)], errors.UnsupportedDimension, ("dimension",)),
    Wrong("negative dimension", plain, [(-1, 3)], errors.InputSpecError, ("negative",)),
    Wrong("too many inputs", plain, [F32_4, F32_4], errors.InputSpecError, ("2", "1", "x")),
    Wrong("too few inputs", two, [F32_4], errors.InputSpecError, ("y",)),
    Wrong("wrong shapes", two, [(2, 3), (4, 5)], errors.TraceError, ("(2, 3)",)),
    Wrong("inputs is a string", plain, "B", errors.InputSpecError, ("list",)),
    Wrong("spec is an object", plain, [object()], errors.InputSpecError, ("object", "shape")),
    Wrong("unknown dtype", plain, [np.array(["a"])], errors.InputSpecError, ("dtype",)),
    Wrong("duplicate names", two, [(2,), (2,)], errors.NameCollision, ("'a'",), {"input_names": ["a", "a"]}),
    Wrong("name count", two, [(2,), (2,)], errors.InputSpecError, ("1 names", "2"), {"input_names": ["a"]}),
    Wrong("output name count", plain, [(2,)], errors.InputSpecError, ("output_names",),
          {"output_names": ["a", "b"]}),
    Wrong("input and output collide", plain, [(2,)], errors.NameCollision, ("'x'",), {"output_names": ["x"]}),
    Wrong("opset 5", plain, [(2,)], errors.OpsetError, ("17",), {"opset": 5}),
    Wrong("opset 99", plain, [(2,)], errors.OpsetError, ("28",), {"opset": 99}),
    Wrong("opset too low", xor, [jax.ShapeDtypeStruct((2,), jnp.int32)], errors.OpsetError,
          ("18", "BitwiseXor", "test_bad_input.py"), {"opset": 17}),
    Wrong("unknown target", plain, [(2,)], errors.InputSpecError, ("ort-cpu",), {"target": "toaster"}),
    Wrong("unknown mode", plain, [(2,)], errors.InputSpecError, ("web",), {"export_mode": "weeb"}),
]  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG, ids=lambda w: w.name)
def test_wrong_use(wrong: Wrong, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    with pytest.raises(wrong.error) as caught:
        to_onnx(wrong.fn, wrong.inputs, return_mode="file", output_path=path, **wrong.options)
    assert isinstance(caught.value, errors.OnnxProofError)
    for word in wrong.words:
        assert word in str(caught.value), f"{word!r} is not in {caught.value}"
    assert list(tmp_path.iterdir()) == []


def test_under_jit() -> None:
    def traced(x: jax.Array) -> jax.Array:
        to_onnx(plain, [(2,)])
        return x

    with pytest.raises(errors.NestedTraceError, match="ordinary Python"):
        jax.jit(traced)(jnp.ones(3))


def _unwritable(folder: Path) -> Path:
    return folder / "missing" / "model.onnx"


def _is_folder(folder: Path) -> Path:
    (folder / "model.onnx").mkdir()
    return folder / "model.onnx"


@pytest.mark.parametrize("place", [_unwritable, _is_folder])
def test_bad_place(place: Callable[[Path], Path], tmp_path: Path) -> None:
    path = place(tmp_path)
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(errors.ArtifactError, match=r"model\.onnx"):
        to_onnx(plain, [(2,)], return_mode="file", output_path=path)
    assert sorted(os.listdir(tmp_path)) == before


def test_full_disk(tmp_path: Path) -> None:
    """A file size limit stands in for a full disk; the old file survives."""
    import resource
    import signal

    path = tmp_path / "model.onnx"
    to_onnx(plain, [(2,)], return_mode="file", output_path=path)
    before = path.read_bytes()
    weights = jnp.ones((1024, 1024))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64 * 1024, hard))
    try:
        for external in (False, True):
            with pytest.raises(errors.ArtifactError, match="can't be written"):
                to_onnx(
                    lambda x: x @ weights,
                    [(2, 1024)],
                    return_mode="file",
                    output_path=path,
                    external_data=external,
                )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, old)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["model.onnx"]


@pytest.mark.parametrize(
    ("path", "users"),
    [
        ("home/me/model.py", True),
        ("opt/other/lib/python3.12/site-packages/package/layers.py", False),
        ("usr/lib/python3/dist-packages/package/layers.py", False),
    ],
)
def test_whose_line_an_error_names(path: str, users: bool, tmp_path: Path) -> None:
    """Packages of another environment on the path are no user's code either."""
    assert is_users(str(tmp_path / path)) is users
