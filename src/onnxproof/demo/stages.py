"""The stages of the demonstration, each timed, and the facts they found."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import numpy as np
import onnx
import onnxruntime as ort

from onnxproof import to_onnx
from onnxproof.demo import digits as network
from onnxproof.errors import OnnxProofError

BATCHES = (1, 2, 7, network.HELD_OUT)
TOLERANCE = 1e-4  # on logits of a size of about 10: a few units in the last place of float32 sums


@dataclass(frozen=True, slots=True)
class Run:
    """One batch size: largest absolute differences between logits."""

    batch: int
    onnx_to_jax: float
    onnx_to_float64: float
    jax_to_float64: float


@dataclass(slots=True)
class Result:
    """Everything that the demonstration reports."""

    path: Path
    stages: list[tuple[str, str, float]] = field(default_factory=list)  # (stage, what it found, seconds)
    runs: list[Run] = field(default_factory=list)
    accuracy_jax: float = 0.0
    accuracy_onnx: float = 0.0
    bytes: int = 0

    @property
    def agrees(self) -> bool:
        """Whether every batch is within tolerance of JAX, and both classify alike."""
        close = all(run.onnx_to_jax <= TOLERANCE for run in self.runs)
        return close and self.accuracy_jax == self.accuracy_onnx

    @contextmanager
    def stage(self, name: str, doing: Callable[[str], None]) -> Iterator[list[str]]:
        """Time a stage; the body appends what it found to the list that this gives."""
        doing(name)
        found: list[str] = []
        start = time.perf_counter()
        yield found
        self.stages.append((name, " ".join(found), time.perf_counter() - start))


def run(folder: Path, doing: Callable[[str], None]) -> Result:
    """Train, export, check, load and run; the one file written is ``folder/digits.onnx``.

    Raises:
        OnnxProofError: the folder can't be made, or a stage of the export fails.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as err:
        raise OnnxProofError(
            f"the folder {str(folder)!r} can't be made: {err.strerror}", way_out="Give another with --output."
        ) from err
    result = Result(folder / "digits.onnx")
    with result.stage("train", doing) as found:
        data = network.load()
        model = network.train(data)
        found.append(
            f"{len(data.images):,} images, {network.EPOCHS} epochs, Flax NNX on JAX {jax.__version__}"
        )
    with result.stage("export", doing) as found:
        to_onnx(model, [("B", 8, 8, 1)], model_name="digits", return_mode="file", output_path=result.path,
                output_names=["logits"])  # fmt: skip
        result.bytes = result.path.stat().st_size
        proto = onnx.load(result.path)
        found.append(
            f"{len(proto.graph.node)} nodes, opset {proto.opset_import[0].version}, any batch size B"
        )
    with result.stage("check", doing) as found:
        onnx.checker.check_model(str(result.path), full_check=True)
        onnx.shape_inference.infer_shapes(proto, check_type=True, strict_mode=True, data_prop=True)
        found.append("onnx.checker and strict shape inference pass")
    with result.stage("load", doing) as found:
        session = ort.InferenceSession(str(result.path), providers=["CPUExecutionProvider"])
        found.append(f"ONNX Runtime {ort.__version__}, {session.get_providers()[0]}")
    with result.stage("run", doing) as found:
        _compare(result, model, data, session)
        found.append(f"{network.HELD_OUT} held-out images, batches of {', '.join(map(str, BATCHES))}")
    return result


def _compare(
    result: Result, model: network.DigitClassifier, data: network.Digits, session: ort.InferenceSession
) -> None:
    forward = jax.jit(model)
    name = session.get_inputs()[0].name
    for batch in BATCHES:
        images = data.held_images[:batch]
        in_jax = np.asarray(forward(images))
        (in_onnx,) = session.run(None, {name: images})
        oracle = network.in_float64(model, images)
        result.runs.append(
            Run(batch, _distance(in_onnx, in_jax), _distance(in_onnx, oracle), _distance(in_jax, oracle))
        )
    result.accuracy_jax = float(np.mean(in_jax.argmax(-1) == data.held_labels))
    result.accuracy_onnx = float(np.mean(in_onnx.argmax(-1) == data.held_labels))


def _distance(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> float:
    if a.shape != b.shape:
        raise OnnxProofError(f"the shapes of the results differ: {a.shape} and {b.shape}")
    return float(np.max(np.abs(a.astype(np.float64) - b.astype(np.float64))))
