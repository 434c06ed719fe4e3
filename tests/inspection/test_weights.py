"""``onnxproof weights``: a swap gives what a new export gives, or is refused with all reasons."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from jax import lax
from typer.testing import CliRunner

from onnxproof import allclose, convert, to_onnx
from onnxproof.cli import application
from onnxproof.errors import ArtifactError, ConformanceError, OnnxProofError
from onnxproof.inspection.checkpoint import read_checkpoint
from onnxproof.inspection.weights import swap, weights

Arrays = dict[str, Any]


def command(*arguments: str | Path) -> Any:
    return CliRunner().invoke(application(), [str(a) for a in arguments])


class Net:
    """Any function of a nested dict of weights."""

    def __init__(self, fn: Callable[..., Any], params: Any) -> None:
        self.fn, self.params = fn, params

    def __call__(self, x: Any) -> Any:
        return self.fn(self.params, x)


def drawn(shapes: Any, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    return jax.tree.map(
        lambda shape: jnp.asarray(rng.normal(size=shape), jnp.float32),
        shapes,
        is_leaf=lambda s: isinstance(s, tuple),
    )


def flat(tree: Any) -> Arrays:
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="."): np.asarray(leaf) for path, leaf in leaves}


def tied(p: Any, x: Any) -> Any:
    return jnp.tanh(x @ p["embed"]) @ p["embed"].T + p["bias"]


def conv(p: Any, x: Any) -> Any:
    """Kernels with channels last, as Flax has them."""
    dims = ("NHWC", "HWIO", "NHWC")
    x = lax.conv_general_dilated(x, p["kernel"], (1, 1), "SAME", dimension_numbers=dims)
    return jax.nn.relu(x).reshape(x.shape[0], -1) @ p["head"]


def biased(p: Any, x: Any) -> Any:
    """A bias of the last axis, which the layouts of a convolution and of a product turn into a vector of its own."""
    dims = ("NHWC", "HWIO", "NHWC")
    x = lax.conv_general_dilated(x, p["kernel"], (1, 1), "SAME", dimension_numbers=dims)
    x = jax.nn.relu(x + p["bias"].reshape(1, 1, 1, -1))
    return x.reshape(x.shape[0], -1) @ p["head"] + p["out"]


def stacked(p: Any, x: Any) -> Any:
    return lax.scan(lambda c, w: (jnp.tanh(c @ w), None), x, p["layers"])[0]


def halves(p: Any, x: Any) -> Any:
    gate, up = jnp.split(p["both"], 2, axis=1)
    return jax.nn.silu(x @ gate) * (x @ up)


ROWS: dict[str, tuple[Callable[..., Any], Any, tuple[Any, ...]]] = {
    "tied": (tied, {"embed": (8, 16), "bias": (8,)}, ("B", 8)),
    "conv": (conv, {"kernel": (3, 3, 4, 8), "head": (6 * 6 * 8, 5)}, ("B", 6, 6, 4)),
    "biased": (
        biased,
        {"kernel": (3, 3, 4, 8), "bias": (8,), "head": (6 * 6 * 8, 5), "out": (5,)},
        ("B", 6, 6, 4),
    ),
    "stacked": (stacked, {"layers": (3, 8, 8)}, ("B", 8)),
    "halves": (halves, {"both": (8, 32)}, ("B", 8)),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=list(ROWS))
@pytest.mark.parametrize("external", [False, True])
def test_a_swap_gives_what_an_export_gives(tmp_path: Path, row: Any, external: bool) -> None:
    fn, shapes, spec = row
    old, new = drawn(shapes, 0), drawn(shapes, 1)
    path = tmp_path / "old.onnx"
    to_onnx(Net(fn, old), [spec], return_mode="file", output_path=path, external_data=external)
    (tmp_path / "to").mkdir()
    out = tmp_path / "to" / "new.onnx"
    done = swap(path, flat(new), out)
    layers = {
        f"params.{n}.{i}" for n in flat(new) if n == "layers" for i in range(3)
    }  # of a scan spelled out
    assert set(done.taken) == {f"params.{name}" for name in flat(new) if name != "layers"} | layers
    x = np.random.default_rng(2).normal(size=(3, *spec[1:])).astype(np.float32)
    fine, message = allclose(Net(fn, new), out, [x])
    assert fine, message
    again = to_onnx(Net(fn, new), [spec])
    content = {t.name: onnx.numpy_helper.to_array(t) for t in again.graph.initializer}
    for tensor in onnx.load(out).graph.initializer:
        np.testing.assert_array_equal(onnx.numpy_helper.to_array(tensor), content[tensor.name], tensor.name)
    back = swap(out, flat(old), tmp_path / "back.onnx")
    assert set(back.taken) == set(done.taken)
    assert allclose(Net(fn, old), tmp_path / "back.onnx", [x])[0]


def normalized(p: Any, x: Any) -> Any:
    """Batch normalization after a convolution, which goes into its kernel."""
    dims = ("NHWC", "HWIO", "NHWC")
    x = lax.conv_general_dilated(x, p["kernel"], (1, 1), "SAME", dimension_numbers=dims)
    return (x - p["mean"]) * lax.rsqrt(jnp.exp(p["var"]) + 1e-5) * p["scale"] + p["shift"]


def test_what_was_folded_is_refused(tmp_path: Path) -> None:
    shapes = {"kernel": (3, 3, 4, 8), **dict.fromkeys(("mean", "var", "scale", "shift"), (8,))}
    path = tmp_path / "old.onnx"
    spec = [("B", 6, 6, 4)]
    to_onnx(Net(normalized, drawn(shapes, 0)), spec, return_mode="file", output_path=path)
    with pytest.raises(ConformanceError, match="can't repeat") as caught:
        swap(path, flat(drawn(shapes, 1)), tmp_path / "new.onnx")
    assert "kernel" in str(caught.value)
    with pytest.raises(ConformanceError, match="can't repeat"):
        swap(path, flat(drawn(shapes, 1)), tmp_path / "new.onnx", allow_missing=True, allow_unexpected=True)
    assert not (tmp_path / "new.onnx").exists()


def test_what_looks_like_the_weight_is_not_taken_for_it(tmp_path: Path) -> None:
    """A bias that is subtracted, and zero as they are before training, is not one that is added."""
    shapes = {"kernel": (8, 4), "bias": (4,)}
    zero = {**drawn(shapes, 0), "bias": jnp.zeros(4)}
    path = tmp_path / "old.onnx"
    net = Net(lambda p, x: x @ p["kernel"] - p["bias"], zero)
    to_onnx(net, [("B", 8)], return_mode="file", output_path=path)
    with pytest.raises(ConformanceError, match=r"can't repeat: params\.bias"):
        swap(path, flat(drawn(shapes, 1)), tmp_path / "new.onnx")


@pytest.mark.parametrize(
    ("row", "change", "words"),
    [
        ("conv", {"head": (5, 6 * 6 * 8)}, ["params.head is float32[288, 5]", "float32[5, 288]"]),
        ("conv", {"kernel": (3, 3, 8, 4)}, ["params.kernel is float32[3, 3, 4, 8]"]),
        ("halves", {"both": (8, 40)}, ["params.both is float32[8, 32]"]),
        ("biased", {"bias": (1, 8)}, ["params.bias is float32[8]"]),
    ],
)
def test_another_shape_that_the_steps_would_take(
    tmp_path: Path, row: str, change: Any, words: list[str]
) -> None:
    """What is reshaped or cut on its way into the file has to have the shape that it had."""
    fn, shapes, spec = ROWS[row]
    path = tmp_path / "old.onnx"
    to_onnx(Net(fn, drawn(shapes, 0)), [spec], return_mode="file", output_path=path)
    with pytest.raises(ConformanceError) as caught:
        swap(path, flat(drawn({**shapes, **change}, 1)), tmp_path / "new.onnx")
    assert all(word in str(caught.value) for word in ["another shape", *words]), caught.value
    assert not (tmp_path / "new.onnx").exists()


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "old.onnx"
    to_onnx(Net(tied, drawn(ROWS["tied"][1], 0)), [("B", 8)], return_mode="file", output_path=path)
    return path


NEW = flat(drawn(ROWS["tied"][1], 1))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"bias": None}, ["missing", "params.bias"]),
        ({"more": np.ones(3, np.float32)}, ["in the checkpoint alone", "params.more"]),
        ({"bias": np.ones(9, np.float32)}, ["another shape", "params.bias is float32[8]", "float32[9]"]),
        ({"bias": np.ones(8, np.float64)}, ["float64[8]"]),
        ({"embed": np.ones((16, 16), np.float32)}, ["params.embed is float32[8, 16]", "float32[16, 16]"]),
    ],
)
def test_what_does_not_fit(tmp_path: Path, old: Path, change: Arrays, words: list[str]) -> None:
    arrays = {name: array for name, array in {**NEW, **change}.items() if array is not None}
    with pytest.raises(ConformanceError) as caught:
        swap(old, arrays, tmp_path / "new.onnx")
    assert all(word in str(caught.value) for word in words), caught.value
    assert not (tmp_path / "new.onnx").exists()


def test_what_is_left_out_is_said(tmp_path: Path, old: Path) -> None:
    arrays = {"embed": NEW["embed"], "step": np.ones(3, np.float32)}
    done = swap(old, arrays, tmp_path / "new.onnx", allow_missing=True, allow_unexpected=True)
    assert (done.missing, done.unexpected) == (("params.bias",), ("params.step",))
    assert done.computed == ("params.embed.T",)


def test_tied_weights_have_to_agree(tmp_path: Path) -> None:
    shared = jnp.ones((8, 8))
    net = Net(lambda p, x: jnp.tanh(x @ p["a"]) @ p["b"], {"a": shared, "b": shared})
    path = tmp_path / "old.onnx"
    to_onnx(net, [("B", 8)], return_mode="file", output_path=path)
    new = np.full((8, 8), 2, np.float32)
    assert swap(path, {"a": new, "b": new}, tmp_path / "new.onnx").taken == ("params.a", "params.b")
    with pytest.raises(ConformanceError, match="one array in the model"):
        swap(path, {"a": new, "b": 2 * new}, tmp_path / "new.onnx")


def test_files_that_do_not_say(tmp_path: Path, old: Path) -> None:
    net = Net(tied, drawn(ROWS["tied"][1], 0))
    bare = tmp_path / "bare.onnx"
    to_onnx(net, [("B", 8)], return_mode="file", output_path=bare, strip_provenance=True)
    with pytest.raises(ConformanceError, match="strip-provenance"):
        swap(bare, NEW, tmp_path / "new.onnx")
    convert(old, tmp_path / "half.onnx", cases={"one": [np.ones((2, 8), np.float32)]})
    with pytest.raises(ConformanceError, match="made narrower"):
        swap(tmp_path / "half.onnx", NEW, tmp_path / "new.onnx")


def test_npz_and_command(tmp_path: Path, old: Path) -> None:
    np.savez(tmp_path / "new.npz", **NEW)
    out = tmp_path / "new.onnx"
    done = command("weights", "swap", old, tmp_path / "new.npz", "-o", out, "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["computed"] == ["params.embed.T"]
    assert "of params.embed (transpose)" in command("weights", "list", out).output
    assert [w.tensor.name for w in weights(out)] == [w.tensor.name for w in weights(old)]
    assert command("weights", "swap", old, tmp_path / "new.npz", "-o", old).exit_code == 2


def test_msgpack_of_flax(tmp_path: Path) -> None:
    from flax import serialization

    tree = {"params": {**NEW, "half": jnp.ones(3, jnp.bfloat16)}, "step": 3}
    path = tmp_path / "new.msgpack"
    path.write_bytes(serialization.msgpack_serialize(serialization.to_state_dict(tree)))
    found = read_checkpoint(path)
    assert set(found) == {"params.bias", "params.embed", "params.half"}
    np.testing.assert_array_equal(found["params.embed"], NEW["embed"])
    assert found["params.half"].dtype == jnp.bfloat16
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(ConformanceError, match=r"new\.msgpack"):
        read_checkpoint(path)


def test_orbax(tmp_path: Path) -> None:
    from orbax import checkpoint

    checkpoint.PyTreeCheckpointer().save(tmp_path / "orbax", {"params": NEW})
    found = read_checkpoint(tmp_path / "orbax")
    assert set(found) == {"params.bias", "params.embed"}
    np.testing.assert_array_equal(found["params.embed"], NEW["embed"])


def test_what_is_no_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ArtifactError, match="no checkpoint"):
        read_checkpoint(tmp_path / "nothing.npz")
    (tmp_path / "a.pt").write_bytes(b"")
    (tmp_path / "a.npz").write_bytes(b"PK")
    with pytest.raises(ConformanceError, match=r"\.safetensors"):
        read_checkpoint(tmp_path / "a.pt")
    with pytest.raises(ConformanceError, match=r"a\.npz"):
        read_checkpoint(tmp_path / "a.npz")
    monkeypatch.setitem(__import__("sys").modules, "safetensors", None)
    (tmp_path / "a.safetensors").write_bytes(b"")
    with pytest.raises(OnnxProofError, match="pip install"):
        read_checkpoint(tmp_path / "a.safetensors")
