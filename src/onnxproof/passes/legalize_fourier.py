"""The discrete Fourier transform as products with matrices, for targets whose operator is not used.

A length is taken apart into factors (J. W. Cooley and J. W. Tukey) until a factor is short enough for one product.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxproof.lowering.fft import next_factor, of_pairs, transform_matrix, turns
from onnxproof.passes.legalize_emit import DType, Emitter, MaybeDim, dims_of, small_constant

_PRODUCT = 128  # the longest transform that is one product


def dft(e: Emitter) -> ir.Value | None:
    """Of complex or real numbers, over the last axis before that of the parts."""
    x = e.node.inputs[0]
    known = None if x is None else dims_of(x)
    length = e.node.inputs[1] if len(e.node.inputs) > 1 else None
    if x is None or known is None or length is not None or len(known) < 2:
        return None
    n, parts, axis = known[-2], known[-1], _axis(e)
    if not isinstance(n, int) or n < 1 or axis is None or axis % len(known) != len(known) - 2:
        return None
    if parts == 1:
        x = e.op("Pad", x, e.i64([0] * (2 * len(known) - 1) + [1]), shape=(*known[:-1], 2))
    result = _transform(e, x, known[:-2], n, bool(e.attr("inverse", 0)))
    if e.attr("onesided", 0):
        half = n // 2 + 1
        bounds = [e.i64([0]), e.i64([half]), e.i64([-2])]
        result = e.op("Slice", result, *bounds, shape=(*known[:-2], half, 2))
    return result


def _axis(e: Emitter) -> int | None:
    if e.opset < 20:
        return int(e.attr("axis", 1))
    given = e.node.inputs[2] if len(e.node.inputs) > 2 else None
    constant = None if given is None else small_constant(given)
    return -2 if given is None else None if constant is None else int(constant)


def _reshaped(e: Emitter, x: ir.Value, lead: tuple[MaybeDim, ...], *rest: int) -> ir.Value:
    return e.op("Reshape", x, e.i64([*[0] * len(lead), *rest]), shape=(*lead, *rest))  # 0 copies a size


def _transform(e: Emitter, x: ir.Value, lead: tuple[MaybeDim, ...], n: int, inverse: bool) -> ir.Value:
    """``[*lead, n, 2]`` to the same shape."""
    a = next_factor(n) if n > _PRODUCT else None
    if a is None:
        matrix = e.like(of_pairs(transform_matrix(n, n, inverse)), x)
        flat = e.op("MatMul", _reshaped(e, x, lead, 2 * n), matrix, shape=(*lead, 2 * n))
        return _reshaped(e, flat, lead, n, 2)
    b, k = n // a, len(lead)
    swap = [*range(k), k + 1, k, k + 2]

    def turned(value: ir.Value, first: int, second: int) -> ir.Value:
        return e.op("Transpose", value, perm=swap, shape=(*lead, first, second, 2))

    columns = _transform(e, turned(_reshaped(e, x, lead, a, b, 2), b, a), (*lead, b), a, inverse)
    twiddles = turns(np.outer(np.arange(b), np.arange(a)), n, inverse)
    rows = turned(_times(e, columns, twiddles), a, b)
    return _reshaped(e, turned(_transform(e, rows, (*lead, a), b, inverse), b, a), lead, n, 2)


def _times(e: Emitter, x: ir.Value, numbers: np.ndarray[Any, Any]) -> ir.Value:
    """Pairs times constant complex numbers, which broadcast."""
    straight = e.like(np.stack([numbers.real, numbers.real], -1), x)
    crossed = e.like(np.stack([-numbers.imag, numbers.imag], -1), x)
    swapped = e.op("Gather", x, e.i64([1, 0]), axis=-1, shape=dims_of(x))
    return e.op("Add", e.op("Mul", x, straight), e.op("Mul", swapped, crossed))


EXPANSIONS: Mapping[tuple[str, DType | None], Callable[[Emitter], ir.Value | None]] = {("DFT", None): dft}
