"""What people see of a file: metadata, names by scope, and blocks that are functions."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime as ort
import pytest
from flax import linen

from onnxproof import Metadata, explain, onnx_function, to_onnx, verify
from onnxproof.errors import InputSpecError
from tests.running import assert_same, run, session
from tests.test_cli import onnxproof_command

Array = np.ndarray[Any, Any]
WEIGHT = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)


def scores(pixels: jax.Array) -> jax.Array:
    return jax.nn.softmax(pixels @ WEIGHT)


FULL = Metadata(
    doc="Says which of three animals a picture shows.",
    inputs={"pixels": "Four brightnesses, from 0 to 1."},
    outputs={"scores": "Probabilities."},
    labels=["cat", "dög", "owl"],
    preprocessing="Divide by 255.",
    card={"license": "Apache-2.0", "author": "someone"},
)


def test_everything_is_written() -> None:
    model = to_onnx(scores, [("B", 4)], output_names=["scores"], metadata=FULL)
    onnx.checker.check_model(model, full_check=True)
    assert model.doc_string == FULL.doc
    assert model.graph.input[0].doc_string == FULL.inputs["pixels"]
    assert model.graph.output[0].doc_string == FULL.outputs["scores"]
    props = {p.key: p.value for p in model.metadata_props}
    assert json.loads(props["labels"]) == ["cat", "dög", "owl"]
    assert props["preprocessing"] == "Divide by 255."
    assert props["license"] == "Apache-2.0"
    meta = session(model).get_modelmeta()
    assert meta.description == FULL.doc
    assert meta.custom_metadata_map["author"] == "someone"


def test_the_order_of_a_mapping_changes_nothing() -> None:
    one, two = (
        to_onnx(scores, [("B", 4)], metadata={k: k.upper() for k in keys}).SerializeToString()
        for keys in (("b", "a"), ("a", "b"))
    )
    assert one == two
    assert one != to_onnx(scores, [("B", 4)]).SerializeToString()


WRONG: list[tuple[Any, str]] = [
    (Metadata(inputs={"pixel": "x"}), "did you mean 'pixels'"),
    (Metadata(outputs={"other": "x"}), "no output 'other'"),
    (Metadata(labels=["a", "b"]), "has 3 classes, and 2 labels"),
    (Metadata(labels="abc"), "labels is a string"),
    (Metadata(labels={"nowhere": ["a"]}), "no output 'nowhere'"),
    (Metadata(card={"onnxproof.source": "x"}), "the exporter's own"),
    (Metadata(card={"year": 2026}), "is no text"),  # type: ignore[dict-item]
    ({"onnxproof.x": "y"}, "the exporter's own"),
]


@pytest.mark.parametrize(("metadata", "wrong"), WRONG, ids=[w for _, w in WRONG])
def test_what_does_not_fit(metadata: Any, wrong: str) -> None:
    with pytest.raises(InputSpecError) as caught:
        to_onnx(scores, [("B", 4)], output_names=["scores"], metadata=metadata)
    assert wrong in str(caught.value)


def test_labels_of_one_of_several_outputs() -> None:
    both = lambda x: (scores(x), jnp.argmax(x, -1))  # noqa: E731
    names = {"output_names": ["scores", "best"]}
    with pytest.raises(InputSpecError, match="of which of 2 outputs"):
        to_onnx(both, [("B", 4)], metadata=Metadata(labels=["a", "b", "c"]), **names)
    labels = {"scores": ["a", "b", "c"], "best": ["p", "q", "r", "s"]}
    model = to_onnx(both, [("B", 4)], metadata=Metadata(labels=labels), **names)
    props = {p.key: json.loads(p.value) for p in model.metadata_props if p.key.startswith("labels")}
    assert props == {f"labels.{k}": v for k, v in labels.items()}


class Block(linen.Module):
    width: int = 16

    @linen.compact
    def __call__(self, x: Any) -> Any:
        h = linen.Dense(self.width)(linen.LayerNorm()(x))
        return x + linen.Dense(x.shape[-1])(linen.gelu(h))


class Stack(linen.Module):
    widths: tuple[int, ...] = (16, 16, 16)

    @linen.compact
    def __call__(self, x: Any) -> Any:
        for width in self.widths:
            x = Block(width)(x)
        return linen.Dense(2)(x)


def bound(module: linen.Module, x: Array) -> Callable[[Any], Any]:
    params = module.init(jax.random.key(0), x)
    return lambda x: module.apply(params, x)


def attention(x: Any) -> Any:
    layers = [
        hk.MultiHeadAttention(2, 4, w_init=hk.initializers.RandomNormal(0.2), model_size=8) for _ in range(2)
    ]
    for layer in layers:
        x = x + layer(x, x, x)
    return x


def haiku_stack() -> Callable[[Any], Any]:
    net = hk.without_apply_rng(hk.transform(attention))
    params = net.init(jax.random.key(0), np.ones((1, 3, 8), np.float32))
    return lambda x: net.apply(params, x)


def named_scopes(x: Any) -> Any:
    for i in range(3):
        with jax.named_scope(f"step_{i}"):
            x = jnp.tanh(x @ (WEIGHT @ WEIGHT.T) * 0.1) + i
    return x


def crossed(x: Any) -> Any:
    """Scopes that are entered again after something outside of them: no call can stand for either."""
    for i in range(2):
        with jax.named_scope(f"part_{i}"):
            y = jnp.tanh(x) * 2
        y = jnp.sort(y)
        with jax.named_scope(f"part_{i}"):
            x = y + jnp.tanh(x) * 2
    return x


def called_twice(x: Any) -> Any:
    """One scope for two calls, as a layer has that is applied twice."""
    for _ in range(2):
        with jax.named_scope("layer"):
            y = jnp.sin(x) * 2
        x = jnp.sort(y)
    return x


def looped(x: Any) -> Any:
    for i in range(2):
        with jax.named_scope(f"loop_{i}"):
            x = jax.lax.fori_loop(0, x.shape[-1], lambda _, v: jnp.sin(v) + 1, x) * 2
    return x


X4, X8 = (np.random.default_rng(1).normal(size=(2, n)).astype(np.float32) for n in (4, 8))
X38 = np.random.default_rng(1).normal(size=(2, 3, 8)).astype(np.float32)
# name, callable, input, functions and how often each is called
FUNCTIONS: list[tuple[str, Callable[[], Any], Array, dict[str, int]]] = [
    ("linen", lambda: bound(Stack(), X8), X8, {"Block": 3}),
    ("two kinds", lambda: bound(Stack((16, 24, 16, 24)), X8), X8, {"Block": 2, "Block_1": 2}),
    ("one of each", lambda: bound(Stack((16, 24)), X8), X8, {}),
    ("haiku", haiku_stack, X38, {"multi_head_attention": 2}),
    ("literals differ", lambda: named_scopes, X4, {}),
    ("called twice", lambda: called_twice, X4, {"layer": 2}),
    ("crossed", lambda: crossed, X4, {}),
    ("loops stay", lambda: looped, X4, {}),
    ("no scopes", lambda: scores, X4, {}),
]


@pytest.mark.parametrize(("make", "x", "want"), [r[1:] for r in FUNCTIONS], ids=[r[0] for r in FUNCTIONS])
def test_functions_of_scopes(make: Callable[[], Any], x: Array, want: dict[str, int]) -> None:
    fn = make()
    spec = [("B", *x.shape[1:])]
    plain, model = to_onnx(fn, spec), to_onnx(fn, spec, functions="scopes")
    onnx.checker.check_model(model, full_check=True)
    calls = Counter(n.op_type for n in model.graph.node if n.domain == "onnxproof.functions")
    assert dict(calls) == want
    assert {f.name for f in model.functions} == set(want)
    assert len({n.name for n in model.graph.node}) == len(model.graph.node)
    assert [t.name for t in plain.graph.initializer if np.prod(t.dims) > 8] == [
        t.name for t in model.graph.initializer if np.prod(t.dims) > 8
    ]
    for rows in (1, 2):
        (got,), (as_plain,) = run(session(model), [x[:rows]]), run(session(plain), [x[:rows]])
        assert_same(got, fn(x[:rows]))
        np.testing.assert_array_equal(got, as_plain)
    assert model.SerializeToString() == to_onnx(fn, spec, functions="scopes").SerializeToString()


def test_onnx_runtime_opens_the_functions(tmp_path: Path) -> None:
    fn = bound(Stack(), X8)
    kinds = []
    for functions in ("marked", "scopes"):
        options = ort.SessionOptions()
        options.optimized_model_filepath = str(tmp_path / f"{functions}.onnx")
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
        model = to_onnx(fn, [("B", 8)], functions=functions)
        ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        kinds.append(Counter(n.op_type for n in onnx.load(options.optimized_model_filepath).graph.node))
    assert kinds[0] == kinds[1]


def test_weights_of_one_element_stay_weights() -> None:
    """Equal at the start, and to be swapped by path later: they don't become part of the body."""

    def fn(x: Any) -> Any:
        for i, scale in enumerate(scales["scale"]):
            with jax.named_scope(f"layer_{i}"):
                x = jnp.tanh(x) * scale + 1
        return x

    scales = {"scale": [jnp.ones(1), jnp.ones(1) * 1]}
    model = to_onnx(fn, [("B", 4)], functions="scopes")
    assert [n.op_type for n in model.graph.node] == ["layer", "layer"]
    assert {"scale.0", "scale.1"} <= {t.name for t in model.graph.initializer}
    assert_same(run(session(model), [X4])[0], fn(X4))


