"""Contracts: what they say of files that keep them, and of files that break one clause each."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from examples.policies import POLICIES, export
from onnxproof import to_onnx
from onnxproof.contracts import (
    Batch,
    Bounds,
    Clause,
    Continuous,
    Contract,
    ContractError,
    Discrete,
    Finite,
    Headroom,
    IndependentRows,
    IndexRange,
    Input,
    Monotone,
    NoForbiddenInputs,
    NoRandomness,
    OnlyPorts,
    Output,
    Own,
    Repeatable,
    State,
    Subject,
    SumsToOne,
    check,
    find,
    policy,
    read_toml,
)
from onnxproof.contracts.clause import CLAUSES, holds, make
from tests.test_cli import SRC, onnxproof_command

Model = Callable[[], onnx.ModelProto]


def made(fn: Callable[..., Any], *inputs: Any, outputs: list[str] | None = None, **options: Any) -> Model:
    return lambda: to_onnx(fn, list(inputs), output_names=outputs, **options)


def random_inside() -> onnx.ModelProto:
    """A branch that draws numbers: y = x + noise, where x sums to more than 0."""

    def branch(name: str, op: str, **attributes: Any) -> onnx.GraphProto:
        node = helper.make_node(op, ["x"], [f"{name}_out"], name=name, **attributes)
        return helper.make_graph([node], name, [], [helper.make_tensor_value_info(f"{name}_out", 1, None)])

    nodes = [
        helper.make_node("ReduceSum", ["x"], ["total"], keepdims=0),
        helper.make_node("Greater", ["total", "zero"], ["positive"]),
        helper.make_node(
            "If",
            ["positive"],
            ["y"],
            name="either",
            then_branch=branch("noise", "RandomNormalLike"),
            else_branch=branch("same", "Identity"),
        ),
    ]
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["B", 3]) for n in ("x", "y")]
    graph = helper.make_graph(
        nodes, "noisy", ports[:1], ports[1:], [helper.make_tensor("zero", TensorProto.FLOAT, [], [0.0])]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


X = ("B", 3)
KEY = jax.ShapeDtypeStruct((2,), "uint32")
IDENTITY = made(lambda x: x + 0, X, outputs=["y"])
HALF = made(lambda x: (x.astype(jnp.float16) * 200) - 1, X, outputs=["y"])
CARRIED = made(lambda x, c: (x + c, c * 0.5 + x), X, X, outputs=["y", "next"])

# model, clause, a word of what is wrong (None where the clause holds)
ROWS: list[tuple[str, Model, Clause, str | None]] = [
    ("input", IDENTITY, Input("x", "float32", ("B", 3)), None),
    ("input-name", IDENTITY, Input("obs"), "there is no input 'obs'"),
    ("input-dtype", IDENTITY, Input("x", "float16"), "'x' is float32"),
    ("input-width", IDENTITY, Input("x", shape=("B", 4)), "shape [B, 3]"),
    ("input-fixed", made(lambda x: x + 0, (2, 3)), Input("x", shape=("B", 3)), "shape [2, 3]"),
    ("input-one-name", made(lambda x: x + 0, ("B", "T")), Input("x", shape=("B", "B")), "shape [B, T]"),
    ("input-any", IDENTITY, Input("x", shape=(None, None)), None),
    ("output-dtypes", IDENTITY, Output("y", ("float16", "float32")), None),
    ("output-rank", IDENTITY, Output("y", shape=("B",)), "shape [B, 3]"),
    ("only-ports", IDENTITY, OnlyPorts(("x",), ("y",)), None),
    ("one-more", CARRIED, OnlyPorts(("x",), ("y",)), "there is an input 'c' as well"),
    ("words-in-names", made(lambda obs, rngKey: obs, X, X), NoForbiddenInputs(), "'rngKey' has 'rng'"),
    ("words-that-are-parts", made(lambda monkey, trainer: monkey + trainer, X, X), NoForbiddenInputs(), None),
    ("training", made(lambda x, is_training: x, X, X), NoForbiddenInputs(), "has 'training'"),
    ("numbered", made(lambda x, params_0: x, X, X), NoForbiddenInputs(), "has 'params'"),
    ("no-randomness", IDENTITY, NoRandomness(), None),
    ("randomness-inside", random_inside, NoRandomness(), "inside If either"),
    ("repeatable", IDENTITY, Repeatable(), None),
    ("batch", IDENTITY, Batch(), None),
    ("batch-fixed", made(lambda x: x + 0, (2, 3)), Batch(), "no first dimension varies"),
    ("batch-even", made(lambda x: x.reshape(-1, 2, 3).sum(1), ("2*B", 3)), Batch(), "at 1:"),
    ("batch-lost", made(lambda x: x.sum(0), X), Batch((1, 2)), "has no dimension 'B'"),
    ("rows", made(lambda x: jnp.tanh(x) @ np.ones((3, 3), "f"), X), IndependentRows(), None),
    ("rows-mixed", made(lambda x: x - x.mean(0), X), IndependentRows(), "row 0"),
    ("rows-reversed", made(lambda x: x[::-1], X), IndependentRows(), "beside others"),
    ("rows-of-ints", made(lambda x: jnp.argmax(x, -1), X), IndependentRows(), None),
    ("rows-of-state", made(lambda x, c: (x + c[0], c), X, (2, "B", 3)), IndependentRows(), None),
    ("bounds", made(jnp.sin, X, outputs=["y"]), Bounds("y", -1, 1), None),
    ("bounds-above", made(jnp.sin, X, outputs=["y"]), Bounds("y", -1, 0.5), "greatest"),
    ("bounds-one-side", made(jnp.abs, X, outputs=["y"]), Bounds("y", low=0.0), None),
    ("bounds-each", made(jnp.abs, X, outputs=["y"]), Bounds("y", low=(0.0, 0.0, 0.5)), "least[2]"),
    ("bounds-count", made(jnp.abs, X, outputs=["y"]), Bounds("y", low=(0.0, 0.0)), "not 2 components"),
    ("bounds-nan", made(lambda x: jnp.log(x), X, outputs=["y"]), Bounds("y", high=1e9), "nan"),
    ("index", made(lambda x: jnp.argmax(x, -1), X, outputs=["y"]), IndexRange("y", 3), None),
    ("index-range", made(lambda x: jnp.argmax(x, -1), X, outputs=["y"]), IndexRange("y", 2), "is 2 on"),
    ("index-dtype", IDENTITY, IndexRange("y", 3), "'y' is float32"),
    ("finite", made(jnp.tanh, X), Finite(), None),
    ("not-finite", made(jnp.exp, X, outputs=["y"]), Finite("y"), "inf at"),
    ("sums-to-one", made(jax.nn.softmax, X, outputs=["y"]), SumsToOne("y"), None),
    ("sums-to-two", made(lambda x: 2 * jax.nn.softmax(x), X, outputs=["y"]), SumsToOne("y"), "off by 1"),
    ("sums-axis", made(jax.nn.softmax, X, outputs=["y"]), SumsToOne("y", axis=3), "no axis 3"),
    ("rising", made(lambda x: x**3, X, outputs=["y"]), Monotone("y", "x"), None),
    ("falling", made(lambda x: -x, X, outputs=["y"]), Monotone("y", "x", rising=False), None),
    ("not-rising", made(lambda x: x**2, X, outputs=["y"]), Monotone("y", "x"), "the wrong way"),
    ("rising-in-one", made(lambda x: x[:, :1] - x[:, 1:], X, outputs=["y"]), Monotone("y", "x", 0), None),
    ("not-in-the-other", made(lambda x: x[:, :1] - x[:, 1:], X, outputs=["y"]), Monotone("y", "x", 1), "way"),
    ("no-component", IDENTITY, Monotone("y", "x", 7), "no component 7"),
    ("headroom", HALF, Headroom(0.5), None),
    ("headroom-short", HALF, Headroom(0.001), "of 65504"),
    ("overflow", made(lambda x: x.astype(jnp.float16) * jnp.float16(60000), X), Headroom(1.0), "infinite: "),
    ("state", CARRIED, State("c", "next"), None),
    ("state-shape", made(lambda x, c: (x, c[:, :2]), X, X, outputs=["y", "next"]), State("c", "next"), "of"),
    (
        "state-unused",
        made(lambda x, c: (x * 2, c * 0.5 + x), X, X, outputs=["y", "next"]),
        State("c", "next"),
        "depends on 'c'",
    ),
    (
        "state-stands",
        made(lambda x, c: (x + c, c + 0), X, X, outputs=["y", "next"]),
        State("c", "next"),
        "as it came in",
    ),
    (
        "state-explodes",
        made(lambda x, c: (x + c, c * c * 1e9), X, X, outputs=["y", "next"]),
        State("c", "next"),
        "not finite after",
    ),
    ("own", IDENTITY, Own(lambda subject: None), None),
    ("own-says", IDENTITY, Own(lambda subject: ["one", "two"]), "two"),
]


@pytest.mark.parametrize(("model", "clause", "wrong"), [r[1:] for r in ROWS], ids=[r[0] for r in ROWS])
def test_clause(model: Model, clause: Clause, wrong: str | None) -> None:
    report = check(model(), Contract("one", (clause,)))
    text = str(report)
    if wrong is None:
        assert report.passed, text
        report.require()
        return
    assert not report.passed
    assert wrong in text
    with pytest.raises(ContractError) as caught:
        report.require()
    assert wrong in str(caught.value)


def test_every_clause_is_kept_and_broken_by_a_row() -> None:
    kept = {clause.kind for _, _, clause, wrong in ROWS if wrong is None}
    broken = {clause.kind for _, _, clause, wrong in ROWS if wrong is not None}
    assert kept == set(CLAUSES)
    assert broken == set(CLAUSES) - {"repeatable"}  # one that isn't is the next test


def test_what_is_drawn_anew_is_not_repeatable() -> None:
    node = helper.make_node("RandomNormalLike", ["x"], ["y"])
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["B", 3]) for n in ("x", "y")]
    graph = helper.make_graph([node], "noise", ports[:1], ports[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    report = check(model, Contract("noise", (Repeatable(),)))
    assert "'y' differs in run 2" in str(report)


@pytest.mark.parametrize("name", list(POLICIES))
def test_examples_keep_their_contracts(name: str) -> None:
    check(export(name), POLICIES[name][3]).require()


def test_policies_break_the_contract_of_another_kind() -> None:
    report = check(export("discrete"), policy(Continuous()))
    broken = [clause.kind for clause, _ in report.broken]
    assert broken == ["output", "bounds"]
    report = check(export("continuous"), policy(Continuous(-1, 1)))
    assert [clause.kind for clause, _ in report.broken] == ["bounds"]
    report = check(export("recurrent"), policy(Continuous()))
    assert [clause.kind for clause, _ in report.broken] == ["only-ports"]


def test_contracts_are_values() -> None:
    base = policy(Discrete(3))
    assert base == policy(Discrete(3))
    assert hash(base) == hash(policy(Discrete(3)))
    more = base + Finite("action") + [Bounds("action", 0, 2)]
    assert len(more.clauses) == len(base.clauses) + 2
    assert (base + base).clauses == base.clauses
    assert (base + Contract("x", (Headroom(),))).name == base.name
    assert base.named("mine").name == "mine"
    for clause in more.clauses:
        assert make(clause.kind, clause.settings()) == clause


def test_inputs_of_the_caller_are_looked_at() -> None:
    model = to_onnx(lambda x: x, [X], output_names=["y"])
    contract = Contract("small", (Input("x", low=-1.0, high=1.0), Bounds("y", -1.0, 1.0)))
    check(model, contract).require()  # drawn within what the input may hold
    report = check(model, contract, inputs={"large": [np.full((2, 3), 5, np.float32)]})
    assert "5.0 on case 'large'" in str(report)


def test_a_function_may_run_the_file() -> None:
    def odd(subject: Subject) -> str | None:
        """f(-x) is -f(x)"""
        feed = subject.draw(4)
        minus = {name: -array for name, array in feed.items()}
        assert np.array_equal(subject.run(minus)["y"], -subject.run(feed)["y"]), "it is not odd"
        return None

    contract = Contract("odd", (Own(odd),))
    assert "f(-x) is -f(x)" in str(check(to_onnx(jnp.sin, [X], output_names=["y"]), contract).require())
    assert "it is not odd" in str(check(to_onnx(jnp.cos, [X], output_names=["y"]), contract))


TOML = """
format = "onnxproof.contract/1"
name = "motors"

