"""The bits of floats: bitcasts, rounding to fewer bits, the next float.

ONNX has BitCast from opset 26 on. Before it, a float is taken apart and put together by exact arithmetic:
products with powers of two, which come from tables.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir

from onnxproof.lowering.algebra import Num, where
from onnxproof.lowering.elementwise import is_float
from onnxproof.lowering.emit import F32, F64, I64, U64, Ctx
from onnxproof.lowering.logic import shift, unsigned
from onnxproof.lowering.registry import lowers


@dataclass(frozen=True, slots=True)
class Format:
    """A binary floating-point format: bits of the fraction, and the exponents of normal numbers."""

    fraction: int
    low: int
    high: int
    width: int

    @staticmethod
    def of(dtype: np.dtype[Any]) -> Format:
        info = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
        return Format(int(info.nmant), int(info.minexp), int(info.maxexp) - 1, 8 * dtype.itemsize)

    @property
    def infinity(self) -> int:
        """The bits of +inf."""
        return (self.high - self.low + 2) << self.fraction

    @property
    def nan(self) -> int:
        """The bits of the usual quiet NaN."""
        return self.infinity | 1 << (self.fraction - 1)


def exponent_of(x: Num, low: int, high: int) -> Num:
    """floor(log2 |x|) of a float64, exact, clipped to [low, high]; at least -1021, and 0 of inf and NaN."""
    size = abs(x)
    size = (size <= float(np.finfo(F64).max)).where(size, 1.0)
    guess = (size.do("Log") * (1 / math.log(2))).do("Floor").clip(low, high)
    # The logarithm is off by one at most, next to powers of two.
    ratio = size * power_of_two(-guess, -high, -low)
    step = (ratio >= 2).cast(F64) - (ratio < 1).cast(F64)
    return (guess + step).clip(low, high)


def power_of_two(exponent: Num, low: int, high: int) -> Num:
    """2**exponent of an integral float64 in [low, high], exact, as float64."""
    ctx = exponent.ctx
    table = ctx.const(np.ldexp(1.0, np.arange(low, high + 1)), F64)
    index = (exponent - low).clip(0, high - low).cast(I64)
    return Num(ctx, ctx.op("Gather", table, index.value, shape=ctx.shape(index.value)))


# -- bitcast ----------------------------------------------------------------------------------


@lowers("bitcast_convert_type")
def bitcast_convert_type(ctx: Ctx, x: ir.Value, *, new_dtype: Any) -> ir.Value:
    source, target = ctx.ins[0].dtype, ctx.out.dtype
    if source == target:
        return x
    for dtype in (source, target):
        if dtype.name not in _BITCASTABLE:
            raise ctx.unsupported(f"no bitcast of {dtype.name}")
    if source.itemsize == target.itemsize:
        return _same_width(ctx, x, target)
    words = _same_width(ctx, x, unsigned(source))
    if source.itemsize > target.itemsize:
        by = ctx.const(np.arange(0, 8 * source.itemsize, 8 * target.itemsize), unsigned(source))
        parts = ctx.op("BitShift", ctx.unsqueeze(words, [-1]), by, direction="RIGHT")
        return _same_width(ctx, ctx.cast(parts, unsigned(target)), target)
    # The parts don't overlap, so their sum is their union; products wrap as they should.
    word = unsigned(target)
    weights = [1 << k for k in range(0, 8 * target.itemsize, 8 * source.itemsize)]
    joined = ctx.op("MatMul", ctx.cast(words, word), ctx.const(weights, word), shape=ctx.out.shape)
    return _same_width(ctx, joined, target)


_BITCASTABLE = frozenset(
    [
        "float16",
        "bfloat16",
        "float32",
        "float64",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
    ]
)


def _same_width(ctx: Ctx, x: ir.Value, target: np.dtype[Any]) -> ir.Value:
    source = ctx.dtype(x)
    if source == target:
        return x
    constant = ctx.constant_value(x)
    if constant is not None:
        return ctx.const(constant.view(target))
    if not is_float(source) and not is_float(target):
        return ctx.cast(x, target)
    if ctx.opset >= 26:
        return ctx.op("BitCast", x, to=target, dtype=target)
    if is_float(source):
        word = _bits_of(ctx, x).value
        return _float_of(ctx, word, target) if is_float(target) else ctx.cast(word, target)
    return _float_of(ctx, ctx.cast(x, unsigned(source)), target)


def _bits_of(ctx: Ctx, x: ir.Value) -> Num:
    """The bits of a float as its unsigned integer; every NaN gives the usual one."""
    form = Format.of(ctx.dtype(x))
    word = np.dtype(f"u{form.width // 8}")
    v = Num(ctx, ctx.cast(x, F64))
    size = abs(v)
    if form.width == 64:
        magnitude = _double_bits(size, form)
    else:
        exponent = exponent_of(size, form.low, form.high)
        scale = power_of_two(form.fraction - exponent, form.fraction - form.high, form.fraction - form.low)
        # The leading one of a normal number adds the 1 that its biased exponent lacks here.
        magnitude = ((exponent - form.low) * float(1 << form.fraction) + size * scale).clip(0, form.infinity)
        magnitude = v.do("IsNaN").where(_scalar(ctx, form.nan, F64), magnitude).cast(U64)
    negative = ((v < 0) | (1 / v < 0)).cast(U64)
    sign = Num(ctx, ctx.op("BitShift", negative.value, ctx.const(form.width - 1, U64), direction="LEFT"))
    return (magnitude + sign).cast(word)


def _double_bits(size: Num, form: Format) -> Num:
    """The bits of a nonnegative float64 as uint64. Exponents reach further than a table of float64 powers."""
    ctx = size.ctx
    tiny = size < float(np.ldexp(1.0, -900))
    normal = tiny.where(size * float(np.ldexp(1.0, 120)), size)
    exponent = exponent_of(normal, -1021, 1023) - tiny.cast(F64) * 120
    clipped = exponent.clip(form.low, form.high)
    # 2**(52 - exponent) as two factors, each in range.
    first = (-clipped * 0.5).do("Floor")
    scaled = size * power_of_two(first, -512, 511) * power_of_two(52 - clipped - first, -512, 563)
    known = ~(size.do("IsNaN") | size.do("IsInf"))
    fraction = known.where(scaled, 0.0).cast(U64)
    biased = (clipped - form.low).cast(U64)
    high = Num(ctx, ctx.op("BitShift", biased.value, ctx.const(52, U64), direction="LEFT"))
    special = size.do("IsNaN").where(_scalar(ctx, form.nan, U64), form.infinity)
    return known.where(high + fraction, special)


def _scalar(ctx: Ctx, value: float, dtype: np.dtype[Any]) -> Num:
    return Num(ctx, ctx.const(value, dtype))


def _float_of(ctx: Ctx, word: ir.Value, target: np.dtype[Any]) -> ir.Value:
    """The float that has the bits of an unsigned integer."""
    form = Format.of(target)
    unit = _unit_float(ctx, word, form, target)
    if unit is not None:
        return unit
    work = F64 if form.width == 64 else F32
    fraction_bits = (1 << form.fraction) - 1
    head = ctx.cast(shift(ctx, word, ctx.const(form.fraction, ctx.dtype(word)), "RIGHT"), I64)
    rest = ctx.op("Mod", word, ctx.const(fraction_bits + 1, ctx.dtype(word)))
    fraction = Num(ctx, ctx.cast(rest, work))
    # One row for each sign and biased exponent: the leading one, and the weight of the last bit.
    biased = np.arange(form.high - form.low + 3)
    leading = np.where(biased == 0, 0.0, float(fraction_bits + 1))
    weight = np.ldexp(1.0, np.maximum(biased, 1) - 1 + form.low - form.fraction)
    weight[-1] = np.inf
    sign = np.asarray([1.0, -1.0])[:, None]
    weights = ctx.const((sign * weight).ravel(), work)
    leads = ctx.const(np.tile(leading, 2), work)
    shape = ctx.shape(head)
    lead = Num(ctx, ctx.op("Gather", leads, head, shape=shape))
    value = (fraction + lead) * Num(ctx, ctx.op("Gather", weights, head, shape=shape))
    # An infinity with a fraction is a NaN.
    value = (value.do("IsInf") & (fraction > 0)).where(_scalar(ctx, np.nan, work), value)
    return value.cast(target).value


def _unit_float(ctx: Ctx, word: ir.Value, form: Format, target: np.dtype[Any]) -> ir.Value | None:
    """A float in [1, 2) from random bits: ``(bits >> k) | bits_of(1.0)`` is 1 + fraction / 2**bits."""
    node = word.producer()
    if node is None or node.op_type != "BitwiseOr":
        return None
    for one, bits in (tuple(node.inputs), tuple(reversed(node.inputs))):
        constant = None if one is None else ctx.constant_value(one)
        shifted = None if bits is None else bits.producer()
        if constant is None or shifted is None or shifted.op_type != "BitShift":
            continue
        by = shifted.inputs[1]
        amount = None if by is None else ctx.constant_value(by)
        if (
            constant.size == 1
            and int(constant.reshape(())) == -form.low + 1 << form.fraction
            and amount is not None
            and amount.size == 1
            and int(amount.reshape(())) >= form.width - form.fraction
            and shifted.attributes["direction"].as_string() == "RIGHT"
        ):
            work = F64 if form.width == 64 else F32
            assert bits is not None
            fraction = Num(ctx, ctx.cast(bits, work))
            return (fraction * 2.0**-form.fraction + 1).cast(target).value
    return None


# -- rounding and neighbours ------------------------------------------------------------------


@lowers("reduce_precision")
def reduce_precision(ctx: Ctx, x: ir.Value, *, exponent_bits: int, mantissa_bits: int) -> ir.Value:
    form = Format.of(ctx.out.dtype)
    bias = (1 << (exponent_bits - 1)) - 1
    low, high = max(1 - bias, form.low), min(bias, form.high)
    bits = min(mantissa_bits, form.fraction)
    if (low, high, bits) == (form.low, form.high, form.fraction):
        return x
    if (low, high, bits) == (form.low, form.high, 7) and ctx.out.dtype == F32:
        return ctx.cast(ctx.cast(x, np.dtype(ml_dtypes.bfloat16)), F32)
    v = Num(ctx, ctx.cast(x, F64))
    # Where the exponents stay, so do the denormal numbers; elsewhere what rounds below 2**low becomes zero.
    narrowed = low > form.low
    least = low - 1 if narrowed else max(low, -1021)
    unit = power_of_two(exponent_of(v, least, high) - bits, least - bits, high - bits)
    rounded = (v / unit).do("Round") * unit
    size = abs(rounded)
    rounded = (size >= float(np.ldexp(1.0, high)) * 2).where(v.do("Sign") * np.inf, rounded)
    if narrowed:
        rounded = (size < float(np.ldexp(1.0, low))).where(v * 0.0, rounded)
    return rounded.cast(ctx.out.dtype).value


@lowers("nextafter")
def nextafter(ctx: Ctx, x: ir.Value, y: ir.Value) -> ir.Value:
    dtype = ctx.out.dtype
    form = Format.of(dtype)
    word = np.dtype(f"i{form.width // 8}")
    a, b = Num(ctx, x), Num(ctx, y)
    # A step away from zero adds one to the bits, one towards it takes one off; from zero, y has the sign.
    bits = Num(ctx, _same_width(ctx, x, word))
    step = where((a < b) ^ (a > 0), -1, 1, like=bits)
    moved = bits + step
    least = where(b > 0, 1, int(np.iinfo(word).min) + 1, like=bits)
    moved = a.equal(0).where(least, moved)
    moved = (a.equal(b) | ~a.equal(a)).where(bits, moved)
    result = Num(ctx, _same_width(ctx, moved.value, dtype))
    result = a.equal(b).where(b, result)
    return (a.equal(a) & b.equal(b)).where(result, np.nan).value
