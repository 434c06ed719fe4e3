"""Half precision, 8 and 4 bits: every file is run, and what it lost is bounded by the limit of its mode."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest

import onnxproof
from onnxproof.errors import ConformanceError, InputSpecError, OnnxProofError, UnsupportedError
from onnxproof.evidence import read_record
from onnxproof.evidence.conform import execute_in, read_bundle
from onnxproof.evidence.proof import Recorded
from onnxproof.precision.modes import MODES
from onnxproof.precision.narrow import Narrowed
from tests.frameworks.models_jax import MODELS
from tests.test_cli import onnxproof_command

WEIGHT = np.random.default_rng(0).normal(size=(8, 8)).astype(np.float32)
SIZES = ((1, 2), (3, 5), (7, 4))  # of batch and time


@pytest.fixture(scope="module")
def bundle_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    folder = tmp_path_factory.mktemp("bundles")

    @cache
    def make(name: str) -> Path:
        model = MODELS[name]()
        path = onnxproof.to_onnx(
            model.fn, model.inputs, return_mode="file", output_path=folder / f"{name}.onnx"
        )
        cases = {f"case-{b}-{t}": jax.tree.leaves(model.make(b, t)) for b, t in SIZES}
        record = onnxproof.verify(model.fn, path, cases, bundle_path=folder / f"{name}.evidence")
        assert record.failure is None
        return folder / f"{name}.evidence"

    return make


def file_of(fn: Callable[..., Any], path: Path, shape: tuple[Any, ...] = ("B", 8), **options: Any) -> Path:
    onnxproof.to_onnx(fn, [shape], return_mode="file", output_path=path, **options)
    return path


def drawn(*batches: int, width: int = 8) -> dict[str, list[np.ndarray[Any, Any]]]:
    rng = np.random.default_rng(1)
    return {f"batch-{n}": [rng.normal(size=(n, width)).astype(np.float32)] for n in batches}


def narrow(mode: str, source: Path, output: Path, **options: Any) -> Narrowed:
    if mode in ("float16", "bfloat16"):
        return onnxproof.convert(source, output, mode, **options)
    if mode == "float16-weights":
        return onnxproof.convert(source, output, "float16", weights_only=True, **options)
    return onnxproof.quantize(source, output, mode, **options)


NARROW_DTYPE = {"float16": "float16", "float16-weights": "float16", "bfloat16": "bfloat16", "int4": "uint8"}
ADDED = {"int8": "_quantized", "int8-static": "_quantized", "int4": "_Q4"}  # to the name of a weight


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["mlp", "cnn", "encoder"])
def test_every_mode_of_three_networks(
    name: str, mode: str, tmp_path: Path, bundle_of: Callable[[str], Path]
) -> None:
    source = bundle_of(name)
    done = narrow(mode, source, tmp_path / "narrow.onnx")
    assert (done.record.status, done.record.level) == ("passed", "executed")
    (loss,) = done.losses
    assert 0 < loss.of_scale <= MODES[mode].limit  # not exact either: something was narrowed
    assert loss.cosine is not None
    assert loss.cosine > 1 - MODES[mode].limit
    assert done.weights[NARROW_DTYPE.get(mode, "int8")] > 0
    original, model = onnx.load(source / "model.onnx"), onnx.load(done.files[0])
    names = {t.name for t in model.graph.initializer}
    lost = [
        t.name
        for t in original.graph.initializer
        if len(t.dims) == 2 and t.name not in done.wide_weights and t.name + ADDED.get(mode, "") not in names
    ]
    assert not lost, f"weights without their names: {lost}"
    anonymous = [n.op_type for n in model.graph.node if not n.metadata_props]
    assert not anonymous, f"nodes that say nothing of where they come from: {anonymous}"
    assert model.producer_name == original.producer_name == "onnxproof"
    assert model.graph.input == original.graph.input
    assert model.graph.output == original.graph.output


def test_the_bundle_keeps_the_oracle_and_runs_again(tmp_path: Path, bundle_of: Callable[[str], Path]) -> None:
    done = narrow("int8", bundle_of("mlp"), tmp_path / "narrow.onnx")
    assert done.evidence == tmp_path / "narrow.evidence"
    record = read_bundle(done.evidence)
    compared = [c for c in record.input_cases if c.expect == "match"]
    assert {c.name for c in compared} == {f"case-{b}-{t}" for b, t in SIZES}
    assert all(c.oracle is not None and c.outputs[0].oracle is not None for c in compared)
    assert record.exporter.options["mode"] == "int8"
    assert record.exporter.options["limit"] == MODES["int8"].limit
    assert execute_in(record, done.evidence, {}).failure is None


def test_two_runs_write_the_same_bytes(tmp_path: Path, bundle_of: Callable[[str], Path]) -> None:
    for mode in ("float16", "int8-static"):
        files = [narrow(mode, bundle_of("mlp"), tmp_path / f"{mode}-{i}.onnx").files[0] for i in range(2)]
        assert files[0].read_bytes() == files[1].read_bytes(), mode


def test_stacks_of_matrices_have_one_scale(tmp_path: Path, bundle_of: Callable[[str], Path]) -> None:
    """ONNX Runtime fails on one scale for each column of each matrix."""
    done = narrow("int8", bundle_of("moe"), tmp_path / "moe.onnx")
    assert done.record.failure is None
    assert not done.wide_weights


def test_recurrent_and_embedding_weights(tmp_path: Path, bundle_of: Callable[[str], Path]) -> None:
    for name in ("lstm", "embedding"):
        done = narrow("int8", bundle_of(name), tmp_path / f"{name}.onnx")
        assert done.record.failure is None
        assert not done.wide_weights


def test_what_has_no_float16_stays_and_is_counted(tmp_path: Path) -> None:
    def fn(x: jax.Array) -> Any:
        return jax.lax.top_k(x @ WEIGHT, 3)[0], jnp.cumsum(x @ WEIGHT, 1), jnp.maximum(x, 0.3)

    source = file_of(fn, tmp_path / "m.onnx")
    done = narrow("float16", source, tmp_path / "m16.onnx", cases=drawn(4, 2))
    assert done.record.failure is None
    assert done.wide_nodes == {"CumSum": 1}


def test_loops_and_branches(tmp_path: Path) -> None:
    def fn(x: jax.Array) -> Any:
        c, s = jax.lax.scan(lambda c, _: (jnp.tanh(c @ WEIGHT), c.sum()), x, None, length=3)
        return jax.lax.cond(x.sum() > 0, lambda: c @ WEIGHT, lambda: c - 1), s

    source = file_of(fn, tmp_path / "loop.onnx")
    for mode in ("float16", "bfloat16", "int4"):
        assert narrow(mode, source, tmp_path / f"{mode}.onnx", cases=drawn(4, 1)).record.failure is None
    with pytest.raises(InputSpecError, match="nothing in"):
        narrow("int8", source, tmp_path / "int8.onnx", cases=drawn(4))


def test_float16_inside_of_a_loop_is_refused_where_the_tool_gets_it_wrong(tmp_path: Path) -> None:
    def fn(x: jax.Array) -> Any:
        return jax.lax.scan(lambda c, _: (jnp.cumsum(c @ WEIGHT, 1) / 8, c.sum()), x, None, length=3)

    source = file_of(fn, tmp_path / "loop.onnx")
    with pytest.raises(UnsupportedError, match=r"CumSum .* inside a loop or branch"):
        narrow("float16", source, tmp_path / "out.onnx", cases=drawn(4))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["loop.onnx"]
    assert narrow("float16-weights", source, tmp_path / "out.onnx", cases=drawn(4)).record.failure is None


def test_each_output_is_held_against_its_own_scale(tmp_path: Path) -> None:
    def fn(x: jax.Array) -> Any:
        return x @ WEIGHT * 0.001, x * 1000

    source = file_of(fn, tmp_path / "m.onnx")
    done = narrow("int4", source, tmp_path / "n.onnx", cases=drawn(8), limit=0.01)
    small, large = done.losses
    assert small.of_scale > 0.01
    assert large.of_scale == 0
    assert small.max_abs_error < 0.01 * large.scale
    assert done.record.failure == "mismatch"


def test_integers_have_to_be_equal(tmp_path: Path) -> None:
    def fn(x: jax.Array) -> Any:
        return x @ WEIGHT, jnp.argmax(x @ WEIGHT, -1)

    source = file_of(fn, tmp_path / "m.onnx")
    done = narrow("int4", source, tmp_path / "n.onnx", cases=drawn(200))
    logits, label = done.losses
    assert logits.argmax_agreement is not None
    assert label.changed is not None
    assert label.changed == pytest.approx(1 - logits.argmax_agreement)
    assert 0 < label.changed < 0.2
    assert done.record.failure == "mismatch"


def test_an_overflow_that_one_runtime_hides_shows_in_another(tmp_path: Path) -> None:
    """ONNX Runtime's CPU provider computes float16 in float32 where that is faster, and rounds less."""
    source = file_of(lambda x: (x * 1e4) @ WEIGHT * 0.01, tmp_path / "m.onnx")
    cases = {"large": [np.full((1, 8), 30, np.float32)]}
    here = narrow("float16", source, tmp_path / "a.onnx", cases=cases)
    assert here.record.failure is None
    there = narrow("float16", source, tmp_path / "b.onnx", cases=cases, runtimes=["onnx-reference"])
    assert there.record.failure == "mismatch"


