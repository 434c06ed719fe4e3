"""Rows are centred before LayerNormalization, for targets whose kernel takes the variance as E[x²] - E[x]²."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import onnx_ir as ir

from onnxproof.passes.legalize_emit import DType, Emitter, dims_of


def is_uncentred(node: ir.Node) -> bool:
    """Whether the operand of a LayerNormalization over the last axis is more than a difference from its own mean."""
    maker = None if node.inputs[0] is None else node.inputs[0].producer()
    if maker is None or maker.op_type != "Sub":
        return True
    whole, mean = maker.inputs
    of = None if mean is None else mean.producer()
    return of is None or of.op_type != "ReduceMean" or of.inputs[0] is not whole


def centred(e: Emitter) -> ir.Value | None:
    """The normalization of ``x - mean(x)``, which is that of ``x``."""
    x, axis = e.node.inputs[0], e.attr("axis", -1)
    if x is None or (axis != -1 and (x.shape is None or axis != len(x.shape) - 1)):
        return None
    shape = dims_of(x)
    narrow = None if shape is None else (*shape[:-1], 1)
    if e.opset >= 18:
        mean = e.op("ReduceMean", x, e.i64([-1]), keepdims=1, shape=narrow)
    else:
        mean = e.op("ReduceMean", x, axes=[-1], keepdims=1, shape=narrow)
    attributes = {name: e.attr(name) for name in e.node.attributes}
    difference = e.op("Sub", x, mean, shape=shape)
    return e.op("LayerNormalization", difference, *e.node.inputs[1:], shape=shape, **attributes)


EXPANSIONS: Mapping[tuple[str, DType | None], Callable[[Emitter], ir.Value | None]] = {
    ("LayerNormalization", None): centred
}
