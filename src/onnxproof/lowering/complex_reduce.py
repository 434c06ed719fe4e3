"""Reductions, running reductions, sorts and combining scatters of complex values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
import onnx_ir as ir
from jax import lax

from onnxproof.capture.program import Program
from onnxproof.lowering import reduce as _reduce
from onnxproof.lowering import scatter as scatter
from onnxproof.lowering import sort as _sort
from onnxproof.lowering import window as window
from onnxproof.lowering.complex_arithmetic import max_, min_
from onnxproof.lowering.complex_products import mul
from onnxproof.lowering.emit import Ctx
from onnxproof.lowering.monoid import named
from onnxproof.lowering.pairs import (
    Z,
    apply,
    by_whole_parts,
    flat_avals,
    joined,
    split_program,
    trailing,
    under_contract_of,
    whole_parts,
)
from onnxproof.lowering.registry import RULES

_ONE, _LEAST, _GREATEST = 1 + 0j, complex(-np.inf, -np.inf), complex(np.inf, np.inf)
Combine = Callable[[Z, Z], Z]


# -- reductions with a computation --------------------------------------------------------------------


@under_contract_of("reduce", "reduce_window")
def reduce(ctx: Ctx, *operands: ir.Value, jaxpr: Program, **params: Any) -> Sequence[ir.Value]:
    """A sum is one of pairs; other computations run on the parts as operands of their own."""
    name = ctx.eqn.primitive
    if named(jaxpr) == "add":
        if name == "reduce":
            view = ctx.viewed([a.stored for a in ctx.ins], [a.stored for a in ctx.outs], {})
            return _reduce.reduce(view, *operands, jaxpr=jaxpr, **params)
        sums: Sequence[ir.Value] = trailing(ctx, *operands, jaxpr=jaxpr, **params)
        return sums
    values, avals = whole_parts(ctx, operands, ctx.ins)
    view = ctx.viewed(avals, flat_avals(ctx.outs), {})
    results = RULES[name].rule(view, *values, jaxpr=split_program(ctx, jaxpr), **params)
    return joined(ctx, results, ctx.outs)


def _reduced(z: Z, start: complex, combine: Combine, axes: Sequence[int]) -> Z:
    starts = Z(z.re.dtype.type(start.real), z.im.dtype.type(start.imag))

    def step(a: Any, b: Any) -> Any:
        return tuple(combine(Z(*a), Z(*b)))

    return Z(*lax.reduce(tuple(z), tuple(starts), step, tuple(axes)))


@by_whole_parts("reduce_prod", out_sharding=None)
def reduce_prod(z: Z, *, axes: Sequence[int]) -> Z:
    return _reduced(z, _ONE, mul, axes)


@by_whole_parts("reduce_max", out_sharding=None)
def reduce_max(z: Z, *, axes: Sequence[int]) -> Z:
    return _reduced(z, _LEAST, max_, axes)


@by_whole_parts("reduce_min", out_sharding=None)
def reduce_min(z: Z, *, axes: Sequence[int]) -> Z:
    return _reduced(z, _GREATEST, min_, axes)


# -- running reductions -------------------------------------------------------------------------------


def _running(z: Z, start: complex, combine: Combine, axis: int, reverse: bool) -> Z:
    """Logarithmically many steps over a known length, one step for each element of a symbolic one."""
    if isinstance(z.re.shape[axis], int):
        result: Z = lax.associative_scan(combine, z, reverse=reverse, axis=axis)
        return result

    def step(total: Z, item: Z) -> tuple[Z, Z]:
        new = combine(total, item)
        return new, new

    items = Z(*(jnp.moveaxis(v, axis, 0) for v in z))
    first = Z(jnp.full_like(items.re[0], start.real), jnp.full_like(items.im[0], start.imag))
    _, totals = lax.scan(step, first, items, reverse=reverse)
    return Z(*(jnp.moveaxis(v, 0, axis) for v in totals))


@by_whole_parts("cumprod")
def cumprod(z: Z, *, axis: int, reverse: bool) -> Z:
    return _running(z, _ONE, mul, axis, reverse)


@by_whole_parts("cummax")
def cummax(z: Z, *, axis: int, reverse: bool) -> Z:
    return _running(z, _LEAST, max_, axis, reverse)


@by_whole_parts("cummin")
def cummin(z: Z, *, axis: int, reverse: bool) -> Z:
    return _running(z, _GREATEST, min_, axis, reverse)


def _windowed(name: str, start: complex, combine: Combine) -> None:
    def rule(z: Z, *, window_dimensions: Any, window_strides: Any, padding: Any, base_dilation: Any,
             window_dilation: Any) -> Z:  # fmt: skip
        starts = (z.re.dtype.type(start.real), z.im.dtype.type(start.imag))

        def step(a: Any, b: Any) -> Any:
            return tuple(combine(Z(*a), Z(*b)))

        return Z(*lax.reduce_window(
            tuple(z), starts, step, window_dimensions, window_strides, padding, base_dilation, window_dilation,
        ))  # fmt: skip

    by_whole_parts(name)(rule)


_windowed("reduce_window_max", _LEAST, max_)
_windowed("reduce_window_min", _GREATEST, min_)


# -- sort ---------------------------------------------------------------------------------------------


@under_contract_of("sort")
def sort(ctx: Ctx, *operands: ir.Value, dimension: int, num_keys: int) -> Sequence[ir.Value]:
    """Lexicographic: the parts of a key are two keys."""
    values, avals = whole_parts(ctx, operands, ctx.ins)
    view = ctx.viewed(avals, avals, {})
    keys = len(flat_avals(ctx.ins[:num_keys]))
    return joined(ctx, _sort.sort(view, *values, dimension=dimension, num_keys=keys), ctx.outs)


# -- scatters that combine ------------------------------------------------------------------------------


def _scattered(operand: Z, indices: Any, updates: Z, *, combine: Combine, numbers: Any, mode: Any) -> Z:
    """One update after another: the old window, combined with the update, takes its place."""
    window, dropped = tuple(numbers.update_window_dims), tuple(numbers.inserted_window_dims)
    batch = [d for d in range(updates.re.ndim) if d not in window]
    lead, inner = tuple(range(len(batch))), tuple(range(len(window)))
    sizes = tuple(updates.re.shape[d] for d in window)
    items = Z(*(jnp.moveaxis(v, batch, lead).reshape(-1, *sizes) for v in updates))
    starts = indices.reshape(-1, indices.shape[-1])
    at = tuple(numbers.scatter_dims_to_operand_dims)
    reading = lax.GatherDimensionNumbers(inner, dropped, at)
    writing = lax.ScatterDimensionNumbers(inner, dropped, at)
    rest = iter(sizes)
    slices = tuple(1 if d in dropped else next(rest) for d in range(operand.re.ndim))

    def step(total: Z, item: tuple[Any, Z]) -> tuple[Z, None]:
        start, update = item
        old = Z(*(lax.gather(v, start, reading, slices, mode="clip") for v in total))
        new = zip(total, combine(old, update), strict=True)
        return Z(*(lax.scatter(v, start, w, writing, mode=mode) for v, w in new)), None

    result: Z = lax.scan(step, operand, (starts, items))[0]
    return result


def _combining(primitive: str, combine: Combine) -> None:
    @under_contract_of(primitive)
    def rule(
        ctx: Ctx, *operands: ir.Value, dimension_numbers: Any, mode: Any, **params: Any
    ) -> Sequence[ir.Value]:
        del params  # the computation is the primitive's own, promises on indices change nothing
        if dimension_numbers.operand_batching_dims:
            raise ctx.unsupported("batching dimensions on complex values")
        spelled = {"combine": combine, "numbers": dimension_numbers, "mode": mode}
        return apply(ctx, _scattered, operands, spelled, elementwise=False)


_combining("scatter-mul", mul)
_combining("scatter-max", max_)
_combining("scatter-min", min_)
