"""What ONNX's checker and shape inference say of a file. Imports little: processes that only check start soon."""

from __future__ import annotations

from pathlib import Path

MAX_TEXT = 4000


def faults(path: Path) -> tuple[str | None, str | None]:
    """What the checker with every check, and strict shape inference with data propagation, find wrong.

    Returns:
        Two messages, None where nothing is wrong; shape inference does not run on what the checker refuses.
    """
    import onnx

    refusals = (
        onnx.checker.ValidationError,
        onnx.shape_inference.InferenceError,
        ValueError,
        TypeError,
        RuntimeError,
    )
    try:
        onnx.checker.check_model(str(path), full_check=True)
    except (*refusals, OSError) as err:
        return _text(err), None
    try:
        onnx.shape_inference.infer_shapes(
            path.read_bytes(), check_type=True, strict_mode=True, data_prop=True
        )
    except refusals as err:
        return None, _text(err)
    return None, None


def _text(err: Exception) -> str:
    return f"{type(err).__name__}: {err}"[:MAX_TEXT]
