"""``verify``: evidence for a file that a user exported, against whatever says what it should compute."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from onnxproof.errors import ArtifactError, InputSpecError
from onnxproof.evidence import bundle, court
from onnxproof.evidence.compare import DEFAULT_TOLERANCE
from onnxproof.evidence.conform import Adapters, Hearing, perform, refuse_existing
from onnxproof.evidence.files import UnsafePath, safe_parts
from onnxproof.evidence.profile import AD_HOC, Profile, ProfileCase, RuntimeSpec
from onnxproof.evidence.record import CallableConfig, Exporter, Policy, Record, Tolerances
from onnxproof.evidence.references.subject import Array, Oracle, State
from onnxproof.evidence.runtimes.recommended import RECOMMENDED
from onnxproof.evidence.source import source
from onnxproof.evidence.stages import Draft

if TYPE_CHECKING:
    import onnx

    from onnxproof.contracts import Contract

Inputs = Sequence[Any] | Mapping[str, Sequence[Any]]
Kind = Literal["jax", "torch", "recorded", "onnx"]

THREADS = {"intra_op_num_threads": 1, "inter_op_num_threads": 1}
# What a runtime's name stands for. ONNX Runtime runs with all optimizations and with none.
RUNS: dict[str, tuple[RuntimeSpec, ...]] = {
    "onnxruntime": tuple(
        RuntimeSpec(
            name="onnxruntime",
            provider="CPUExecutionProvider",
            session={**THREADS, "graph_optimization_level": level},
        )
        for level in ("ORT_ENABLE_ALL", "ORT_DISABLE_ALL")
    ),
    "onnxruntime-recommended": (  # as a deployment may run it: onnxproof.session_options
        RuntimeSpec(
            name="onnxruntime",
            provider="CPUExecutionProvider",
            session={**THREADS, "graph_optimization_level": "ORT_ENABLE_ALL", **RECOMMENDED},
        ),
    ),
    "onnxruntime-cuda": (
        RuntimeSpec(
            name="onnxruntime-cuda",
            provider="CUDAExecutionProvider",
            session={**THREADS, "graph_optimization_level": "ORT_ENABLE_ALL"},
        ),
    ),
    "onnx-reference": (RuntimeSpec(name="onnx-reference", provider="numpy", session={}),),
    "openvino": (
        # by default it may compute in bfloat16 where the processor can
        RuntimeSpec(name="openvino", provider="CPU", session={"INFERENCE_PRECISION_HINT": "f32"}),
    ),
    "tract": (RuntimeSpec(name="tract", provider="cpu", session={}),),
    "ort-web-node-wasm": (RuntimeSpec(name="ort-web-node-wasm", provider="wasm", session={"numThreads": 1}),),
    "ort-web-browser-wasm": tuple(
        RuntimeSpec(name="ort-web-browser-wasm", provider="wasm", session={"numThreads": n}) for n in (1, 2)
    ),
    "ort-web-browser-webgpu": (
        RuntimeSpec(name="ort-web-browser-webgpu", provider="webgpu", session={"numThreads": 1}),
    ),
}
GIVEN = Exporter(name="given", options={})  # a file that someone else wrote
DEFAULT_POLICY = Policy(refusals="signature", load_seconds=600.0, case_seconds=600.0, memory_bytes=None)


@dataclass(frozen=True, slots=True)
class Recorded:
    """Outputs of a model that is not here any more: one list of arrays for each case, by its name.

    Attributes:
        oracles: the same in float64, for cases where it is known.
    """

    outputs: Mapping[str, Sequence[Array]]
    oracles: Mapping[str, Oracle] = field(default_factory=dict)


class _Given:
    """A file that exists already, and a reference that runs on the arguments of the cases."""

    def __init__(self, model: Any, cases: Mapping[str, Sequence[Any]], reference: Any, *, copy: bool) -> None:
        self._model, self._cases, self._reference, self._copy = model, cases, reference, copy
        self._native: dict[str, Sequence[Array]] = {}

    def weights_sha256(self) -> str | None:
        return None

    def state(self) -> State:
        return State()

    def export(self, path: Path) -> None:
        place_model(self._model, path, copy=self._copy)

    def inputs(self, case: ProfileCase) -> Sequence[Array]:
        flat: Sequence[Array] = self._reference.flat(self._cases[case.name])
        return flat

    def native(self, case: ProfileCase) -> Sequence[Array]:
        return self.computed(case.name)

    def computed(self, name: str) -> Sequence[Array]:
        """What the reference computes for a case, once."""
        if isinstance(self._reference, _Recorded):
            return self._reference.outputs[name]
        if name not in self._native:
            self._native[name] = self._reference.run(self._cases[name])
        return self._native[name]

    def oracle(self, case: ProfileCase) -> Oracle | None:
        if isinstance(self._reference, _Recorded):
            return self._reference.oracles.get(case.name)
        result: Oracle | None = self._reference.oracle(self._cases[case.name])
        return result


class _Plain:
    """Arguments that are the graph's inputs already."""

    def flat(self, args: Sequence[Any]) -> list[Array]:
        return [np.asarray(a) for a in args]


