"""Profiles as jobs in processes of this machine, some of which are lost."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from onnxproof.cli import application
from onnxproof.errors import ConformanceError
from onnxproof.evidence import run_profile, validate_record, validate_report, verify_artifacts
from onnxproof.evidence.jobs import Pool, pool, run_profiles
from onnxproof.evidence.record import Record
from onnxproof.evidence.references.built import arrays_digest
from tests.evidence.conftest import CRASHES, CRASHING, PLAIN, REFERENCE
from tests.evidence.faulty import ORT, affine, profile
from tests.evidence.test_commands import PROFILE

# What a run measures; everything else is the same however the jobs were cut.
MEASURED = {"seconds", "warm_seconds", "load_seconds", "peak_memory_bytes", "digest"}


def facts(value: Any) -> Any:
    """A record without what differs from run to run."""
    if isinstance(value, dict):
        return {k: facts(v) for k, v in value.items() if k not in MEASURED}
    return [facts(v) for v in value] if isinstance(value, list) else value


def test_jobs_give_what_one_run_gives(tmp_path: Path) -> None:
    profiles = [
        profile(name="right", runtimes=[ORT, PLAIN, REFERENCE]),
        profile("perturbed", name="wrong", runtimes=[ORT, REFERENCE]),
        profile("raising", name="broken"),
        profile("unloadable", name="unloadable", runtimes=[REFERENCE, ORT]),
        profile(name="crash", runtimes=[CRASHES, ORT]),
    ]
    with pool("processes:2") as where:
        report = run_profiles(
            profiles, tmp_path / "jobs", where, source_revision="abc", adapters=CRASHING, group=2
        )
    assert validate_report(report) == []
    for record in report["profiles"]:
        name = record["profile"]
        given = next(p for p in profiles if p.name == name)
        alone = run_profile(given, tmp_path / "one", source_revision="abc", adapters=CRASHING)
        assert facts(record) == facts(alone), name
        written = Record.model_validate_json((tmp_path / "jobs" / name / "record.json").read_bytes())
        assert written.as_dict() == record
        verify_artifacts(record, tmp_path / "jobs")


def lose_once(flag: str, number: int) -> str:
    """A job whose process ends the first time that job 2 is done."""
    if number == 2 and not os.path.exists(flag):
        Path(flag).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return str(number)


def lose(number: int) -> str:
    os.kill(os.getpid(), signal.SIGKILL)
    return str(number)


def fail(number: int) -> str:
    raise ConformanceError(f"job {number}")


def test_lost_jobs_are_given_out_again(tmp_path: Path) -> None:
    flag = str(tmp_path / "flag")
    with pool("processes:2") as where:
        assert where.run([(lose_once, (flag, n)) for n in range(6)]) == ["0", "1", "2", "3", "4", "5"]
        assert where.run([]) == []
        with pytest.raises(ConformanceError, match="1 of 1 jobs were lost 3 times"):
            where.run([(lose, (1,))])
        with pytest.raises(ConformanceError, match="job 4"):
            where.run([(fail, (4,))])


def test_unfinished_bundles_are_refused(tmp_path: Path) -> None:
    class Stop(Exception):
        pass

    class Exports(Pool):
        def run(self, calls: Any) -> list[str]:
            if calls[0][0].__name__ == "case_job":
                raise Stop
            return [fn(*args) for fn, args in calls]

    with pytest.raises(Stop):
        run_profiles([profile()], tmp_path, Exports(lambda: None, ()))  # type: ignore[arg-type, return-value]
    problems = validate_record((tmp_path / "affine-fp32" / "record.json").read_bytes())
    assert "stages.load: did not run, though nothing before it failed" in problems
    with pool("processes:1") as where, pytest.raises(ConformanceError, match="holds files already"):
        run_profiles([profile()], tmp_path, where)


@pytest.mark.parametrize("text", ["threads", "processes:0", "processes:x", "dask", "dask:", ""])
def test_unknown_executors(text: str) -> None:
    with pytest.raises(ConformanceError, match="no executor"), pool(text):
        pass


def test_dask_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)  # as if it were not installed
    with pytest.raises(ConformanceError, match="missing-dependency"), pool("dask:tcp://127.0.0.1:1"):
        pass


def test_command(tmp_path: Path) -> None:
    path, report = tmp_path / "mine.toml", tmp_path / "report.json"
    path.write_text(PROFILE % arrays_digest(affine().weights))
    given = ["conform", "--output", str(report), "--profile", str(path), "--executor"]
    done = CliRunner().invoke(application(), [*given, "processes:2"])
    assert done.exit_code == 0, done.output
    assert "mine: passed, level executed" in done.output
    assert validate_report(report.read_bytes()) == []
    unknown = CliRunner().invoke(application(), [*given, "threads", "--force"])
    assert unknown.exit_code == 1
    assert "no executor 'threads'" in unknown.output


def test_verify_command(tmp_path: Path) -> None:
    """A bundle and a model in jobs: the outcomes are those of one run after the other."""
    run_profile(profile(), tmp_path)
    folder = tmp_path / "affine-fp32"
    plain = CliRunner().invoke(application(), ["verify", str(folder), "--json"])
    jobs = CliRunner().invoke(application(), ["verify", str(folder), "--json", "--executor", "processes:2"])
    assert (plain.exit_code, jobs.exit_code) == (0, 0), jobs.output
    one, other = (json.loads(done.stdout) for done in (plain, jobs))
    assert validate_record(other) == []
    assert [c["outcome"] for c in other["input_cases"]] == [c["outcome"] for c in one["input_cases"]]
    (folder / "trace.json").write_bytes(b"{}")
    changed = CliRunner().invoke(application(), ["verify", str(folder), "--executor", "processes:2"])
    assert changed.exit_code == 14
    given = ["verify", str(folder / "model.onnx"), "--executor", "processes:1"]
    assert CliRunner().invoke(application(), given).exit_code == 2
    model = CliRunner().invoke(application(), [*given, "--bundle", str(tmp_path / "kept"), "--json"])
    assert model.exit_code == 0, model.output
    assert json.loads(model.stdout)["level"] == "executed"
    assert CliRunner().invoke(application(), ["verify", str(tmp_path / "kept")]).exit_code == 0
