"""What an ONNX file says of itself, and what the checker says of it. The onnx package is imported on use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnxproof.evidence.record import CheckDetail, Port, ShapeInference

if TYPE_CHECKING:
    import onnx

TRACE_FORMAT = "onnxproof.trace/1"
MAX_TEXT = 4000


def check(path: Path) -> tuple[CheckDetail, onnx.ModelProto | None]:
    """Read a model file, run the checker with every check, then strict shape inference with data propagation.

    Weights in other files are looked for by the checker and read by nobody.
    """
    import onnx

    nothing = ShapeInference(status="not_run", error=None)
    model, unread = parsed(path)
    if model is None:
        return _detail(None, unread, nothing), None
    faults = (onnx.checker.ValidationError, onnx.shape_inference.InferenceError, ValueError, TypeError)
    try:
        onnx.checker.check_model(str(path), full_check=True)
    except (*faults, RuntimeError, OSError) as err:
        return _detail(model, f"{type(err).__name__}: {err}"[:MAX_TEXT], nothing), model
    try:
        onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
        inference = ShapeInference(status="passed", error=None)
    except (*faults, RuntimeError) as err:
        inference = ShapeInference(status="failed", error=f"{type(err).__name__}: {err}"[:MAX_TEXT])
    return _detail(model, None, inference), model


def parsed(path: Path) -> tuple[onnx.ModelProto | None, str | None]:
    """The model of a file, without tensors that are kept in others; or None and why it can't be read."""
    import onnx
    from google.protobuf.message import DecodeError

    try:
        return onnx.load(path, load_external_data=False), None
    except (DecodeError, OSError, ValueError) as err:
        return None, f"{type(err).__name__}: {err}"[:MAX_TEXT]


def external_files(model: onnx.ModelProto) -> set[str]:
    """Locations of the files that tensors of the model are kept in."""
    return {
        entry.value
        for tensor in _tensors(model)
        for entry in tensor.external_data
        if tensor.data_location == tensor.EXTERNAL and entry.key == "location"
    }


def trace(model: onnx.ModelProto) -> dict[str, Any]:
    """Each value of the graph with its node, the program's primitive and scope, and the user's source line.

    They are what the exporter wrote into ``metadata_props``; a value of another exporter has its node only.
    """
    values = []
    for node in model.graph.node:
        said = {p.key: p.value for p in node.metadata_props}
        for name in node.output:
            if name:
                values.append(
                    {
                        "value": name,
                        "node": node.name,
                        "operator": f"{node.domain}::{node.op_type}" if node.domain else node.op_type,
                        "program": said.get("onnxproof.composite") or said.get("onnxproof.primitive"),
                        "scope": said.get("namespace"),
                        "source": said.get("onnxproof.source"),
                    }
                )
    return {"format": TRACE_FORMAT, "values": values}


def _detail(model: onnx.ModelProto | None, error: str | None, inference: ShapeInference) -> CheckDetail:
    if model is None:
        known: dict[str, Any] = dict.fromkeys(("opset", "ir_version", "producer", "inputs", "outputs"))
    else:
        initialized = {t.name for t in model.graph.initializer}
        known = {
            "opset": {o.domain or "ai.onnx": o.version for o in model.opset_import},
            "ir_version": model.ir_version,
            "producer": f"{model.producer_name} {model.producer_version}".strip(),
            "inputs": [_port(v) for v in model.graph.input if v.name not in initialized],
            "outputs": [_port(v) for v in model.graph.output],
        }
    return CheckDetail(**known, checker_error=error, shape_inference=inference)


def _port(value: onnx.ValueInfoProto) -> Port:
    import onnx

    tensor = value.type.tensor_type
    dtype = onnx.TensorProto.DataType.Name(tensor.elem_type).lower() if tensor.elem_type else "other"
    shape: list[int | str] | None = None
    if tensor.HasField("shape"):
        shape = [d.dim_value if d.HasField("dim_value") else d.dim_param for d in tensor.shape.dim]
    return Port(name=value.name, dtype=dtype, shape=shape)


def _tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    yield from _graph_tensors(model.graph)
    for function in model.functions:
        for node in function.node:
            yield from _node_tensors(node)


def _graph_tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        yield from _node_tensors(node)


def _node_tensors(node: onnx.NodeProto) -> Iterator[onnx.TensorProto]:
    for attribute in node.attribute:
        yield from (attribute.t, *attribute.tensors)
        for graph in (attribute.g, *attribute.graphs):
            yield from _graph_tensors(graph)
