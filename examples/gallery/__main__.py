"""``python -m examples.gallery [OUT]``: export ten models, prove each, and print how that went.

Leaves a bundle for each model in ``OUT``, the table in ``OUT/index.md``, and the report over all of them in
``OUT/report.json`` and ``OUT/report.html``. Without ``OUT`` all ten take the place of those in ``proofs``, here, and
their table that in the README.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import onnx

from examples.gallery.models import GALLERY, RUNTIMES, profile
from onnxproof.errors import OnnxProofError
from onnxproof.evidence import Record, exit_code, read_record, run_profile, save_report
from onnxproof.evidence.court import runs_of
from onnxproof.evidence.proof import RUNS
from onnxproof.evidence.record import InputCase
from onnxproof.evidence.report import html
from tests.frameworks.report import histogram

HERE = Path(__file__).resolve().parent
PROOFS = HERE / "proofs"
MARKS = ("<!-- table -->\n", "<!-- end of table -->\n")
COLUMNS = ("model", "runs", "level", "cases", "max abs error", "against float64", "nodes", "bytes")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.gallery", description=__doc__.split("\n")[0])
    parser.add_argument("output", type=Path, nargs="?", help="the folder; default: proofs, here")
    parser.add_argument(
        "--model", action="append", choices=list(GALLERY), help="only this one; may be repeated"
    )
    parser.add_argument(
        "--runtime", action="append", choices=list(RUNS), help=f"default: {', '.join(RUNTIMES)}"
    )
    parser.add_argument("--force", action="store_true", help="replace earlier bundles")
    options = parser.parse_args(arguments)
    models, runtimes = options.model or list(GALLERY), options.runtime or RUNTIMES
    if options.output is not None:
        options.output.mkdir(parents=True, exist_ok=True)
        return run(options.output, models, runtimes, options.force)
    # Elsewhere first: the files of one proof would make a checkout unclean, and the next would say so.
    with tempfile.TemporaryDirectory() as scratch:
        code = run(Path(scratch), list(GALLERY), runtimes, force=False)
        shutil.rmtree(PROOFS, ignore_errors=True)
        shutil.copytree(scratch, PROOFS)
    readme = HERE / "README.md"
    readme.write_text(with_table(readme.read_text(), (PROOFS / "index.md").read_text()))
    return code


def run(output: Path, models: Sequence[str], runtimes: Sequence[str], force: bool) -> int:
    """Prove ``models`` and leave everything in ``output``; the exit code."""
    lines = [_line(COLUMNS), _line(["---"] * len(COLUMNS))]
    print(*lines, sep="\n", flush=True)
    records = []
    for name in models:
        found = profile(name, runtimes)
        record = read_record(run_profile(found, output, force=force))
        records.append(record)
        lines.append(_line(row(record, output / found.name)))
        print(lines[-1], flush=True)
    save_report(records, output / "report.json")
    (output / "report.html").write_text(html(records))
    (output / "index.md").write_text("\n".join(lines) + "\n")
    return exit_code(records)


def with_table(text: str, table: str) -> str:
    """``text`` with another table between its marks; the links of ``table`` are seen from outside ``proofs``."""
    before, after = text.partition(MARKS[0])[0], text.partition(MARKS[1])[2]
    return before + MARKS[0] + table.replace("](", "](proofs/") + MARKS[1] + after


def row(record: Record, folder: Path) -> list[str]:
    """What the table says of a record whose bundle is ``folder``."""
    runs = runs_of(record)
    cases = [case for run in runs for case in run.input_cases]
    values = [case for case in cases if case.expect == "match"]
    refused = sum(case.outcome == "rejected" for case in cases)
    files = [file for file in record.artifacts.files if file.role in ("model", "external-data")]
    return [
        f"[{record.profile}]({record.artifacts.directory}/record.json)",
        ", ".join(f"{n} {k}" if k > 1 else n for n, k in Counter(run.runtime.name for run in runs).items()),
        record.level if record.failure is None else f"{record.level}, {record.failure}",
        f"{len(values)} values, {refused} of {len(cases) - len(values)} refused",
        _largest([case.max_abs_error for case in values]),
        _against_float64(values),
        str(_nodes(folder / record.artifacts.model)),
        f"{sum(file.bytes for file in files):,}",
    ]


def _nodes(model: Path) -> int:
    """Nodes of the graph and of those within; 0 without a file."""
    return histogram(onnx.load(model).graph).total() if model.is_file() else 0


def _against_float64(cases: list[InputCase]) -> str:
    """The largest error of the runtimes, then JAX's own."""
    found = [output.oracle for case in cases for output in case.outputs if output.oracle is not None]
    if not found:
        return "no float64 run"
    runtime = _largest([oracle.runtime_max_abs for oracle in found])
    return f"{runtime}, JAX {_largest([oracle.reference_max_abs for oracle in found])}"


def _largest(errors: list[float | str | None]) -> str:
    known = [float(error) for error in errors if error is not None]
    return f"{max(known):.1e}" if known else "not run"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except OnnxProofError as err:
        sys.exit(f"error: {err}")
