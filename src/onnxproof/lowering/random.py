"""Random bits, equal to JAX's bit for bit.

Samplers and key arithmetic arrive as ``threefry2x32`` and integer operations: ``capture.keys`` sees to it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from onnxproof.capture.program import Aval, Dim
from onnxproof.lowering.emit import I64, U32, U64, Ctx
from onnxproof.lowering.function import FunctionScope, call, define
from onnxproof.lowering.registry import lowers, not_lowered

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))  # Salmon et al. 2011, table 3
_PARITY = 0x1BD11BDA  # the key schedule's constant, same paper
_PHILOX = (0xD2511F53, 0xCD9E8D57)  # the multipliers and Weyl increments of Philox4x32, table 2
_WEYL = (0x9E3779B9, 0xBB67AE85)
_THREE_FRY = 1  # lax.RandomAlgorithm.RNG_THREE_FRY
_SMALL = 1024  # elements of a counter that is stored rather than computed


@lowers("threefry2x32")
def threefry2x32(ctx: Ctx, k0: ir.Value, k1: ir.Value, x0: ir.Value, x1: ir.Value) -> Sequence[ir.Value]:
    """The block cipher, as a function of the model: 115 nodes that all draws share."""
    function = define(ctx, "threefry2x32", _threefry, "threefry2x32", (U32,) * 4)
    return call(ctx, function, (k0, k1, x0, x1), ctx.outs)


def _threefry(ctx: Ctx, _scope: FunctionScope, operands: Sequence[ir.Value]) -> list[ir.Value]:
    k0, k1, x0, x1 = operands
    k2 = _xor(ctx, k0, k1, ctx.const(_PARITY, U32))
    schedule = (k0, k1, k2)
    x0, x1 = ctx.op("Add", x0, k0), ctx.op("Add", x1, k1)
    for i in range(5):
        for distance in _ROTATIONS[i % 2]:
            x0 = ctx.op("Add", x0, x1)
            x1 = _xor(ctx, _rotate(ctx, x1, distance), x0)
        x0 = ctx.op("Add", x0, schedule[(i + 1) % 3])
        injected = ctx.op("Add", schedule[(i + 2) % 3], ctx.const(i + 1, U32))
        x1 = ctx.op("Add", x1, injected)
    return [x0, x1]


def _rotate(ctx: Ctx, x: ir.Value, distance: int) -> ir.Value:
    left = ctx.op("BitShift", x, ctx.const(distance, U32), direction="LEFT")
    right = ctx.op("BitShift", x, ctx.const(32 - distance, U32), direction="RIGHT")
    return ctx.op("BitwiseOr", left, right, since=18)


@lowers("iota_2x32_shape")
def iota_2x32_shape(ctx: Ctx, *, shape: Sequence[Dim]) -> Sequence[ir.Value]:
    """The row-major index of each element as (high word, low word)."""
    count = ctx.out.size
    if count is not None and count <= _SMALL:
        index = ctx.const(range(count), U32)
        return ctx.reshape(ctx.const([0] * count, U32), shape), ctx.reshape(index, shape)
    counter = _counter(ctx, shape)
    low = ctx.cast(counter, U32)
    if count is not None and count <= 1 << 32:
        return ctx.expand(ctx.const([0], U32), shape), ctx.reshape(low, shape)
    shifted = ctx.op("BitShift", counter, ctx.const(32, U64), direction="RIGHT")
    return ctx.reshape(ctx.cast(shifted, U32), shape), ctx.reshape(low, shape)


def _counter(ctx: Ctx, shape: Sequence[Dim]) -> ir.Value:
    """0, 1, 2, ... in uint64, one for each element of ``shape``."""
    if all(isinstance(d, int) for d in shape):
        count = math.prod(d for d in shape if isinstance(d, int))
        if count <= _SMALL:
            return ctx.const(range(count), U64)
        size = ctx.const(count, I64)
    else:
        size = ctx.op("ReduceProd", ctx.dims(shape), keepdims=0, shape=())
    index = ctx.op("Range", ctx.const(0, I64), size, ctx.const(1, I64))
    return ctx.cast(index, U64)


@lowers("rng_bit_generator", out_sharding=None)
def rng_bit_generator(
    ctx: Ctx, state: ir.Value, *, shape: Sequence[Dim], dtype: Any, algorithm: Any
) -> Sequence[ir.Value]:
    """The bits that XLA draws on a CPU, where the default generator is Philox.

    The state is two uint64, or their halves as four uint32: the key, and a counter that advances by the
    number of blocks drawn.
    """
    if not all(isinstance(d, int) for d in shape):
        raise ctx.unsupported(f"bits of the symbolic shape {tuple(shape)}", "Draw a fixed number of bits.")
    sizes = [int(d) for d in shape]
    wide = ctx.outs[1].dtype == U64
    first, second, counter = _state(ctx, state)
    draw = _threefry_bits if int(algorithm) == _THREE_FRY else _philox_bits
    bits, blocks = draw(ctx, first, second, counter, sizes, wide)
    moved = ctx.op("Add", counter, ctx.const([blocks], U64))
    if ctx.dtype(state) == U64:
        parts = [ctx.slice(state, [0], [1], [0], shape=(1,)), moved]
    else:
        parts = [ctx.slice(state, [0], [2], [0], shape=(2,)), *_halves(ctx, moved)]
    new_state = ctx.op("Concat", *parts, axis=0, shape=ctx.outs[0].shape)
    return new_state, ctx.cast(bits, ctx.outs[1].dtype)


def _state(ctx: Ctx, state: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    """(low word of the key, high word, counter), each of shape [1]."""
    count = 2 if ctx.dtype(state) == U64 else 4
    parts = [ctx.slice(state, [i], [i + 1], [0], shape=(1,)) for i in range(count)]
    if count == 2:
        return (*_halves(ctx, parts[0]), parts[1])
    return parts[0], parts[1], _whole(ctx, parts[2], parts[3])


def _halves(ctx: Ctx, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The low and the high words of uint64."""
    high = ctx.op("BitShift", x, ctx.const(32, U64), direction="RIGHT")
    return ctx.cast(x, U32), ctx.cast(high, U32)


