"""What a model file says of itself."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnxproof.inspection.reading import (
    TensorFacts,
    dtype_name,
    graphs,
    metadata_of,
    operator_of,
    place_of,
    read,
    tensor_facts,
)

if TYPE_CHECKING:
    import onnx

_NAME = re.compile(r"\b(?!(?:floordiv|mod|max|min)\b)[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class PortFacts:
    """An input or output: dimensions are numbers, text, or None where nothing is said of them."""

    name: str
    dtype: str
    shape: tuple[int | str | None, ...] | None
    description: str = ""

    def __str__(self) -> str:
        dims = "..." if self.shape is None else ", ".join("?" if d is None else str(d) for d in self.shape)
        return f"{self.name}  {self.dtype}[{dims}]"


@dataclass(frozen=True, slots=True)
class FunctionFacts:
    """A function of the model: how many nodes it has, and how often it is called."""

    name: str
    inputs: int
    outputs: int
    nodes: int
    calls: int


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """The facts of a file. ``files`` maps each file to its bytes, None for one that is missing."""

    name: str
    description: str
    producer: str
    ir_version: int
    opsets: dict[str, int]
    inputs: tuple[PortFacts, ...]
    outputs: tuple[PortFacts, ...]
    dimensions: tuple[str, ...]
    nodes: int
    operators: dict[str, int]
    functions: tuple[FunctionFacts, ...]
    weights: tuple[TensorFacts, ...]
    metadata: dict[str, str]
    with_provenance: int  # nodes that say which line of a program they come from
    files: dict[str, int | None]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def inspect(target: Path) -> ModelFacts:
    """The facts of a model file, or of the model of a bundle.

    Raises:
        ArtifactError, ConformanceError: there is none, or it can't be read.
    """
    path = place_of(target)
    return facts_of(read(path), path)


def facts_of(model: onnx.ModelProto, path: Path) -> ModelFacts:
    """The facts of a model that was read from ``path``."""
    parts = [graph for _, graph in graphs(model)]
    nodes = [node for part in parts for node in part.node]
    counts = Counter(map(operator_of, nodes))
    weights = tuple(tensor_facts(t) for t in model.graph.initializer)
    initialized = {w.name for w in weights}
    inputs = tuple(port_facts(v) for v in model.graph.input if v.name not in initialized)
    outputs = tuple(map(port_facts, model.graph.output))
    files: dict[str, int | None] = {str(path): path.stat().st_size}
    for name in sorted({w.file for w in weights if w.file is not None}):
        side = path.parent / name
        files[str(side)] = side.stat().st_size if side.is_file() else None
    return ModelFacts(
        name=model.graph.name,
        description=model.doc_string or model.graph.doc_string,
        producer=f"{model.producer_name} {model.producer_version}".strip(),
        ir_version=model.ir_version,
        opsets={o.domain or "ai.onnx": o.version for o in model.opset_import},
        inputs=inputs,
        outputs=outputs,
        dimensions=_dimensions(inputs),
        nodes=len(nodes),
        operators=dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))),
        functions=_functions(model, counts),
        weights=weights,
        metadata=metadata_of(model),
        with_provenance=sum(any(p.key == "onnxproof.source" for p in n.metadata_props) for n in nodes),
        files=files,
    )


def port_facts(value: onnx.ValueInfoProto) -> PortFacts:
    """The facts of a value that the file declares."""
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        return PortFacts(value.name, (kind or "unknown").removesuffix("_type"), None, value.doc_string)
    tensor = value.type.tensor_type
    dtype = dtype_name(tensor.elem_type) if tensor.elem_type else "unknown"
    shape: tuple[int | str | None, ...] | None = None
    if tensor.HasField("shape"):
        shape = tuple(
            d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in tensor.shape.dim
        )
    return PortFacts(value.name, dtype, shape, value.doc_string)


def _dimensions(ports: tuple[PortFacts, ...]) -> tuple[str, ...]:
    """Names of dimensions that vary, in the order in which inputs name them."""
    texts = [d for port in ports for d in port.shape or () if isinstance(d, str)]
    return tuple(dict.fromkeys(name for text in texts for name in _NAME.findall(text)))


def _functions(model: onnx.ModelProto, counts: Counter[str]) -> tuple[FunctionFacts, ...]:
    return tuple(
        FunctionFacts(
            f"{f.domain}::{f.name}",
            len(f.input),
            len(f.output),
            len(f.node),
            counts[f"{f.domain}::{f.name}"],
        )
        for f in model.functions
    )
