"""The accuracy that was lost, output by output."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from onnxproof.errors import ConformanceError
from onnxproof.evidence.compare import difference, is_inexact, join_complex
from onnxproof.evidence.proof import DEFAULT_POLICY, RUNS
from onnxproof.evidence.runtimes.process import RuntimeProcess
from onnxproof.evidence.tensors import decode, encode

Array = np.ndarray[Any, Any]
Cases = Mapping[str, Sequence[Array]]
RUN = RUNS["onnxruntime"][0]  # with all optimizations


@dataclass(frozen=True, slots=True)
class Loss:
    """What one output lost, over all cases together.

    Attributes:
        scale: the largest magnitude that the original gives.
        max_abs_error: infinite where one side alone is not finite.
        max_rel_error: of an element, as a part of itself.
        of_scale: the largest absolute error as a part of the scale; this is what the limit is held against.
        rms: the root mean square of the error as a part of that of the original.
        cosine: similarity of all elements of the output as one vector; None where one of them is zero.
        argmax_agreement: the part of the rows whose largest element is at the same place, of outputs of shape
            (batch, classes); None for others.
        changed: the part of the elements that differ, of outputs of integers or booleans; None for others. Such
            outputs have no limit: the proof wants them equal.
    """

    name: str
    scale: float
    max_abs_error: float
    max_rel_error: float
    of_scale: float
    rms: float
    cosine: float | None
    argmax_agreement: float | None
    changed: float | None

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it: infinity is text."""
        return {
            field: "inf" if value == np.inf else value
            for field, value in ((f, getattr(self, f)) for f in self.__dataclass_fields__)
        }


def run_all(model: Path, cases: Cases) -> tuple[list[str], dict[str, list[Array]]]:
    """Names of the outputs, and the outputs of each case, from ONNX Runtime in a process of its own.

    Raises:
        ConformanceError: it does not load or run the file.
    """
    policy = DEFAULT_POLICY
    bounds: dict[str, Any] = {"memory": policy.memory_bytes}
    names: list[str] = []
    outputs: dict[str, list[Array]] = {}
    with RuntimeProcess(RUN.name) as worker, tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        answer = worker.load(
            model.resolve(), RUN.provider, RUN.session, seconds=policy.load_seconds, **bounds
        )
        _expect("loaded", answer, f"does not load {model.name!r}")
        for case, arrays in cases.items():
            paths = [folder / f"input_{i}.pb" for i in range(len(arrays))]
            for path, array in zip(paths, arrays, strict=True):
                path.write_bytes(encode(path.stem, array))
            answer = worker.run(paths, folder, seconds=policy.case_seconds, again=False)
            _expect("outputs", answer, f"does not run {model.name!r} on case {case!r}")
            named = [decode(Path(path).read_bytes()) for path in answer["outputs"]]
            names, outputs[case] = [name for name, _ in named], [array for _, array in named]
    return names, outputs


def _expect(answer: str, given: Mapping[str, Any], fault: str) -> None:
    if given["answer"] != answer:
        raise ConformanceError(f"ONNX Runtime {fault}: {given['answer']}: {given.get('error')}")


def losses(names: Sequence[str], got: Cases, want: Cases) -> list[Loss]:
    """The loss of each output."""
    return [
        _loss(name, [got[case][i] for case in want], [want[case][i] for case in want])
        for i, name in enumerate(names)
    ]


def _loss(name: str, got: Sequence[Array], want: Sequence[Array]) -> Loss:
    got = [join_complex(g, w) for g, w in zip(got, want, strict=True)]
    found = [difference(g, w, 0.0, 0.0) for g, w in zip(got, want, strict=True)]
    a, b = (np.concatenate([np.ravel(x).astype(np.complex128) for x in side]) for side in (got, want))
    inexact = is_inexact(want[0].dtype)
    both = np.isfinite(a) & np.isfinite(b)
    a, b = a[both], b[both]
    scale = float(np.abs(b).max(initial=0.0))
    lengths = float(np.linalg.norm(a)), float(np.linalg.norm(b))
    max_abs = max(float("inf") if d.reason and d.reason != "values differ" else d.max_abs for d in found)
    return Loss(
        name=name,
        scale=scale,
        max_abs_error=max_abs,
        max_rel_error=max(d.max_rel for d in found),
        of_scale=_part(max_abs, scale),
        rms=_part(float(np.linalg.norm(a - b)), lengths[1]),
        cosine=float(np.vdot(a, b).real / (lengths[0] * lengths[1])) if all(lengths) else None,
        argmax_agreement=_agreement(got, want) if inexact else None,
        changed=None if inexact else float(np.mean(a != b)) if a.size else 0.0,
    )


def _part(value: float, whole: float) -> float:
    return value / whole if whole else (0.0 if value == 0 else float("inf"))


def _agreement(got: Sequence[Array], want: Sequence[Array]) -> float | None:
    rows = [
        (g, w)
        for g, w in zip(got, want, strict=True)
        if w.ndim == 2 and w.shape[1] > 1 and g.shape == w.shape
    ]
    if len(rows) != len(want) or want[0].dtype.kind == "c":
        return None
    same = np.concatenate([g.argmax(1) == w.argmax(1) for g, w in rows])
    return float(same.mean()) if same.size else None
