"""JUnit XML of records."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Mapping

import pytest

from onnxproof.evidence import Record
from onnxproof.evidence.derive import settle
from onnxproof.evidence.junit import junit_xml

# record, tests, failures, errors, skipped
COUNTS = [
    ("good", 4 + 3 * 5, 0, 0, 0),
    ("wrong", 4 + 3 * 5, 6, 0, 0),
    ("broken", 4 + 3 * 2, 1, 0, 2 + 3 * 2),
    ("crash", 4 + 2 * 5, 1, 3, 0),
]


@pytest.mark.parametrize(("name", "tests", "failures", "errors", "skipped"), COUNTS)
def test_counts(
    records: Mapping[str, Record], name: str, tests: int, failures: int, errors: int, skipped: int
) -> None:
    root = ET.fromstring(junit_xml([records[name]]))
    (suite,) = root
    for element in (root, suite):
        found = [int(element.get(k, "-1")) for k in ("tests", "failures", "errors", "skipped")]
        assert found == [tests, failures, errors, skipped]
    assert len(list(root.iter("testcase"))) == tests
    assert len(list(root.iter("failure"))) == failures
    assert len(list(root.iter("error"))) == errors
    assert len(list(root.iter("skipped"))) == skipped


def test_names_and_messages(records: Mapping[str, Record]) -> None:
    root = ET.fromstring(junit_xml([records["good"], records["wrong"]]))
    assert [s.get("name") for s in root] == ["good", "wrong"]
    (failure, *_) = root[1].iter("failure")
    assert failure.get("type") == "mismatch"
    assert "differs by up to" in (failure.get("message") or "")
    limits = [t for t in root[0].iter("testcase") if t.find("system-out") is not None]
    assert {t.get("classname") for t in limits} == {"good.onnx-reference numpy"}
    properties = {p.get("name"): p.get("value") for p in root[0].iter("property")}
    assert properties["digest"] == records["good"].digest
    assert properties["revision"] == "abc123"


def test_any_text_becomes_xml(records: Mapping[str, Record]) -> None:
    wrong = records["wrong"]
    detail = "\x00\x1b[31m]]> <b> & \ufffe \U0001f600"
    cases = [c.model_copy(update={"detail": detail}) for c in wrong.input_cases]
    root = ET.fromstring(junit_xml([settle(wrong.model_copy(update={"input_cases": cases}))]))
    (failure, *_) = root.iter("failure")
    assert "]]> <b> &" in (failure.text or "")
    assert "\U0001f600" in (failure.text or "")
