"""``data.json``: what a page says of its bundle, made from the record and the model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnxproof.errors import ConformanceError
from onnxproof.evidence import bundle
from onnxproof.evidence.court import runs_of
from onnxproof.evidence.files import hash_inside
from onnxproof.evidence.findings import run_label
from onnxproof.evidence.model import parsed
from onnxproof.evidence.parts import bodies
from onnxproof.evidence.profile import AD_HOC
from onnxproof.evidence.record import BuilderConfig, CallableConfig, Port, Record
from onnxproof.evidence.runtimes.limits import LIMITS
from onnxproof.evidence.runtimes.web.wire import TYPES
from onnxproof.evidence.source import onnxproof_version
from onnxproof.page.device import RUNTIMES

if TYPE_CHECKING:
    import onnx

FORMAT = "onnxproof.page/1"
# Element types of ONNX, as records name them, for which ONNX Runtime Web has tensors → NumPy's name.
TENSORS = {"float": "float32", "double": "float64", **{name: name for name in sorted(TYPES)}}
_REFERENCES = {
    "jax": "the outputs of the JAX callable {}",
    "torch": "the outputs of the PyTorch module {}",
    "recorded": "the outputs that were recorded",
    "onnx": "the outputs of the reference evaluator of the onnx package",
}


def page_data(record: Record, folder: Path) -> dict[str, Any]:
    """What ``data.json`` holds of a bundle whose files are as recorded.

    Raises:
        ConformanceError: the browser's runtime has no tensors of a type that the graph takes or gives.
    """
    detail = record.stages.check.detail
    assert detail is not None  # the check passed
    inputs, outputs = ([_port(p) for p in ports or ()] for ports in (detail.inputs, detail.outputs))
    model, unread = parsed(folder / record.artifacts.model)
    if model is None:
        raise ConformanceError(f"the model can't be read: {unread}")
    operators = Counter(_operators(model.graph))
    size, sha256 = hash_inside(folder, bundle.RECORD)
    files = [f.model_dump(mode="json") for f in record.artifacts.files]
    return {
        "format": FORMAT,
        "title": title(record),
        "onnxproof": onnxproof_version(),
        "record": {
            "digest": record.digest,
            "status": record.status,
            "failure": record.failure,
            "level": record.level,
            "runtimes": [run_label(run.runtime) for run in runs_of(record)],
            "reference": reference(record),
        },
        "files": [{"path": bundle.RECORD, "role": "record", "bytes": size, "sha256": sha256}, *files],
        "model": record.artifacts.model,
        "external": [f.path for f in record.artifacts.files if f.role == "external-data"],
        "producer": detail.producer,
        "opset": detail.opset,
        "inputs": inputs,
        "outputs": outputs,
        "operators": sorted(operators.items(), key=lambda item: (-item[1], item[0])),
        "dtype": record.dtype,
        "tolerances": record.tolerances.model_dump(mode="json"),
        "seconds": {"load": record.policy.load_seconds, "case": record.policy.case_seconds},
        "cases": [
            {
                "name": case.name,
                "kind": case.kind,
                "expect": case.expect,
                "takes": [f"{t.dtype}[{', '.join(map(str, t.shape))}]" for t in case.inputs],
                "inputs": bundle.tensor_paths(record.artifacts, case.name, "input"),
                "outputs": bundle.tensor_paths(record.artifacts, case.name, "output"),
            }
            for case in record.input_cases
        ],
        "promises": [
            {"demand": clause.demand, "status": clause.status}
            for contract in record.contracts or ()
            for clause in contract.clauses
        ],
        "limits": {name: _unrefused(name) for name in RUNTIMES.values()},
    }


def title(record: Record) -> str:
    """What a page calls the model: the profile, or where there was none the folder or the callable."""
    folder = record.artifacts.directory.removesuffix(".evidence")
    if record.profile != AD_HOC or not isinstance(record.config, CallableConfig):
        return str(record.profile)
    return folder if folder != AD_HOC else str(record.config.name)


def reference(record: Record) -> str:
    """What the cases expect, in words."""
    config = record.config
    if isinstance(config, CallableConfig):
        return _REFERENCES[config.reference].format(config.name)
    if isinstance(config, BuilderConfig):
        return f"the outputs of the model of {config.builder}"
    return "the outputs of the PyTorch module"


def _unrefused(runtime: str) -> dict[str, dict[str, str]]:
    """Kinds of wrong inputs that a runtime is known to take → the limit that says so."""
    return {
        kind: {"name": limit.name, "what": limit.what}
        for limit in reversed(LIMITS.get(runtime, ()))
        for kind in sorted(limit.unrefused)
    }


def _port(port: Port) -> dict[str, Any]:
    if port.dtype not in TENSORS:
        raise ConformanceError(
            f"ONNX Runtime Web has no tensors of {port.dtype}, which {port.name!r} is",
            way_out="Export the model with inputs and outputs of another type; inside it may stay as it is.",
        )
    return {**port.model_dump(mode="json"), "dtype": TENSORS[port.dtype]}


def _operators(graph: onnx.GraphProto) -> Iterator[str]:
    for node in graph.node:
        yield f"{node.domain}::{node.op_type}" if node.domain else node.op_type
        for body in bodies(node):
            yield from _operators(body)
