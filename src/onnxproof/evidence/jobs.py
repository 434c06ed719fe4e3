"""Profiles as independent jobs: one for each export, then one for each few cases of each run.

Jobs go through any :class:`concurrent.futures.Executor`: processes of this machine, or those of a Dask cluster.
A job is plain data, and can be done twice with one result, so that one whose process was lost is given out again.
Workers of other machines need this package, the profiles' own modules, and the folder of the bundles under the
same path.
"""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Executor, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onnxproof.errors import ConformanceError
from onnxproof.evidence import bundle, court
from onnxproof.evidence.conform import Adapters, Hearing, Place, refuse_existing, report_of, run_profile
from onnxproof.evidence.profile import Profile, load_all
from onnxproof.evidence.record import Host, Record, Run
from onnxproof.evidence.runtimes.process import RuntimeProcess
from onnxproof.evidence.source import host
from onnxproof.evidence.validate import read_record

GROUP = 8  # cases of one job
ATTEMPTS = 3  # at jobs whose process was lost, without one of them being done
Call = tuple[Callable[..., str], tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Pool:
    """Where jobs run.

    Attributes:
        make: gives an executor; called again when the one before broke.
        lost: what a job raises whose process was lost.
    """

    make: Callable[[], Executor]
    lost: tuple[type[BaseException], ...]

    def run(self, calls: Sequence[Call]) -> list[str]:
        """The results of ``calls`` in their order; a job that was lost is given out again.

        Raises:
            ConformanceError: jobs are lost again and again.
        """
        results: dict[int, str] = {}
        idle = 0
        while len(results) < len(calls):
            done = self._round(calls, results)
            idle = 0 if done else idle + 1
            if idle == ATTEMPTS:
                missing = len(calls) - len(results)
                raise ConformanceError(
                    f"{missing} of {len(calls)} jobs were lost {ATTEMPTS} times with their processes",
                    way_out="The processes may run out of memory: give fewer of them, or smaller cases.",
                )
        return [results[i] for i in range(len(calls))]

    def _round(self, calls: Sequence[Call], results: dict[int, str]) -> int:
        """Give out every job that has no result; how many were done."""
        before = len(results)
        with self.make() as executor:
            try:
                futures = {
                    executor.submit(fn, *args): i for i, (fn, args) in enumerate(calls) if i not in results
                }
                for future in as_completed(futures):
                    try:
                        results[futures[future]] = future.result()
                    except self.lost:
                        continue
            except self.lost:  # submitting to a pool that broke meanwhile
                pass
        return len(results) - before


@contextmanager
def pool(text: str) -> Iterator[Pool]:
    """A pool from ``processes``, ``processes:4`` or ``dask:ADDRESS`` (a scheduler's, such as ``tcp://host:8786``).

    Raises:
        ConformanceError: the text is none of these, ``distributed`` is not installed, or there is no such cluster.
    """
    kind, _, where = text.partition(":")
    if kind == "dask" and where:
        with _dask(where) as found:
            yield found
    elif kind == "processes" and (not where or (where.isdecimal() and int(where))):
        workers = int(where) if where else len(os.sched_getaffinity(0))
        context = multiprocessing.get_context("spawn")  # JAX has threads, which a fork does not survive
        yield Pool(lambda: ProcessPoolExecutor(workers, context), (BrokenProcessPool, CancelledError))
    else:
        raise ConformanceError(
            f"there is no executor {text!r}", way_out="Give processes, processes:4, or dask:ADDRESS."
        )


@contextmanager
def _dask(address: str) -> Iterator[Pool]:
    try:
        from distributed import Client, KilledWorker
    except ModuleNotFoundError as err:
        raise ConformanceError(
            "missing-dependency: distributed is not installed", way_out="pip install 'onnxproof[dask]'"
        ) from err
    try:
        client = Client(address, timeout="10s", set_as_default=False)
    except (OSError, ValueError) as err:
        raise ConformanceError(f"there is no Dask scheduler at {address!r}: {err}") from err
    with client:
        yield Pool(lambda: client.get_executor(pure=False), (KilledWorker, CancelledError))


def run_profiles(
    names_or_profiles: Sequence[str | Path | Profile],
    folder: Place,
    where: Pool,
    *,
    source_revision: str | None = None,
    force: bool = False,
    adapters: Adapters | None = None,
    group: int = GROUP,
) -> dict[str, Any]:
    """As :func:`onnxproof.evidence.run_profiles`, in jobs; the report as JSON has it.

    Args:
        group: how many cases a job has.

    A bundle whose cases have not all come back yet has a record that is refused: it says so of itself.
    """
    profiles = load_all(names_or_profiles)
    place = Path(os.path.abspath(folder))
    for profile in profiles:  # all are refused before the first one runs
        refuse_existing(place / profile.name, force)
    given = dict(adapters or {})
    exports: list[Call] = [
        (export_job, (p.model_dump_json(), str(place), source_revision, given)) for p in profiles
    ]
    drafts = [Record.model_validate_json(text) for text in where.run(exports)]
    open_ = [r for r in drafts if r.stages.check.status == "passed"]
    folders = {r.profile: place / r.artifacts.directory for r in open_}
    heard = hear_all([(r, folders[r.profile]) for r in open_], where, given, group)
    for record in heard:
        bundle.write_record(folders[record.profile], record)
    finished = {r.profile: r for r in heard}
    return report_of([read_record(finished.get(r.profile, r)) for r in drafts]).as_dict()


def hearing(where: Pool, *, adapters: Adapters | None = None, group: int = GROUP) -> Hearing:
    """Load and parity in jobs, for calls that take what does it."""

    def hear(record: Record, folder: Path, workers: Sequence[RuntimeProcess]) -> Record:
        for worker in workers:
            worker.stop()
        return hear_all([(record, folder.resolve())], where, dict(adapters or {}), group)[0]

    return hear


def hear_all(
    bundles: Sequence[tuple[Record, Path]], where: Pool, adapters: Adapters, group: int = GROUP
) -> list[Record]:
    """Load and parity of several bundles, in one job for each ``group`` cases of each run.

    Raises:
        ConformanceError: two workers have different versions of a runtime.
    """
    calls: list[Call] = []
    owners: list[tuple[int, int]] = []  # bundle and run of each call
    for b, (record, folder) in enumerate(bundles):
        for r, run in enumerate(court.runs_of(record)):
            for first in range(0, len(run.input_cases), group):
                part = _part(record, run, first, first + group)
                calls.append((case_job, (part.model_dump_json(), str(folder), dict(adapters))))
                owners.append((b, r))
    answers = [json.loads(text) for text in where.run(calls)]
    parts: dict[tuple[int, int], list[Record]] = {}
    hosts: dict[int, list[Host]] = {}
    for owner, answer in zip(owners, answers, strict=True):
        parts.setdefault(owner, []).append(Record.model_validate_json(json.dumps(answer["record"])))
        hosts.setdefault(owner[0], []).append(Host(**answer["host"]))
    return [
        _merged(
            record.model_copy(update={"host": _host(hosts[b])}),
            [parts[b, r] for r in range(len(court.runs_of(record)))],
        )
        for b, (record, _) in enumerate(bundles)
    ]


def export_job(profile: str, folder: str, revision: str | None, adapters: Mapping[str, str]) -> str:
    """The first three stages of a profile, which leave a bundle; the unfinished record as JSON.

    A bundle that is there is replaced: whoever gives the job out has refused those that may not be.
    """
    record = run_profile(
        Profile.model_validate_json(profile),
        folder,
        source_revision=revision,
        force=True,
        adapters=adapters,
        hear=lambda draft, _folder, _workers: draft,
    )
    return json.dumps(record)


def case_job(record: str, folder: str, adapters: Mapping[str, str]) -> str:
    """Load and parity of a record that holds some of the cases of one run; it and the host as JSON."""
    found = Record.model_validate_json(record)
    heard = court.hear(found, Path(folder), court.processes(found, adapters))
    return json.dumps({"record": heard.as_dict(), "host": host().model_dump(mode="json")})


def _part(record: Record, run: Run, first: int, last: int) -> Record:
    update = {
        "runtime": run.runtime,
        "execution": run.execution,
        "input_cases": run.input_cases[first:last],
        "other_runs": [],
    }
    return record.model_copy(update=update)


def _merged(record: Record, parts: Sequence[Sequence[Record]]) -> Record:
    """The record of all runs from the records of their parts."""
    flat = [part for of_run in parts for part in of_run]
    details = [p.stages.load.detail for p in flat]
    problems = list(dict.fromkeys(x for d in details if d is not None for x in d.problems))
    before = [court.cleared(run) for run in court.runs_of(record)]
    runs = [_run(run, of_run) for run, of_run in zip(before, parts, strict=True)]
    ran = not problems and all(run.execution.load == "loaded" for run in runs)
    if not ran:
        pairs = zip(before, runs, strict=True)
        runs = [new.model_copy(update={"input_cases": old.input_cases}) for old, new in pairs]
    if problems:
        runs = before
    return court.concluded(record, runs, problems, ran=ran)


def _run(run: Run, parts: Sequence[Record]) -> Run:
    versions = {run.runtime.version, *(p.runtime.version for p in parts)}
    if len(versions) > 1:
        raise ConformanceError(
            f"workers have different versions of {run.runtime.name}: {', '.join(map(str, versions))}"
        )
    first = next((p.execution for p in parts if p.execution.load != "loaded"), parts[0].execution)
    peaks = [p.execution.peak_memory_bytes for p in parts if p.execution.peak_memory_bytes is not None]
    return run.model_copy(
        update={
            "execution": first.model_copy(update={"peak_memory_bytes": max(peaks, default=None)}),
            "input_cases": [case for part in parts for case in part.input_cases],
        }
    )


def _host(hosts: Sequence[Host]) -> Host:
    """The machine that the runs were on, or all of them."""
    names = list(dict.fromkeys(h.cpu for h in hosts))
    return Host(cpu="; ".join(names)[:4096], cores=max(h.cores for h in hosts))
