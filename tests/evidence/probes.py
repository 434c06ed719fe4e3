"""A small model for each known limit of a runtime, which shows that the limit is there."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

from onnxproof.evidence.proof import RUNS
from onnxproof.evidence.runtimes.process import RuntimeProcess
from onnxproof.evidence.tensors import decode, encode
from tests.evidence.memory import cubic

Array = np.ndarray[Any, Any]
Answers = list[dict[str, Any]]
NAN = float("nan")


@dataclass(frozen=True)
class Probe:
    """A model, and the inputs that it is run on one after the other.

    Attributes:
        shows: whether what the runtime answered shows the limit; answers have the outputs under ``arrays``.
    """

    model: ModelProto
    inputs: Sequence[Sequence[Array]]
    shows: Callable[[Answers], bool]


@dataclass
class Graph:
    """A graph in the making: inputs by name with shape and dtype, then nodes, then dtypes of outputs."""

    inputs: dict[str, tuple[Sequence[Any], str]]
    nodes: list[Any]
    outputs: dict[str, str]
    weights: dict[str, Array] = field(default_factory=dict)

    def model(self) -> ModelProto:
        def info(name: str, dtype: str, shape: Any) -> Any:
            return helper.make_tensor_value_info(name, getattr(TensorProto, dtype), shape)

        graph = helper.make_graph(
            self.nodes,
            "probe",
            [info(name, dtype, shape) for name, (shape, dtype) in self.inputs.items()],
            [info(name, dtype, None) for name, dtype in self.outputs.items()],
            [numpy_helper.from_array(array, name) for name, array in self.weights.items()],
        )
        model: ModelProto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
        model.ir_version = 10
        return model


def ask(runtime: str, probe: Probe) -> Answers:
    """What a runtime answers: to loading the model, then to each of the inputs."""
    (spec, *_) = RUNS[runtime]
    with tempfile.TemporaryDirectory() as place, RuntimeProcess(runtime) as process:
        folder = Path(place)
        (folder / "model.onnx").write_bytes(probe.model.SerializeToString())
        answers = [
            process.load(folder / "model.onnx", spec.provider, spec.session, seconds=60.0, memory=None)
        ]
        for arrays in probe.inputs if answers[0]["answer"] == "loaded" else ():
            paths = [folder / f"input_{i}.pb" for i in range(len(arrays))]
            for path, array in zip(paths, arrays, strict=True):
                path.write_bytes(encode(path.stem, array))
            answer = process.run(paths, folder, seconds=60.0, again=False)
            answer["arrays"] = [decode(Path(p).read_bytes())[1] for p in answer.get("outputs", ())]
            answers.append(answer)
        return answers


def one(op: str, *arrays: Array, to: str = "FLOAT", weights: Sequence[Array] = (), **attributes: Any) -> Any:
    """A graph of one operator, and its inputs."""
    names = [f"x{i}" for i in range(len(arrays))]
    constants = {f"w{i}": w for i, w in enumerate(weights)}
    node = helper.make_node(op, [*names, *constants], ["y"], **attributes)
    kinds = [TensorProto.DataType.Name(helper.np_dtype_to_tensor_dtype(a.dtype)) for a in arrays]
    inputs = {n: (a.shape, k) for n, a, k in zip(names, arrays, kinds, strict=True)}
    if op == "Cast":
        node.attribute.append(helper.make_attribute("to", getattr(TensorProto, to)))
    return Graph(inputs, [node], {"y": to}, constants).model(), [list(arrays)]


def f32(*values: float) -> Array:
    return np.array(values, np.float32)


def gives(*wanted: Any) -> Callable[[Answers], bool]:
    """Whether the last run gave these values."""
    return lambda answers: bool(
        answers[-1]["answer"] == "outputs" and np.array_equal(answers[-1]["arrays"][0].reshape(-1), wanted)
    )


def answered(*wanted: str) -> Callable[[Answers], bool]:
    """Whether loading and running ended so."""
    return lambda answers: [a["answer"] for a in answers] == list(wanted)


def said(answer: str, words: str) -> Callable[[Answers], bool]:
    return lambda answers: answers[-1]["answer"] == answer and words in answers[-1]["error"]


def losing_nan(operators: Sequence[str]) -> Probe:
    """Each of ``operators`` on NaN and 2, all in one graph; shown when none of them gives NaN."""
    nodes = []
    second = {"Max": ["one"], "Min": ["one"], "Clip": ["low", "one"], "ReduceMax": [], "ReduceMin": []}
    for op in operators:
        attributes = {"keepdims": 0} if op.startswith("Reduce") else {}
        nodes.append(helper.make_node(op, ["x", *second.get(op, [])], [op.lower()], **attributes))
    weights = {"one": np.float32(1), "low": np.float32(0)}
    graph = Graph({"x": ((2,), "FLOAT")}, nodes, {op.lower(): "FLOAT" for op in operators}, weights)

    def shows(answers: Answers) -> bool:
        return answers[-1]["answer"] == "outputs" and not any(
            np.isnan(a.reshape(-1)[0]) for a in answers[-1]["arrays"]
        )

    return Probe(graph.model(), [[f32(NAN, 2)]], shows)


def models(*probes: Probe) -> tuple[Probe, ...]:
    """The models that show one limit."""
    return probes


def two_inputs() -> ModelProto:
    """Two vectors of one length, each passed on."""
    nodes = [helper.make_node("Identity", [a], [b]) for a, b in (("x", "u"), ("y", "v"))]
    return Graph({"x": (["B"], "FLOAT"), "y": (["B"], "FLOAT")}, nodes, {"u": "FLOAT", "v": "FLOAT"}).model()


def passed_on(shape: Sequence[Any], dtype: str = "FLOAT") -> ModelProto:
    return Graph({"x": (shape, dtype)}, [helper.make_node("Identity", ["x"], ["y"])], {"y": dtype}).model()


def loop() -> ModelProto:
    """``x`` doubled three times."""
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["d"]), helper.make_node("Add", ["v", "v"], ["w"])],
        "body",
        [
            info("i", TensorProto.INT64, []),
            info("c", TensorProto.BOOL, []),
            info("v", TensorProto.FLOAT, [2]),
        ],
        [info("d", TensorProto.BOOL, []), info("w", TensorProto.FLOAT, [2])],
    )
    node = helper.make_node("Loop", ["n", "go", "x"], ["y"], body=body)
    weights = {"n": np.array(3), "go": np.array(True)}
    return Graph({"x": ((2,), "FLOAT")}, [node], {"y": "FLOAT"}, weights).model()


def lstm() -> ModelProto:
    weights = {"w": np.ones((1, 8, 2), np.float32), "r": np.ones((1, 8, 2), np.float32)}
    node = helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=2)
    return Graph({"x": ((3, "B", 2), "FLOAT")}, [node], {"y": "FLOAT"}, weights).model()


def sorted_down(array: Array) -> Probe:
    k = np.array([array.size])
    nodes = [helper.make_node("TopK", ["x", "k"], ["y", "i"])]
    graph = Graph({"x": (array.shape, "FLOAT")}, nodes, {"y": "FLOAT", "i": "INT64"}, {"k": k})

    def shows(answers: Answers) -> bool:
        found = answers[-1]["arrays"][0]
        return bool((np.diff(found[~np.isnan(found)]) > 0).any())

    return Probe(graph.model(), [[array]], shows)


BIG = np.full(4, 2**30, np.int32)
SUM = one("ReduceSum", BIG, to="INT32", keepdims=0)
NAMES = Probe(two_inputs(), [[f32(1, 2), f32(1, 2, 3)]], answered("loaded", "outputs"))

PROBES: dict[tuple[str, str], tuple[Probe, ...]] = {
    ("onnxruntime", "dimension-names"): models(NAMES),
    ("onnxruntime", "scalar-rank"): models(
        Probe(passed_on(()), [[np.ones((2, 2), np.float32)]], answered("loaded", "outputs"))
    ),
    ("onnxruntime", "reduction-drops-nan"): models(
        *(Probe(*one(f"Reduce{op}", f32(2, NAN, 2), keepdims=0), gives(2)) for op in ("Max", "Min"))
    ),
    ("onnxruntime", "int32-sum-saturates"): models(Probe(*SUM, gives(2**31 - 1))),
    ("onnx-reference", "inputs-unchecked"): models(
        Probe(
            passed_on((3, 2)),
            [[np.ones(4, np.float32)], [np.ones((3, 5), np.int8)]],
            answered("loaded", "outputs", "outputs"),
        )
    ),
    ("openvino", "dimension-names"): models(NAMES),
    ("openvino", "dtype-converted"): models(
        Probe(passed_on((2,)), [[np.array([1, 2], np.int32)]], answered("loaded", "outputs"))
    ),
    ("openvino", "int64-as-int32"): models(
        Probe(*one("Identity", np.array([2**40 + 1]), to="INT64"), gives(1)),
        Probe(*one("Add", np.array([2**40], np.uint64), np.array([3], np.uint64), to="UINT64"), gives(3)),
    ),
    ("openvino", "float64-as-float32"): models(
        Probe(*one("Exp", np.array([1.0]), to="DOUBLE"), gives(float(np.exp(np.float32(1)))))
    ),
    ("openvino", "nan-dropped"): models(
        losing_nan(["Max", "Min", "Clip", "Relu", "HardSigmoid", "ReduceMax", "ReduceMin"]),
        Probe(
            *one("Softmax", f32(NAN, 1)),
            lambda answers: np.isnan(answers[-1]["arrays"][0]).tolist() == [True, False],
        ),
    ),
    ("openvino", "nan-is-false"): models(Probe(*one("Cast", f32(NAN), to="BOOL"), gives(False))),
    ("openvino", "nan-unsorted"): models(sorted_down(f32(1, NAN, 3, 2))),
    ("openvino", "int32-sum-saturates"): models(Probe(*SUM, gives(-(2**31)))),
    ("tract", "bfloat16-unknown"): models(Probe(passed_on((2,), "BFLOAT16"), [], answered("error"))),
    ("tract", "loop-unknown"): models(Probe(loop(), [], answered("error"))),
    ("tract", "lstm-symbolic-batch"): models(
        Probe(lstm(), [[np.ones((3, 2, 2), np.float32)]], lambda answers: answers[-1]["answer"] == "crash")
    ),
    ("tract", "shape-as-output"): models(
        Probe(
            Graph({"x": (["B"], "FLOAT")}, [helper.make_node("Shape", ["x"], ["y"])], {"y": "INT64"}).model(),
            [[f32(1, 2)]],
            said("error", "TDim"),
        )
    ),
    ("tract", "nan-dropped"): models(
        losing_nan(["Max", "Min", "Clip", "Relu", "Tanh", "Sigmoid", "HardSigmoid", "ReduceMax", "ReduceMin"])
    ),
    ("tract", "nan-unsorted"): models(sorted_down(f32(1, NAN, 3, 2))),
    ("tract", "cast-saturates"): models(
        Probe(*one("Cast", f32(3e9, NAN), to="INT32"), gives(2**31 - 1, 0)),
        Probe(*one("Cast", f32(-1, 300), to="UINT8"), gives(0, 255)),
    ),
}


def of_version(opset: int, ir_version: int) -> Probe:
    model = passed_on((2,))
    model.opset_import[0].version, model.ir_version = opset, ir_version
    return Probe(model, [], answered("error"))


def off(value: float, low: float, high: float) -> Callable[[Answers], bool]:
    """Whether the last run gave one number, by ``low`` to ``high`` from ``value``."""
    return lambda answers: bool(low <= abs(float(answers[-1]["arrays"][0].item()) - value) <= high)


def impulse() -> Array:
    """256 complex numbers, of which the second is 1."""
    return np.stack([np.eye(1, 256, 1), np.zeros((1, 256))], -1).astype(np.float32)


def i64(*values: int) -> Array:
    return np.array(values, np.int64)


def imprecise(wanted: Array, low: float, high: float) -> Callable[[Answers], bool]:
    """Whether the last run gave these complex numbers, as pairs, the worst by ``low`` to ``high`` off."""

    def shows(answers: Answers) -> bool:
        got = answers[-1]["arrays"][0].reshape(-1, 2)
        return bool(low <= np.abs(got[:, 0] + 1j * got[:, 1] - wanted).max() <= high)

    return shows


def webs(*, webgpu: bool) -> dict[str, tuple[Probe, ...]]:
    """What shows the limits of ONNX Runtime Web, by name."""
    both = {
        **{
            name: PROBES["onnxruntime", name]
            for name in ("dimension-names", "scalar-rank", "reduction-drops-nan")
        },
        "opset-26": models(of_version(27, 13), of_version(26, 14)),
        "bfloat16-unknown": models(
            *(Probe(passed_on((2,), t), [], answered("error")) for t in ("BFLOAT16", "INT4"))
        ),
    }
    if not webgpu:
        where = [one("Where", np.array([True]), np.ones(1, d), np.ones(1, d), to=t) for d, t in _NO_WHERE]
        return {
            **both,
            "where-int8": models(*(Probe(*w, answered("error")) for w in where)),
            "cast-saturates": models(
                Probe(*one("Cast", f32(3e9, NAN), to="INT32"), gives(2**31 - 1, 0)),
                Probe(*one("Cast", f32(-1, 300), to="UINT8"), gives(0, 44)),
            ),
            "int32-sum-saturates": PROBES["onnxruntime", "int32-sum-saturates"],
            "tensor-too-large": models(
                Probe(cubic(), [[f32(1), np.ones(10_000, np.float32)]], answered("loaded", "memory"))
            ),
        }
    doubled = [(one("Add", np.ones(2, d), np.ones(2, d), to=t)) for d, t in _NO_KERNELS]
    return {
        **both,
        "types-without-kernels": models(*(Probe(*d, answered("error")) for d in doubled)),
        "float16-needs-shader-f16": models(
            Probe(
                *one("Add", np.ones(1, np.float16), np.ones(1, np.float16), to="FLOAT16"),
                said("error", "f16"),
            )
        ),
        "nan-dropped": models(
            losing_nan(["Clip", "Relu", "Sigmoid", "HardSigmoid", "Exp"]),
            Probe(*one("Softmax", f32(NAN, 1)), gives(0, 0)),
        ),
        "log-is-finite": models(
            Probe(*one("Log", f32(-1)), gives(0)), Probe(*one("Log", f32(0)), off(-88.03, 0, 0.01))
        ),
        "denormals-flushed": models(Probe(*one("Mul", f32(1e-30), f32(1e-10)), gives(0))),
        "log-near-one": models(Probe(*one("Log", f32(1 - 1440 * 2**-23)), off(-1.71676e-4, 5e-8, 2e-7))),
        "dft-imprecise": models(
            Probe(*one("DFT", impulse()), imprecise(np.fft.fft(np.eye(256)[1]), 1e-5, 2e-3))
        ),
        "slice-backwards": models(
            Probe(*one("Slice", f32(0, 1, 2, 3), weights=[i64(2), i64(0), i64(0), i64(-1)]), gives(3, 2))
        ),
        "sine-imprecise": models(Probe(*one("Sin", f32(1)), off(float(np.sin(1.0)), 1e-5, 2e-4))),
        "cast-saturates": models(Probe(*one("Cast", f32(3e9), to="INT32"), gives(2147483520))),
        "nan-unsorted": models(sorted_down(f32(1, NAN, 3, 2))),
    }


_NO_WHERE = ((np.int8, "INT8"), (np.uint32, "UINT32"))
_NO_KERNELS = ((np.float64, "DOUBLE"), (np.int16, "INT16"), (np.uint16, "UINT16"))
for _name in ("ort-web-node-wasm", "ort-web-browser-wasm", "ort-web-browser-webgpu"):
    PROBES |= {(_name, limit): probes for limit, probes in webs(webgpu=_name.endswith("webgpu")).items()}
# CUDA's are those of ONNX Runtime itself, and no machine that tests run on has it.
UNPROBED = {"onnxruntime-cuda"}