def test_weights_in_a_file_of_their_own(tmp_path: Path) -> None:
    weight = np.random.default_rng(2).normal(size=(300, 400)).astype(np.float32)
    source = file_of(lambda x: x @ weight, tmp_path / "big.onnx", ("B", 300), external_data=True)
    for mode, least in (("float16", 0.49), ("int8", 0.7), ("int4", 0.8)):
        done = narrow(mode, source, tmp_path / f"{mode}.onnx", cases=drawn(3, width=300))
        assert done.record.failure is None
        assert done.bytes_after < (1 - least) * done.bytes_before


def test_calibration_has_a_place_of_its_own(tmp_path: Path, bundle_of: Callable[[str], Path]) -> None:
    """Ranges seen on inputs a hundred times smaller cut off the values of the cases."""
    small = tmp_path / "small"
    small.mkdir()
    for i in range(2):
        x = 0.01 * np.random.default_rng(i).normal(size=(4, 16)).astype(np.float32)
        np.savez(small / f"case-{i}.npz", x=x)
    good = narrow("int8-static", bundle_of("mlp"), tmp_path / "good.onnx")
    bad = narrow("int8-static", bundle_of("mlp"), tmp_path / "bad.onnx", calibration=small)
    assert good.record.failure is None
    assert bad.record.failure == "mismatch"
    assert bad.losses[0].of_scale > 5 * good.losses[0].of_scale
    assert bad.record.exporter.options["calibration"] == "small"


