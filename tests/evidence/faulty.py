"""A small model, and exporters of it with one fault each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import onnx
from onnx import TensorProto, helper, numpy_helper

from onnxproof import to_onnx
from onnxproof.evidence import Built, Profile
from onnxproof.evidence.profile import ProfileCase, RuntimeSpec
from onnxproof.evidence.record import BuilderConfig, Exporter, Policy, Tolerances
from tests.evidence.misbehaving import WEIGHT

HERE = "tests.evidence.faulty"
ORT = RuntimeSpec(
    name="onnxruntime",
    provider="CPUExecutionProvider",
    session={"intra_op_num_threads": 1, "graph_optimization_level": "ORT_ENABLE_ALL"},
)


def affine() -> Built:
    """``tanh(x @ w)`` with ``w`` [4, 3], on any batch; its weight can be changed from outside."""
    weight = WEIGHT.copy()
    fixed = jnp.asarray(WEIGHT)

    def fn(x: Any) -> Any:
        return jnp.tanh(x @ fixed)

    fn.weight = weight  # type: ignore[attr-defined]
    return Built(fn, [("B", 4)], weights={"weight": weight}, state=lambda: {"weight": weight})


def profile(exporter: str = "onnxproof", runtime: RuntimeSpec = ORT, **changes: Any) -> Profile:
    """The profile of :func:`affine`, exported by one of the exporters of this file."""
    values: dict[str, Any] = {
        "name": "affine-fp32",
        "dtype": "float32",
        "opset": 21,
        "config": BuilderConfig(net="builder", builder=f"{HERE}:affine", arguments={}, weights_sha256=None),
        "exporter": Exporter(name=exporter if exporter == "onnxproof" else f"{HERE}:{exporter}", options={}),
        "runtimes": [runtime],
        "cases": [
            ProfileCase(name=f"batch-{n}", kind="values", shapes=[[n, 4]], seed=n, expect="match")
            for n in (1, 3)
        ],
        "tolerances": Tolerances(rtol=1e-5, atol=1e-5, nonfinite="equal"),
        "policy": Policy(refusals="signature", load_seconds=60.0, case_seconds=30.0, memory_bytes=None),
    }
    return Profile(**{**values, **changes})


def raising(fn: Any, inputs: Any, path: Path) -> None:
    raise NotImplementedError("this exporter has no rule for tanh")


def silent(fn: Any, inputs: Any, path: Path) -> None:
    """Writes nothing."""


def changing(fn: Any, inputs: Any, path: Path) -> None:
    """Leaves the model other than it was."""
    fn.weight[0, 0] += 1
    to_onnx(fn, inputs, return_mode="file", output_path=path)


def truncated(fn: Any, inputs: Any, path: Path) -> None:
    """Half a file."""
    data = to_onnx(fn, inputs).SerializeToString()
    path.write_bytes(data[: len(data) // 2])


def unsorted(fn: Any, inputs: Any, path: Path) -> None:
    """A graph that uses a value before it is made: a protobuf that is no ONNX."""
    model = to_onnx(fn, inputs)
    nodes = list(model.graph.node)[::-1]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    path.write_bytes(model.SerializeToString())


def wrong_shape(fn: Any, inputs: Any, path: Path) -> None:
    """An output whose declared width shape inference contradicts."""
    model = to_onnx(fn, inputs)
    model.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 7
    path.write_bytes(model.SerializeToString())


def perturbed(fn: Any, inputs: Any, path: Path) -> None:
    """One weight a thousandth off."""
    model = to_onnx(fn, inputs)
    (tensor,) = model.graph.initializer
    weight = numpy_helper.to_array(tensor).copy()
    weight[0, 0] += 1e-3
    tensor.CopyFrom(numpy_helper.from_array(weight, tensor.name))
    path.write_bytes(model.SerializeToString())


def another_dtype(fn: Any, inputs: Any, path: Path) -> None:
    """The right values in float64."""
    model = to_onnx(fn, inputs)
    (old,) = model.graph.output
    model.graph.node.append(helper.make_node("Cast", [old.name], ["wide"], to=TensorProto.DOUBLE))
    model.graph.output.pop()
    model.graph.output.append(helper.make_tensor_value_info("wide", TensorProto.DOUBLE, ["B", 3]))
    path.write_bytes(model.SerializeToString())


def two_outputs(fn: Any, inputs: Any, path: Path) -> None:
    """One output more than the model has."""
    to_onnx(lambda x: (fn(x), x), inputs, return_mode="file", output_path=path)


def static(fn: Any, inputs: Any, path: Path) -> None:
    """A batch of 3 and no other."""
    to_onnx(fn, [(3, 4)], return_mode="file", output_path=path)


def any_width(fn: Any, inputs: Any, path: Path) -> None:
    """A file that takes rows of any width and cuts them."""
    to_onnx(
        lambda x: fn(x[:, :4]), [("B", "W")], return_mode="file", output_path=path, constraints=["W >= 4"]
    )


def unloadable(fn: Any, inputs: Any, path: Path) -> None:
    """Sound, and with an operator and type that ONNX Runtime has no kernel for."""
    model = to_onnx(fn, inputs)
    nodes = [
        helper.make_node("IsNaN", ["x"], ["nan"]),
        helper.make_node("Where", ["nan", "nan", "nan"], ["same"]),
    ]
    model.graph.node.extend(nodes)
    model.graph.output.append(helper.make_tensor_value_info("same", TensorProto.BOOL, ["B", 4]))
    path.write_bytes(model.SerializeToString())


def external(fn: Any, inputs: Any, path: Path) -> None:
    """Weights in a file beside the model, and one more file that no tensor names."""
    onnx.save(
        to_onnx(fn, inputs), path, save_as_external_data=True, location="model.onnx.data", size_threshold=0
    )
    (path.parent / "notes.txt").write_text("kept beside the model\n")