def test_bodies_lose_the_scope_of_the_call() -> None:
    model = to_onnx(bound(Stack(), X8), [("B", 8)], functions="scopes")
    (body,) = model.functions
    assert {n.name.partition("/")[0] for n in body.node if n.name} <= {
        "LayerNorm_0",
        "Dense_0",
        "Dense_1",
        "gelu_tanh",
        "add",
    }
    assert [n.name for n in model.graph.node][:3] == ["Stack/Block_0", "Stack/Block_1", "Stack/Block_2"]


def test_evidence_and_explanations_of_functions() -> None:
    fn = bound(Stack(), X8)
    model = to_onnx(fn, [("B", 8)], functions="scopes")
    record = verify(fn, model, [X8], runtimes=["onnxruntime", "onnx-reference"])
    assert record.status == "passed"
    assert explain(fn, [("B", 8)], [X8], model).fault == "none"


def test_marked_functions_and_scopes_together() -> None:
    @onnx_function(unique=True)
    def inner(x: Any) -> Any:
        return jnp.tanh(x) * 2

    def fn(x: Any) -> Any:
        for i in range(2):
            with jax.named_scope(f"outer_{i}"):
                x = inner(x) + 1
        return x

    model = to_onnx(fn, [("B", 4)], functions="scopes")
    onnx.checker.check_model(model, full_check=True)
    assert {f.name for f in model.functions} == {"inner", "outer"}
    assert_same(run(session(model), [X4])[0], fn(X4))


