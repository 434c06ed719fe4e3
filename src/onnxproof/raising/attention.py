"""Scaled dot-product attention over [batch, sequence, heads, width], without a mask.

The native operator takes that layout with its heads joined, so that nothing is transposed: 1.2 to 3 times faster.
With a mask or a bias it gives zeros for a row of nothing but -inf, where JAX gives NaN or a mean, and it lets NaN
through where JAX's mask hides it; such attention stays spelled out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import onnx_ir as ir

from onnxproof.capture.program import Atom, Aval, Eqn, Lit
from onnxproof.lowering.emit import Ctx
from onnxproof.raising.composite import Candidate, Params, Variant, composite

Scores = Callable[..., jax.Array]


def _product(q: jax.Array, k: jax.Array) -> jax.Array:
    return jnp.einsum("bqhd,bkhd->bhqk", q, k)


def _blended(scores: jax.Array, v: jax.Array) -> jax.Array:
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, -1), v)


def _plain(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    return _blended(_product(q, k), v)


def _multiplied(q: jax.Array, k: jax.Array, v: jax.Array, scale: jax.Array) -> jax.Array:
    return _blended(_product(q, k) * scale, v)


def _divided(q: jax.Array, k: jax.Array, v: jax.Array, scale: jax.Array) -> jax.Array:
    return _blended(_product(q, k) / scale, v)


def _mapped(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    """Of one sequence, mapped over the batch."""

    def one(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        scores = jnp.einsum("shd,Shd->hsS", q, k)
        return jnp.einsum("hsS,Shd->shd", jax.nn.softmax(scores, -1), v)

    return jax.vmap(one)(q, k, v)


def _mapped_heads(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    """Of one head of one sequence, mapped over both, as Equinox's module is."""

    def one(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        return jnp.einsum("sS,Sd->sd", jax.nn.softmax(jnp.einsum("sd,Sd->sS", q, k), -1), v)

    return jax.vmap(jax.vmap(one, in_axes=1, out_axes=1))(q, k, v)


def _of_jax(q: jax.Array, k: jax.Array, v: jax.Array, scale: Any) -> jax.Array:
    return jax.nn.dot_product_attention(q, k, v, scale=scale)


def _made_by(candidate: Candidate, atom: Atom, *primitives: str) -> Eqn | None:
    """The nearest equation above ``atom`` that is none of ``primitives``."""
    while True:
        eqn = candidate.makers.get(atom)  # type: ignore[arg-type]
        if eqn is None or eqn.primitive not in primitives:
            return eqn
        atom = next((a for a in eqn.inputs if not isinstance(a, Lit)), eqn.inputs[0])


def _operands(candidate: Candidate) -> tuple[Aval, Aval, Aval] | None:
    """(query, key, value) of what has the form of attention above, as the products have them."""
    last = _made_by(candidate, candidate.root.outputs[0], "transpose", "reshape")
    if last is None or last.primitive != "dot_general":
        return None
    for weights, value in (last.inputs, last.inputs[::-1]):
        weighed = candidate.maker(weights, "div")
        exp = candidate.maker(weighed.inputs[0], "exp") if weighed is not None else None
        shifted = candidate.maker(exp.inputs[0], "sub") if exp is not None else None
        if shifted is not None:
            first = _made_by(candidate, shifted.inputs[0], "transpose", "reshape", "mul", "div")
            if first is not None and first.primitive == "dot_general":
                q, k = (a.aval for a in first.inputs)
                return q, k, value.aval
    return None


def _suitable(candidate: Candidate, rank: int) -> tuple[Aval, Aval, Aval] | None:
    """float32 operands with static heads and widths, none of them empty."""
    out = candidate.out
    if out.ndim != 4 or out.dtype.name != "float32":
        return None
    avals = _operands(candidate)
    if avals is None or any(a.dtype != out.dtype or 0 in a.shape for a in avals):
        return None
    ranks = (rank, 4, 4)
    static = all(isinstance(d, int) for a in avals for d in a.shape[2:])
    return avals if static and tuple(a.ndim for a in avals) == ranks else None


def _unscaled(candidate: Candidate) -> Iterable[Variant]:
    avals = _suitable(candidate, 4)
    if avals is not None:
        yield Variant(avals)


def _scaled(candidate: Candidate) -> Iterable[Variant]:
    avals = _suitable(candidate, 4)
    if avals is not None:
        yield Variant((*avals, Aval((), candidate.out.dtype)))


def _grouped(candidate: Candidate) -> Iterable[Variant]:
    """``dot_product_attention`` splits the heads of the query by those of the key."""
    avals = _suitable(candidate, 5)
    if avals is not None:
        q, k, v = avals
        joined = Aval((*q.shape[:2], candidate.out.shape[2], q.shape[4]), q.dtype)
        yield Variant((joined, k, v, Aval((), q.dtype)))


def _scale(inverse: bool) -> Callable[[Any, Params], tuple[Any, Params] | None]:
    def bind(operands: Any, params: Params) -> tuple[Any, Params] | None:
        scale = operands[-1]
        if not isinstance(scale, Lit) or not float(scale.value) > 0:
            return None
        factor = float(scale.value)
        return operands[:-1], {**params, "scale": 1 / factor if inverse else factor}

    return bind


def _joined(ctx: Ctx, value: ir.Value) -> ir.Value:
    """[batch, sequence, heads * width]."""
    shape = ctx.shape(value) or ()
    flat = (*shape[:2], int(shape[2]) * int(shape[3]))
    node = value.producer()
    if node is not None and node.op_type == "Reshape" and node.inputs[0] is not None:
        source = node.inputs[0]
        if ctx.shape(source) == flat:
            return source
    return ctx.reshape(value, flat)


def _native(ctx: Ctx, q: ir.Value, k: ir.Value, v: ir.Value, scale: float) -> ir.Value:
    heads, groups = (int((ctx.shape(x) or ())[2]) for x in (q, k))
    out = ctx.out.shape
    y = ctx.op(
        "Attention",
        *(_joined(ctx, x) for x in (q, k, v)),
        q_num_heads=heads,
        kv_num_heads=groups,
        scale=scale,
        shape=(*out[:2], int(out[2]) * int(out[3])),
    )
    return ctx.reshape(y, out)


@composite(
    "attention_plain",
    references=[_plain, _mapped, _mapped_heads],
    root=("transpose", "reshape"),  # of a single position, only unit axes move
    anchor="exp",
    specs=_unscaled,
    min_opset=23,
    max_opset=24,
)
def attention_plain(ctx: Ctx, q: ir.Value, k: ir.Value, v: ir.Value) -> ir.Value:
    return _native(ctx, q, k, v, 1.0)


@composite(
    "attention_multiplied",
    references=[_multiplied],
    root=("transpose", "reshape"),  # of a single position, only unit axes move
    anchor="exp",
    specs=_scaled,
    bind=_scale(inverse=False),
    min_opset=23,
    max_opset=24,
)
def attention_multiplied(ctx: Ctx, q: ir.Value, k: ir.Value, v: ir.Value, *, scale: float) -> ir.Value:
    return _native(ctx, q, k, v, scale)


@composite(
    "attention_divided",
    references=[_divided],
    root=("transpose", "reshape"),  # of a single position, only unit axes move
    anchor="exp",
    specs=_scaled,
    bind=_scale(inverse=True),
    min_opset=23,
    max_opset=24,
)
def attention_divided(ctx: Ctx, q: ir.Value, k: ir.Value, v: ir.Value, *, scale: float) -> ir.Value:
    return _native(ctx, q, k, v, scale)


@composite(
    "attention_of_jax",
    references=[_of_jax],
    root="reshape",
    anchor="exp",
    specs=_grouped,
    bind=_scale(inverse=False),
    min_opset=23,
    max_opset=24,
)
def attention_of_jax(ctx: Ctx, q: ir.Value, k: ir.Value, v: ir.Value, *, scale: float) -> ir.Value:
    return _native(ctx, q, k, v, scale)
