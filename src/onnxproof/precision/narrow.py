"""``quantize`` and ``convert``: a tool of ONNX Runtime's, then the proof of what came of it."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from onnxproof.artifact.save import EXTERNAL_DATA_BYTES, save, weight_bytes
from onnxproof.errors import ConformanceError, InputSpecError
from onnxproof.evidence.model import parsed, unchecked
from onnxproof.evidence.proof import Recorded, place_model, verify
from onnxproof.evidence.record import Exporter, Port
from onnxproof.evidence.references.subject import Oracle
from onnxproof.precision import modes
from onnxproof.precision.cases import Array, Inputs, check, read_cases, recording
from onnxproof.precision.loss import Loss, losses, run_all
from onnxproof.precision.modes import Dtype, Mode, Quantization
from onnxproof.precision.process import run_tool

if TYPE_CHECKING:
    from onnxproof.evidence.record import Record

Place = str | os.PathLike[str]
Cases = Place | Mapping[str, Sequence[Array]] | None
EVIDENCE = ".evidence"


@dataclass(frozen=True, slots=True)
class Narrowed:
    """A file that was written, what it cost, and the proof.

    Attributes:
        files: those written, the model first.
        evidence: the bundle.
        bytes_before, bytes_after: of the model with its weights.
        weights: bytes of weights of each dtype.
        wide_weights: names of matrices that stay in float32, the largest first.
        wide_nodes: operators that compute in float32 in a file of float16, and how many nodes of each.
        losses: of each output.
    """

    mode: Mode
    limit: float
    files: tuple[Path, ...]
    evidence: Path
    bytes_before: int
    bytes_after: int
    weights: Mapping[str, int]
    wide_weights: tuple[str, ...]
    wide_nodes: Mapping[str, int]
    losses: tuple[Loss, ...]
    record: Record

    def as_dict(self) -> dict[str, Any]:
        """The facts as JSON has them, and the verdict of the record."""
        return {
            "mode": self.mode.name,
            "tool": self.mode.tool,
            "limit": self.limit,
            "files": [str(f) for f in self.files],
            "evidence": str(self.evidence),
            "bytes_before": self.bytes_before,
            "bytes_after": self.bytes_after,
            "weights": dict(self.weights),
            "wide_weights": list(self.wide_weights),
            "wide_nodes": dict(self.wide_nodes),
            "losses": [loss.as_dict() for loss in self.losses],
            "status": self.record.status,
            "level": self.record.level,
            "failure": self.record.failure,
            "exit_code": self.record.exit_code,
        }


def quantize(
    source: Place,
    output: Place,
    mode: Quantization = "int8",
    *,
    cases: Cases = None,
    calibration: Cases = None,
    limit: float | None = None,
    runtimes: Sequence[str] = ("onnxruntime",),
    operators: Sequence[str] | None = None,
    full_range: bool = False,
    block_size: int = 32,
) -> Narrowed:
    """Write a file whose weights have 8 or 4 bits, and prove what is left of its accuracy.

    Args:
        source: a bundle, whose recorded outputs are then the reference, or a model file, which is run itself.
        output: the file to write; the evidence goes beside it, ``net.onnx`` has ``net.evidence``.
        mode: ``"int8"`` quantizes activations in each run, ``"int8-static"`` by ranges from calibration,
            ``"int4"`` quantizes the weights of products only.
        cases: what both are run on: arrays by case, or a place that :func:`~onnxproof.precision.cases.read_cases`
            reads. Default: those of the bundle.
        calibration: the same, for the ranges of ``"int8-static"``. Default: ``cases``.
        limit: the largest error that passes, as a part of the largest magnitude of its output. Default: by mode.
        runtimes: where it is proven, as :func:`onnxproof.verify` names them. The losses are those in ONNX Runtime.
        operators: operator types whose weights are quantized to 8 bits. Default: those that hold most weights.
        full_range: use all 8 bits of weights. Processors that lack VNNI then saturate sums, and values are wrong.
        block_size: of the weights that share a scale in ``"int4"``; a power of two from 16 to 256.

    Raises:
        InputSpecError: cases are missing or don't fit, or there is nothing to quantize.
        ConformanceError: the bundle is not sound, or a tool or ONNX Runtime fails on the file.
        ArtifactError: files can't be written.
    """
    chosen = modes.of_quantization(mode)
    static = mode == "int8-static"
    if calibration is not None and not static:
        raise InputSpecError(f"{mode} takes no calibration cases", way_out='They are for mode "int8-static".')
    if block_size & (block_size - 1) or not modes.MIN_BLOCK <= block_size <= modes.MAX_BLOCK:
        raise InputSpecError(
            f"block_size={block_size}",
            way_out=f"It is a power of two from {modes.MIN_BLOCK} to {modes.MAX_BLOCK}.",
        )
    known = modes.STATIC_OPERATORS if static else modes.DYNAMIC_OPERATORS
    options = {
        "operators": list(operators or known),
        "full_range": full_range,
        "block_size": block_size,
    }
    return _narrow(Path(source), Path(output), chosen, options, cases, limit, runtimes, calibration)


def convert(
    source: Place,
    output: Place,
    dtype: Dtype = "float16",
    *,
    weights_only: bool = False,
    cases: Cases = None,
    limit: float | None = None,
    runtimes: Sequence[str] = ("onnxruntime",),
) -> Narrowed:
    """Write a file in half precision, and prove what is left of its accuracy. Inputs and outputs keep their dtype.

    Args:
        source, output, cases, limit, runtimes: as in :func:`quantize`.
        dtype: ``"float16"`` computes in float16 where an operator can, ``"bfloat16"`` stores weights so and
            computes in float32: ONNX Runtime's CPU provider has few kernels for bfloat16.
        weights_only: the same for float16.

    Raises:
        InputSpecError, ConformanceError, ArtifactError: as in :func:`quantize`.
        UnsupportedError: an operator inside of a loop or branch can't have float16.
    """
    chosen = modes.of_dtype(dtype, weights_only=weights_only)
    return _narrow(Path(source), Path(output), chosen, {}, cases, limit, runtimes)


def evidence_of(output: Path, source: Path) -> Path:
    """Where the evidence for a file lies.

    Raises:
        ConformanceError: something is there that is no earlier evidence, or is the source itself.
    """
    folder = output.with_suffix(EVIDENCE)
    if folder == output or (folder.exists() and source.exists() and folder.samefile(source)):
        raise ConformanceError(
            f"{str(folder)!r}, where the evidence goes, is the {'output' if folder == output else 'source'} itself",
            way_out="Give another output, such as net.float16.onnx.",
        )
    if folder.is_symlink() or (folder.exists() and not (folder / "record.json").is_file()):
        raise ConformanceError(
            f"{str(folder)!r} is where the evidence goes, and holds something else",
            way_out="Move it away, or give another output.",
        )
    return folder


@dataclass(frozen=True, slots=True)
class _Bench:
    """What a narrowed file is held against: the original, the cases, and the outputs wanted of each."""

    original: Path
    placed: Path  # a copy with its external data
    ports: Sequence[Port]
    inputs: Inputs
    want: Mapping[str, Sequence[Array]]
    oracles: Mapping[str, Oracle]


def _bench(source: Path, output: Path, cases: Cases, scratch: Path) -> _Bench:
    known = recording(source) if source.is_dir() else None
    original = source if known is None else known.model
    if output.exists() and original.exists() and output.samefile(original):
        raise InputSpecError("the output is the file to convert", way_out="Give another output.")
    placed = scratch / "source.onnx"
    place_model(original, placed, copy=True)
    ports = _ports(placed)
    if known is not None and cases is None:
        return _Bench(original, placed, ports, known.inputs, known.outputs, known.oracles)
    inputs = _given(cases, ports)
    return _Bench(original, placed, ports, inputs, run_all(placed, inputs)[1], {})


def _narrow(
    source: Path,
    output: Path,
    mode: Mode,
    options: Mapping[str, Any],
    cases: Cases,
    limit: float | None,
    runtimes: Sequence[str],
    calibration: Cases = None,
) -> Narrowed:
    limit = mode.limit if limit is None else limit
    if not 0 <= limit < np.inf:
        raise InputSpecError(f"limit={limit!r}; it is a part of the largest value of an output")
    evidence = evidence_of(output, source)
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        bench = _bench(source, output, cases, scratch)
        before = ir.load(bench.placed)
        narrow = scratch / f"narrow-{output.name}"
        request = {**options, "mode": mode.name, "model": str(bench.placed), "output": str(narrow)}
        if mode.name == "int8-static":
            ranges = bench.inputs if calibration is None else _given(calibration, bench.ports)
            request["calibration"] = _write_npz(ranges, bench.ports, scratch)
        run_tool({**request, "external": weight_bytes(before) > EXTERNAL_DATA_BYTES})
        model = ir.load(narrow)
        if _bytes_by_dtype(model) == _bytes_by_dtype(before):
            raise InputSpecError(
                f"there is nothing in {str(source)!r} that {mode.name} would make smaller",
                way_out="It narrows float32 weights of products and convolutions in the main graph.",
            )
        names, got = run_all(narrow, bench.inputs)
        found = losses(names, got, bench.want)
        if evidence.exists():
            shutil.rmtree(evidence)  # of the file that was there before, whatever becomes of this one
        files = save(model, output)
        record = verify(
            Recorded(bench.want, bench.oracles),
            output,
            bench.inputs,
            runtimes=runtimes,
            rtol=0.0,
            atol=_allowed(found, limit),
            bundle_path=evidence,
            exporter=Exporter(name=mode.tool, options=_recorded(mode, options, limit, bench, calibration)),
            opset=model.opset_imports.get(""),
        )
        return Narrowed(
            mode=mode,
            limit=limit,
            files=tuple(files),
            evidence=evidence,
            bytes_before=_size(bench.placed, before),
            bytes_after=sum(f.stat().st_size for f in files),
            weights=_bytes_by_dtype(model),
            wide_weights=_wide_weights(model, before),
            wide_nodes=_wide_nodes(model) if mode.name == "float16" else {},
            losses=tuple(found),
            record=record,
        )


def _allowed(found: Sequence[Loss], limit: float) -> float:
    """The absolute tolerance of the record: that of the largest output, or of one that is over its limit.

    A record has one tolerance for all outputs, while each is held against its own scale: so it fails when, and
    only when, an output is over its limit.
    """
    found = [loss for loss in found if loss.changed is None]
    worst = max(found, key=lambda loss: loss.of_scale, default=None)
    if worst is not None and worst.of_scale > limit:
        return limit * worst.scale
    return limit * max((loss.scale for loss in found), default=0.0)


def _given(cases: Cases, ports: Sequence[Port]) -> Inputs:
    if cases is None:
        raise InputSpecError(
            "there are no cases to run the file on",
            way_out="Give a bundle instead of the model, or cases: an .npz file, a folder of them, or arrays.",
        )
    if not isinstance(cases, Mapping):
        return read_cases(Path(cases), ports)
    arrays = {name: [np.asarray(a) for a in args] for name, args in cases.items()}
    if not arrays:
        raise InputSpecError("there are no cases to run the file on")
    check(arrays, ports)
    return arrays


def _ports(model: Path) -> list[Port]:
    proto, fault = parsed(model)
    if proto is None:
        raise ConformanceError(
            f"the model can't be read: {fault}",
            way_out="The file may be cut short: copy or export it again.",
        )
    return list(unchecked(proto, None).inputs or [])


def _write_npz(cases: Inputs, ports: Sequence[Port], folder: Path) -> list[str]:
    paths = []
    for i, arrays in enumerate(cases.values()):
        paths.append(str(folder / f"calibration-{i}.npz"))
        np.savez(paths[-1], **{p.name: a for p, a in zip(ports, arrays, strict=True)})  # type: ignore[arg-type]
    return paths


def _recorded(
    mode: Mode, options: Mapping[str, Any], limit: float, bench: _Bench, calibration: Cases
) -> dict[str, Any]:
    """What a record keeps of how the file came about."""
    if isinstance(calibration, (str, os.PathLike)):
        ranges = Path(calibration).name
    else:
        ranges = "the cases of this record" if calibration is None else "arrays"
    with bench.original.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {
        "mode": mode.name,
        "limit": limit,
        "source_sha256": digest,
        **({"calibration": ranges} if mode.name == "int8-static" else {}),
        **options,
    }


def _weights(model: ir.Model) -> list[tuple[str, ir.TensorProtocol]]:
    return [
        (name, value.const_value)
        for graph in model.graphs()
        for name, value in graph.initializers.items()
        if value.const_value is not None
    ]


def _bytes_by_dtype(model: ir.Model) -> dict[str, int]:
    sizes: Counter[str] = Counter()
    for _, tensor in _weights(model):
        sizes[tensor.dtype.numpy().name] += tensor.nbytes
    return dict(sorted(sizes.items()))


def _wide_weights(model: ir.Model, before: ir.Model) -> tuple[str, ...]:
    names = {name for name, _ in _weights(before)}  # scales that a tool adds are no weights
    wide = [
        (t.nbytes, name)
        for name, t in _weights(model)
        if t.dtype is ir.DataType.FLOAT and len(t.shape) > 1 and name in names
    ]
    return tuple(name for _, name in sorted(wide, reverse=True))


def _wide_nodes(model: ir.Model) -> dict[str, int]:
    return dict(
        Counter(
            node.op_type
            for node in ir.traversal.RecursiveGraphIterator(model.graph)
            if node.op_type != "Cast" and any(v.dtype is ir.DataType.FLOAT for v in node.outputs)
        ).most_common()
    )


def _size(path: Path, model: ir.Model) -> int:
    external = {Path(t.path) for _, t in _weights(model) if isinstance(t, ir.ExternalTensor)}
    return path.stat().st_size + sum(p.stat().st_size for p in external)
