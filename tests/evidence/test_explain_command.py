"""``onnxproof explain``: inputs drawn or from a bundle, and the bundle of the part at fault."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime as ort
import pytest
from typer.testing import CliRunner

from onnxproof.cli import application
from onnxproof.cli.explain import Drawn
from tests.evidence.faulty import WEIGHT

HERE = "tests.evidence.test_explain_command"


def chain(x: Any) -> Any:
    return jnp.sin(jnp.tanh(x @ jnp.asarray(WEIGHT)) + 1)


def affine(x: Any) -> Any:
    """What the bundles of :func:`made` compute."""
    return jnp.tanh(x @ jnp.asarray(WEIGHT))


def command(*arguments: str | Path) -> Any:
    return CliRunner().invoke(application(), ["explain", *(str(a) for a in arguments)])


def value(path: Path) -> Any:
    return onnx.numpy_helper.to_array(onnx.load_tensor(path))


@pytest.fixture
def spoiled(tmp_path: Path) -> Path:
    """An export of :func:`chain` whose Tanh became a Softsign."""
    from onnxproof import to_onnx

    model = to_onnx(chain, [("B", 4)])
    (node,) = [n for n in model.graph.node if n.op_type == "Tanh"]
    node.op_type = "Softsign"
    onnx.save(model, tmp_path / "spoiled.onnx")
    return tmp_path / "spoiled.onnx"


def test_nothing_wrong() -> None:
    done = command(f"{HERE}:chain", "-i", "x=B,4")
    assert done.exit_code == 0, done.output
    assert "every value agrees" in done.output


def test_fault_of_the_file(spoiled: Path, tmp_path: Path) -> None:
    part = tmp_path / "part"
    done = command(f"{HERE}:chain", "-i", "x=B,4", "--model", spoiled, "-o", part, "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert (found["fault"], found["primitive"]) == ("file", "tanh")
    assert found["source"].startswith("tests/evidence/test_explain_command.py:")
    model = onnx.load(part / "model.onnx")
    assert [n.op_type for n in model.graph.node] == ["Softsign"]
    case = part / "cases" / "fault"
    (got,) = ort.InferenceSession(part / "model.onnx").run(
        None, {model.graph.input[0].name: value(case / "input_0.pb")}
    )
    want = value(case / "output_0.pb")
    np.testing.assert_allclose(want, np.tanh(value(case / "input_0.pb")), rtol=1e-6)
    assert not np.allclose(got, want)
    again = command(f"{HERE}:chain", "-i", "x=B,4", "--model", spoiled, "-o", part)
    assert again.exit_code == 1  # what is there is not written over


def test_inputs_of_a_bundle(made: Path) -> None:
    done = command(f"{HERE}:affine", "-i", "x=B,4", "--bundle", made / "wrong")
    assert done.exit_code == 0, done.output
    assert "fault: file" in done.output
    assert "computed by dot_general" in done.output
    other = command(f"{HERE}:affine", "-i", "x=B,4", "--bundle", made / "good", "--case", "no")
    assert other.exit_code == 2
    both = command(f"{HERE}:chain", "--bundle", made / "good", "--model", made / "good" / "model.onnx")
    assert both.exit_code == 2


def weighed(batch: Any, *, scale: Any, shift: Any, flip: bool) -> Any:
    """Positional and keyword arguments, one of them a tree, one complex."""
    out = jnp.tanh(batch["a"] - batch["b"]) * scale + jnp.abs(shift)
    return -out if flip else out


def test_keywords_of_a_bundle(tmp_path: Path) -> None:
    from onnxproof import to_onnx
    from onnxproof.evidence import verify

    x = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    params = {"shift": (x + 2j).astype(np.complex64), "scale": x * 2, "flip": True}
    model = to_onnx(weighed, [{"a": (3, 4), "b": (3, 4)}], input_params=params)
    (node,) = [n for n in model.graph.node if n.op_type == "Tanh"]
    node.op_type = "Softsign"
    record = verify(weighed, model, [{"a": x, "b": -x}], input_params=params, bundle_path=tmp_path / "bundle")
    assert record.failure == "mismatch"
    given = ["-i", "batch.a=3,4", "-i", "batch.b=3,4", "-i", "scale=3,4", "-i", "shift=3,4:complex64"]
    told = ("--fix", "flip=True", "--bundle", tmp_path / "bundle", "--json")
    done = command(f"{HERE}:weighed", *given, *told)
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert (found["fault"], found["primitive"]) == ("file", "tanh")
    fewer = command(f"{HERE}:weighed", *given[:-2], *told)
    assert fewer.exit_code != 0


def looped(x: Any) -> Any:
    return jax.lax.scan(lambda c, v: (jnp.tanh(c + v), jnp.sin(c) * v), x[0], x)


def test_iteration_is_told(tmp_path: Path) -> None:
    from onnxproof import to_onnx

    model = to_onnx(looped, [(5, 3)])
    (scan,) = [n for n in model.graph.node if n.op_type == "Scan"]
    body = next(a.g for a in scan.attribute if a.name == "body")
    (node,) = [n for n in body.node if n.op_type == "Tanh"]
    node.op_type = "Softsign"
    onnx.save(model, tmp_path / "spoiled.onnx")
    arguments = (
        f"{HERE}:looped",
        "-i",
        "x=5,3",
        "--model",
        tmp_path / "spoiled.onnx",
        "-o",
        tmp_path / "part",
    )
    done = command(*arguments)
    assert done.exit_code == 0, done.output
    assert "computed by tanh at tests/evidence/test_explain_command.py:" in done.output
    assert "in iteration 0 of scan at tests/evidence/test_explain_command.py:" in done.output
    assert [n.op_type for n in onnx.load(tmp_path / "part" / "model.onnx").graph.node] == ["Softsign"]


def test_drawn() -> None:
    drawn = Drawn({"T": 4}, 0, double=False)
    tree = drawn.arrays({"a": ("B", "2*T"), "b": [("C", "floordiv(T, 2)"), ()]})
    assert tree["a"].shape == (3, 8)
    assert tree["b"][0].shape == (5, 2)
    assert tree["b"][1].shape == ()
    assert tree["a"].dtype == np.float32
    assert drawn.arrays(jax.ShapeDtypeStruct(("B",), "int8")).dtype == np.int8
    assert drawn.arrays(jax.ShapeDtypeStruct((2,), "complex64")).dtype == np.complex64
    key = drawn.arrays(jax.ShapeDtypeStruct((), jax.random.key(0).dtype))
    assert jax.dtypes.issubdtype(key.dtype, jax.dtypes.prng_key)
    same = Drawn({"T": 4}, 0, double=False).arrays(("B", "2*T"))
    np.testing.assert_array_equal(same, tree["a"])


def test_wrong_usage() -> None:
    assert command(f"{HERE}:chain", "-i", "x=B,4", "--size", "B").exit_code == 2
    assert command(f"{HERE}:unheard_of", "-i", "x=B,4").exit_code == 2