@pytest.mark.parametrize("form", ["npz", "positions", "folder", "pb", "bundle"])
def test_places_of_cases(form: str, tmp_path: Path, bundle_of: Callable[[str], Path]) -> None:
    x = np.random.default_rng(3).normal(size=(5, 16)).astype(np.float32)
    bundle = bundle_of("mlp")
    place = tmp_path / "cases.npz"
    if form == "npz":
        np.savez(place, x=x)
    elif form == "positions":
        np.savez(place, x)
    elif form == "folder":
        place = tmp_path / "cases"
        place.mkdir()
        np.savez(place / "a.npz", x=x)
        np.savez(place / "b c.npz", x=x[:2])
    else:
        place = bundle / "cases" if form == "pb" else bundle
    wanted = {"folder": 2, "bundle": 3}.get(form, 1)
    if form == "pb":
        wanted = 3 + sum(c.expect == "rejected" for c in read_bundle(bundle).input_cases)
        with pytest.raises(InputSpecError, match=r"'x' (is|has)"):  # a bundle has cases that must be refused
            narrow("bfloat16", bundle, tmp_path / "n.onnx", cases=place)
        return
    done = narrow("bfloat16", bundle, tmp_path / "n.onnx", cases=place)
    assert sum(c.expect == "match" for c in done.record.input_cases) == wanted


