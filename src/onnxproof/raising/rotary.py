"""Rotary position embedding: halves of the last axis, or its even and odd elements, turned by angles.

The native operator is 1.5 to 4 times faster than its parts, and up to 50 times where the parts are interleaved.
"""

from __future__ import annotations

from collections.abc import Iterable

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as ir

from onnxproof.capture.program import Atom, Aval, Dim, Lit, Shape
from onnxproof.lowering.emit import Ctx
from onnxproof.raising.composite import Candidate, Variant, composite


def _turned(a: jax.Array, b: jax.Array, cos: jax.Array, sin: jax.Array) -> tuple[jax.Array, jax.Array]:
    return a * cos - b * sin, b * cos + a * sin


def _halves_split(x: jax.Array, cos: jax.Array, sin: jax.Array) -> jax.Array:
    a, b = jnp.split(x, 2, -1)
    return jnp.concatenate(_turned(a, b, cos, sin), -1)


def _halves_sliced(x: jax.Array, cos: jax.Array, sin: jax.Array) -> jax.Array:
    half = x.shape[-1] // 2
    return jnp.concatenate(_turned(x[..., :half], x[..., half:], cos, sin), -1)


def _cut(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Halves as slices, where indexing would gather: with other axes of symbolic size."""
    half, lead = x.shape[-1] // 2, x.shape[:-1]
    first, second = (jax.lax.slice(x, (*(0,) * len(lead), at), (*lead, at + half)) for at in (0, half))
    return first, second


def _halves_cut(x: jax.Array, cos: jax.Array, sin: jax.Array) -> jax.Array:
    return jnp.concatenate(_turned(*_cut(x), cos, sin), -1)


def _strided(x: jax.Array, cos: jax.Array, sin: jax.Array) -> jax.Array:
    return jnp.stack(_turned(x[..., ::2], x[..., 1::2], cos, sin), -1).reshape(x.shape)


def _paired(x: jax.Array, cos: jax.Array, sin: jax.Array) -> jax.Array:
    pairs = x.reshape(*x.shape[:-1], -1, 2)
    return jnp.stack(_turned(pairs[..., 0], pairs[..., 1], cos, sin), -1).reshape(x.shape)


def _rotated_split(x: jax.Array, cos: jax.Array, sin: jax.Array) -> jax.Array:
    a, b = jnp.split(x, 2, -1)
    return x * cos + jnp.concatenate([-b, a], -1) * sin


def _rotated_sliced(x: jax.Array, cos: jax.Array, sin: jax.Array) -> jax.Array:
    half = x.shape[-1] // 2
    return x * cos + jnp.concatenate([-x[..., half:], x[..., :half]], -1) * sin


def _rotated_cut(x: jax.Array, cos: jax.Array, sin: jax.Array) -> jax.Array:
    a, b = _cut(x)
    return x * cos + jnp.concatenate([-b, a], -1) * sin


def _rotated_moved(x: jax.Array, cos: jax.Array, sin: jax.Array) -> jax.Array:
    """Mapped over the heads, which stand before the sequence in the result and after it in ``x``."""
    a, b = _cut(x)
    turned = jnp.concatenate([(-b).swapaxes(1, 2), a.swapaxes(1, 2)], -1)
    return x.swapaxes(1, 2) * cos + turned * sin


def _sequence_axis(x: Shape, table: Shape) -> int | None:
    """The axis of ``x`` along which the table varies, when it varies along no other but the first and the last."""
    wide: tuple[Dim, ...] = (*(1,) * (len(x) - len(table)), *table)
    lead = len(x) - 3  # axes before (sequence, heads) or (heads, sequence)
    if lead not in (0, 1) or any(w not in (1, d) for w, d in zip(wide[:lead], x, strict=False)):
        return None
    first, second = wide[lead : lead + 2]
    if second == 1 and first == x[lead] and isinstance(x[lead + 1], int):
        return lead
    return lead + 1 if first == 1 and second == x[lead + 1] and isinstance(x[lead], int) else None


def _tables(candidate: Candidate, x: Aval, width: int) -> Iterable[tuple[Atom, Aval]]:
    """Operands of products above that may be the table of cosines or sines, ``width`` wide."""
    seen = set()
    for eqn in candidate.near:
        for atom in eqn.inputs if eqn.primitive == "mul" else ():
            shape = atom.aval.shape
            fits = 0 < len(shape) <= x.ndim and shape[-1] == width and atom.aval.dtype == x.dtype
            if fits and atom.aval not in seen and _sequence_axis(x.shape, shape) is not None:
                seen.add(atom.aval)
                yield atom, atom.aval


def _rotated(candidate: Candidate) -> int | None:
    """The even width of the last axis of a float32 result of rank 3 or 4."""
    out = candidate.out
    width = out.shape[-1] if out.ndim in (3, 4) and out.dtype.name == "float32" else None
    return width if isinstance(width, int) and width % 2 == 0 and width else None


def _half_tables(candidate: Candidate) -> Iterable[Variant]:
    width = _rotated(candidate)
    if width is not None:
        for _, table in _tables(candidate, candidate.out, width // 2):
            yield Variant((candidate.out, table, table))


def _full_tables(candidate: Candidate) -> Iterable[Variant]:
    """Both tables have to repeat themselves after half of the width."""
    width = _rotated(candidate)
    if width is None:
        return
    products = [candidate.maker(a, "mul") for a in candidate.root.inputs]
    tables = [t for p in products if p is not None for t in p.inputs if t.aval != candidate.out]
    if len(tables) != 2 or not all(_repeats(t, candidate) for t in tables):
        return
    for _, table in _tables(candidate, candidate.out, width):
        yield Variant((candidate.out, table, table))


def _moved_tables(candidate: Candidate) -> Iterable[Variant]:
    for variant in _full_tables(candidate):
        x, *tables = variant.operands
        if x.ndim == 4:
            yield Variant((Aval((x.shape[0], x.shape[2], x.shape[1], x.shape[3]), x.dtype), *tables))


_KEEPING = frozenset({"cos", "sin", "convert_element_type", "neg"})


def _repeats(atom: Atom, candidate: Candidate) -> bool:
    """Whether the second half of the last axis is certain to equal the first."""
    if isinstance(atom, Lit):
        if atom.value.ndim == 0 or atom.value.shape[-1] % 2:
            return False
        first, second = np.split(atom.value, 2, -1)
        return bool(np.array_equal(first, second))
    eqn = candidate.makers.get(atom)
    if eqn is None:
        return False
    last = atom.aval.ndim - 1
    match eqn.primitive:
        case "concatenate":
            return eqn.params["dimension"] == last and len(eqn.inputs) == 2 and eqn.inputs[0] is eqn.inputs[1]
        case "tile":
            return bool(eqn.params["reps"][-1] == 2)
        case "reshape":
            source = eqn.inputs[0].aval.shape
            return bool(source) and source[-1] == atom.aval.shape[-1] and _repeats(eqn.inputs[0], candidate)
    return eqn.primitive in _KEEPING and _repeats(eqn.inputs[0], candidate)


def _native(
    ctx: Ctx, x: ir.Value, cos: ir.Value, sin: ir.Value, *, interleaved: bool = False, full: bool = False
) -> ir.Value:
    """The operator, which wants [batch, sequence, heads * width] or [batch, heads, sequence, width]."""
    shape = ctx.shape(x) or ()
    axis, lead = _sequence_axis(shape, ctx.shape(cos) or ()), len(shape) - 3
    batch = shape[0] if lead else 1
    tables = [_table(ctx, t, shape, (batch, shape[axis or 0]), full) for t in (cos, sin)]
    mode = int(interleaved) or None
    if axis == lead:
        heads, width = int(shape[-2]), int(shape[-1])
        joined = (batch, shape[axis], heads * width)
        rows = ctx.reshape(x, joined)
        y = ctx.op("RotaryEmbedding", rows, *tables, interleaved=mode, num_heads=heads, shape=joined)
        return ctx.reshape(y, shape)
    x = x if lead else ctx.unsqueeze(x, [0])
    y = ctx.op("RotaryEmbedding", x, *tables, interleaved=mode, shape=ctx.shape(x))
    return y if lead else ctx.squeeze(y, [0])


def _table(ctx: Ctx, value: ir.Value, x: Shape, sizes: tuple[Dim, Dim], full: bool) -> ir.Value:
    """[batch, sequence, width / 2], from a table that broadcasts to ``x``; of a full one the first half."""
    shape, half = ctx.shape(value) or (), int(x[-1]) // 2
    node = value.producer()
    if node is not None and node.op_type in ("Reshape", "Unsqueeze") and node.inputs[0] is not None:
        source = ctx.shape(node.inputs[0]) or ()
        if source and source[-1] == shape[-1]:
            value = node.inputs[0]  # unit axes come and go
    if full:
        known = ctx.shape(value) or ()
        value = ctx.slice(value, [0], [half], [len(known) - 1], shape=(*known[:-1], half))
    if len(shape) == len(x) == 4 and shape[0] == sizes[0]:
        return ctx.reshape(value, (*sizes, half))
    if ctx.shape(value) != (sizes[1], half):
        value = ctx.reshape(value, (1, sizes[1], half))
    return ctx.reshape(value, (1, sizes[1], half)) if sizes[0] == 1 else ctx.expand(value, (*sizes, half))


@composite(
    "rotary_halves",
    references=[_halves_split, _halves_sliced, _halves_cut],
    root="concatenate",
    anchor="sub",
    specs=_half_tables,
    min_opset=23,
)
def rotary_halves(ctx: Ctx, x: ir.Value, cos: ir.Value, sin: ir.Value) -> ir.Value:
    return _native(ctx, x, cos, sin)


@composite(
    "rotary_interleaved",
    references=[_strided, _paired],
    root="reshape",
    anchor="sub",
    specs=_half_tables,
    min_opset=23,
)
def rotary_interleaved(ctx: Ctx, x: ir.Value, cos: ir.Value, sin: ir.Value) -> ir.Value:
    return _native(ctx, x, cos, sin, interleaved=True)


@composite(
    "rotary_full",
    references=[_rotated_split, _rotated_sliced, _rotated_cut],
    root="add",
    anchor="neg",
    specs=_full_tables,
    min_opset=23,
)
def rotary_full(ctx: Ctx, x: ir.Value, cos: ir.Value, sin: ir.Value) -> ir.Value:
    """Tables as wide as ``x``, of which the operator takes the first half."""
    return _native(ctx, x, cos, sin, full=True)


@composite(
    "rotary_moved",
    references=[_rotated_moved],
    root="add",
    anchor="neg",
    specs=_moved_tables,
    min_opset=23,
)
def rotary_moved(ctx: Ctx, x: ir.Value, cos: ir.Value, sin: ir.Value) -> ir.Value:
    """Heads and sequence change places on the way."""
    return _native(ctx, ctx.transpose(x, (0, 2, 1, 3)), cos, sin, full=True)
