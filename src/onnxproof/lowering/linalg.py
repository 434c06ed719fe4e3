"""Dense linear algebra: what its rules share, Cholesky and symmetric products.

Each rule is a JAX function of one matrix, mapped over the leading dimensions and lowered by the other rules, with
a bounded loop over columns: the graph has the same few dozen nodes at every size, and the batch and the sizes that
no loop needs to know may be symbolic. The function is the same for real and complex matrices.

Factorizations are computed in float64 or complex128 and rounded once. For single precision that costs a few casts
and makes the results those of exact arithmetic on well-conditioned matrices; what is left of a difference is
LAPACK's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as ir
from jax import lax

from onnxproof.capture.program import Dim, SymDim
from onnxproof.lowering.emit import F64, Ctx
from onnxproof.lowering.registry import lowers, lowers_complex

Array = Any
_LARGEST_EXPONENT = 1000.0  # of a power of two whose inverse is a normal float64


def in_double(ctx: Ctx, fn: Callable[..., Any], *operands: ir.Value) -> list[ir.Value]:
    """Lower a JAX function on ``operands``, of double precision; its results get the dtypes of the equation."""
    if all(0 in a.shape for a in ctx.outs):
        return [ctx.expand(ctx.const(0, a.dtype), a.shape) for a in (b.stored for b in ctx.outs)]
    avals = [replace(a, dtype=_wide(a.dtype)) for a in ctx.ins]
    wide = [ctx.cast(v, a.part.dtype) for v, a in zip(operands, avals, strict=True)]
    results = ctx.jax(fn, *wide, avals=avals)
    return [ctx.cast(v, a.part.dtype) for v, a in zip(results, ctx.outs, strict=True)]


def _wide(dtype: Any) -> np.dtype[Any]:
    if jnp.issubdtype(dtype, jnp.complexfloating):
        return np.dtype(np.complex128)
    return F64 if jnp.issubdtype(dtype, jnp.floating) else np.dtype(dtype)


def is_double(ctx: Ctx) -> bool:
    """Whether the first operand has no wider format, so that its extremes have to be kept in range."""
    return ctx.ins[0].part.dtype == F64


def known_sizes(ctx: Ctx, *sizes: Dim) -> None:
    """Raise unless the sizes of the matrix are integers."""
    if any(isinstance(d, SymDim) for d in sizes):
        raise ctx.unsupported(
            "a matrix of this symbolic size can't be lowered: the algorithm is laid out for one size",
            "Give the last two dimensions as integers; the leading ones may be symbolic.",
        )


def each(fn: Callable[..., Any], *arrays: Array, ranks: Sequence[int] = (2,)) -> Any:
    """``fn`` on each matrix or vector of ``arrays``, whose last ``ranks`` axes it takes."""
    lead = arrays[0].shape[: arrays[0].ndim - ranks[0]]
    if not lead:
        return fn(*arrays)
    size = math.prod(lead)
    flat = [x.reshape((size, *x.shape[len(lead) :])) for x in arrays]
    return jax.tree.map(lambda x: x.reshape((*lead, *x.shape[1:])), jax.vmap(fn)(*flat))


@lru_cache(maxsize=256)
def spelled(fn: Callable[..., Any], *options: Any) -> Callable[..., Any]:
    """``fn`` with its options: the same object each time, so that one trace serves every use of a model."""
    return partial(fn, *options)


@lru_cache(maxsize=256)
def mapped(fn: Callable[..., Any], *options: Any, ranks: tuple[int, ...] = (2,)) -> Callable[..., Any]:
    """``fn``, a function of one matrix after its options, on batches of them; see :func:`each`."""
    return partial(each, partial(fn, *options), ranks=ranks)


def indices(x: Array, axis: int = 0) -> Array:
    """0, 1, ... along an axis."""
    return lax.iota(jnp.int64, x.shape[axis])


def below(shape: Sequence[Any]) -> Array:
    """Where a matrix of this shape is strictly below its diagonal."""
    rows, columns = (lax.broadcasted_iota(jnp.int64, tuple(shape), axis) for axis in (0, 1))
    return rows > columns


def at(x: Array, index: Array, axis: int = 0) -> Array:
    """``x`` at an index, or a vector of them, known to lie inside of it; the axis becomes that of the vector."""
    offsets = tuple(d + (index.ndim if d >= axis else 0) for d in range(x.ndim - 1))
    return lax.gather(
        x,
        index[..., None],
        lax.GatherDimensionNumbers(offsets, collapsed_slice_dims=(axis,), start_index_map=(axis,)),
        (*x.shape[:axis], 1, *x.shape[axis + 1 :]),
        mode="promise_in_bounds",
    )


def squared(x: Array) -> Array:
    """The square of the absolute value."""
    return x.real * x.real + x.imag * x.imag if jnp.iscomplexobj(x) else x * x


def size_of(x: Array) -> Array:
    """The absolute value, or the sum of those of the parts, by which LAPACK compares complex numbers."""
    return jnp.abs(x.real) + jnp.abs(x.imag) if jnp.iscomplexobj(x) else jnp.abs(x)


def by_part(fn: Callable[[Array], Array], x: Array) -> Array:
    """A real function of the real and the imaginary part."""
    return lax.complex(fn(x.real), fn(x.imag)) if jnp.iscomplexobj(x) else fn(x)


def conj(x: Array) -> Array:
    """The complex conjugate; reals as they are."""
    return lax.conj(x) if jnp.iscomplexobj(x) else x


def over(x: Array, number: Array) -> Array:
    """``x`` divided by one number: by one quotient where those are costly."""
    return x * (1 / number) if jnp.iscomplexobj(x) else x / number


def nan_unless(ok: Array, x: Array) -> Array:
    """``x`` where it is ok, elsewhere NaN, in both parts of complex numbers."""
    return jnp.where(ok, x, complex(jnp.nan, jnp.nan) if jnp.iscomplexobj(x) else jnp.nan)


def outer(x: Array, y: Array) -> Array:
    """All products of two vectors; of complex ones it is a matrix product that keeps the parts together."""
    return x[:, None] @ y[None] if jnp.iscomplexobj(x) else x[:, None] * y


def hermitian(lower: bool, a: Array) -> Array:
    """The symmetric or Hermitian matrix of one triangle; imaginary parts on the diagonal are taken to be 0."""
    n = a.shape[0]
    whole = jnp.where(jnp.tri(n, k=0 if lower else -1, dtype=bool) == lower, a, conj(a.T))
    if not jnp.iscomplexobj(a):
        return whole
    return lax.complex(whole.real, jnp.where(jnp.eye(n, dtype=bool), 0.0, whole.imag))


def with_real_diagonal(a: Array, depth: int = 0) -> Array:
    """``a`` without what rounding left as the imaginary part of a diagonal, ``depth`` below the main one."""
    if not jnp.iscomplexobj(a):
        return a
    there = indices(a)[:, None] == indices(a, 1) + depth
    return lax.complex(a.real, jnp.where(there, 0.0, a.imag))


def scale_of(a: Array) -> Array:
    """A power of two near the largest size of a part, which keeps squares in range; 1 for 0, inf and NaN."""
    size = jnp.maximum(jnp.abs(a.real), jnp.abs(a.imag)) if jnp.iscomplexobj(a) else jnp.abs(a)
    largest = jnp.max(size, initial=0.0)
    usable = (largest > 0) & (largest < jnp.inf)
    exponent = jnp.floor(jnp.log2(jnp.where(usable, largest, 1.0)))
    return jnp.exp2(jnp.clip(exponent, -_LARGEST_EXPONENT, _LARGEST_EXPONENT))


# -- Cholesky ---------------------------------------------------------------------------------


@lowers_complex("cholesky")
@lowers("cholesky")
def cholesky(ctx: Ctx, a: ir.Value) -> ir.Value:
    """Right-looking, a column at a time, from the lower triangle alone.

    A pivot of 0 or below makes the whole factor NaN; a NaN of the input only what depends on it, as in LAPACK.
    """
    return in_double(ctx, mapped(_cholesky), a)[0]


def _cholesky(a: Array) -> Array:
    rows = indices(a)

    def step(rest: Array, k: Array) -> tuple[Array, tuple[Array, Array]]:
        column = at(rest, k, 1)
        square = at(column, k).real
        root = jnp.sqrt(square)
        column = jnp.where(rows >= k, by_part(lambda x: x / root, column), 0.0)
        return rest - outer(column, conj(column)), (column, square)

    _, (columns, squares) = lax.scan(step, a, rows)
    return jnp.where(jnp.any(squares <= 0), jnp.nan, with_real_diagonal(columns).T)


@lowers("cholesky_update")
def cholesky_update(ctx: Ctx, r: ir.Value, w: ir.Value) -> ir.Value:
    """The factor of ``r.T @ r + w w.T``: one Givens rotation for each row."""
    return in_double(ctx, mapped(_cholesky_update, ranks=(2, 1)), r, w)[0]


def _cholesky_update(r: Array, w: Array) -> Array:
    def step(w: Array, item: tuple[Array, Array]) -> tuple[Array, Array]:
        k, row = item
        x, y = at(row, k), at(w, k)
        size = jnp.maximum(jnp.abs(x), jnp.abs(y))
        x, y = x / size, y / size
        length = jnp.sqrt(x * x + y * y)
        still = y == 0
        c = jnp.where(still, 1.0, x / length)
        s = jnp.where(still, 0.0, y / length)
        return c * w - s * row, c * row + s * w

    return lax.scan(step, w, (indices(r), r))[1]


# -- products ---------------------------------------------------------------------------------


@lowers("symmetric_product")
def symmetric_product(ctx: Ctx, a: ir.Value, c: ir.Value, *, alpha: float, beta: float) -> ir.Value:
    return ctx.jax(spelled(_symmetric_product, float(alpha), float(beta)), a, c)[0]


def _symmetric_product(alpha: float, beta: float, a: Array, c: Array) -> Array:
    product = alpha * lax.dot_general(a, a, (((a.ndim - 1,), (a.ndim - 1,)), (tuple(range(a.ndim - 2)),) * 2))
    return product if beta == 0 else product + beta * c
