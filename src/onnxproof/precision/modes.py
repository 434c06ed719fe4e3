"""What a file can be made of narrower numbers, and how much of its accuracy that may cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from onnxproof.errors import InputSpecError

Quantization = Literal["int8", "int8-static", "int4"]
Dtype = Literal["float16", "bfloat16"]


@dataclass(frozen=True, slots=True)
class Mode:
    """One way.

    Attributes:
        tool: what does the work.
        limit: the largest error of an element that passes, as a part of the largest magnitude of its output.
    """

    name: str
    tool: str
    limit: float


# Limits are what rounding alone explains over tens of layers; a wrong scale or an overflow is far beyond them.
# - float16 rounds by 2^-11 of a value at most, and so does each layer: ten roundings.
# - bfloat16 rounds a weight by 2^-9, 0.2 %. Errors of single weights cancel; ten times that is a wide margin.
# - 8 bits of a normally distributed matrix of thousands of values span 8 standard deviations, in 127 steps with
#   full safety on every processor: 2 % of a product is lost, and as much of what it is multiplied with.
# - static int8 has ranges that were seen in calibration, also for what varies from case to case.
# - 4 bits have 15 steps for the 4 standard deviations of a block: 8 % of a product, and the tail of many products.
MODES: Mapping[str, Mode] = {
    mode.name: mode
    for mode in (
        Mode("float16", "onnxruntime.transformers.float16", 5e-3),
        Mode("float16-weights", "onnx_ir", 5e-3),
        Mode("bfloat16", "onnx_ir", 2e-2),
        Mode("int8", "onnxruntime.quantization.quantize_dynamic", 5e-2),
        Mode("int8-static", "onnxruntime.quantization.quantize_static", 1e-1),
        Mode("int4", "onnxruntime.quantization.MatMulNBitsQuantizer", 2.5e-1),
    )
}
DYNAMIC_OPERATORS = ("Conv", "Gather", "LSTM", "MatMul")
STATIC_OPERATORS = ("Conv", "ConvTranspose", "Gather", "Gemm", "MatMul")
MIN_BLOCK, MAX_BLOCK = 16, 256  # of the kernel of MatMulNBits, which takes powers of two


def of_quantization(name: str) -> Mode:
    """The mode that ``quantize`` knows by that name.

    Raises:
        InputSpecError: it knows none.
    """
    return _of(name, get_args(Quantization), "mode")


def of_dtype(name: str, *, weights_only: bool) -> Mode:
    """The mode of ``convert`` to a dtype; of bfloat16 there are weights only.

    Raises:
        InputSpecError: it is no such dtype.
    """
    mode = _of(name, get_args(Dtype), "dtype")
    return MODES["float16-weights"] if weights_only and name == "float16" else mode


def _of(name: str, known: tuple[str, ...], what: str) -> Mode:
    if name not in known:
        raise InputSpecError(f"there is no {what} {name!r}", way_out=f"Known are: {', '.join(known)}.")
    return MODES[name]
