"""Run a profile, run its evidence again, check its files: the calls of :mod:`onnxproof.evidence`."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnxproof.errors import ArtifactError, BrokenBundle, ConformanceError
from onnxproof.evidence import bundle, court, derive, promises, stages
from onnxproof.evidence.derive import settle, settle_report
from onnxproof.evidence.files import sync_folder, write_file
from onnxproof.evidence.profile import Profile, load, load_all
from onnxproof.evidence.record import REPORT_FORMAT, STAGES, FeedForwardConfig, Record, Report
from onnxproof.evidence.references.subject import Subject
from onnxproof.evidence.runtimes.process import RuntimeProcess
from onnxproof.evidence.source import base_versions, source
from onnxproof.evidence.stages import EXPORTER_PACKAGES, RUNTIME_PACKAGES, Draft
from onnxproof.evidence.strict_json import pretty
from onnxproof.evidence.validate import InvalidRecord, RecordLike, read_record

if TYPE_CHECKING:
    from onnxproof.contracts import Contract

Place = str | os.PathLike[str]
Adapters = Mapping[str, str]
Hearing = Callable[[Record, Path, Sequence[RuntimeProcess]], Record]
OURS = "onnxproof"  # the exporter whose files are checked in this process
CHECKER = "onnx-reference"  # the worker that has the onnx package


def run_profile(
    name_or_profile: str | Path | Profile,
    folder: Place,
    *,
    source_revision: str | None = None,
    force: bool = False,
    adapters: Adapters | None = None,
    hear: Hearing = court.hear,
) -> dict[str, Any]:
    """Run one profile and leave its bundle in ``folder/<name>``.

    Args:
        name_or_profile: the name of a shipped profile, the path of a TOML file, or a profile.
        source_revision: what the record says of the code; by default the git checkout it was imported from.
        force: replace a bundle that is there.
        adapters: runtimes of the caller's own, ``module:Class`` by name.
        hear: what does load and parity, where that is not done here and now.

    Returns:
        The record as JSON has it. A failed stage is in the record; it is not raised.

    Raises:
        ConformanceError: the profile is malformed, or a bundle is there already.
        ArtifactError: files can't be written.
    """
    profile = load(name_or_profile)
    target = Path(folder) / stages.checked_directory(profile.name)
    refuse_existing(target, force)
    draft = Draft(profile, source(source_revision), target)
    packages = EXPORTER_PACKAGES.get(profile.exporter.name, ("onnx",))
    record = perform(draft, target, packages, lambda: _subject(draft.profile), adapters or {}, hear)
    return record.as_dict()


def run_profiles(
    names_or_profiles: Sequence[str | Path | Profile],
    folder: Place,
    *,
    source_revision: str | None = None,
    force: bool = False,
    adapters: Adapters | None = None,
) -> dict[str, Any]:
    """Run several profiles, one after the other; the report as JSON has it.

    A name may be that of a group (``jax``, ``torch``, ``all``), and a file may hold several profiles.
    """
    profiles = load_all(names_or_profiles)
    for profile in profiles:  # all are refused before the first one runs
        refuse_existing(Path(folder) / profile.name, force)
    records = [
        read_record(run_profile(p, folder, source_revision=source_revision, force=force, adapters=adapters))
        for p in profiles
    ]
    return report_of(records).as_dict()


def report_of(records: Sequence[Record]) -> Report:
    """The report that holds ``records``."""
    return settle_report(Report(format=REPORT_FORMAT, status="failed", exit_code=0, profiles=list(records)))


def execute(record: RecordLike, folder: Place, *, adapters: Adapters | None = None) -> dict[str, Any]:
    """Run load and parity of a bundle again, hashes first, with nothing but its files and the runtimes.

    Args:
        record: of the bundle in ``folder/<artifacts.directory>``.
        adapters: runtimes of the caller's own; a record can't name code.

    Returns:
        The record with what came of it here. The stages before are as they were.

    Raises:
        InvalidRecord: the record is malformed or contradicts itself.
        ConformanceError: the record's first three stages did not pass, so that there is nothing to run.
    """
    found = read_record(record)
    return execute_in(found, Path(folder) / found.artifacts.directory, adapters or {}).as_dict()


def execute_in(
    record: Record,
    folder: Path,
    adapters: Adapters,
    hear: Hearing = court.hear,
    contracts: Sequence[Contract] = (),
) -> Record:
    """:func:`execute` of a valid record whose bundle is ``folder``, whatever that is called.

    Args:
        hear: what does load and parity, where that is not done here.
        contracts: more that the file has to keep; one with the name of one in the record takes its place.
    """
    if record.stages.check.status != "passed":
        raise ConformanceError(
            f"{record.profile!r} failed with {record.failure} before there was anything to run"
        )
    promised = _combined(record, contracts)
    workers = court.processes(record, adapters)
    detail = record.stages.dependencies.detail or {}
    again = _promised(hear(_untried(record), folder, workers), folder, promised, adapters)
    runtimes = {
        RUNTIME_PACKAGES.get(run.runtime.name, run.runtime.name): run.runtime.version
        for run in court.runs_of(again)
        if run.runtime.version is not None
    }
    dependencies = again.stages.dependencies.model_copy(update={"detail": {**detail, **runtimes}})
    return settle(
        again.model_copy(
            update={
                "versions": {**again.versions, **runtimes, **base_versions()},
                "stages": again.stages.model_copy(update={"dependencies": dependencies}),
            }
        )
    )


def verify_artifacts(record: RecordLike, folder: Place) -> None:
    """Hold every file of ``folder/<artifacts.directory>`` against the record.

    Raises:
        InvalidRecord: the record is malformed or contradicts itself.
        ConformanceError: a file is changed, missing, not listed, or a link. All are named.
    """
    found = read_record(record)
    verify_folder(found, Path(folder) / found.artifacts.directory)


def verify_folder(record: Record, folder: Path) -> None:
    """:func:`verify_artifacts` of a valid record whose bundle is ``folder``, whatever that is called.

    Raises:
        BrokenBundle: a file is not the one of the record.
    """
    if problems := bundle.problems_of_files(folder, record.artifacts):
        raise BrokenBundle(
            f"the files of {str(folder)!r} are not those of the record:\n  " + "\n  ".join(problems),
            way_out="Fetch the bundle anew, or make the evidence again.",
        )


def read_bundle(folder: Path) -> Record:
    """The valid record of a bundle.

    Raises:
        InvalidRecord, ConformanceError: there is none.
    """
    try:
        return read_record(bundle.read_record_bytes(folder))
    except InvalidRecord as err:
        raise InvalidRecord(err.problems, str(folder)) from None


def exit_code(records: RecordLike | Report | Sequence[RecordLike]) -> int:
    """The exit code of a record, of a report, or of several records: that of the first that failed, or 0."""
    if isinstance(records, Report):
        return derive.exit_code(records.profiles)
    if isinstance(records, Mapping) and "profiles" in records:
        return derive.exit_code([read_record(r) for r in records["profiles"]])
    if isinstance(records, (Record, Mapping, bytes, str)):
        return read_record(records).exit_code
    return derive.exit_code([read_record(r) for r in records])


def save_report(report: Report | Mapping[str, Any] | Sequence[RecordLike], path: Place) -> None:
    """Write a report, or the report of some records, whole or not at all."""
    if isinstance(report, Report):
        found = report
    elif isinstance(report, Mapping):
        found = report_of([read_record(r) for r in report["profiles"]])
    else:
        found = report_of([read_record(r) for r in report])
    write_file(Path(path), pretty(found.as_dict()).encode())


def summary_lines(record: RecordLike) -> list[str]:
    """A record in a few lines of text."""
    r = read_record(record)
    name = f"{r.runtime.name} {r.runtime.version or '?'} {r.runtime.provider} {r.dtype}"
    verdict = f"{r.status}, level {r.level}" + (
        f", {r.failure} (exit code {r.exit_code})" if r.failure else ""
    )
    lines = [f"{r.profile}: {verdict} [{name}]"]
    lines.append("  " + " → ".join(f"{s} {r.stages.of(s).status}" for s in STAGES))
    for run in court.runs_of(r):
        options = run.runtime.session.get("graph_optimization_level", "")
        lines.append(f"  {run.runtime.name} {run.runtime.provider} {options}".rstrip())
        for case in run.input_cases:
            error = "" if case.max_abs_error is None else f", largest error {_number(case.max_abs_error)}"
            limit = f", known limit {case.limit}" if case.limit else ""
            failure = f", {case.failure}" if case.failure else ""
            lines.append(f"    {case.name}: {case.outcome}{error}{failure}{limit}")
    for contract in r.contracts or ():
        kept = sum(c.status == "passed" for c in contract.clauses)
        lines.append(
            f"  contract {contract.name}: {contract.status}, {kept} of {len(contract.clauses)} clauses"
        )
        for clause in contract.clauses:
            lines += [f"    {clause.demand}: {offence}" for offence in clause.offences[:2]]
            if clause.kind == "headroom" and clause.status == "passed":
                lines += [f"    {m.name}: {_number(float(m.value))}" for m in clause.measures]
    lines += [f"  {problem}" for problem in _reasons(r)]
    return lines


def refuse_existing(target: Path, force: bool) -> None:
    """Refuse a folder that is there, unless it may be replaced; a link is never replaced.

    Raises:
        ConformanceError: it is there.
    """
    if target.is_symlink():
        raise ConformanceError(f"{str(target)!r} is a symbolic link")
    if target.exists() and not target.is_dir():
        raise ConformanceError(f"{str(target)!r} is not a folder")
    if target.is_dir() and any(target.iterdir()) and not force:
        raise ConformanceError(
            f"{str(target)!r} holds files already",
            way_out="Give another folder, or replace them: force=True, or --force.",
        )


def perform(
    draft: Draft,
    target: Path,
    packages: Sequence[str],
    make: Callable[[], Subject],
    adapters: Adapters,
    hear: Hearing = court.hear,
    contracts: Sequence[Contract] = (),
) -> Record:
    """All five stages in a folder beside ``target``, which takes its place when they are done.

    Nothing is left at ``target`` when a dependency is missing. ``hear`` does the last two.
    """
    workers = court.processes([s.name for s in draft.profile.runtimes], adapters)
    checker = None if draft.profile.exporter.name == OURS else RuntimeProcess(CHECKER)
    started = workers if checker is None else [*workers, checker]
    try:
        for worker in started:
            worker.start()
        stages.dependencies(draft, packages, [worker.identify() for worker in workers])
        if None in (draft.packages or {}).values():
            return draft.record()
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as scratch:
            draft.folder = Path(scratch) / target.name
            draft.folder.mkdir()
            record = _through(draft, make, workers, hear, checker)
            record = settle(_promised(record, draft.folder, contracts, adapters))
            bundle.write_record(draft.folder, record)
            _replace(draft.folder, target, Path(scratch) / "earlier")
        return record
    except OSError as err:
        if isinstance(err, ConformanceError | ArtifactError):
            raise
        raise ArtifactError(f"{str(target)!r} can't be written: {err.strerror or err}") from err
    finally:
        for worker in started:
            worker.stop()


def _through(
    draft: Draft,
    make: Callable[[], Subject],
    workers: Sequence[RuntimeProcess],
    hear: Hearing,
    checker: RuntimeProcess | None,
) -> Record:
    subject = stages.export(draft, make)
    record = draft.record()
    if record.stages.export.status != "passed":
        return record
    stages.check(draft, subject, checker)
    record = draft.record()
    if record.stages.check.status != "passed":
        return record
    return hear(record, draft.folder, workers)


def _combined(record: Record, given: Sequence[Contract]) -> list[Contract]:
    if not given and record.contracts is None:
        return []
    from onnxproof.contracts.recorded import combined

    return combined(record, given)


def _untried(record: Record) -> Record:
    contracts = record.contracts
    return record.model_copy(
        update={"contracts": None if contracts is None else [promises.untried(c) for c in contracts]}
    )


def _promised(record: Record, folder: Path, contracts: Sequence[Contract], adapters: Adapters) -> Record:
    """The record with what the file keeps of contracts; it is not settled."""
    if not contracts:
        return record
    from onnxproof.contracts.recorded import tried

    return tried(record, folder, contracts, adapters)


def _replace(new: Path, target: Path, earlier: Path) -> None:
    if target.exists():
        os.rename(target, earlier)
    os.rename(new, target)
    sync_folder(target.parent)
    if earlier.exists():
        shutil.rmtree(earlier)


def _subject(profile: Profile) -> Subject:
    if isinstance(profile.config, FeedForwardConfig):
        from onnxproof.evidence.references.torch import FeedForwardSubject

        return FeedForwardSubject(profile)
    from onnxproof.evidence.references.built import BuiltSubject

    return BuiltSubject(profile)


def _reasons(record: Record) -> list[str]:
    found = []
    s = record.stages
    missing = [name for name, version in (s.dependencies.detail or {}).items() if version is None]
    found += [f"can't be imported: {', '.join(missing)}"] if missing else []
    if s.export.detail and s.export.detail.error:
        found.append(s.export.detail.error)
    lost = [k for k, v in record.model_state.model_dump().items() if v is False]
    found += [f"the export changed the model's {', '.join(lost)}"] if lost else []
    if s.check.detail:
        found += [e for e in (s.check.detail.checker_error, s.check.detail.shape_inference.error) if e]
    found += list(s.load.detail.problems) if s.load.detail else []
    for run in court.runs_of(record):
        found += [f"{run.runtime.name}: {run.execution.error}"] if run.execution.error else []
        found += [
            f"{run.runtime.name}, {c.name}: {c.detail}" for c in run.input_cases if c.failure and c.detail
        ]
    return found


def _number(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.3g}"
