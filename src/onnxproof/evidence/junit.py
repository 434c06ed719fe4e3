"""JUnit XML: one suite for each record, one test for each stage and for each case of each run."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence

from onnxproof.evidence.court import runs_of
from onnxproof.evidence.findings import case_message, clause_message, run_label, stage_messages
from onnxproof.evidence.record import STAGES, InputCase, Record, Runtime

_ILLEGAL = re.compile(
    "[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
)  # characters XML 1.0 has no way to hold
_BROKE = ("error", "crash", "timeout", "memory")


def junit_xml(records: Sequence[Record]) -> bytes:
    """The XML of some records.

    A case that a known limit of its runtime explains is no failure; its output says so. What did not run
    because an earlier stage failed is skipped; nothing else ever is.
    """
    suites = [_suite(record) for record in records]
    root = ET.Element("testsuites", {"name": "onnxproof", **_totals(suites)})
    root.extend(suites)
    ET.indent(root, " ")
    text: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def _suite(record: Record) -> ET.Element:
    suite = ET.Element("testsuite", name=_clean(record.profile))
    properties = ET.SubElement(suite, "properties")
    facts = {
        "level": record.level,
        "digest": record.digest,
        "revision": record.source.revision,
        **record.versions,
    }
    for name, value in facts.items():
        ET.SubElement(properties, "property", name=_clean(name), value=_clean(str(value)))
    for stage in STAGES[:-1]:
        found = record.stages.of(stage)
        test = ET.SubElement(suite, "testcase", classname=_clean(record.profile), name=stage, time="0")
        if found.status == "failed":
            _said(test, "failure", found.failure or "", "\n".join(stage_messages(record, stage)))
        elif found.status == "not_run":
            ET.SubElement(test, "skipped", message="an earlier stage failed")
    for run in runs_of(record):
        for case in run.input_cases:
            _case(suite, record.profile, run.runtime, case)
    for contract in record.contracts or ():
        place = f"{record.profile}.contract {contract.name}"
        for clause in contract.clauses:
            test = ET.SubElement(
                suite, "testcase", classname=_clean(place), name=_clean(clause.demand), time="0"
            )
            if clause.status == "failed":
                _said(test, "failure", "contract-violation", clause_message(clause))
            elif clause.status == "not_run":
                ET.SubElement(test, "skipped", message="an earlier stage failed")
    for key, value in _totals([suite]).items():
        suite.set(key, value)
    return suite


def _case(suite: ET.Element, profile: str, runtime: Runtime, case: InputCase) -> None:
    place = f"{profile}.{run_label(runtime)}"
    seconds = f"{case.seconds or 0:.6f}"
    test = ET.SubElement(suite, "testcase", classname=_clean(place), name=_clean(case.name), time=seconds)
    if case.outcome == "not_run":
        ET.SubElement(test, "skipped", message="an earlier stage failed")
    elif case.failure:
        kind = "error" if case.outcome in _BROKE else "failure"
        _said(test, kind, case.failure, case_message(case, runtime))
    elif case.limit:
        ET.SubElement(test, "system-out").text = _clean(case_message(case, runtime))


def _said(test: ET.Element, tag: str, kind: str, message: str) -> None:
    message = _clean(message)
    ET.SubElement(test, tag, type=kind, message=message.partition("\n")[0][:500]).text = message


def _totals(suites: Sequence[ET.Element]) -> dict[str, str]:
    tests = [test for suite in suites for test in suite.iter("testcase")]
    counts = {
        f"{tag}s" if tag != "skipped" else tag: sum(test.find(tag) is not None for test in tests)
        for tag in ("failure", "error", "skipped")
    }
    seconds = sum(float(test.get("time", "0")) for test in tests)
    return {"tests": str(len(tests)), **{k: str(v) for k, v in counts.items()}, "time": f"{seconds:.6f}"}


def _clean(text: str) -> str:
    return _ILLEGAL.sub("\ufffd", text)
