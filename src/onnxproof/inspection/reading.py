"""A model file as it lies: weights that are kept in other files are never read, only counted."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from onnxproof.errors import ArtifactError, ConformanceError

if TYPE_CHECKING:
    import onnx

# Bits of an element, by the names of onnx.TensorProto.DataType; any other takes whole bytes that onnx knows.
_PACKED = {"uint4": 4, "int4": 4, "float4e2m1": 4, "uint2": 2, "int2": 2}


@dataclass(frozen=True, slots=True)
class TensorFacts:
    """A weight: dtype as NumPy names it, where that is, and the bytes that its elements take."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int
    file: str | None  # that it is kept in, None where it is in the model


def place_of(target: Path) -> Path:
    """The model file of ``target``: the file itself, or the model of a bundle, whose files are held against its record.

    Raises:
        ArtifactError: there is nothing.
        BrokenBundle: a file of the bundle is not the one of its record.
        ConformanceError: it is a folder without a valid record.
    """
    if target.is_dir():
        if not (target / "record.json").exists():
            raise ConformanceError(
                f"{str(target)!r} is a folder and holds no record.json",
                way_out="Name an ONNX file, or a bundle that export or verify left.",
            )
        from onnxproof.evidence.conform import read_bundle, verify_folder
        from onnxproof.evidence.files import safe_parts

        record = read_bundle(target)
        verify_folder(record, target)
        return target.joinpath(*safe_parts(record.artifacts.model))
    if not target.exists():
        raise ArtifactError(
            f"there is no file or folder {str(target)!r}", way_out="Export the model first, or mend the path."
        )
    return target


def read(path: Path) -> onnx.ModelProto:
    """The model in a file, without tensors that are kept in others.

    Raises:
        ConformanceError: it is no ONNX model.
    """
    from onnxproof.evidence.model import parsed

    model, why = parsed(path)
    if model is None or not model.HasField("graph"):
        raise ConformanceError(
            f"{str(path)!r} is no ONNX model: {why or 'it holds no graph'}",
            way_out="The file may be cut short: copy or export it again.",
        )
    return model


def dtype_name(code: int) -> str:
    """``1`` → ``float32``, as NumPy and ml_dtypes name it."""
    import onnx

    name: str = onnx.TensorProto.DataType.Name(code).lower()
    return {"float": "float32", "double": "float64"}.get(name, name)


def element_bits(code: int) -> int:
    """Bits that an element takes in a file; 0 where that depends on the element (strings)."""
    import onnx

    name = dtype_name(code)
    if name in _PACKED:
        return _PACKED[name]
    if name in ("string", "undefined"):
        return 0
    return 8 * int(onnx.helper.tensor_dtype_to_np_dtype(code).itemsize)


def tensor_facts(tensor: onnx.TensorProto) -> TensorFacts:
    """The facts of a tensor, by its header."""
    bits = element_bits(tensor.data_type)
    size = -(-math.prod(tensor.dims) * bits // 8) if bits else sum(len(chunk) for chunk in tensor.string_data)
    entries = {e.key: e.value for e in tensor.external_data}
    external = entries.get("location") if tensor.data_location == tensor.EXTERNAL else None
    return TensorFacts(tensor.name, dtype_name(tensor.data_type), tuple(tensor.dims), size, external)


def graphs(model: onnx.ModelProto) -> Iterator[tuple[str, onnx.GraphProto | onnx.FunctionProto]]:
    """Every graph with the path to it: the main graph (an empty path), bodies of its nodes, and functions."""
    yield from _inside("", model.graph)
    for function in model.functions:
        yield from _inside(f"{function.domain}::{function.name}", function)


def _inside(
    path: str, graph: onnx.GraphProto | onnx.FunctionProto
) -> Iterator[tuple[str, onnx.GraphProto | onnx.FunctionProto]]:
    yield path, graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                if inner.node or inner.output:
                    here = f"{node.name or node.op_type}.{attribute.name}"
                    yield from _inside(f"{path}/{here}" if path else here, inner)


def operator_of(node: onnx.NodeProto) -> str:
    """``Add``, or ``domain::Name`` outside of ONNX's own domain."""
    return f"{node.domain}::{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type


def metadata_of(item: onnx.NodeProto | onnx.TensorProto | onnx.ModelProto) -> dict[str, str]:
    """The ``metadata_props`` of an item."""
    return {entry.key: entry.value for entry in item.metadata_props}
