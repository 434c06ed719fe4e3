"""The page, the text and the annotations of records."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from onnxproof.cli import application
from onnxproof.evidence import Record, save_report
from onnxproof.evidence.annotations import github_lines
from onnxproof.evidence.charts import Point, Range, Series, histogram, ranges, scatter
from onnxproof.evidence.derive import settle
from onnxproof.evidence.findings import complaints
from onnxproof.evidence.report import html

VOID = {"meta", "input", "br", "link", "img", "hr"}


class Page(HTMLParser):
    """Every tag, attribute and text of a page; an element that is left open or closed twice is an error."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] != "style":
            self.text += data

    def ids(self) -> list[str]:
        return [value or "" for name, value in self.attributes if name == "id"]


def command(*arguments: str | Path) -> Any:
    return CliRunner().invoke(application(), [str(a) for a in arguments])


def test_page_is_self_contained(records: Mapping[str, Record]) -> None:
    text = html(list(records.values()))
    page = Page(text)
    assert not {"script", "link", "img", "iframe", "object"} & set(page.tags)
    assert "http://" not in text
    assert "https://" not in text
    assert "url(" not in text
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert len(page.ids()) == len(set(page.ids()))
    targets = {value for name, value in page.attributes if name == "href" and value}
    assert targets <= {f"#{i}" for i in page.ids()}


def test_page_says_everything(records: Mapping[str, Record]) -> None:
    page = Page(html([records["good"]]))
    words = page.text
    for expected in (
        "Proven by running",
        "dependencies: passed",
        "parity: passed",
        "Cases by runtime",
        "onnxruntime CPU optimized",
        "onnxruntime CPU optimizations off",
        "onnx-reference numpy",
        "batch-3",
        "Known limits of runtimes that showed",
        "Worst outputs",
        "Slowest cases",
        "onnxproof verify good",
        "onnxproof conform --profile good",
        "abc123",
        records["good"].digest,
        records["good"].artifacts.files[0].sha256,
        records["good"].host.cpu,
    ):
        assert expected in words
    assert page.tags.count("figure") == 3


def test_page_of_failures(records: Mapping[str, Record]) -> None:
    page = Page(html(list(records.values())))
    assert "3 of 4 not proven" in page.text
    assert "this exporter has no rule for tanh" in page.text
    assert "ended by signal 6" in page.text
    assert "differs by up to 0.00" in page.text
    assert "not run" in page.text
    one = Page(html([records["broken"]]))
    assert "Not proven" in one.text
    assert "figure" not in one.tags


def test_page_is_the_same_every_time(records: Mapping[str, Record]) -> None:
    assert html([records["good"]]) == html([records["good"]])


def test_text_of_a_record_is_no_markup(records: Mapping[str, Record]) -> None:
    evil = "</style></svg><script>alert(1)</script>\"'><img src=x onerror=alert(1)>$(touch x);`id`"
    good = records["good"]
    case = good.input_cases[0]
    output = case.outputs[0].model_copy(update={"name": evil})
    record = settle(
        good.model_copy(
            update={
                "host": good.host.model_copy(update={"cpu": evil}),
                "versions": {**good.versions, evil: evil},
                "artifacts": good.artifacts.model_copy(update={"directory": evil}),
                "exporter": good.exporter.model_copy(update={"name": evil, "options": {evil: evil}}),
                "runtime": good.runtime.model_copy(update={"provider": evil}),
                "input_cases": [case.model_copy(update={"outputs": [output]}), *good.input_cases[1:]],
            }
        )
    )
    page = Page(html([record]))
    assert not {"script", "img"} & set(page.tags)
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert page.tags.count("style") == 1
    (line,) = [x for x in page.text.splitlines() if x.startswith("onnxproof verify")]
    assert line.startswith("onnxproof verify '</style>")


def test_charts_take_any_number() -> None:
    values = [0.0, 5e-324, 1e-30, 1.0, 1e300, math.inf]
    pictures = [
        scatter("t", [Series("a", [Point(1.0, v, "p") for v in values])], ("x", "y")),
        scatter("t", [Series("a", [])], ("x", "y")),
        histogram("t", [("a", values), ("b", [])], ("x", "y"), 1.0),
        histogram("t", [("a", [0.0])], ("x", "y"), 1.0),
        ranges("t", [Range("r", 0, 0.0, 5.0, math.inf)], "x"),
    ]
    for picture in pictures:
        Page(picture)
        assert "nan" not in picture
        for number in re.findall(r' (?:x|y|x1|x2|y1|y2)="([^"]*)"', picture):
            assert -20 <= float(number) <= 500


def test_annotations(records: Mapping[str, Record]) -> None:
    lines = github_lines([records["wrong"], records["good"]])
    errors = [x for x in lines if x.startswith("::error ")]
    assert len(errors) == sum(c.weight == "error" for c in complaints(records["wrong"])) == 6
    assert errors[0].startswith(
        "::error title=wrong%3A onnxruntime CPU optimized%2C batch-1%3A mismatch::output "
    )
    assert all("\n" not in x for x in lines)
    assert lines[-1] == "::notice title=good::passed, level executed"
    assert any(x.startswith("::warning title=good%3A onnx-reference") for x in lines)
    (line,) = [x for x in github_lines([records["broken"]]) if x.startswith("::error")]
    assert "export%3A export-error::NotImplementedError: this exporter has no rule" in line


def test_command(made: Path, tmp_path: Path) -> None:
    page, junit = tmp_path / "out" / "report.html", tmp_path / "out" / "junit.xml"
    statement, result = tmp_path / "s.jsonl", tmp_path / "t.jsonl"
    files = ["-o", page, "--junit", junit, "--statement", statement, "--test-result", result]
    done = command("report", made / "good", made / "wrong" / "record.json", *files)
    assert done.exit_code == 0, done.output
    assert "good: passed, level executed" in done.output
    assert "wrong: failed, level structural, mismatch" in done.output
    assert page.read_text().startswith("\n<!DOCTYPE html>") or page.read_text().startswith("<!DOCTYPE html>")
    assert junit.read_bytes().startswith(b"<?xml")
    assert len(statement.read_text().splitlines()) == len(result.read_text().splitlines()) == 2
    printed = command("report", made / "good", "--format", "json")
    assert json.loads(printed.output)["profiles"][0]["profile"] == "good"
    assert "::notice title=good::" in command("report", made / "good", "--format", "github").output


def test_command_takes_reports_and_refuses_others(
    made: Path, tmp_path: Path, records: Mapping[str, Record]
) -> None:
    path = tmp_path / "report.json"
    save_report(list(records.values()), path)
    assert command("report", path).output.count("level ") == 4
    data = json.loads(path.read_text())
    data["profiles"][1]["status"] = "passed"
    path.write_text(json.dumps(data))
    refused = command("report", path)
    assert refused.exit_code == 1
    assert "but the facts give" in refused.output
    path.write_text("[]")
    assert command("report", path).exit_code == 1
    assert command("report", tmp_path / "unheard-of").exit_code == 2
    (tmp_path / "link.html").symlink_to(tmp_path / "elsewhere.html")
    assert command("report", made / "good", "-o", tmp_path / "link.html").exit_code == 1
    assert not (tmp_path / "elsewhere.html").exists()


@pytest.mark.parametrize("name", ["good", "wrong", "broken", "crash"])
def test_complaints_follow_the_verdict(records: Mapping[str, Record], name: str) -> None:
    record = records[name]
    errors = [c for c in complaints(record) if c.weight == "error"]
    assert bool(errors) == (record.status == "failed")
    if errors:
        assert errors[0].failure == record.failure
