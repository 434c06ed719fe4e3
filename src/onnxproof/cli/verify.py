"""``onnxproof verify``: run a bundle again, or hold a plain model against the reference evaluator of ONNX."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from onnxproof.cli.console import progress
from onnxproof.cli.missing import say_missing
from onnxproof.cli.places import there, to_write

if TYPE_CHECKING:
    from onnxproof.contracts import Contract
    from onnxproof.evidence import Record
    from onnxproof.evidence.conform import Hearing


@dataclass(frozen=True, slots=True)
class Options:
    """The command line of one verification."""

    target: Path
    runtimes: tuple[str, ...]
    rtol: float | None
    atol: float | None
    seed: int
    report: Path | None
    bundle: Path | None
    force: bool
    executor: str | None
    as_json: bool
    device_record: Path | None = None
    contracts: tuple[str, ...] = ()


def run(options: Options) -> None:
    """Verify, print, and exit with the class of the failure."""
    from onnxproof.evidence import save_report, summary_lines

    if options.report is not None:
        to_write(options.report, "--report", ".json").parent.mkdir(parents=True, exist_ok=True)
    is_bundle = there(options.target, "BUNDLE|MODEL").is_dir()
    if options.device_record is not None:
        _device(options, options.device_record)
        return
    if options.executor is not None and not is_bundle and options.bundle is None:
        raise typer.BadParameter(
            "jobs find the model in a folder: give --bundle FOLDER", param_hint="--executor"
        )
    with progress(f"verifying {options.target}"), _hearing(options.executor) as hear:
        record = _bundle(options, hear) if is_bundle else _model(options, hear)
    if options.report is not None:
        save_report([record], options.report)
    if options.as_json:
        typer.echo(json.dumps(record.as_dict(), indent=1))
    else:
        typer.echo("\n".join(summary_lines(record)))
    if record.exit_code:
        say_missing([record])
        raise typer.Exit(record.exit_code)


def _device(options: Options, place: Path) -> None:
    """Hold what a device's browser saved against the bundle that it ran; nothing is run here."""
    from onnxproof.evidence.conform import (
        read_bundle,
        report_of,
        save_report,
        summary_lines,
        verify_folder,
    )
    from onnxproof.page import device

    given = (
        options.runtimes,
        options.rtol,
        options.atol,
        options.bundle,
        options.executor,
        options.contracts,
    )
    if not options.target.is_dir() or any(given):
        raise typer.BadParameter(
            "a device's record goes with the bundle that was run, and with nothing else",
            param_hint="--device-record",
        )
    record = read_bundle(options.target)
    verify_folder(record, options.target)
    found = device.read_device_record(place)
    report = report_of(device.judge(found, record, options.target))
    if options.report is not None:
        save_report(report, options.report)
    if options.as_json:
        typer.echo(json.dumps(report.as_dict(), indent=1))
    else:
        verdicts = [line for r in report.profiles for line in summary_lines(r)]
        typer.echo("\n".join([*device.lines(found), *verdicts]))
    if report.exit_code:
        raise typer.Exit(report.exit_code)


@contextmanager
def _hearing(executor: str | None) -> Iterator[Hearing]:
    """What does load and parity: this process, or jobs."""
    from onnxproof.evidence import court

    if executor is None:
        yield court.hear
        return
    from onnxproof.evidence import jobs

    with jobs.pool(executor) as where:
        yield jobs.hearing(where)


def _bundle(options: Options, hear: Hearing) -> Record:
    """Run load and parity of the bundle again; the record in it is left as it is."""
    from onnxproof.evidence.conform import execute_in, read_bundle

    given = (options.runtimes, options.rtol, options.atol, options.bundle)
    if any(given):
        raise typer.BadParameter("a bundle says itself in what it runs, and within which tolerance")
    record = read_bundle(options.target)
    if record.stages.check.status != "passed":
        return record
    return execute_in(record, options.target, {}, hear, _contracts(options))


def _model(options: Options, hear: Hearing) -> Record:
    from onnxproof.evidence import verify
    from onnxproof.evidence.model import parsed, unchecked
    from onnxproof.inspection.drawing import SIZES, draw

    ports = unchecked(*parsed(options.target)).inputs or []
    return verify(
        None,
        options.target,
        {f"size-{n}": draw(ports, n, options.seed) for n in SIZES},
        runtimes=options.runtimes or ("onnxruntime",),
        rtol=options.rtol,
        atol=options.atol,
        bundle_path=options.bundle,
        force=options.force,
        hear=hear,
        contracts=_contracts(options),
    )


def _contracts(options: Options) -> list[Contract]:
    if not options.contracts:
        return []
    from onnxproof.cli.target import load
    from onnxproof.contracts import find

    return [find(text, load) for text in options.contracts]
