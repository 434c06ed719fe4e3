"""Softmax and log-softmax along the last axis, and means.

Off the last axis ONNX Runtime's Softmax is several times slower than its parts, so only the last axis is raised.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import jax
import jax.numpy as jnp
import onnx_ir as ir

from onnxproof.capture.program import SymDim
from onnxproof.lowering.emit import Ctx
from onnxproof.raising.composite import Candidate, Variant, composite


def _last_axis(candidate: Candidate) -> Iterable[Variant]:
    out = candidate.out
    if out.dtype.kind not in "iub" and out.ndim:
        yield Variant((out,))


def _last_axis_narrow(candidate: Candidate) -> Iterable[Variant]:
    """No float64: there the kernel of LogSoftmax gives numbers where a NaN in the row makes all of it NaN."""
    return () if candidate.out.dtype.itemsize == 8 else _last_axis(candidate)


@composite("softmax", references=[jax.nn.softmax], root="div", anchor="exp", specs=_last_axis)
def softmax(ctx: Ctx, x: ir.Value) -> ir.Value:
    return ctx.op("Softmax", x, axis=-1)


@composite("log_softmax", references=[jax.nn.log_softmax], root="sub", anchor="log", specs=_last_axis_narrow)
def log_softmax(ctx: Ctx, x: ir.Value) -> ir.Value:
    return ctx.op("LogSoftmax", x, axis=-1)


def _mean(x: jax.Array, *, axes: tuple[int, ...], keepdims: bool) -> jax.Array:
    return jnp.mean(x, axis=axes, keepdims=keepdims)


def _reduced(candidate: Candidate) -> Iterable[Variant]:
    """The operand and axes of a ``reduce_sum`` above, with or without unit axes put back."""
    if candidate.out.dtype.kind in "iub":
        return
    source = candidate.root.inputs[0]
    reshape = candidate.maker(source, "reshape")
    total = candidate.maker(reshape.inputs[0] if reshape else source, "reduce_sum")
    if total is None:
        return
    x, axes = total.inputs[0].aval, tuple(total.params["axes"])
    # The kernel gives 0 for the mean of nothing, which is NaN.
    if axes and not any(isinstance(x.shape[a], SymDim) or x.shape[a] == 0 for a in axes):
        yield Variant((x,), (("axes", axes), ("keepdims", reshape is not None)))


@composite("mean", references=[_mean], root="div", anchor="reduce_sum", specs=_reduced)
def mean(ctx: Ctx, x: ir.Value, *, axes: Sequence[int], keepdims: bool) -> ir.Value:
    return ctx.reduce("ReduceMean", x, axes, keepdims=keepdims)
