"""Random bits, equal to JAX's bit for bit.

Samplers and key arithmetic arrive here as ``threefry2x32`` and integer operations: ``capture.keys`` sees to that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from onnxproof.capture.program import Dim, SymDim
from onnxproof.lowering.emit import I64, U32, U64, Ctx
from onnxproof.lowering.function import FunctionScope, call, define
from onnxproof.lowering.registry import ANY, lowers, not_lowered

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))  # Salmon et al. 2011, table 3
_PARITY = 0x1BD11BDA  # the key schedule's constant, same paper
_SMALL = 1024  # elements of a counter that is stored rather than computed


@lowers("threefry2x32")
def threefry2x32(
    ctx: Ctx, k0: ir.Value, k1: ir.Value, x0: ir.Value, x1: ir.Value
) -> Sequence[ir.Value]:
    """The block cipher, as a function of the model: 115 nodes that all draws share."""
    function = define(ctx, "threefry2x32", _threefry, "threefry2x32", (U32,) * 4)
    return call(ctx, function, (k0, k1, x0, x1), ctx.outs)


def _threefry(ctx: Ctx, _scope: FunctionScope, operands: Sequence[ir.Value]) -> list[ir.Value]:
    k0, k1, x0, x1 = operands
    k2 = ctx.op("BitwiseXor", ctx.op("BitwiseXor", k0, k1), ctx.const(_PARITY, U32), since=18)
    schedule = (k0, k1, k2)
    x0, x1 = ctx.op("Add", x0, k0), ctx.op("Add", x1, k1)
    for i in range(5):
        for distance in _ROTATIONS[i % 2]:
            x0 = ctx.op("Add", x0, x1)
            x1 = ctx.op("BitwiseXor", _rotate(ctx, x1, distance), x0)
        x0 = ctx.op("Add", x0, schedule[(i + 1) % 3])
        injected = ctx.op("Add", schedule[(i + 2) % 3], ctx.const(i + 1, U32))
        x1 = ctx.op("Add", x1, injected)
    return [x0, x1]


def _rotate(ctx: Ctx, x: ir.Value, distance: int) -> ir.Value:
    left = ctx.op("BitShift", x, ctx.const(distance, U32), direction="LEFT")
    right = ctx.op("BitShift", x, ctx.const(32 - distance, U32), direction="RIGHT")
    return ctx.op("BitwiseOr", left, right)


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
        size = ctx.const(math.prod(d for d in shape if isinstance(d, int)), I64)
    else:
        size = ctx.op("ReduceProd", ctx.dims(shape), keepdims=0, shape=())
    index = ctx.op("Range", ctx.const(0, I64), size, ctx.const(1, I64))
    return ctx.cast(index, U64)


not_lowered("its bits depend on the backend's own state", "rng_uniform")
