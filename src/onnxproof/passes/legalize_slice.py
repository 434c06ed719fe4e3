"""Slices that walk backwards, for targets where those begin at the end of the axis whatever their start."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx_ir as ir

from onnxproof.passes.legalize_emit import DType, Emitter, dims_of, small_constant

_BEFORE_FIRST = int(np.iinfo(np.int64).min)


def is_partial(node: ir.Node) -> bool:
    """Whether a Slice walks backwards from elsewhere than the last element."""
    if node.op_type != "Slice" or len(node.inputs) < 5:
        return False
    steps, starts = (_numbers(node, at) for at in (4, 1))
    if steps is None or starts is None:
        return True
    return any(step < 0 and start != -1 for step, start in zip(steps, starts, strict=True))


def forwards(e: Emitter) -> ir.Value | None:
    """The same elements taken forwards, then turned; None for a Slice that is not in question.

    Raises:
        IllegalForTarget: the bounds, or the size of an axis that is walked backwards, are not known.
    """
    if not is_partial(e.node):
        return None
    x = e.node.inputs[0]
    dims = None if x is None else dims_of(x)
    bounds = [_numbers(e.node, at) for at in (1, 2, 3, 4)]
    if x is None or dims is None or any(b is None for b in bounds):
        raise e.refuse(
            "backwards with bounds that are not constants", "Slice forwards, and use jnp.flip on that."
        )
    out = list(dims)
    taken = []
    for start, end, axis, step in zip(*(b or [] for b in bounds), strict=True):
        size = dims[axis]
        if step > 0:
            taken.append((start, end, axis, step))
            out[axis] = len(range(size)[start:end:step]) if isinstance(size, int) else None
            continue
        if not isinstance(size, int):
            raise e.refuse(
                "backwards along an axis of unknown size", "Slice forwards, and use jnp.flip on that."
            )
        places = range(size)[start : None if end < -size else end : step]
        out[axis] = len(places)
        taken.append((places[-1], places[0] + 1, axis, -step) if places else (0, 0, axis, 1))
    part = e.op("Slice", x, *(e.i64(list(column)) for column in zip(*taken, strict=True)), shape=out)
    turned = [axis for axis, step in zip(bounds[2] or [], bounds[3] or [], strict=True) if step < 0]
    n = len(turned)
    return e.op(
        "Slice", part, e.i64([-1] * n), e.i64([_BEFORE_FIRST] * n), e.i64(turned), e.i64([-1] * n), shape=out
    )


def _numbers(node: ir.Node, at: int) -> list[int] | None:
    value = node.inputs[at]
    if value is None:
        return None
    maker = value.producer()
    if maker is not None and maker.op_type == "Constant":  # as in the bodies of functions
        return [int(n) for n in maker.attributes["value"].as_tensor().numpy()]
    constant = small_constant(value)
    return None if constant is None else [int(n) for n in constant]


EXPANSIONS: Mapping[tuple[str, DType | None], Callable[[Emitter], ir.Value | None]] = {
    ("Slice", None): forwards
}
