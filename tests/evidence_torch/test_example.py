"""A module of PyTorch's, exported by PyTorch, with evidence and a contract."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples import from_torch
from onnxproof.evidence import execute, validate_record

pytestmark = pytest.mark.filterwarnings("ignore")  # of PyTorch's exporter


def test_the_example(tmp_path: Path) -> None:
    record = from_torch.proven(tmp_path)
    assert (record.status, record.level) == ("passed", "executed")
    assert record.contracts is not None
    assert [c.status for c in record.contracts] == ["passed"]
    assert validate_record(record) == []
    assert execute(record, tmp_path)["status"] == "passed"  # with neither PyTorch nor the module
