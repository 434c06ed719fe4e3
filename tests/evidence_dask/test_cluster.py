"""Jobs on a real cluster of two worker processes, one of which is killed in the middle: ``make test-extras``."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from distributed import Client, LocalCluster
from typer.testing import CliRunner

from onnxproof.cli import application
from onnxproof.errors import ConformanceError
from onnxproof.evidence import run_profile, validate_record, validate_report, verify_artifacts
from onnxproof.evidence.jobs import pool, run_profiles
from onnxproof.evidence.profile import ProfileCase, RuntimeSpec
from tests.evidence.faulty import ORT, profile

pytestmark = pytest.mark.filterwarnings("ignore")  # of Dask's own, when a worker ends
CASES = 12
SLOW = {"slow": "tests.evidence_dask.slow:Slow"}


@pytest.fixture
def address() -> Iterator[str]:
    with LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, memory_limit=None
    ) as cluster:
        yield cluster.scheduler_address


def pids(address: str) -> set[int]:
    with Client(address, set_as_default=False) as client:
        return set(client.run(os.getpid).values())


def test_killed_worker_loses_nothing(tmp_path: Path, address: str) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    slow = RuntimeSpec(name="slow", provider="cpu", session={"marks": str(marks)})
    cases = [
        ProfileCase(name=f"batch-{n}", kind="values", shapes=[[n, 4]], seed=n, expect="match")
        for n in range(1, CASES + 1)
    ]
    listed = profile().policy.model_copy(update={"refusals": "listed"})
    both = [
        profile(name=name, runtimes=[slow, ORT], cases=cases, policy=listed) for name in ("first", "second")
    ]
    workers = pids(address)
    assert len(workers) == 2
    killed: list[int] = []

    def kill() -> None:
        """End the worker of the third mark, while it is at that case."""
        while len(found := sorted(marks.iterdir(), key=lambda p: p.stat().st_mtime_ns)) < 3:
            time.sleep(0.02)
        killed.append(int(found[2].name.partition("-")[0]))
        os.kill(killed[0], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    with pool(f"dask:{address}") as where:
        report = run_profiles(both, tmp_path / "out", where, adapters=SLOW, group=1)
    killer.join()
    assert killed[0] in workers
    assert killed[0] not in pids(address)
    assert validate_report(report) == []
    assert [r["profile"] for r in report["profiles"]] == ["first", "second"]
    for record in report["profiles"]:
        assert (record["status"], record["level"]) == ("passed", "executed")
        for run in (record, *record["other_runs"]):
            assert [c["name"] for c in run["input_cases"]] == [c.name for c in cases]
            assert {c["outcome"] for c in run["input_cases"]} == {"match"}
        verify_artifacts(record, tmp_path / "out")
    ran = [p.name.partition("-")[0] for p in marks.iterdir()]
    assert len(ran) > 2 * CASES * 2  # every case twice (once warm), and the one that was lost once more
    assert len(set(ran)) >= 2


def test_verify_command(tmp_path: Path, address: str) -> None:
    """A bundle is run again by the workers of a cluster."""
    run_profile(profile(), tmp_path)
    arguments = ["verify", str(tmp_path / "affine-fp32"), "--executor", f"dask:{address}", "--json"]
    done = CliRunner().invoke(application(), arguments)
    assert done.exit_code == 0, done.output
    record = json.loads(done.stdout)
    assert validate_record(record) == []
    assert record["level"] == "executed"


def test_no_scheduler() -> None:
    with pytest.raises(ConformanceError, match="no Dask scheduler"), pool("dask:tcp://127.0.0.1:1"):
        pass
