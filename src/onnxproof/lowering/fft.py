"""Discrete Fourier transforms.

Short ones are one product with the matrix of the transform, computed in float64. ONNX Runtime's DFT is faster for
long powers of two, and as accurate; for other lengths it loses three digits, so these are taken apart: into
factors (J. W. Cooley and J. W. Tukey) or, when prime, into a convolution of a power of two (L. I. Bluestein).
Inverse transforms are divided by their length at each stage.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import onnx_ir as ir

from onnxproof.capture.program import Dim, Shape
from onnxproof.lowering.emit import I64, Ctx
from onnxproof.lowering.pairs import pack
from onnxproof.lowering.registry import lowers_complex

_MATRIX: Final = 128  # the longest transform that is always one product
_PRIME: Final = 512  # the longest prime one


@lowers_complex("fft")
def fft(ctx: Ctx, x: ir.Value, *, fft_type: Any, fft_lengths: Sequence[Dim]) -> ir.Value:
    """Transforms over the last ``len(fft_lengths)`` axes, the last one first where the operand is real."""
    lengths = [n for n in fft_lengths if isinstance(n, int)]
    if len(lengths) < len(fft_lengths):
        raise ctx.unsupported("a symbolic length", "Give the transformed axes fixed sizes.")
    out = ctx.out
    if 0 in out.shape:
        return ctx.expand(ctx.const(0, out.part.dtype), out.stored.shape)
    if 0 in lengths:
        raise ctx.unsupported("a transform of no elements, which JAX cannot run either")
    kind = fft_type.name
    inverse = kind in ("IFFT", "IRFFT")
    rank = len(ctx.ins[0].shape)
    first = rank - len(lengths)
    inner = list(zip(range(first, rank - 1), lengths[:-1], strict=True))
    if kind == "RFFT":
        x = _of_reals(ctx, x, lengths[-1], lengths[-1] // 2 + 1)
    elif kind != "IRFFT" and lengths:
        n = lengths[-1]
        re = _without_imaginary_part(ctx, x) if _is_product(n) else None
        x = _last(ctx, x, n, inverse) if re is None else _of_reals(ctx, re, n, n, inverse)
    for axis, n in inner:
        x = _along(ctx, x, axis, n, inverse)
    return _to_reals(ctx, x, lengths[-1]) if kind == "IRFFT" else x


def _without_imaginary_part(ctx: Ctx, x: ir.Value) -> ir.Value | None:
    """The real part of a value that is known to have no other."""
    re, im = ctx.module.parts.get(x, (None, None))
    zero = None if im is None else ctx.constant_value(im)
    if re is None or zero is None or zero.any() or ctx.shape(re) != (ctx.shape(x) or ())[:-1]:
        return None
    return re


def _along(ctx: Ctx, x: ir.Value, axis: int, n: int, inverse: bool) -> ir.Value:
    """A transform over any axis."""
    last = ctx.rank(x) - 2
    swap = list(range(last + 2))
    swap[axis], swap[last] = last, axis
    return ctx.transpose(_last(ctx, ctx.transpose(x, swap), n, inverse), swap)


def _last(ctx: Ctx, x: ir.Value, n: int, inverse: bool) -> ir.Value:
    """A transform over the last axis of numbers: ``[..., n, 2]`` to ``[..., n, 2]``."""
    if n == 1:
        return x
    factor = next_factor(n)
    if _is_product(n):
        return _product(ctx, x, transform_matrix(n, n, inverse), n)
    if n & (n - 1) == 0:
        return _native(ctx, x, n, inverse)
    if factor is None:
        return _by_convolution(ctx, x, n, inverse)
    return _by_factors(ctx, x, factor, n // factor, inverse)


def _is_product(n: int) -> bool:
    """Whether a transform of this length is one product with its matrix."""
    return n <= _MATRIX or (n <= _PRIME and next_factor(n) is None)


def next_factor(n: int) -> int | None:
    """The factor of ``n`` next to its square root, None for a prime number."""
    return next((d for d in range(math.isqrt(n), 1, -1) if n % d == 0), None)


# -- matrices ---------------------------------------------------------------------------------------


def turns(exponents: np.ndarray[Any, Any], n: int, inverse: bool) -> np.ndarray[Any, Any]:
    """exp(-2 pi i k / n) for each exponent k, or with + in an inverse transform."""
    turn = (2 if inverse else -2) * np.pi / n
    roots: np.ndarray[Any, Any] = np.exp(1j * (turn * (exponents % n)))
    return roots


def transform_matrix(rows: int, n: int, inverse: bool, columns: int | None = None) -> np.ndarray[Any, Any]:
    """The matrix of a transform of length ``n``: its first ``rows`` inputs to its first ``columns`` outputs."""
    exponents = np.outer(np.arange(rows), np.arange(n if columns is None else columns))
    return turns(exponents, n, inverse) / (n if inverse else 1)


def of_pairs(numbers: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A complex matrix as a real one on interleaved parts."""
    re, im = numbers.real, numbers.imag
    blocks = np.stack([np.stack([re, im], -1), np.stack([-im, re], -1)], 1)
    return blocks.reshape(2 * numbers.shape[0], 2 * numbers.shape[1])


def _product(ctx: Ctx, x: ir.Value, numbers: np.ndarray[Any, Any], size: int) -> ir.Value:
    """``[..., k, 2]`` times a complex matrix ``[k, size]``."""
    lead = (ctx.shape(x) or ())[:-2]
    matrix = ctx.const(of_pairs(numbers), ctx.dtype(x))
    flat = ctx.reshape(x, (*lead, 2 * numbers.shape[0]))
    return ctx.reshape(ctx.op("MatMul", flat, matrix, shape=(*lead, 2 * size)), (*lead, size, 2))


