"""What can be told of index values at export: constants, bounds, and JAX's wrap of negative indices.

JAX wraps negative indices in the program (``where(i < 0, i + n, i)``) and clamps, fills or drops what is
out of range; ONNX operators take ``-n ... n - 1`` and fail beyond. Known bounds save what else is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxproof.capture.program import Dim, SymDim
from onnxproof.lowering.emit import Ctx

Array = np.ndarray[Any, Any]
Interval = tuple[int, int]

_LARGEST_FOLDED = 65536  # elements
_DEPTH = 12  # operators that are looked through
_MOVES = frozenset({"Unsqueeze", "Squeeze", "Reshape", "Expand", "Transpose", "Identity"})
_BOUNDED = frozenset({"Where", "Concat", "Add", "Sub", "Mul", "Max", "Min", "Clip", "Range", "Mod"})
_ARITHMETIC: Mapping[str, Callable[..., Any]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Less": np.less,
    "Where": np.where,
    "Identity": np.asarray,
}


def evaluate(ctx: Ctx, value: ir.Value, depth: int = _DEPTH) -> Array | None:
    """The integers or booleans that ``value`` always holds, when it is computed from constants alone."""
    array = ctx.constant_value(value)
    if array is not None:
        return array if array.dtype.kind in "iub" and array.size <= _LARGEST_FOLDED else None
    node = value.producer()
    if node is None or depth == 0:
        return None
    shape = ctx.shape(value)
    if shape is None or any(isinstance(d, SymDim) for d in shape):
        return None
    static = [int(d) for d in shape]
    if np.prod(static, dtype=np.int64) > _LARGEST_FOLDED:
        return None
    op = node.op_type
    if op not in _ARITHMETIC and op not in _MOVES and op not in ("Cast", "Concat"):
        return None
    moved = op in _MOVES or op == "Cast"
    operands = [v for v in (node.inputs[:1] if moved else node.inputs) if v is not None]
    arrays = [evaluate(ctx, v, depth - 1) for v in operands]
    known = [a for a in arrays if a is not None]
    if len(known) != len(operands):
        return None
    if op in _ARITHMETIC:
        with np.errstate(all="ignore"):
            return np.asarray(_ARITHMETIC[op](*known), ctx.dtype(value))
    if op == "Concat":
        return np.concatenate(known, node.attributes.get_int("axis"))
    if op == "Expand":
        return np.broadcast_to(known[0], static)
    if op == "Transpose":
        return known[0].transpose(node.attributes.get_ints("perm"))
    if op == "Cast":
        dtype = ctx.dtype(value)
        return known[0].astype(dtype) if dtype.kind in "iub" else None
    return known[0].reshape(static)


def interval(ctx: Ctx, value: ir.Value, depth: int = _DEPTH) -> Interval:
    """Bounds, both inclusive, of an integer value; those of its dtype when nothing is known."""
    dtype = ctx.dtype(value)
    if dtype.kind == "b":
        return 0, 1
    whole = (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
    constant = evaluate(ctx, value)
    if constant is not None and constant.size:
        return int(constant.min()), int(constant.max())
    node = value.producer()
    if node is None or depth == 0:
        return whole
    found = _interval_of(ctx, node, depth - 1)
    if found is None or found[0] < whole[0] or found[1] > whole[1]:
        return whole
    return found


def _interval_of(ctx: Ctx, node: ir.Node, depth: int) -> Interval | None:
    op = node.op_type
    operands = [v for v in node.inputs if v is not None]
    first = operands[0] if operands else None
    if first is None:
        return None
    if op in ("ArgMax", "ArgMin"):
        size = (ctx.shape(first) or ())[node.attributes.get_int("axis", 0)]
        return None if isinstance(size, SymDim) else (0, max(size - 1, 0))
    if ctx.dtype(first).kind not in "iub":
        return None
    if op in _MOVES or op in ("Cast", "Slice", "Gather", "GatherElements", "GatherND"):
        return interval(ctx, first, depth)
    if op not in _BOUNDED:
        return None
    if op == "Where":
        raw = _wrapped(ctx, node)
        if raw is not None and interval(ctx, raw, depth)[0] >= 0:
            return interval(ctx, raw, depth)
        operands = operands[1:]
    bounds = [interval(ctx, v, depth) for v in operands]
    lows, highs = [b[0] for b in bounds], [b[1] for b in bounds]
    match op:
        case "Where" | "Concat":
            return min(lows), max(highs)
        case "Add":
            return sum(lows), sum(highs)
        case "Sub":
            return lows[0] - highs[1], highs[0] - lows[1]
        case "Mul":
            corners = [a * b for a in bounds[0] for b in bounds[1]]
            return min(corners), max(corners)
        case "Max":
            return max(lows), max(highs)
        case "Min":
            return min(lows), min(highs)
        case "Clip" if len(bounds) == 3:
            return min(max(lows[0], lows[1]), highs[2]), max(min(highs[0], highs[2]), lows[1])
        case "Range" if highs[2] == lows[2] == 1:
            return lows[0], max(highs[1] - 1, lows[0])
        case "Mod" if lows[1] > 0 and not node.attributes.get_int("fmod", 0):
            return 0, highs[1] - 1
    return None


def as_dimension(ctx: Ctx, value: ir.Value, depth: int = _DEPTH) -> Dim | None:
    """The dimension that a value of one element holds: a size of the inputs, or that plus a constant."""
    known = ctx.module.sizes.get(value)
    if known is not None:
        return known
    constant = evaluate(ctx, value)
    if constant is not None:
        return int(constant.reshape(-1)[0]) if constant.size == 1 else None
    node = value.producer()
    if node is None or depth == 0:
        return None
    operands = [v for v in node.inputs if v is not None]
    if node.op_type == "Cast" or node.op_type in _MOVES - {"Expand", "Transpose"}:
        return as_dimension(ctx, operands[0], depth - 1)
    if node.op_type not in ("Add", "Sub"):
        return None
    a, b = (as_dimension(ctx, v, depth - 1) for v in operands)
    if a is None or b is None:
        return None
    sign = "+" if node.op_type == "Add" else "-"
    return SymDim(f"{a} {sign} ({b})")


def _wrapped(ctx: Ctx, node: ir.Node | None) -> ir.Value | None:
    """``i`` where the node computes ``where(i < 0, i + n, i)`` for some n."""
    if node is None or node.op_type != "Where":
        return None
    which, moved, raw = node.inputs
    compare = None if which is None else which.producer()
    add = None if moved is None else moved.producer()
    if compare is None or add is None or compare.op_type != "Less" or add.op_type != "Add":
        return None
    zero = None if compare.inputs[1] is None else ctx.constant_value(compare.inputs[1])
    if compare.inputs[0] is not raw or raw not in add.inputs or zero is None or np.any(zero):
        return None
    return raw


def _wraps_by(ctx: Ctx, node: ir.Node, raw: ir.Value, size: Dim) -> bool:
    """Whether the wrap that ``node`` computes adds ``size``."""
    moved = node.inputs[1]
    add = None if moved is None else moved.producer()
    if add is None:
        return False
    other = add.inputs[1] if add.inputs[0] is raw else add.inputs[0]
    if other is None:
        return False
    if isinstance(size, int):
        known = evaluate(ctx, other)
        return known is not None and bool(np.all(known == size))
    while (maker := other.producer()) is not None and maker.op_type in _MOVES | {"Cast"}:
        if maker.inputs[0] is None:
            return False
        other = maker.inputs[0]
    return other is ctx.dim(size)


def unwrapped(ctx: Ctx, value: ir.Value, sizes: Sequence[Dim]) -> ir.Value | None:
    """The value before JAX's wrap of negative indices along axes of ``sizes``, moved as ``value`` is moved.

    Several sizes belong to the columns of the last axis. None where there is no such wrap.
    """
    node = value.producer()
    if node is None:
        return None
    raw = _wrapped(ctx, node)
    if raw is not None:
        if ctx.shape(raw) == ctx.shape(value) and all(_wraps_by(ctx, node, raw, s) for s in sizes):
            return raw
        return None
    op, source = node.op_type, node.inputs[0] if node.inputs else None
    if source is None:
        return None
    if op == "Cast" or (op in ("Unsqueeze", "Reshape") and len(sizes) == 1):
        inner = unwrapped(ctx, source, sizes)
        if inner is None:
            return None
        if op == "Cast":
            return ctx.cast(inner, ctx.dtype(value))
        return ctx.op(op, inner, *node.inputs[1:], shape=ctx.shape(value))
    parts = columns(ctx, value) if op == "Concat" else None
    if parts is None or len(parts) != len(sizes):
        return None
    raws = []
    for part, size in zip(parts, sizes, strict=True):
        raws.append(part if interval(ctx, part)[0] >= 0 else unwrapped(ctx, part, [size]))
    if any(r is None for r in raws) or all(r is p for r, p in zip(raws, parts, strict=True)):
        return None
    return ctx.op("Concat", *raws, axis=-1, shape=ctx.shape(value))


def columns(ctx: Ctx, value: ir.Value) -> list[ir.Value] | None:
    """The values whose concatenation along the last axis is ``value``, one for each position of that axis."""
    shape, node = ctx.shape(value) or (), value.producer()
    if shape and shape[-1] == 1:
        return [value]
    if node is None or node.op_type != "Concat":
        return None
    parts = [v for v in node.inputs if v is not None]
    axis = node.attributes.get_int("axis") % len(shape)
    if axis != len(shape) - 1 or any((ctx.shape(p) or (0,))[-1] != 1 for p in parts):
        return None
    return parts


def from_shapes(ctx: Ctx, value: ir.Value, depth: int = _DEPTH) -> bool:
    """Whether ``value`` is computed from constants and sizes alone."""
    if value.const_value is not None:
        return True
    node = value.producer()
    if node is None or depth == 0:
        return False
    if node.op_type == "Shape":
        return True
    used = {*_MOVES, "Cast", "Concat", "Range", "Add", "Sub", "Mul", "Div", "Mod", "Neg", "Max", "Min"}
    return node.op_type in used and all(from_shapes(ctx, v, depth - 1) for v in node.inputs if v is not None)