def _whole(ctx: Ctx, low: ir.Value, high: ir.Value) -> ir.Value:
    """uint64 of its low and high words."""
    shifted = ctx.op("BitShift", ctx.cast(high, U64), ctx.const(32, U64), direction="LEFT")
    return ctx.op("BitwiseOr", ctx.cast(low, U64), shifted, since=18)


def _threefry_bits(
    ctx: Ctx, k0: ir.Value, k1: ir.Value, counter: ir.Value, shape: list[int], wide: bool
) -> tuple[ir.Value, int]:
    """Bits and the number of blocks: the two words of a block are neighbours along the first even axis."""
    axis = 0
    if shape and not wide:
        even = [i for i, d in enumerate(shape) if d % 2 == 0]
        axis = even[0] if even else shape.index(max(shape))
    half = [-(-d // 2) if i == axis and not wide else d for i, d in enumerate(shape or [1])]
    blocks = math.prod(half)
    index = ctx.reshape(ctx.op("Add", counter, _counter(ctx, [blocks])), half)
    aval = Aval(tuple(half), U32)
    function = define(ctx, "threefry2x32", _threefry, "threefry2x32", (U32,) * 4)
    low, high = call(ctx, function, (k0, k1, *_halves(ctx, index)), (aval, aval))
    if wide:
        return ctx.reshape(_whole(ctx, low, high), shape), blocks
    if not shape:
        return ctx.reshape(low, ()), blocks
    pairs = [ctx.unsqueeze(low, [axis + 1]), ctx.unsqueeze(high, [axis + 1])]
    full = [2 * d if i == axis else d for i, d in enumerate(half)]
    both = (*half[: axis + 1], 2, *half[axis + 1 :])
    bits = ctx.reshape(ctx.op("Concat", *pairs, axis=axis + 1, shape=both), full)
    if full != shape:
        bits = ctx.slice(bits, [0], [shape[axis]], [axis], shape=tuple(shape))
    return bits, blocks


def _philox_bits(
    ctx: Ctx, k0: ir.Value, k1: ir.Value, counter: ir.Value, shape: list[int], wide: bool
) -> tuple[ir.Value, int]:
    """Bits and the number of blocks: the four words of a block are neighbours in row-major order."""
    count = math.prod(shape)
    blocks = -(-count * (2 if wide else 1) // 4)
    index = ctx.op("Add", counter, _counter(ctx, [blocks]))
    carried = ctx.cast(ctx.op("Less", index, counter), U64)
    high = ctx.op("Add", _whole(ctx, k0, k1), carried)
    aval = Aval((blocks,), U32)
    function = define(ctx, "philox4x32", _philox, "philox4x32", (U32,) * 6)
    words = call(ctx, function, (k0, k1, *_halves(ctx, index), *_halves(ctx, high)), (aval,) * 4)
    if wide:
        words = [_whole(ctx, words[0], words[1]), _whole(ctx, words[2], words[3])]
    columns = [ctx.unsqueeze(w, [1]) for w in words]
    stacked = ctx.op("Concat", *columns, axis=1, shape=(blocks, len(columns)))
    bits = ctx.reshape(stacked, [blocks * len(columns)])
    if blocks * len(columns) != count:
        bits = ctx.slice(bits, [0], [count], [0], shape=(count,))
    return ctx.reshape(bits, shape), blocks


def _philox(ctx: Ctx, _scope: FunctionScope, operands: Sequence[ir.Value]) -> list[ir.Value]:
    """Ten rounds of Philox4x32."""
    k0, k1, *x = operands
    for i in range(10):
        if i:
            k0 = ctx.op("Add", k0, ctx.const(_WEYL[0], U32))
            k1 = ctx.op("Add", k1, ctx.const(_WEYL[1], U32))
        low0, high0 = _halves(ctx, ctx.op("Mul", ctx.cast(x[0], U64), ctx.const(_PHILOX[0], U64)))
        low1, high1 = _halves(ctx, ctx.op("Mul", ctx.cast(x[2], U64), ctx.const(_PHILOX[1], U64)))
        x = [_xor(ctx, high1, x[1], k0), low1, _xor(ctx, high0, x[3], k1), low0]
    return x


def _xor(ctx: Ctx, *values: ir.Value) -> ir.Value:
    out = values[0]
    for value in values[1:]:
        out = ctx.op("BitwiseXor", out, value, since=18)
    return out


not_lowered("its bits depend on the backend's own state", "rng_uniform")