def test_bad_cases(tmp_path: Path, bundle_of: Callable[[str], Path]) -> None:
    bundle = bundle_of("mlp")
    empty = tmp_path / "empty"
    empty.mkdir()
    text = tmp_path / "text.npz"
    text.write_text("no arrays")
    named = tmp_path / "named.npz"
    np.savez(named, y=np.zeros((2, 16), np.float32))
    bad: list[tuple[Any, str]] = [
        (tmp_path / "nowhere.npz", "there are no cases at"),
        (empty, "holds no cases"),
        (text, "can't be read"),
        (named, "lacks x and has y"),
        ({}, "no cases to run"),
        ({"a": []}, "has 0 arrays; the file takes 1: x"),
        ({"a": [np.zeros((2, 17), np.float32)]}, "has shape"),
        ({"a": [np.zeros((2, 16, 1), np.float32)]}, "has shape"),
        ({"a": [np.zeros((2, 16))]}, "is float64, not float32"),
    ]
    for cases, message in bad:
        with pytest.raises(InputSpecError, match=message):
            narrow("int8", bundle, tmp_path / "out.onnx", cases=cases)
    assert not (tmp_path / "out.onnx").exists()


def test_bad_arguments(tmp_path: Path, bundle_of: Callable[[str], Path]) -> None:
    bundle, output = bundle_of("mlp"), tmp_path / "out.onnx"
    model = bundle.with_suffix(".onnx")
    calls: list[tuple[Callable[[], Any], str]] = [
        (lambda: onnxproof.quantize(bundle, output, "int2"), "there is no mode 'int2'"),  # type: ignore[arg-type]
        (lambda: onnxproof.convert(bundle, output, "float8"), "there is no dtype"),  # type: ignore[arg-type]
        (lambda: onnxproof.quantize(bundle, output, calibration=bundle), "takes no calibration"),
        (lambda: onnxproof.quantize(bundle, output, "int4", block_size=24), "power of two"),
        (lambda: onnxproof.quantize(bundle, output, limit=-1.0), "limit=-1.0"),
        (lambda: onnxproof.quantize(bundle, output, limit=float("nan")), "limit=nan"),
        (lambda: onnxproof.quantize(bundle, output, operators=["Tanh"]), "nothing in"),
        (lambda: onnxproof.quantize(model, output), "there are no cases"),
        (lambda: onnxproof.quantize(model, model, cases=bundle), "is the file to convert"),
        (lambda: onnxproof.convert(tmp_path / "none.onnx", output), "there is no file"),
    ]
    for call, message in calls:
        with pytest.raises(OnnxProofError, match=message):
            call()
    assert not output.exists()
    assert not output.with_suffix(".evidence").exists()


def test_float64_has_nothing_to_narrow(tmp_path: Path) -> None:
    weight = WEIGHT.astype(np.float64)
    source = file_of(lambda x: x @ weight, tmp_path / "m.onnx", enable_double_precision=True)
    cases = {"a": [np.ones((2, 8))]}
    for mode in MODES:
        with pytest.raises(InputSpecError, match="nothing in"):
            narrow(mode, source, tmp_path / "out.onnx", cases=cases)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.onnx"]


