"""``onnxproof report``: records as a page, as text, for CI, and as statements."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from onnxproof.cli.app import Debug, Json, app
from onnxproof.cli.console import reporting
from onnxproof.cli.examples import examples
from onnxproof.cli.places import there, to_write

if TYPE_CHECKING:
    from onnxproof.evidence import Record

Format = Literal["text", "json", "github"]
_LINES = (".json", ".txt")


@dataclass(frozen=True, slots=True)
class Options:
    """The command line of one report."""

    targets: tuple[Path, ...]
    output: Path | None
    junit: Path | None
    statement: Path | None
    test_result: Path | None
    format: Format


@app.command(epilog=examples("report"))
def report(
    targets: Annotated[
        list[Path],
        typer.Argument(
            metavar="RECORD|BUNDLE...",
            help="Bundles, or files that hold a record or a report.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Write one self-contained HTML page.", show_default=False),
    ] = None,
    junit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write JUnit XML.", show_default=False)
    ] = None,
    statement: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write in-toto statements, one on each line.", show_default=False),
    ] = None,
    test_result: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write in-toto statements with the test-result predicate, one on each line.",
            show_default=False,
        ),
    ] = None,
    form: Annotated[
        Format,
        typer.Option("--format", help="What to print; github prints annotations for its Actions."),
    ] = "text",
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Show records to people and to CI. Exits with 0 whatever they say; verify is the one that judges."""
    with reporting(debug):
        run(Options(tuple(targets), output, junit, statement, test_result, "json" if as_json else form))


def run(options: Options) -> None:
    """Write what was asked for, and print the records."""
    from onnxproof.evidence.attest import evidence_statement, statement_lines, test_result_statement
    from onnxproof.evidence.junit import junit_xml

    records = [record for target in options.targets for record in read(there(target, "RECORD|BUNDLE"))]
    if not records:
        raise typer.BadParameter("there is no record in it", param_hint="RECORD|BUNDLE")
    kinds = {"-o": (".html",), "--junit": (".xml",), "--statement": _LINES, "--test-result": _LINES}
    places = (options.output, options.junit, options.statement, options.test_result)
    for place, (hint, suffixes) in zip(places, kinds.items(), strict=True):
        if place is not None:
            to_write(place, hint, *suffixes)
    written: list[Path] = []
    if options.output is not None:
        from onnxproof.evidence.report import html

        written.append(_write(options.output, html(records).encode()))
    if options.junit is not None:
        written.append(_write(options.junit, junit_xml(records)))
    if options.statement is not None:
        written.append(_write(options.statement, statement_lines([evidence_statement(r) for r in records])))
    if options.test_result is not None:
        lines = statement_lines([test_result_statement(r) for r in records])
        written.append(_write(options.test_result, lines))
    typer.echo(_text(records, options.format))
    if options.format == "text":
        for path in written:
            typer.echo(f"written    {path}")


def read(place: Path) -> list[Record]:
    """The valid records of a bundle, or of a file that holds a record or a report.

    Raises:
        InvalidRecord, ConformanceError: there are none, or one is not valid.
    """
    from onnxproof.evidence.bundle import read_record_bytes
    from onnxproof.evidence.record import REPORT_FORMAT
    from onnxproof.evidence.strict_json import StrictJsonError, parse
    from onnxproof.evidence.validate import InvalidRecord, read_record, validate_report

    data = read_record_bytes(place)
    try:
        value = parse(data)
        if not isinstance(value, dict) or value.get("format") != REPORT_FORMAT:
            return [read_record(data)]
    except StrictJsonError as err:
        raise InvalidRecord([err.what], str(place)) from None
    except InvalidRecord as err:
        raise InvalidRecord(err.problems, str(place)) from None
    if problems := validate_report(data):
        raise InvalidRecord(problems, str(place))
    profiles = value["profiles"]
    assert isinstance(profiles, list)  # a valid report has them
    return [read_record(json.dumps(p)) for p in profiles]


def _text(records: Sequence[Record], form: Format) -> str:
    from onnxproof.evidence.annotations import github_lines
    from onnxproof.evidence.conform import report_of, summary_lines

    if form == "github":
        return "\n".join(github_lines(records))
    if form == "json":
        return json.dumps(report_of(records).as_dict(), indent=1)
    return "\n".join(line for record in records for line in summary_lines(record))


def _write(path: Path, data: bytes) -> Path:
    from onnxproof.evidence.files import UnsafePath, write_file

    if path.is_symlink():
        raise UnsafePath(f"{str(path)!r} is a symbolic link")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, data)
    return path
