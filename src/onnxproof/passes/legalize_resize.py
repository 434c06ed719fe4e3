"""Resizing of vectors, for targets whose kernel takes tensors of two to five axes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx_ir as ir

from onnxproof.passes.legalize_emit import DType, Emitter, dims_of, small_constant

_AXES = range(2, 6)


def is_of_other_rank(node: ir.Node) -> bool:
    """Whether a Resize is of a tensor with one axis, or more than five."""
    x = node.inputs[0]
    return x is not None and x.shape is not None and len(x.shape) not in _AXES


def of_vector(e: Emitter) -> ir.Value | None:
    """A row of a matrix instead; None where there are more axes."""
    x, scales = e.node.inputs[0], e.node.inputs[2] if len(e.node.inputs) == 3 else None
    factors = None if scales is None else small_constant(scales)
    known = None if x is None else dims_of(x)
    if x is None or factors is None or known is None or len(known) != 1:
        return None
    (size,), (out,) = known, dims_of(e.node.outputs[0]) or (None,)
    row = e.op("Unsqueeze", x, e.i64([0]), shape=(1, size))
    both = e.const(np.concatenate([[1], factors]), DType.FLOAT)
    attributes = {name: e.attr(name) for name in e.node.attributes}
    return e.op(
        "Squeeze", e.op("Resize", row, None, both, shape=(1, out), **attributes), e.i64([0]), shape=(out,)
    )


EXPANSIONS: Mapping[tuple[str, DType | None], Callable[[Emitter], ir.Value | None]] = {
    ("Resize", None): of_vector
}
