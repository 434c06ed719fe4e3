"""The first three stages: what is needed is there, the model exports itself, and the file is well formed."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from onnxproof.errors import ConformanceError
from onnxproof.evidence import bundle
from onnxproof.evidence.derive import UNSETTLED, settle
from onnxproof.evidence.files import safe_parts, write_file
from onnxproof.evidence.measure import tensor_of
from onnxproof.evidence.profile import Profile, ProfileCase, RuntimeSpec
from onnxproof.evidence.promises import ContractFacts
from onnxproof.evidence.record import (
    RECORD_FORMAT,
    Artifacts,
    Check,
    CheckDetail,
    Dependencies,
    Execution,
    Export,
    ExportDetail,
    FeedForwardConfig,
    InputCase,
    Load,
    ModelState,
    Opset,
    Parity,
    Policy,
    Port,
    Record,
    Run,
    Runtime,
    Source,
    Stages,
)
from onnxproof.evidence.references.subject import Array, State, Subject
from onnxproof.evidence.signature import reshaped, wrong_inputs
from onnxproof.evidence.source import base_versions, host, import_versions
from onnxproof.evidence.strict_json import pretty

if TYPE_CHECKING:
    import onnx

    from onnxproof.evidence.runtimes.process import RuntimeProcess

MAX_TEXT = 4000
NOT_LOADED = Execution(
    load="not_run", error=None, providers=[], placement=None, load_seconds=None, peak_memory_bytes=None
)
# What exporters of a profile import, beside what the model itself does.
EXPORTER_PACKAGES: dict[str, tuple[str, ...]] = {
    "torchscript": ("torch", "onnx"),
    "dynamo": ("torch", "onnx", "onnxscript"),
    "onnxproof": ("jax", "onnx"),
}
RUNTIME_PACKAGES = {
    "onnxruntime": "onnxruntime",
    "onnxruntime-cuda": "onnxruntime-gpu",
    "onnx-reference": "onnx",
    "openvino": "openvino",
    "tract": "tract",
}


@dataclass(slots=True)
class Draft:
    """Facts of a run as they come in; :meth:`record` makes a record of them at any time."""

    profile: Profile
    source: Source
    folder: Path
    directory: str | None = None  # the name of the bundle; by default that of the profile
    versions: dict[str, str | None] = field(default_factory=base_versions)
    packages: dict[str, str | None] | None = None
    runtime_versions: list[str | None] = field(default_factory=list)
    runtime_errors: list[str | None] = field(default_factory=list)
    state: ModelState = field(default_factory=lambda: ModelState(parameters=None, gradients=None, modes=None))
    export: ExportDetail | None = None
    check: CheckDetail | None = None
    external: set[str] = field(default_factory=set)
    cases: list[InputCase] = field(default_factory=list)
    contracts: list[ContractFacts] | None = None  # not tried yet

    def record(self) -> Record:
        """A settled record of what is known; the last two stages have not run."""
        profile = self.profile
        versions = self.runtime_versions or [None] * len(profile.runtimes)
        errors = self.runtime_errors or [None] * len(profile.runtimes)
        runs = [
            Run(
                runtime=_runtime(spec, version),
                execution=NOT_LOADED.model_copy(update={"error": error}),
                status="not_run",
                failure=None,
                level="none",
                input_cases=list(self.cases),
            )
            for spec, version, error in zip(profile.runtimes, versions, errors, strict=True)
        ]
        wrote = self.export is not None
        return settle(
            Record(
                format=RECORD_FORMAT,
                profile=profile.name,
                profile_sha256=UNSETTLED,
                status="failed",
                failure=None,
                level="none",
                exit_code=0,
                source=self.source,
                config=profile.config,
                exporter=profile.exporter,
                opset=Opset(requested=profile.opset, model=self.check.opset if self.check else None),
                artifacts=Artifacts(
                    directory=self.directory or profile.name,
                    model=profile.model,
                    files=bundle.listed_files(self.folder, profile.model, self.external) if wrote else [],
                ),
                versions=self.versions,
                host=host(),
                runtime=runs[0].runtime,
                execution=runs[0].execution,
                dtype=profile.dtype,
                input_cases=list(self.cases),
                other_runs=runs[1:],
                tolerances=profile.tolerances,
                policy=profile.policy,
                model_state=self.state,
                stages=Stages(
                    dependencies=Dependencies(status="not_run", failure=None, detail=self.packages),
                    export=Export(status="not_run", failure=None, detail=self.export),
                    check=Check(status="not_run", failure=None, detail=self.check),
                    load=Load(status="not_run", failure=None, detail=None),
                    parity=Parity(status="not_run", failure=None, detail=None),
                ),
                contracts=self.contracts,
                digest=UNSETTLED,
            )
        )


def dependencies(draft: Draft, packages: Sequence[str], identified: Sequence[dict[str, object]]) -> None:
    """Import what the export needs; runtimes were asked for their version in their own processes."""
    found = import_versions(packages)
    for spec, answer in zip(draft.profile.runtimes, identified, strict=True):
        version = answer.get("version")
        known = str(version) if isinstance(version, str) else None
        draft.runtime_versions.append(known)
        error = answer.get("error")
        draft.runtime_errors.append(None if error is None else str(error)[:MAX_TEXT])
        found[RUNTIME_PACKAGES.get(spec.name, spec.name)] = known
    draft.packages = found
    draft.versions |= found
    draft.cases = [_listed(case) for case in draft.profile.cases]


def export(draft: Draft, make: Callable[[], Subject]) -> Subject:
    """Make the subject and let it export itself; what it raises, warns of and changes is recorded.

    Raises:
        ConformanceError: the subject's weights are not those that the profile states.
    """
    path = draft.folder / draft.profile.model
    error: str | None = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        subject = make()
        _check_weights(draft, subject)
        try:
            before = subject.state()
            subject.export(path)
            draft.state = _survived(before, subject.state())
            if not path.is_file():
                error = f"the exporter wrote no {draft.profile.model}"
        except Exception as err:  # an exporter and a user's model may raise anything
            error = _raised(err)
    said = list(dict.fromkeys(f"{w.category.__name__}: {w.message}"[:MAX_TEXT] for w in caught))
    draft.export = ExportDetail(warnings=said[:256], error=error)
    return subject


def check(draft: Draft, subject: Subject, process: RuntimeProcess | None = None) -> None:
    """Check the file, and when it is sound write the cases and the trace beside it.

    Args:
        process: where the checker reads a file that others wrote; by default it does so here.
    """
    from onnxproof.evidence.model import check as check_model
    from onnxproof.evidence.model import external_files, trace

    path = draft.folder / draft.profile.model
    draft.check, model = (
        check_model(path) if process is None else _checked(path, process, draft.profile.policy)
    )
    if model is None:
        return
    draft.external = external_files(model)
    sound = draft.check.checker_error is None and draft.check.shape_inference.status == "passed"
    if sound and draft.check.inputs is not None and draft.check.outputs is not None:
        write_file(draft.folder / bundle.TRACE, pretty(trace(model)).encode())
        _write_cases(draft, subject, draft.check.inputs, draft.check.outputs)


def _checked(
    path: Path, process: RuntimeProcess, policy: Policy
) -> tuple[CheckDetail, onnx.ModelProto | None]:
    """What the checker says in a process of its own; a crash, a hang and running out of memory are its faults."""
    from onnxproof.evidence.model import judged, parsed, unchecked

    model, unread = parsed(path)
    if model is None:
        return unchecked(None, unread), None
    answer = process.check(path, seconds=policy.load_seconds, memory=policy.memory_bytes)
    process.stop()
    if answer["answer"] == "checked":
        return judged(model, answer["checker"], answer["inference"]), model
    return unchecked(
        model, f"the checker gave no answer: {answer['answer']}: {answer['error']}"[:MAX_TEXT]
    ), model


def _write_cases(draft: Draft, subject: Subject, inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
    good: tuple[InputCase, list[Array]] | None = None
    cases = []
    for listed in draft.profile.cases:
        arrays = list(subject.inputs(listed))
        if len(arrays) != len(inputs):
            raise ConformanceError(
                f"case {listed.name!r} has {len(arrays)} inputs; the file takes {len(inputs)}:"
                f" {', '.join(p.name for p in inputs)}"
            )
        case = _listed(listed)
        case = _with_inputs(case, [p.name for p in inputs], arrays)
        _write_inputs(draft, case, arrays)
        if case.expect == "match":
            good = good or (case, arrays)
            native = list(subject.native(listed))
            names = [p.name for p in outputs] + [f"output_{i}" for i in range(len(outputs), len(native))]
            bundle.write_tensors(draft.folder, case.name, "output", list(zip(names, native, strict=False)))
            oracle = subject.oracle(listed)
            if oracle is not None and len(oracle.outputs) == len(native):
                wide = list(zip(names, oracle.outputs, strict=False))
                bundle.write_tensors(draft.folder, case.name, "oracle", wide)
                case = case.model_copy(update={"oracle": oracle.kind})
        cases.append(case)
    if draft.profile.policy.refusals == "signature" and good is not None:
        for wrong in wrong_inputs(inputs, good[0].inputs):
            arrays = list(good[1])
            arrays[wrong.position] = reshaped(arrays[wrong.position], wrong.tensor)
            listed = ProfileCase(
                name=wrong.name,
                kind=wrong.kind,
                shapes=[list(a.shape) for a in arrays],
                seed=None,
                expect="rejected",
            )
            case = _with_inputs(_listed(listed), [p.name for p in inputs], arrays)
            cases.append(case)
            _write_inputs(draft, case, arrays)
    draft.cases = cases


def _write_inputs(draft: Draft, case: InputCase, arrays: Sequence[Array]) -> None:
    named = [(t.name, a) for t, a in zip(case.inputs, arrays, strict=True)]
    bundle.write_tensors(draft.folder, case.name, "input", named)


def _listed(case: ProfileCase) -> InputCase:
    return InputCase(
        name=case.name,
        kind=case.kind,
        shape=list(case.shapes[0]),
        seed=case.seed,
        shapes=[list(s) for s in case.shapes],
        inputs=[],
        expect=case.expect,
        oracle=None,
        answer="not_run",
        outcome="not_run",
        passed=False,
        failure=None,
        limit=None,
        max_abs_error=None,
        max_rel_error=None,
        outputs=[],
        seconds=None,
        warm_seconds=None,
        detail=None,
    )


def _with_inputs(case: InputCase, names: Sequence[str], arrays: Sequence[Array]) -> InputCase:
    tensors = [tensor_of(n, a) for n, a in zip(names, arrays, strict=True)]
    shape = list(tensors[0].shape) if tensors else []
    return case.model_copy(update={"inputs": tensors, "shape": shape})


def _check_weights(draft: Draft, subject: Subject) -> None:
    found, config = subject.weights_sha256(), draft.profile.config
    if config.weights_sha256 is not None and found != config.weights_sha256:
        of_torch = isinstance(config, FeedForwardConfig)
        raise ConformanceError(
            f"the weights of {draft.profile.name!r} have SHA-256 {found}, not {config.weights_sha256}",
            way_out="The generator that draws them has changed: use the version of "
            + ("PyTorch named in the docs." if of_torch else "NumPy that it was written with."),
        )
    if found is not None and config.weights_sha256 is None:
        draft.profile = draft.profile.model_copy(
            update={"config": config.model_copy(update={"weights_sha256": found})}
        )


def _survived(before: State, after: State) -> ModelState:
    def same(a: str | None, b: str | None) -> bool | None:
        return None if a is None and b is None else a == b

    return ModelState(
        parameters=same(before.parameters, after.parameters),
        gradients=same(before.gradients, after.gradients),
        modes=same(before.modes, after.modes),
    )


def _runtime(spec: RuntimeSpec, version: str | None) -> Runtime:
    return Runtime(
        name=spec.name, version=version, provider=spec.provider, session=dict(spec.session), limits=[]
    )


def _raised(err: Exception) -> str:
    """The error and the last line of the user's or the exporter's code, without its folder."""
    frames = traceback.extract_tb(err.__traceback__)
    place = f" (at {Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(err).__name__}: {err}"[:MAX_TEXT] + place


def checked_directory(name: str) -> str:
    """``name``, when it is one plain part of a path."""
    if len(safe_parts(name)) != 1:
        raise ConformanceError(f"{name!r} is not the name of a folder")
    return name
