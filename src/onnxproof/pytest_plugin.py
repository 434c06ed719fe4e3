"""pytest: ``assert_parity`` proves an export inside a test, and a failing test shows the records it made.

Installed with the package; ``-p no:onnxproof`` leaves it out. Loading it imports neither JAX nor ONNX nor a runtime.

Example::

    @pytest.mark.onnxproof(rtol=1e-5, runtimes=["onnxruntime"])
    def test_model(assert_parity):
        assert_parity(model, [x], specs=[("B", 16)])
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from onnxproof.evidence import Record

_RECORDS = pytest.StashKey[list["Record"]]()
_MARK = "onnxproof"


class ParityError(AssertionError):
    """A file did not compute what the callable computes; ``record`` says how."""

    def __init__(self, record: Record) -> None:
        from onnxproof.evidence import summary_lines

        self.record = record
        super().__init__("\n".join(summary_lines(record)))


def assert_parity(
    fn: Callable[..., Any],
    inputs: Sequence[Any] | Mapping[str, Sequence[Any]],
    *,
    specs: Sequence[Any] | None = None,
    model: Any = None,
    input_params: Mapping[str, Any] | None = None,
    export: Mapping[str, Any] | None = None,
    **options: Any,
) -> Record:
    """Export a callable, run the file, and fail unless it computes what the callable computes.

    Args:
        inputs: concrete arguments of one case, or of several by name.
        specs: the inputs of :func:`onnxproof.to_onnx`; by default the arguments of the first case as they are,
            with all dimensions fixed.
        model: a file or model exported before; nothing is exported then.
        input_params: keyword arguments of the callable.
        export: further arguments of :func:`onnxproof.to_onnx`.
        options: of :func:`onnxproof.evidence.verify`: ``rtol``, ``atol``, ``runtimes``, ``policy``, …

    Raises:
        ParityError: any stage failed.
    """
    record = _prove(fn, inputs, specs, model, input_params, export, options)
    if record.status != "passed":
        raise ParityError(record)
    return record


def _prove(
    fn: Callable[..., Any],
    inputs: Sequence[Any] | Mapping[str, Sequence[Any]],
    specs: Sequence[Any] | None,
    model: Any,
    input_params: Mapping[str, Any] | None,
    export: Mapping[str, Any] | None,
    options: Mapping[str, Any],
) -> Record:
    from onnxproof import to_onnx
    from onnxproof.evidence import verify

    if model is None:
        from onnxproof.evidence.record import Exporter

        options = {"exporter": Exporter(name="onnxproof", options={}), **options}
        first = next(iter(inputs.values()), ()) if isinstance(inputs, Mapping) else inputs
        model = to_onnx(fn, list(first) if specs is None else specs, input_params, **dict(export or {}))
    return verify(fn, model, inputs, input_params=input_params, **options)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("onnxproof")
    group.addoption(
        "--onnxproof-records",
        metavar="FOLDER",
        default=None,
        help="leave every record that assert_parity makes in FOLDER",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "onnxproof(**options): options of verify for assert_parity in this test, such as rtol=1e-5; the report"
        " of the test holds the digests of its records, and that of a failing one their summaries.",
    )


@pytest.fixture(name="assert_parity")
def _assert_parity(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """:func:`assert_parity` with the options of the test's mark, whose records a failing test shows."""
    item = request.node
    marks = reversed(list(item.iter_markers(_MARK)))  # the nearest one comes last, and counts
    defaults = {name: value for mark in marks for name, value in mark.kwargs.items()}

    def bound(fn: Callable[..., Any], inputs: Any, **options: Any) -> Any:
        given = {**defaults, **options}
        own = {name: given.pop(name, None) for name in ("specs", "model", "input_params", "export")}
        record = _prove(fn, inputs, **own, options=given)
        remember(item, record)
        if record.status != "passed":
            raise ParityError(record)
        return record

    return bound


def remember(item: pytest.Item, record: Record) -> None:
    """Attach a record to a test, as ``assert_parity`` does."""
    records = item.stash.setdefault(_RECORDS, [])
    records.append(record)
    item.user_properties.append(("onnxproof", f"{record.status} {record.level} {record.digest}"))
    folder = item.config.getoption("--onnxproof-records")
    if folder is not None:
        from onnxproof.evidence.files import write_file
        from onnxproof.evidence.strict_json import pretty

        name = re.sub(r"[^\w.\-]+", "-", item.nodeid)[-150:].strip("-.")
        Path(folder).mkdir(parents=True, exist_ok=True)
        write_file(Path(folder) / f"{name}-{len(records)}.json", pretty(record.as_dict()).encode())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the summaries of a failing test's records to its report."""
    report = yield
    if report.failed and call.when == "call":
        records = [*(item.stash.get(_RECORDS, None) or ())]
        raised = call.excinfo.value if call.excinfo is not None else None
        if isinstance(raised, ParityError) and raised.record not in records:
            records.append(raised.record)
        if records:
            from onnxproof.evidence import summary_lines

            for record in records:
                report.sections.append(
                    (f"onnxproof record {record.digest[:12]}", "\n".join(summary_lines(record)))
                )
    return report