def test_unsound_sources(tmp_path: Path) -> None:
    source = file_of(lambda x: x @ WEIGHT, tmp_path / "m.onnx")
    cases = drawn(3)
    wrong = onnxproof.verify(
        Recorded({"batch-3": [np.zeros((3, 8), np.float32)]}), source, cases, bundle_path=tmp_path / "w"
    )
    assert wrong.failure == "mismatch"
    with pytest.raises(ConformanceError, match="failed with mismatch"):
        narrow("int8", tmp_path / "w", tmp_path / "out.onnx")
    good = onnxproof.verify(None, source, cases, bundle_path=tmp_path / "g")
    assert good.failure is None
    with (tmp_path / "g" / "model.onnx").open("ab") as file:
        file.write(b"\0")
    with pytest.raises(ConformanceError, match="not those of the record"):
        narrow("int8", tmp_path / "g", tmp_path / "out.onnx")
    source.write_bytes(b"no model")
    with pytest.raises(ConformanceError, match="can't be read"):
        narrow("int8", source, tmp_path / "out.onnx", cases=cases)
    assert not (tmp_path / "out.onnx").exists()


def test_what_stands_there_is_kept_until_there_is_something_new(tmp_path: Path) -> None:
    source = file_of(lambda x: x @ WEIGHT, tmp_path / "m.onnx")
    first = narrow("int8", source, tmp_path / "out.onnx", cases=drawn(3))
    before = first.files[0].read_bytes(), (first.evidence / "record.json").read_bytes()
    with pytest.raises(InputSpecError):
        narrow("int8", source, tmp_path / "out.onnx", cases=drawn(3), operators=["Tanh"])
    assert before == (first.files[0].read_bytes(), (first.evidence / "record.json").read_bytes())
    again = narrow("bfloat16", source, tmp_path / "out.onnx", cases=drawn(3))
    assert again.record.exporter.options["mode"] == "bfloat16"
    (tmp_path / "other.evidence").mkdir()
    with pytest.raises(ConformanceError, match="holds something else"):
        narrow("int8", source, tmp_path / "other.onnx", cases=drawn(3))
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]


def test_the_tools_leave_this_process_alone(tmp_path: Path) -> None:
    handlers = list(logging.getLogger().handlers), logging.getLogger().level
    source = file_of(lambda x: x @ WEIGHT, tmp_path / "m.onnx")
    narrow("int4", source, tmp_path / "out.onnx", cases=drawn(3))
    assert handlers == (logging.getLogger().handlers, logging.getLogger().level)


def test_commands(tmp_path: Path, bundle_of: Callable[[str], Path]) -> None:
    bundle = bundle_of("mlp")
    done = onnxproof_command(tmp_path, "quantize", str(bundle), "--json")
    assert done.code == 0, done.err
    said = json.loads(done.out)
    assert said["files"] == ["mlp.int8.onnx"]
    assert said["failure"] is None
    assert said["losses"][0]["argmax_agreement"] == 1.0
    record = read_record((tmp_path / "mlp.int8.evidence" / "record.json").read_bytes())
    assert record.failure is None
    done = onnxproof_command(tmp_path, "convert", str(bundle.with_suffix(".onnx")), "--to", "bfloat16")
    assert done.code == 0, done.err
    assert "lost in output" in done.out
    assert "proof: executed" in done.out
    done = onnxproof_command(tmp_path, "convert", str(bundle), "-o", "b.onnx", "--limit", "1e-9", "--json")
    assert done.code == 16
    assert json.loads(done.out)["failure"] == "mismatch"
    assert "case-1-2: mismatch" in done.err


def test_commands_used_wrongly(tmp_path: Path, bundle_of: Callable[[str], Path]) -> None:
    model = str(bundle_of("mlp").with_suffix(".onnx"))
    done = onnxproof_command(tmp_path, "quantize", model, "--mode", "int8-static")
    assert done.code == 2
    assert "calibration cases" in done.err
    assert onnxproof_command(tmp_path, "convert", "none.onnx").code == 2
    assert onnxproof_command(tmp_path, "convert", model, "--to", "int8").code == 2
    done = onnxproof_command(tmp_path, "quantize", model, "--mode", "int4", "--block-size", "7")
    assert done.code == 1
    assert "power of two" in done.err
    assert not list(tmp_path.iterdir())