class _Recorded(_Plain):
    def __init__(self, given: Recorded) -> None:
        self.outputs, self.oracles = given.outputs, given.oracles


class _Torch(_Plain):
    def __init__(self, module: Any) -> None:
        from onnxproof.evidence.references.torch import TorchReference

        self._reference = TorchReference(module)

    def flat(self, args: Sequence[Any]) -> list[Array]:
        return [np.asarray(a.detach().cpu() if hasattr(a, "detach") else a) for a in args]

    def run(self, args: Sequence[Any]) -> list[Array]:
        return self._reference.run(self.flat(args))

    def oracle(self, args: Sequence[Any]) -> Oracle:
        return self._reference.oracle(self.flat(args))


class _Onnx(_Plain):
    """The file itself in the reference evaluator of the onnx package."""

    def __init__(self, model: Any) -> None:
        self._model = os.fspath(model) if isinstance(model, os.PathLike) else model

    @cached_property
    def _evaluator(self) -> Any:
        from onnx.reference import ReferenceEvaluator

        return ReferenceEvaluator(self._model)  # on first use: by then the file was checked

    def run(self, args: Sequence[Any]) -> list[Array]:
        feed = dict(zip(self._evaluator.input_names, self.flat(args), strict=True))
        return [np.asarray(v) for v in self._evaluator.run(None, feed)]

    def oracle(self, args: Sequence[Any]) -> None:
        return None


def verify(
    fn: Callable[..., Any] | Recorded | None,
    model: str | os.PathLike[str] | bytes | onnx.ModelProto,
    inputs: Inputs,
    *,
    runtimes: Sequence[str | RuntimeSpec] = ("onnxruntime",),
    policy: Policy = DEFAULT_POLICY,
    rtol: float | None = None,
    atol: float | None = None,
    input_params: Mapping[str, Any] | None = None,
    double: bool = False,
    bundle_path: str | os.PathLike[str] | None = None,
    force: bool = False,
    source_revision: str | None = None,
    adapters: Adapters | None = None,
    exporter: Exporter = GIVEN,
    opset: int | None = None,
    hear: Hearing = court.hear,
    contracts: Sequence[Contract] = (),
) -> Record:
    """Prove, by running, that ``model`` computes what ``fn`` computes, and record how that went.

    Args:
        fn: a JAX callable, a ``torch.nn.Module``, :class:`Recorded` outputs, or None for the reference evaluator
            of the onnx package.
        model: path, bytes or ``ModelProto``.
        inputs: arguments of one case, or of several by name.
        runtimes: names (each with all of its runs) or specs; one that is not installed is a failure.
        policy: which inputs must be refused, and bounds of time and memory.
        rtol, atol: of inexact outputs; by dtype when not given, as in :func:`onnxproof.allclose`.
        input_params: keyword arguments of a JAX callable.
        double: run a JAX callable with 64-bit types.
        bundle_path: a folder for the bundle; without one only the record is left.
        force: replace a bundle that is there.
        exporter, opset: who wrote the file, and the opset that was asked for, as far as the caller knows.
        hear: what does load and parity, where that is not done here: see :func:`onnxproof.evidence.jobs.hearing`.
        contracts: what the file promises beside that, checked in the first runtime. How near values inside come
            to the greatest float16 is measured of every model of that dtype.

    Raises:
        InputSpecError: the inputs don't fit the file, or a runtime is unknown.
        ConformanceError: a bundle is there already.
        ArtifactError: the model can't be read, or the bundle not written.
    """
    cases = _named(inputs)
    kind, reference = _reference(fn, model, input_params, double)
    flat = {name: reference.flat(args) for name, args in cases.items()}
    subject = _Given(model, cases, reference, copy=bundle_path is not None)
    # The file itself as its own reference runs once it was checked.
    known = [] if kind == "onnx" else [a for name in cases for a in subject.computed(name)]
    dtype = _main_dtype(known, [a for arrays in flat.values() for a in arrays])
    default = DEFAULT_TOLERANCE.get(dtype, (0.0, 0.0))
    profile = Profile(
        name=AD_HOC,
        dtype=dtype,
        opset=opset,
        config=CallableConfig(net="callable", name=_name_of(fn), reference=kind, weights_sha256=None),
        exporter=exporter,
        runtimes=_specs(runtimes),
        cases=[
            ProfileCase(
                name=name,
                kind="values",
                shapes=[list(a.shape) for a in arrays] or [[]],
                seed=None,
                expect="match",
            )
            for name, arrays in flat.items()
        ],
        tolerances=Tolerances(
            rtol=default[0] if rtol is None else rtol,
            atol=default[1] if atol is None else atol,
            nonfinite="equal",
        ),
        policy=policy,
    )
    promised = [*contracts, *_measured(dtype)]
    if bundle_path is not None:
        target = Path(bundle_path)
        refuse_existing(target, force)
        return _run(profile, target, subject, source_revision, adapters, hear, promised)
    with tempfile.TemporaryDirectory() as folder:
        return _run(profile, Path(folder) / AD_HOC, subject, source_revision, adapters, hear, promised)


