"""What an ONNX file says of itself, and what the checker says of it. The onnx package is imported on use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnxproof.evidence.checker import MAX_TEXT, faults
from onnxproof.evidence.record import CheckDetail, Port, ShapeInference, Status

if TYPE_CHECKING:
    import onnx

TRACE_FORMAT = "onnxproof.trace/1"


def check(path: Path) -> tuple[CheckDetail, onnx.ModelProto | None]:
    """Read a model file, run the checker with every check, then strict shape inference with data propagation.

    Weights in other files are looked for by the checker and read by nobody. Both run native code, which a file
    may crash or keep busy for ever: one that others wrote belongs into a process of its own.
    """
    model, unread = parsed(path)
    if model is None:
        return unchecked(None, unread), None
    return judged(model, *faults(path)), model


def judged(model: onnx.ModelProto, checker: str | None, inference: str | None) -> CheckDetail:
    """The detail of a file that was read, from what :func:`faults` says of it."""
    if checker is not None:
        return unchecked(model, checker)
    status: Status = "passed" if inference is None else "failed"
    return _detail(model, None, ShapeInference(status=status, error=inference))


def unchecked(model: onnx.ModelProto | None, error: str | None) -> CheckDetail:
    """What a file says of itself, with ``error`` as what the checker says; None for a file that can't be read."""
    return _detail(model, error, ShapeInference(status="not_run", error=None))


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
