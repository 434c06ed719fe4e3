"""Is this a record? Every problem is named: of form, of facts against each other, of verdicts against facts."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from onnxproof.errors import ConformanceError
from onnxproof.evidence import promises
from onnxproof.evidence.bundle import tensor_paths
from onnxproof.evidence.derive import settings_of, settle, settle_report
from onnxproof.evidence.files import UnsafePath, safe_parts
from onnxproof.evidence.profile import AD_HOC, ProfileCase, builtin, feed_forward_problems, problems_of
from onnxproof.evidence.record import FeedForwardConfig, InputCase, Output, Record, Report, Run, Tolerances
from onnxproof.evidence.runtimes.limits import LIMITS
from onnxproof.evidence.signature import wrong_inputs
from onnxproof.evidence.strict_json import StrictJsonError, canonical, parse

Model = TypeVar("Model", Record, Report)
RecordLike = Record | Mapping[str, Any] | bytes | str
MAX_DIFFERENCES = 50
_SLACK = 1e-9  # of a ratio that is computed again from the values in the record


class InvalidRecord(ConformanceError, ValueError):
    """A record is malformed or contradicts itself; ``problems`` are all that were found."""

    def __init__(self, problems: list[str], place: str = "") -> None:
        """``place`` is the file or bundle that holds the record, when it was read from one."""
        self.problems = problems
        of = f" of {place!r}" if place else ""
        super().__init__(
            f"the record{of} is not valid:\n  " + "\n  ".join(problems),
            way_out="It was changed, or cut short: fetch it anew, or make the evidence again.",
        )


def validate_record(record: RecordLike) -> list[str]:
    """Every problem of a record; none when it is valid.

    Args:
        record: a record, its JSON object, or its JSON text.
    """
    found, problems = _read(record, Record)
    return problems if found is None else list(_problems(found))


def validate_report(report: Report | Mapping[str, Any] | bytes | str) -> list[str]:
    """Every problem of a report and of the records in it."""
    found, problems = _read(report, Report)
    if found is None:
        return problems
    problems = _differences(settle_report(found).as_dict(), found.as_dict())
    for record in found.profiles:
        problems += [f"{record.profile}: {problem}" for problem in _problems(record)]
    return problems


def read_record(record: RecordLike) -> Record:
    """The record, when it is valid.

    Raises:
        InvalidRecord: it is not.
    """
    found, problems = _read(record, Record)
    problems = problems if found is None else list(_problems(found))
    if found is None or problems:
        raise InvalidRecord(problems)
    return found


def _read(value: Any, model: type[Model]) -> tuple[Model | None, list[str]]:
    if isinstance(value, model):
        value = value.as_dict()
    try:
        if isinstance(value, Mapping):
            value = canonical(value)
        data = value.encode() if isinstance(value, str) else value
        if not isinstance(data, bytes):
            return None, [f"the whole: a {type(value).__name__} is no record"]
        parsed = parse(data)
    except StrictJsonError as err:
        return None, [err.what]
    except (TypeError, ValueError, RecursionError) as err:
        return None, [f"the whole: not strict JSON: {err}"]
    try:
        return model.model_validate_json(json.dumps(parsed)), []
    except ValidationError as err:
        return None, problems_of(err)


def _problems(record: Record) -> Iterator[str]:
    settled = settle(record)
    yield from _differences(settled.as_dict(), record.as_dict())
    yield from _order_problems(settled)
    yield from _artifact_problems(record)
    yield from _profile_problems(record)
    yield from _version_problems(record)
    runs = [("", record.runtime.name, record.execution.load, record.input_cases)]
    runs += [
        (f"other_runs.{i}.", run.runtime.name, run.execution.load, run.input_cases)
        for i, run in enumerate(record.other_runs)
    ]
    for place, runtime, load, cases in runs:
        yield from _run_problems(place, load, cases, record)
        yield from _taken_problems(place, runtime, cases, record)
    for i, run in enumerate(record.other_runs):
        yield from _same_cases(i, run, record)
    ran = record.stages.parity.detail is not None
    yield from (f"contracts.{p}" for p in promises.problems(record.contracts or (), ran=ran))


def _differences(want: Any, got: Any, place: str = "") -> list[str]:
    """Where derived fields are not what follows from the facts."""
    if isinstance(want, dict) and isinstance(got, dict):
        found = []
        for key in want:
            found += _differences(want[key], got.get(key), f"{place}.{key}" if place else key)
        return found[:MAX_DIFFERENCES]
    if isinstance(want, list) and isinstance(got, list) and len(want) == len(got):
        found = []
        for i, (a, b) in enumerate(zip(want, got, strict=True)):
            found += _differences(a, b, f"{place}.{i}")
        return found[:MAX_DIFFERENCES]
    same = type(want) is type(got) and want == got
    return [] if same else [f"{place}: is {got!r}, but the facts give {want!r}"]


def _order_problems(record: Record) -> Iterator[str]:
    """Stages that have facts though one before them failed, or none though all before them passed."""
    stages = record.stages
    open_ = True
    for name in ("dependencies", "export", "check", "load", "parity"):
        stage = stages.of(name)
        if stage.detail is None and open_:
            yield f"stages.{name}: did not run, though nothing before it failed"
        elif stage.detail is not None and not open_:
            yield f"stages.{name}: ran after a stage that failed"
        open_ = open_ and stage.status == "passed"
    check = stages.check.detail
    if check is not None:
        if (check.checker_error is None) != (check.shape_inference.status != "not_run"):
            yield "stages.check.detail.shape_inference: ran exactly when the checker passed, but says otherwise"
        if (check.shape_inference.status == "failed") != (check.shape_inference.error is not None):
            yield "stages.check.detail.shape_inference: has an error exactly when it failed, but says otherwise"
        if check.checker_error is None and None in (check.opset, check.inputs, check.outputs):
            yield "stages.check.detail: the checker passed a file of which nothing is said"
    if record.opset.model != (check.opset if check is not None else None):
        yield "opset.model: is not what the check found"
    if stages.export.detail is None and record.artifacts.files:
        yield "artifacts.files: there are files, though no exporter ran"
    if stages.export.detail is None and set(record.model_state.model_dump().values()) != {None}:
        yield "model_state: is known, though no exporter ran"


def _artifact_problems(record: Record) -> Iterator[str]:
    artifacts = record.artifacts
    for place, path in [("directory", artifacts.directory), ("model", artifacts.model)]:
        if not _is_plain(path) or "/" in path:
            yield f"artifacts.{place}: {path!r} is not one plain name"
    seen: set[str] = set()
    for i, file in enumerate(artifacts.files):
        if not _is_plain(file.path):
            yield f"artifacts.files.{i}.path: {file.path!r} is not a plain path inside the bundle"
        if file.path.casefold() in seen:
            yield f"artifacts.files.{i}.path: {file.path!r} is listed twice"
        seen.add(file.path.casefold())
        if (file.role == "model") != (file.path == artifacts.model):
            yield f"artifacts.files.{i}.role: {file.role!r} does not go with {file.path!r}"
        if (file.role == "case") != file.path.startswith("cases/"):
            yield f"artifacts.files.{i}.role: {file.role!r} does not go with {file.path!r}"
        if file.path == "record.json":
            yield f"artifacts.files.{i}.path: a record does not list itself"
    if record.stages.check.status == "passed" and not any(f.role == "model" for f in artifacts.files):
        yield "artifacts.files: the model is not listed"
    if [f.path for f in artifacts.files] != sorted(f.path for f in artifacts.files):
        yield "artifacts.files: are not in order of path"


def _profile_problems(record: Record) -> Iterator[str]:
    shipped = builtin().get(record.profile)
    if shipped is not None:
        for problem in _differences(shipped.settings(), settings_of(record)):
            yield f"profile: {record.profile!r} stands for other settings: {problem}"
        if record.artifacts.directory != record.profile:
            yield f"artifacts.directory: {record.artifacts.directory!r} is not that of the profile"
    elif record.profile != AD_HOC and isinstance(record.config, FeedForwardConfig):
        cases = [
            ProfileCase(name=c.name, kind=c.kind, shapes=c.shapes, seed=c.seed, expect=c.expect)
            for c in record.input_cases
        ]
        yield from (f"input_cases: {p}" for p in feed_forward_problems(record.config, cases))
    check = record.stages.check.detail
    names = [c.name for c in record.input_cases]
    if len(set(names)) != len(names):
        yield "input_cases: two cases have one name"
    if not any(c.expect == "match" for c in record.input_cases):
        yield "input_cases: no case compares values"
    for i, case in enumerate(record.input_cases):
        if (case.kind == "values") != (case.expect == "match"):
            yield f"input_cases.{i}: expects {case.expect!r} of a case of kind {case.kind!r}"
        if case.inputs and case.shape != case.inputs[0].shape:
            yield f"input_cases.{i}.shape: is not that of its first input"
    if check is None or record.stages.check.status != "passed" or check.inputs is None:
        return
    if any(len(c.inputs) != len(check.inputs) for c in record.input_cases):
        yield "input_cases: a case does not have the inputs of the graph"
    elif record.policy.refusals == "signature":
        yield from _refusal_problems(record)


def _refusal_problems(record: Record) -> Iterator[str]:
    """Cases that the signature forbids must be exactly those that follow from it."""
    check = record.stages.check.detail
    good = next((c for c in record.input_cases if c.expect == "match"), None)
    if check is None or check.inputs is None or good is None:
        return
    want = []
    for wrong in wrong_inputs(check.inputs, good.inputs):
        inputs = list(good.inputs)
        inputs[wrong.position] = wrong.tensor
        want.append((wrong.name, wrong.kind, inputs))
    got = [(c.name, c.kind, c.inputs) for c in record.input_cases if c.kind != "values"]
    if want != got:
        yield "input_cases: those to be refused are not the ones that the signature gives"


def _version_problems(record: Record) -> Iterator[str]:
    for key in ("python", "platform", "onnxproof", "numpy"):
        if not record.versions.get(key):
            yield f"versions.{key}: is missing"
    for name, version in (record.stages.dependencies.detail or {}).items():
        if record.versions.get(name, "") != version:
            yield f"versions.{name}: is not what the dependencies stage found"
    if record.source.origin == "unknown" and record.source.revision is not None:
        yield "source.revision: is known, though its origin is not"
    if record.source.origin != "unknown" and record.source.revision is None:
        yield "source.revision: is missing, though it has an origin"
    if (record.source.origin == "git") != (record.source.dirty is not None):
        yield "source.dirty: is known exactly when the revision comes from git, but says otherwise"


def _run_problems(place: str, load: str, cases: list[InputCase], record: Record) -> Iterator[str]:
    detail = record.stages.load.detail
    hashed = detail is not None and not detail.problems
    if (load != "not_run") != hashed:
        yield f"{place}execution.load: a file is loaded exactly when its hashes are right, but it says {load!r}"
    ran = record.stages.parity.detail is not None
    for i, case in enumerate(cases):
        if (case.answer != "not_run") != ran:
            how = "ran" if ran else "did not run"
            yield f"{place}input_cases.{i}.answer: is {case.answer!r} in a parity stage that {how}"
        if bool(case.outputs) != (case.answer == "outputs" and case.expect == "match"):
            yield f"{place}input_cases.{i}.outputs: do not go with the answer {case.answer!r}"
        listed = bool(tensor_paths(record.artifacts, case.name, "oracle"))
        if listed != (case.oracle is not None):
            yield f"{place}input_cases.{i}.oracle: is {case.oracle!r}, which the files of the case do not say"
        for j, output in enumerate(case.outputs):
            for problem in _output_problems(output, record.tolerances):
                yield f"{place}input_cases.{i}.outputs.{j}: {problem}"


def _taken_problems(place: str, runtime: str, cases: list[InputCase], record: Record) -> Iterator[str]:
    """Inputs that a runtime took, though the signature forbids them and the runtime is known to check it."""
    check = record.stages.check.detail
    unchecked = {kind for limit in LIMITS.get(runtime, ()) for kind in limit.unrefused}
    if runtime not in LIMITS or unchecked & {"width", "rank"} or check is None or check.inputs is None:
        return
    for i, case in enumerate(cases):
        if case.answer == "outputs" and case.expect == "match":
            for port, tensor in zip(check.inputs, case.inputs, strict=False):
                if port.shape is not None and not _fits(port.shape, tensor.shape):
                    yield f"{place}input_cases.{i}: {runtime} took {tensor.shape} for {port.name!r} of {port.shape}"


def _fits(dims: list[int | str], shape: list[int]) -> bool:
    return len(dims) == len(shape) and all(
        isinstance(d, str) or d == n for d, n in zip(dims, shape, strict=True)
    )


def _output_problems(output: Output, tolerances: Tolerances) -> Iterator[str]:
    want, got = output.want, output.got
    comparable = want is not None and got is not None and (want.dtype, want.shape) == (got.dtype, got.shape)
    facts = (output.max_abs_error, output.max_rel_error, output.excess)
    if comparable == (None in facts) or (not comparable and set(facts) != {None}):
        yield "has errors exactly when both sides can be compared, but says otherwise"
        return
    if output.lost_nan is not None and output.excess != "inf":
        yield "lost_nan: NaN is lost, though nothing differs beyond all bounds"
    if not comparable or output.worst is None:
        return
    sides = (output.worst.got, output.worst.want)
    if any(isinstance(v, (str, bool)) for v in sides) or output.excess == "inf":
        return
    inexact = want is not None and want.dtype.lstrip("b").startswith("float")
    off = abs(float(sides[0]) - float(sides[1]))
    allowed = tolerances.atol + tolerances.rtol * abs(float(sides[1])) if inexact else 0.0
    excess = off / allowed if allowed > 0 else (0.0 if off == 0 else math.inf)
    if inexact and not math.isclose(float(output.excess or 0), excess, rel_tol=_SLACK, abs_tol=_SLACK):
        yield f"excess: is {output.excess!r}, but the values of the worst element give {excess!r}"


def _same_cases(position: int, run: Run, record: Record) -> Iterator[str]:
    keys = {"name", "kind", "shape", "shapes", "seed", "inputs", "expect", "oracle"}
    here = [c.model_dump(include=keys) for c in run.input_cases]
    if here != [c.model_dump(include=keys) for c in record.input_cases]:
        yield f"other_runs.{position}.input_cases: are not the cases of the first run"


def _is_plain(path: str) -> bool:
    try:
        safe_parts(path)
    except UnsafePath:
        return False
    return True
