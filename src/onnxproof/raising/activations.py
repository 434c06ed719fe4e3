"""Activations with a native operator of the same accuracy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import onnx_ir as ir

from onnxproof.capture.program import Atom, Aval, Lit
from onnxproof.lowering.emit import Ctx
from onnxproof.raising.composite import (
    Candidate,
    Params,
    Variant,
    composite,
    literal_scalars,
)


def _with_scalars(count: int) -> Any:
    """Variants of one operand like the result and ``count`` scalars of its dtype."""

    def specs(candidate: Candidate) -> Iterable[Variant]:
        out = candidate.out
        if out.dtype.kind not in "iub":
            yield Variant((out, *(Aval((), out.dtype) for _ in range(count))))

    return specs


@composite(
    "gelu",
    references=[partial(jax.nn.gelu, approximate=False)],
    root="mul",
    anchor="erfc",
    min_opset=20,
)
def gelu(ctx: Ctx, x: ir.Value) -> ir.Value:
    return ctx.op("Gelu", x, shape=ctx.out.shape)


@composite(
    "gelu_tanh",
    references=[partial(jax.nn.gelu, approximate=True)],
    root="mul",
    anchor="tanh",
    min_opset=20,
)
def gelu_tanh(ctx: Ctx, x: ir.Value) -> ir.Value:
    return ctx.op("Gelu", x, approximate="tanh", shape=ctx.out.shape)


@composite("softplus", references=[jax.nn.softplus], root="select_n", anchor="log1p")
def softplus(ctx: Ctx, x: ir.Value) -> ir.Value:
    return ctx.op("Softplus", x)


def _single(candidate: Candidate) -> Iterable[Variant]:
    """One float32 operand: a slope of 1/6 is a float32 attribute, and half precision rounds at each step."""
    if candidate.out.dtype.name == "float32":
        yield Variant((candidate.out,))


@composite("hard_swish", references=[jax.nn.hard_swish], root="mul", anchor="min", specs=_single)
def hard_swish(ctx: Ctx, x: ir.Value) -> ir.Value:
    return ctx.op("HardSwish", x)


@composite("hard_sigmoid", references=[jax.nn.hard_sigmoid], root="div", anchor="min", specs=_single)
def hard_sigmoid(ctx: Ctx, x: ir.Value) -> ir.Value:
    return ctx.op("HardSigmoid", x, alpha=1 / 6, beta=0.5)


def _leaky_relu(x: jax.Array, slope: jax.Array) -> jax.Array:
    return jnp.where(x >= 0, x, slope * x)


@composite(
    "leaky_relu",
    references=[_leaky_relu],
    root="select_n",
    anchor="ge",
    specs=_with_scalars(1),
    bind=literal_scalars("slope"),
)
def leaky_relu(ctx: Ctx, x: ir.Value, *, slope: float) -> ir.Value:
    return ctx.op("LeakyRelu", x, alpha=slope)


def _clip(x: jax.Array, low: jax.Array, high: jax.Array) -> jax.Array:
    return jax.lax.min(jax.lax.max(x, low), high)


def _clip_from_above(x: jax.Array, low: jax.Array, high: jax.Array) -> jax.Array:
    return jax.lax.max(jax.lax.min(x, high), low)


def _ordered_bounds(operands: Sequence[Atom], params: Params) -> tuple[Sequence[Atom], Params] | None:
    """Clip asks for low <= high; literal bounds show it."""
    low, high = operands[1:]
    if isinstance(low, Lit) and isinstance(high, Lit) and bool(low.value <= high.value):
        return operands, params
    return None


@composite(
    "clip_up",
    references=[_clip],
    root="min",
    anchor="max",
    specs=_with_scalars(2),
    bind=_ordered_bounds,
)
def clip_up(ctx: Ctx, x: ir.Value, low: ir.Value, high: ir.Value) -> ir.Value:
    return ctx.op("Clip", x, low, high)


@composite(
    "clip_down",
    references=[_clip_from_above],
    root="max",
    anchor="min",
    specs=_with_scalars(2),
    bind=_ordered_bounds,
)
def clip_down(ctx: Ctx, x: ir.Value, low: ir.Value, high: ir.Value) -> ir.Value:
    return ctx.op("Clip", x, low, high)