def test_wrong_choices() -> None:
    with pytest.raises(InputSpecError, match="functions='all'"):
        to_onnx(scores, [("B", 4)], functions="all")  # type: ignore[call-overload]
    with pytest.raises(InputSpecError, match="strip_provenance leaves out"):
        to_onnx(scores, [("B", 4)], functions="scopes", strip_provenance=True)


def test_the_command_writes_metadata(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import jax, numpy as np\n"
        "def scores(pixels):\n    return jax.nn.softmax(pixels @ np.ones((4, 3), 'float32'))\n"
    )
    (tmp_path / "labels.txt").write_text("cat\ndog\n\nowl\n")
    export = ["export", "mine:scores", "-i", "pixels=B,4", "--no-prove", "--output-name", "p"]
    said = [
        "--doc",
        "Animals.",
        "--describe",
        "pixels=Brightness = 0 to 1.",
        "--describe",
        "p=Probabilities.",
    ]
    more = [
        "--labels",
        "labels.txt",
        "--meta",
        "license=MIT",
        "--meta",
        "preprocessing=Divide.",
        "--functions",
        "scopes",
    ]
    done = onnxproof_command(tmp_path, *export, *said, *more)
    assert done.code == 0, done.err
    model = onnx.load(tmp_path / "scores.onnx")
    assert model.doc_string == "Animals."
    assert model.graph.input[0].doc_string == "Brightness = 0 to 1."
    assert model.graph.output[0].doc_string == "Probabilities."
    props = {p.key: p.value for p in model.metadata_props}
    assert json.loads(props["labels"]) == ["cat", "dog", "owl"]
    assert (props["license"], props["preprocessing"]) == ("MIT", "Divide.")
    for wrong, told in [
        (["--describe", "pixel=x"], "'pixel'"),
        (["--describe", "pixels"], "NAME=TEXT"),
        (["--labels", "nowhere.txt"], "nowhere.txt"),
        (["--meta", "license"], "KEY=VALUE"),
    ]:
        refused = onnxproof_command(tmp_path, *export, "-o", "not.onnx", *wrong)
        assert refused.code in (1, 2), refused.err
        assert told in refused.err
        assert not (tmp_path / "not.onnx").exists()
