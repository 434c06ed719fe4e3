"""Ten models, each one file for many sizes, and how far ONNX Runtime Web is from JAX on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import numpy as np
import onnx

from examples.policies import POLICIES
from onnxproof import to_onnx
from onnxproof.evidence.runtimes.ort_web import OrtWeb, OrtWebBrowser, OrtWebGpu, OrtWebNode
from onnxproof.evidence.runtimes.web import wire
from tests.frameworks import matrix
from tests.running import to_feed

# Architecture → framework.
MATRIX = {
    "encoder": "linen",
    "decoder": "equinox",
    "decode_step": "nnx",
    "cnn": "nnx",
    "lstm": "haiku",
    "gru": "equinox",
    "unet": "linen",
    "moe": "jax",
    "embedding": "haiku",
}
POLICY = "policy"
MODELS = (*MATRIX, POLICY)
TOLERANCE = 1e-5  # relative and absolute, in WebGPU too


@dataclass(frozen=True)
class Subject:
    """A callable, what ``to_onnx`` gets, and arguments of several sizes."""

    fn: Callable[..., Any]
    inputs: Sequence[Any]
    cases: Mapping[str, Sequence[Any]]
    compiled: bool = True


@dataclass(frozen=True)
class Place:
    """Where models run, and the export that is made for it: opset 21 has the most kernels on WebGPU."""

    name: str
    make: type[OrtWeb]
    threads: int = 1
    target: str = "ort-web-wasm"
    opset: int = 23


PLACES = (
    Place("Node, WASM, 1 thread", OrtWebNode),
    Place("Chromium, WASM, 1 thread", OrtWebBrowser),
    Place("Chromium, WASM, 2 threads", OrtWebBrowser, threads=2),
    Place("Chromium, WebGPU", OrtWebGpu, target="ort-web-webgpu", opset=21),
)


@cache
def subject(name: str) -> Subject:
    if name == POLICY:
        fn, inputs, *_ = POLICIES["continuous"]
        rng = np.random.default_rng(0)
        cases = {
            f"batch {b}": [rng.normal(size=(b, *inputs[0][1:])).astype(np.float32)] for b in (1, 2, 3, 7)
        }
        return Subject(fn, inputs, cases)
    model = matrix.built(MATRIX[name], name)
    cases = {
        f"batch {b}, length {t}" if model.timed else f"batch {b}": model.make(b, t) for b, t in model.sizes
    }
    return Subject(model.fn, model.inputs, cases, model.compiled)


@cache
def exported(name: str, target: str, opset: int) -> onnx.ModelProto:
    found = subject(name)
    model: onnx.ModelProto = to_onnx(
        found.fn,
        list(found.inputs),
        model_name=name,
        opset=opset,
        export_mode="web",
        target=target,
    )
    return model


@cache
def expected(name: str) -> Mapping[str, Sequence[np.ndarray[Any, Any]]]:
    found = subject(name)
    native = jax.jit(lambda *args: found.fn(*args)) if found.compiled else found.fn
    return {
        case: [np.asarray(x) for x in jax.tree_util.tree_leaves(native(*args))]
        for case, args in found.cases.items()
    }


@dataclass(frozen=True)
class Outcome:
    """One case: the largest error, its part of what is allowed, and seconds of runs after the first."""

    case: str
    error: float
    excess: float
    seconds: Sequence[float]


class Running:
    """One session after the other in one place."""

    def __init__(self, place: Place) -> None:
        self.place, self.adapter = place, place.make()
        self._link = self.adapter.start()

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        self._link.close()

    def ask(self, header: dict[str, Any], blobs: Sequence[bytes]) -> tuple[dict[str, Any], list[bytes]]:
        answer, values = wire.unpack(self._link.ask(wire.pack(header, blobs)))
        assert "error" not in answer, answer["error"]
        return answer, values

    def load(self, name: str) -> dict[str, Any]:
        """What the session says of itself."""
        model = exported(name, self.place.target, self.place.opset)
        request = {"provider": self.adapter.provider, "threads": self.place.threads, "options": {}}
        facts, _ = self.ask({"do": "load", **request, "external": []}, [model.SerializeToString()])
        assert facts["threads"] == self.place.threads
        return facts

    def outcomes(self, name: str, runs: int = 1) -> Iterator[Outcome]:
        """Every case of a model that was loaded."""
        found = subject(name)
        for case, args in found.cases.items():
            flat = [to_feed(v) for v in jax.tree_util.tree_leaves(list(args))]
            arrays = [np.ascontiguousarray(a) for a in flat]
            described = [{"type": a.dtype.name, "dims": f.shape} for a, f in zip(arrays, flat, strict=True)]
            request = {"do": "run", "tensors": described, "runs": runs}
            answer, blobs = self.ask(request, [a.tobytes() for a in arrays])
            got = [array for _, array in wire.tensors(answer, blobs)]
            want = expected(name)[case]
            assert [(g.shape, g.dtype) for g in got] == [(w.shape, w.dtype) for w in want]
            error = excess = 0.0
            for g, w in zip(got, want, strict=True):
                wide = w.astype(np.float64)
                off = np.abs(g.astype(np.float64) - wide)
                allowed = TOLERANCE * (1 + np.abs(wide))
                error = max(error, float(np.nan_to_num(off, nan=np.inf).max(initial=0)))
                excess = max(excess, float(np.nan_to_num(off / allowed, nan=np.inf).max(initial=0)))
            yield Outcome(case, error, excess, answer["seconds"])
