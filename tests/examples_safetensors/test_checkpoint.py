"""What ``onnxproof weights swap`` reads of a safetensors file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from onnxproof.errors import ConformanceError
from onnxproof.inspection.checkpoint import read_checkpoint


def test_arrays_by_name_and_a_file_cut_short(tmp_path: Path) -> None:
    arrays = {
        "embed": np.arange(6, dtype=np.float32).reshape(2, 3),
        "bias": np.asarray([1.5, -2.0], np.float16),
    }
    path = tmp_path / "new.safetensors"
    save_file(arrays, path)
    found = read_checkpoint(path)
    assert set(found) == set(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(ConformanceError, match=r"new\.safetensors"):
        read_checkpoint(path)