[policy]
low = [-2, -2, 0]
high = [2, 2, 2]
obs_shape = [8]

[[clauses]]
clause = "finite"
output = "action"
"""
WRONG_TOML = [
    (TOML.replace("contract/1", "contract/9"), "does not say format"),
    (TOML.replace('clause = "finite"', 'clause = "infinite"'), "there is no clause 'infinite'"),
    (TOML.replace('output = "action"', "axis = 2"), "has no 'axis'"),
    (TOML.replace("obs_shape", "shape"), "not whole"),
    (TOML.replace('name = "motors"', "name = 3"), "name is a text"),
    (TOML.replace('clause = "finite"', 'kind = "finite"'), "the name of a clause"),
    (TOML + "\n[[more]]\n", "has 'more'"),
    (TOML.replace('"finite"\noutput = "action"', '"own"\nfunction = "os:getcwd"'), "can't name code"),
    ('format = "onnxproof.contract/1"\n', "demands nothing"),
    ("format = ", "is not TOML"),
]


def test_toml(tmp_path: Path) -> None:
    place = tmp_path / "motors.toml"
    place.write_text(TOML)
    contract = read_toml(place)
    assert contract == policy(Continuous((-2, -2, 0), (2, 2, 2)), obs_shape=(8,), name="motors") + Finite(
        "action"
    )
    check(export("continuous"), contract).require()


@pytest.mark.parametrize(("text", "wrong"), WRONG_TOML, ids=[w for _, w in WRONG_TOML])
def test_wrong_toml(text: str, wrong: str, tmp_path: Path) -> None:
    place = tmp_path / "c.toml"
    place.write_text(text)
    with pytest.raises(ContractError) as caught:
        read_toml(place)
    assert wrong in str(caught.value)


def test_what_is_no_contract() -> None:
    with pytest.raises(ContractError, match="there is no contract 'policy'"):
        find("policy", lambda text: None)
    with pytest.raises(ContractError, match="is a int, not a contract"):
        find("m:n", lambda text: 3)
    with pytest.raises(ContractError, match="can't be read"):
        find("nowhere.toml", lambda text: None)
    with pytest.raises(ContractError, match="demands nothing"):
        Contract("empty", ())
    with pytest.raises(ContractError, match="a str for a clause"):
        Contract("odd", ("bounds",))  # type: ignore[arg-type]
    assert holds(Finite(), check(export("discrete"), Contract("f", (Finite(),))).findings[0])


def test_a_file_that_is_no_model(tmp_path: Path) -> None:
    place = tmp_path / "no.onnx"
    place.write_bytes(b"not a model")
    with pytest.raises(ContractError, match="can't be read"):
        check(place, policy())


def test_neither_jax_nor_the_compiler_is_needed(tmp_path: Path) -> None:
    onnx.save(export("discrete"), tmp_path / "m.onnx")
    code = (
        f"import sys; sys.path.insert(0, {str(SRC)!r})\n"
        "from onnxproof.contracts import Discrete, check, policy\n"
        f"check({str(tmp_path / 'm.onnx')!r}, policy(Discrete(3))).require()\n"
        "print(sorted(m for m in sys.modules if m == 'jax' or m.startswith(('onnxproof.lower', 'onnxproof.capt'))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_command(tmp_path: Path) -> None:
    onnx.save(export("discrete"), tmp_path / "m.onnx")
    (tmp_path / "mine.py").write_text(
        "from onnxproof.contracts import *\n"
        "def check_it(subject):\n    return 'wrong by choice'\n"
        "def contract():\n    return Contract('mine', (Own(check_it),))\n"
    )
    good = onnxproof_command(tmp_path, "verify", "m.onnx", "--contract", "policy-discrete", "--bundle", "b")
    assert good.code == 0, good.err
    assert "contract policy-discrete: passed" in good.out
    again = onnxproof_command(tmp_path, "verify", "b")
    assert again.code == 0
    assert "contract policy-discrete: passed" in again.out
    bad = onnxproof_command(tmp_path, "verify", "b", "--contract", "mine:contract")
    assert bad.code == 19, bad.err
    assert "wrong by choice" in bad.out
    unknown = onnxproof_command(tmp_path, "verify", "b", "--contract", "policy")
    assert unknown.code == 1
    assert "policy-discrete" in unknown.err
