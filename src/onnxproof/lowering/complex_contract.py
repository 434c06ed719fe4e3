"""Products and convolutions of complex arrays, by products and convolutions of reals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import jax.numpy as jnp
import numpy as np
import onnx_ir as ir
from jax import lax

from onnxproof.capture.program import Aval
from onnxproof.lowering import contract as contract
from onnxproof.lowering import conv as conv
from onnxproof.lowering.emit import F64, Ctx
from onnxproof.lowering.pairs import pack, under_contract_of, whole_parts


@under_contract_of("dot_general")
def dot_general(
    ctx: Ctx, x: ir.Value, y: ir.Value, *, dimension_numbers: Any, precision: Any, preferred_element_type: Any
) -> ir.Value:
    """One product of reals.

    Pairs of ``x`` are contracted with the 2x2 matrices that stand for numbers of ``y``; where the result is smaller
    than these, as of a vector and a matrix, all products of parts are taken, and added up after.
    """
    numbers = tuple(tuple(tuple(int(d) for d in side) for side in part) for part in dimension_numbers)
    work = max((a.part.dtype for a in (*ctx.ins, ctx.out) if a.is_complex or a.dtype == F64), key=_size)
    values = [ctx.cast(v, work) for v in (x, y)]
    spelled = _paired_dot(numbers, precision, ctx.ins[0].is_complex, ctx.ins[1].is_complex)
    many, few = ctx.ins[1].size, ctx.out.size
    if all(a.is_complex for a in ctx.ins) and many is not None and few is not None and few < many:
        spelled = _dot_of_parts(numbers, precision)
    (result,) = ctx.jax(spelled, *values, avals=[Aval(a.stored.shape, work) for a in ctx.ins])
    return ctx.cast(result, ctx.out.part.dtype)


def _size(dtype: np.dtype[Any]) -> int:
    return dtype.itemsize


@lru_cache(maxsize=256)
def _paired_dot(numbers: Any, precision: Any, *is_complex: bool) -> Callable[..., Any]:
    (cx, cy), batch = numbers

    def dot(*operands: Any) -> Any:
        x, y = (
            v if pairs else jnp.stack([v, jnp.zeros_like(v)], -1)
            for v, pairs in zip(operands, is_complex, strict=True)
        )
        turned = jnp.stack([-y[..., 1], y[..., 0]], -1)
        matrices = jnp.stack([y, turned], -2)
        contracted = (*cx, x.ndim - 1), (*cy, y.ndim - 1)
        return lax.dot_general(x, matrices, (contracted, batch), precision=precision)

    return dot


@lru_cache(maxsize=256)
def _dot_of_parts(numbers: Any, precision: Any) -> Callable[..., Any]:
    def dot(x: Any, y: Any) -> Any:
        product = lax.dot_general(x, y, numbers, precision=precision)
        axis = x.ndim - 1 - len(numbers[0][0])  # that of the parts of x; those of y come last
        re, im = (lax.index_in_dim(product, i, axis, keepdims=False) for i in (0, 1))
        return jnp.stack([re[..., 0] - im[..., 1], re[..., 1] + im[..., 0]], -1)

    return dot


@under_contract_of("conv_general_dilated")
def conv_general_dilated(
    ctx: Ctx, x: ir.Value, w: ir.Value, *, window_strides: Sequence[int], **params: Any
) -> ir.Value:
    """Three convolutions, of the sums of parts that JAX takes (C. F. Gauss)."""
    params["window_strides"] = tuple(window_strides)
    params["preferred_element_type"] = ctx.out.part.dtype
    values, avals = whole_parts(ctx, (x, w), ctx.ins)
    re, im = ctx.jax(_paired_conv(tuple(sorted(params.items()))), *values, avals=avals)
    return pack(ctx, re, im, ctx.out.shape)


@lru_cache(maxsize=256)
def _paired_conv(params: tuple[tuple[str, Any], ...]) -> Callable[..., Any]:
    def one(x: Any, w: Any) -> Any:
        return lax.conv_general_dilated(x, w, **dict(params))

    def conv(x_re: Any, x_im: Any, w_re: Any, w_im: Any) -> Any:
        shared = one(x_re + x_im, w_re)
        return shared - one(x_im, w_re + w_im), shared + one(x_re, w_im - w_re)

    return conv