def place_model(model: Any, path: Path, *, copy: bool) -> None:
    """Put a model and the files that its tensors are kept in at ``path`` and beside it.

    What is wrong with the model (no protobuf, tensors in files that are missing or outside its folder) is left
    for the checker to say.

    Raises:
        ArtifactError: there is no model.
    """
    if isinstance(model, (bytes, bytearray)):
        path.write_bytes(model)
        return
    if not isinstance(model, (str, os.PathLike)):
        path.write_bytes(model.SerializeToString())
        return
    from onnxproof.evidence.model import external_files, parsed

    given = Path(model)
    if not given.is_file():
        raise ArtifactError(f"there is no file {str(given)!r}", way_out="Export the model first.")
    bundle.link_or_copy(given, path, copy=copy)
    proto, _ = parsed(given)
    for location in sorted(external_files(proto)) if proto is not None else ():
        with suppress(UnsafePath, FileNotFoundError):
            parts = safe_parts(location)
            # onnx.checker refuses data that has more than one hard link
            bundle.link_or_copy(given.parent.joinpath(*parts), path.parent.joinpath(*parts), copy=True)


def _run(
    profile: Profile,
    target: Path,
    subject: _Given,
    revision: str | None,
    adapters: Adapters | None,
    hear: Hearing,
    contracts: Sequence[Contract],
) -> Record:
    draft = Draft(profile, source(revision), target, directory=target.name)
    if contracts:
        from onnxproof.contracts.recorded import distinct, untried_facts

        draft.contracts = [untried_facts(c) for c in distinct(contracts)]
    return perform(draft, target, ("onnx",), lambda: subject, adapters or {}, hear, contracts)


def _measured(dtype: str) -> list[Contract]:
    """What is measured of every model of a dtype and demands nothing: room below the greatest float16."""
    if dtype != "float16":
        return []
    from onnxproof.contracts import Contract, Headroom

    return [Contract("float16-range", (Headroom(share=None),))]


def _reference(fn: Any, model: Any, params: Mapping[str, Any] | None, double: bool) -> tuple[Kind, Any]:
    if fn is None:
        return "onnx", _Onnx(model)
    if isinstance(fn, Recorded):
        return "recorded", _Recorded(fn)
    torch = sys.modules.get("torch")  # a module of torch's can't exist without it
    if torch is not None and isinstance(fn, torch.nn.Module):
        return "torch", _Torch(fn)
    from onnxproof.evidence.references.jax import JaxReference

    return "jax", JaxReference(fn, params, double=double)


def _named(inputs: Inputs) -> dict[str, Sequence[Any]]:
    cases = dict(inputs) if isinstance(inputs, Mapping) else {"case-0": inputs}
    if not cases:
        raise InputSpecError("there are no inputs to compare on", way_out="Give inputs=[array, …].")
    return {name: [_concrete(i, x) for i, x in enumerate(args)] for name, args in cases.items()}


def _concrete(position: int, value: Any) -> Any:
    """An argument; a tuple of integers stands for standard normal float32 values of that shape."""
    if isinstance(value, tuple) and value and all(type(d) is int for d in value):
        return np.random.default_rng(position).normal(size=value).astype(np.float32)
    return value


def _main_dtype(outputs: Sequence[Array], inputs: Sequence[Array]) -> str:
    """The narrowest float of the outputs, or of the inputs; where there is none, the first dtype, or float32."""
    for arrays in (outputs, inputs):
        floats = {a.dtype for a in arrays if a.dtype.name in DEFAULT_TOLERANCE}
        if floats:
            return str(min(floats, key=lambda d: d.itemsize).name)
    return next((str(a.dtype.name) for a in (*outputs, *inputs)), "float32")


def _specs(runtimes: Sequence[str | RuntimeSpec]) -> list[RuntimeSpec]:
    specs: list[RuntimeSpec] = []
    for runtime in runtimes:
        if isinstance(runtime, RuntimeSpec):
            specs.append(runtime)
        elif runtime in RUNS:
            specs += RUNS[runtime]
        else:
            raise InputSpecError(f"there is no runtime {runtime!r}", way_out=f"Known are: {', '.join(RUNS)}.")
    if not specs:
        raise InputSpecError("there are no runtimes to run in")
    return specs


def _name_of(fn: Any) -> str:
    if fn is None:
        return "onnx.reference"
    name: str = getattr(fn, "__qualname__", type(fn).__qualname__)
    return name[:500]
