"""The last two stages: every hash, then every case in every runtime. They need a bundle and nothing that made it."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from onnxproof.errors import ConformanceError
from onnxproof.evidence import bundle
from onnxproof.evidence.derive import first_run, settle
from onnxproof.evidence.files import read_inside, safe_parts
from onnxproof.evidence.measure import measure
from onnxproof.evidence.record import (
    Execution,
    InputCase,
    Load,
    LoadDetail,
    Output,
    Parity,
    ParityDetail,
    Placement,
    Policy,
    Record,
    Run,
    Runtime,
)
from onnxproof.evidence.runtimes.process import RuntimeProcess
from onnxproof.evidence.runtimes.worker import ADAPTERS
from onnxproof.evidence.source import host
from onnxproof.evidence.stages import NOT_LOADED
from onnxproof.evidence.tensors import Array, decode

MAX_TEXT = 4000


def processes(record_or_names: Record | Sequence[str], adapters: Mapping[str, str]) -> list[RuntimeProcess]:
    """A process for each run, not started yet.

    Args:
        adapters: ``module:Class`` by name, of runtimes that the caller wrote. A record is data: it can't name one.

    Raises:
        ConformanceError: a runtime is unknown.
    """
    if isinstance(record_or_names, Record):
        names: Sequence[str] = [run.runtime.name for run in runs_of(record_or_names)]
    else:
        names = record_or_names
    known = {**{name: name for name in ADAPTERS}, **adapters}
    unknown = sorted(set(names) - set(known))
    if unknown:
        raise ConformanceError(
            f"there is no runtime {', '.join(map(repr, unknown))}", way_out=f"Known are: {', '.join(known)}."
        )
    return [RuntimeProcess(known[name]) for name in names]


def runs_of(record: Record) -> list[Run]:
    """All runs of a record, the one at its top first."""
    return [first_run(record), *record.other_runs]


def hear(record: Record, folder: Path, workers: Sequence[RuntimeProcess]) -> Record:
    """Run load and parity here, of a bundle whose first three stages passed; the record with what came of them."""
    record = record.model_copy(update={"host": host()})
    problems = bundle.problems_of_files(folder, record.artifacts)
    runs = [cleared(run) for run in runs_of(record)]
    if problems:
        return concluded(record, runs, problems, ran=False)
    with ExitStack() as stack:
        for worker in workers:
            stack.enter_context(worker)
            if not worker.running:
                worker.start()
        loaded = [_load(run, worker, folder, record) for run, worker in zip(runs, workers, strict=True)]
        if any(run.execution.load != "loaded" for run in loaded):
            return concluded(record, loaded, [], ran=False)
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        heard = []
        for run, worker in zip(loaded, workers, strict=True):
            heard.append(_run_cases(run, worker, folder, record, scratch))
            worker.stop()
    return concluded(record, heard, [], ran=True)


def cleared(run: Run) -> Run:
    """A run as it is before anything was loaded."""
    cases = [
        case.model_copy(
            update={
                "answer": "not_run",
                "outputs": [],
                "seconds": None,
                "warm_seconds": None,
                "detail": None,
            }
        )
        for case in run.input_cases
    ]
    return run.model_copy(update={"execution": NOT_LOADED, "input_cases": cases})


def concluded(record: Record, runs: Sequence[Run], problems: Sequence[str], *, ran: bool) -> Record:
    """The settled record with these runs in place of its own.

    Args:
        problems: of the files; nothing was loaded when there are any.
        ran: whether the cases were run.
    """
    first = runs[0]
    load = Load(
        status="not_run",
        failure=None,
        detail=LoadDetail(providers=list(first.execution.providers), problems=list(problems)),
    )
    parity = Parity(status="not_run", failure=None, detail=ParityDetail(cases=0, compared=0) if ran else None)
    return settle(
        record.model_copy(
            update={
                "runtime": first.runtime,
                "execution": first.execution,
                "input_cases": first.input_cases,
                "other_runs": list(runs[1:]),
                "stages": record.stages.model_copy(update={"load": load, "parity": parity}),
            }
        )
    )


def _load(run: Run, worker: RuntimeProcess, folder: Path, record: Record) -> Run:
    identity = worker.identify()
    version = identity.get("version")
    runtime: Runtime = run.runtime
    if isinstance(version, str):
        runtime = runtime.model_copy(update={"version": version})
    answer = identity if identity["answer"] != "identity" else _ask_load(runtime, worker, folder, record)
    placement = answer.get("placement")
    kind = answer["answer"]
    execution = Execution(
        load=kind if kind in ("loaded", "crash", "timeout", "memory") else "error",
        error=_said(answer, folder),
        providers=list(answer.get("providers", [])),
        placement=None
        if placement is None
        else [Placement(provider=p, nodes=n) for p, n in sorted(placement.items())],
        load_seconds=answer.get("seconds"),
        peak_memory_bytes=answer.get("memory"),
    )
    return run.model_copy(update={"runtime": runtime, "execution": execution})


def _ask_load(runtime: Runtime, worker: RuntimeProcess, folder: Path, record: Record) -> dict[str, Any]:
    policy: Policy = record.policy
    model = folder.joinpath(*safe_parts(record.artifacts.model))
    return worker.load(
        model.resolve(),
        runtime.provider,
        runtime.session,
        seconds=policy.load_seconds,
        memory=policy.memory_bytes,
    )


def _run_cases(run: Run, worker: RuntimeProcess, folder: Path, record: Record, scratch: Path) -> Run:
    """Run every case; a process that ended is started and loaded anew for the next one."""
    cases = []
    peak = run.execution.peak_memory_bytes
    for case in run.input_cases:
        answer: dict[str, Any] = {"answer": "loaded"}
        if not worker.running:
            answer = _ask_load(run.runtime, worker, folder, record)
        if answer["answer"] == "loaded":
            paths = bundle.tensor_paths(record.artifacts, case.name, "input")
            answer = worker.run(
                [folder.joinpath(*safe_parts(p)).resolve() for p in paths],
                scratch,
                seconds=record.policy.case_seconds,
                again=case.expect == "match",
            )
        if answer.get("memory") is not None:
            peak = max(peak or 0, answer["memory"])
        if answer["answer"] == "memory":
            worker.stop()  # OpenVINO for one fails on every case after one that was too large
        cases.append(_judged(case, answer, folder, record))
    execution = run.execution.model_copy(update={"peak_memory_bytes": peak})
    return run.model_copy(update={"execution": execution, "input_cases": cases})


def _judged(case: InputCase, answer: Mapping[str, Any], folder: Path, record: Record) -> InputCase:
    outputs: list[Output] = []
    if answer["answer"] == "outputs" and case.expect == "match":
        got = [_output(Path(p)) for p in answer["outputs"]]
        want = bundle.read_tensors(folder, record.artifacts, case.name, "output")
        oracle = bundle.read_tensors(folder, record.artifacts, case.name, "oracle")
        for i in range(max(len(got), len(want))):
            name = want[i][0] if i < len(want) else got[i][0]
            sides = (_at(got, i), _at(want, i), _at(oracle, i))
            outputs.append(measure(name, *sides, record.tolerances))
    kind = answer["answer"] if answer["answer"] in _ANSWERS else "error"
    return case.model_copy(
        update={
            "answer": kind,
            "outputs": outputs,
            "seconds": answer.get("seconds"),
            "warm_seconds": answer.get("warm_seconds"),
            "detail": _said(answer, folder),
        }
    )


_ANSWERS = ("outputs", "invalid-argument", "error", "crash", "timeout", "memory")


def _output(path: Path) -> tuple[str, Array]:
    """An output that a worker wrote; the name is the runtime's, the array this process's own copy."""
    name, array = decode(read_inside(path.parent, path.name, bundle.MAX_TENSOR_BYTES))
    return name, array


def _at(tensors: Sequence[tuple[str, Array]], position: int) -> Array | None:
    return tensors[position][1] if position < len(tensors) else None


def _said(answer: Mapping[str, Any], folder: Path) -> str | None:
    """What an answer says went wrong, on one line and without the place of the bundle."""
    error = answer.get("error")
    if error is None:
        return None
    text = " ".join(str(error).split())
    for place in (str(folder.resolve()), str(folder)):
        text = text.replace(place, folder.name)
    return text[:MAX_TEXT]