# -- transforms of and to reals ---------------------------------------------------------------------


def _of_reals(ctx: Ctx, x: ir.Value, n: int, size: int, inverse: bool = False) -> ir.Value:
    """``[..., n]`` to the first ``size`` results, ``[..., size, 2]``."""
    lead = (ctx.shape(x) or ())[:-1]
    if _is_product(n):
        numbers = transform_matrix(n, n, inverse, size)
        matrix = np.stack([numbers.real, numbers.imag], -1).reshape(n, 2 * size)
        flat = ctx.op("MatMul", x, ctx.const(matrix, ctx.dtype(x)), shape=(*lead, 2 * size))
        return ctx.reshape(flat, (*lead, size, 2))
    if n & (n - 1) == 0:
        return _native(ctx, ctx.unsqueeze(x, [-1]), n, False, size)
    whole = _last(ctx, pack(ctx, x, ctx.like(0, x), (*lead, n)), n, False)
    return ctx.slice(whole, [0], [size], [-2], shape=(*lead, size, 2))


def _to_reals(ctx: Ctx, x: ir.Value, n: int) -> ir.Value:
    """The first half, ``[..., n // 2 + 1, 2]``, to ``[..., n]``: an inverse transform with a real result."""
    half = n // 2 + 1
    lead = (ctx.shape(x) or ())[:-2]
    if _is_product(n):
        numbers = transform_matrix(half, n, True)
        numbers[1 : n - half + 1] *= 2  # with the conjugate of the other half
        matrix = np.stack([numbers.real, -numbers.imag], 1).reshape(2 * half, n)
        flat = ctx.reshape(x, (*lead, 2 * half))
        return ctx.op("MatMul", flat, ctx.const(matrix, ctx.dtype(x)), shape=(*lead, n))
    other = (*lead, n - half, 2)
    mirrored = ctx.slice(x, [n - half], [0], [-2], [-1], shape=other)
    mirrored = ctx.op("Mul", mirrored, ctx.const([1, -1], ctx.dtype(x)))
    whole = ctx.op("Concat", x, mirrored, axis=-2, shape=(*lead, n, 2))
    result = _last(ctx, whole, n, True)
    return ctx.op("Gather", result, ctx.const(0, I64), axis=-1, shape=(*lead, n))


# -- long transforms --------------------------------------------------------------------------------


def _native(ctx: Ctx, x: ir.Value, n: int, inverse: bool, half: int | None = None) -> ir.Value:
    """ONNX's operator, for ``half`` of the result where the operand ``[..., n, 1]`` is real."""
    known: Shape = ctx.shape(x) or ()
    axis = len(known) - 2
    shape = (*known[:-2], half or n, 2)
    flags: dict[str, Any] = {"inverse": int(inverse) or None, "onesided": 1 if half else None}
    if ctx.opset < 20:
        return ctx.op("DFT", x, axis=axis, shape=shape, **flags)
    return ctx.op("DFT", x, None, ctx.const(axis, I64), shape=shape, **flags)


def _times(ctx: Ctx, x: ir.Value, numbers: np.ndarray[Any, Any]) -> ir.Value:
    """Pairs times constant complex numbers, which broadcast."""
    dtype = ctx.dtype(x)
    straight = np.stack([numbers.real, numbers.real], -1)
    crossed = np.stack([-numbers.imag, numbers.imag], -1)
    swapped = ctx.op("Gather", x, ctx.i64([1, 0]), axis=-1, shape=ctx.shape(x))
    left = ctx.op("Mul", x, ctx.const(straight, dtype))
    return ctx.op("Add", left, ctx.op("Mul", swapped, ctx.const(crossed, dtype)))


def _by_factors(ctx: Ctx, x: ir.Value, a: int, b: int, inverse: bool) -> ir.Value:
    """A transform of length ``a * b`` from transforms of both lengths."""
    lead = (ctx.shape(x) or ())[:-2]
    k = len(lead)
    swap = [*range(k), k + 1, k, k + 2]
    columns = ctx.transpose(ctx.reshape(x, (*lead, a, b, 2)), swap)
    inner = _last(ctx, columns, a, inverse)
    twiddles = turns(np.outer(np.arange(b), np.arange(a)), a * b, inverse)
    rows = ctx.transpose(_times(ctx, inner, twiddles), swap)
    outer = _last(ctx, rows, b, inverse)
    return ctx.reshape(ctx.transpose(outer, swap), (*lead, a * b, 2))


def _by_convolution(ctx: Ctx, x: ir.Value, n: int, inverse: bool) -> ir.Value:
    """A transform of prime length as a circular convolution with a chirp, of a power of two in length."""
    lead = (ctx.shape(x) or ())[:-2]
    size = 1 << (2 * n - 2).bit_length()
    squares = np.arange(n, dtype=np.int64) ** 2
    chirp = turns(squares, 2 * n, inverse)
    circular = np.zeros(size, np.complex128)
    circular[:n] = chirp.conj()
    circular[size - n + 1 :] = chirp.conj()[:0:-1]
    pads = [0] * (2 * (len(lead) + 2))
    pads[-2] = size - n
    padded = ctx.op("Pad", _times(ctx, x, chirp), ctx.i64(pads), shape=(*lead, size, 2))
    spectrum = _times(ctx, _native(ctx, padded, size, False), np.fft.fft(circular))
    convolved = ctx.slice(_native(ctx, spectrum, size, True), [0], [n], [-2], shape=(*lead, n, 2))
    return _times(ctx, convolved, chirp / (n if inverse else 1))
