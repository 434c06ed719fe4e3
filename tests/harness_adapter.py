"""Adapter for the runner over JAX's primitive corpus: one case in, one model out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx

from onnxproof import to_onnx


def onnxproof(fn: Callable[..., Any], example_args: tuple[Any, ...]) -> onnx.ModelProto:
    """Export ``fn`` at the shapes and dtypes of ``example_args``; x64 is as the runner has set it."""
    model: onnx.ModelProto = to_onnx(
        fn, list(example_args), input_names=[f"in_{i}" for i in range(len(example_args))]
    )
    return model
