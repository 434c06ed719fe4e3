"""What a record says went wrong, piece by piece: for pages, for test reports, for annotations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from onnxproof.evidence.court import runs_of
from onnxproof.evidence.promises import ClauseFacts
from onnxproof.evidence.record import STAGES, Failure, InputCase, Output, Record, Run, Runtime, Stage
from onnxproof.evidence.runtimes.limits import LIMITS
from onnxproof.evidence.runtimes.recommended import DENORMAL_AS_ZERO

_LIMITS = {(name, limit.name): limit.what for name, limits in LIMITS.items() for limit in limits}
Weight = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Complaint:
    """One thing that went wrong; ``weight`` is ``warning`` where a known limit of the runtime explains it."""

    stage: Stage
    failure: Failure | None
    weight: Weight
    message: str
    run: str = ""
    case: str = ""


def run_label(runtime: Runtime) -> str:
    """A runtime and what tells its runs apart on one line: name, provider, optimization level, threads, denormals."""
    level = runtime.session.get("graph_optimization_level")
    words = {"ORT_ENABLE_ALL": "optimized", "ORT_DISABLE_ALL": "optimizations off"}
    parts = [runtime.name, runtime.provider.removesuffix("ExecutionProvider")]
    if level is not None:
        parts.append(words.get(str(level), str(level)))
    threads = runtime.session.get("numThreads", 1)
    if threads != 1:
        parts.append(f"{threads} threads")
    if runtime.session.get(DENORMAL_AS_ZERO) == "1":
        parts.append("denormals as zero")
    return " ".join(parts)


def complaints(record: Record) -> list[Complaint]:
    """Everything that went wrong, in the order of the stages; empty when nothing did."""
    cases = [c for run in runs_of(record) for c in _cases(run)]
    return [*_stages(record), *cases, *_clauses(record)]


def _stages(record: Record) -> Iterator[Complaint]:
    for name in STAGES:
        stage = record.stages.of(name)
        if stage.status == "failed" and name != "parity":
            for message in stage_messages(record, name) or [f"the stage {name} failed"]:
                yield Complaint(name, stage.failure, "error", message)


def stage_messages(record: Record, name: Stage) -> list[str]:
    """What one of the stages before the last said went wrong."""
    stages = record.stages
    if name == "dependencies":
        missing = [p for p, version in (stages.dependencies.detail or {}).items() if version is None]
        said = [f"{run_label(r.runtime)}: {r.execution.error}" for r in runs_of(record) if r.execution.error]
        return [f"can't be imported: {', '.join(missing)}", *said] if missing else []
    if name == "export" and stages.export.detail is not None:
        lost = [part for part, same in record.model_state.model_dump().items() if same is False]
        changed = [f"the export changed the model's {', '.join(lost)}"] if lost else []
        return [stages.export.detail.error] if stages.export.detail.error else changed
    if name == "check" and stages.check.detail is not None:
        detail = stages.check.detail
        return [e for e in (detail.checker_error, detail.shape_inference.error) if e]
    if name == "load" and stages.load.detail is not None:
        failed = [r for r in runs_of(record) if r.execution.load not in ("loaded", "not_run")]
        said = [f"{run_label(r.runtime)}: {r.execution.error or r.execution.load}" for r in failed]
        return [*stages.load.detail.problems, *said]
    return []


def _cases(run: Run) -> Iterator[Complaint]:
    for case in run.input_cases:
        if case.failure is None and case.limit is None:
            continue
        label = run_label(run.runtime)
        yield Complaint(
            stage="parity",
            failure=case.failure,
            weight="error" if case.failure and case.limit is None else "warning",
            message=case_message(case, run.runtime),
            run=label,
            case=case.name,
        )


def _clauses(record: Record) -> Iterator[Complaint]:
    for contract in record.contracts or ():
        for clause in contract.clauses:
            if clause.status == "failed":
                yield Complaint(
                    stage="parity",
                    failure="contract-violation",
                    weight="error",
                    message=clause_message(clause),
                    run=run_label(record.runtime),
                    case=f"contract {contract.name}",
                )


def clause_message(clause: ClauseFacts) -> str:
    """What a clause demands, and what was found that breaks it."""
    beyond = [f"{m.name} is {number(m.value)}" for m in clause.measures] if not clause.offences else []
    return f"{clause.demand}: {'; '.join([*clause.offences, *beyond]) or 'nothing was there to look at'}."


def case_message(case: InputCase, runtime: Runtime) -> str:
    """Why a case did not pass, in one or two sentences."""
    parts = []
    if case.outcome == "mismatch":
        parts += [_difference(o) for o in case.outputs if differs(o)] or ["the outputs differ"]
    elif case.outcome == "accepted":
        parts.append("an input that has to be refused was taken")
    elif case.outcome == "rejected" and case.expect == "match":
        parts.append("a valid input was refused")
    elif case.outcome not in ("match", "rejected"):
        parts.append(f"the runtime gave no outputs: {case.outcome}")
    if case.detail:
        parts.append(" ".join(case.detail.split()))
    if case.limit:
        what = _LIMITS.get((runtime.name, case.limit), "not known to this version")
        parts.append(f"known limit {case.limit}: {what}")
    return "; ".join(p.rstrip(";.") for p in parts) + "."


def differs(output: Output) -> bool:
    """Whether an output is missing, of another form, or beyond what is allowed somewhere."""
    if output.want is None or output.got is None or output.excess is None:
        return True
    return output.excess == "inf" or output.excess > 1


def _difference(output: Output) -> str:
    if output.want is None or output.got is None:
        return f"output {output.name!r} is {'not given' if output.got is None else 'not wanted'}"
    if (output.want.dtype, output.want.shape) != (output.got.dtype, output.got.shape):
        return (
            f"output {output.name!r} is {output.got.dtype}{output.got.shape},"
            f" not {output.want.dtype}{output.want.shape}"
        )
    text = f"output {output.name!r} differs by up to {number(output.max_abs_error)}"
    if output.worst is None:
        return text
    return (
        f"{text}: at {output.worst.index} it is {element(output.worst.got)}, not {element(output.worst.want)}"
    )


def number(value: float | str | bool | None) -> str:
    """A figure as people read it: three significant digits."""
    if value is None:
        return "-"
    return str(value) if isinstance(value, (str, bool)) else f"{value:.3g}"


def element(value: float | str | bool | None) -> str:
    """An element of an array, to the digits that tell float32 values apart."""
    return f"{value:.9g}" if isinstance(value, float) else number(value)
