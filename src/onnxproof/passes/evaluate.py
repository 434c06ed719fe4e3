"""ONNX operators on constants, by NumPy.

``VIEWS`` give arrays that share the memory of their operand where NumPy can; ``ARITHMETIC`` compute. A
function returns None for what it does not evaluate with the meaning that the core dialect gives it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

Array = np.ndarray[Any, Any]
Operation = Callable[[ir.Node, "list[Array]"], "Array | None"]


def attr(node: ir.Node, name: str, default: Any = None) -> Any:
    """The value of an attribute."""
    found = node.attributes.get(name)
    return default if found is None else found.value


def _axes(array: Array, axes: Array) -> tuple[int, ...]:
    return tuple(int(a) % array.ndim for a in axes.ravel())


def _reshape(node: ir.Node, args: list[Array]) -> Array | None:
    x, target = args
    sizes = [int(d) for d in target]
    if 0 in sizes and not attr(node, "allowzero", 0):
        return None
    return x.reshape(sizes)


def _unsqueeze(node: ir.Node, args: list[Array]) -> Array:
    x, axes = args
    return np.expand_dims(x, tuple(int(a) for a in axes))


def _squeeze(node: ir.Node, args: list[Array]) -> Array | None:
    return np.squeeze(args[0], _axes(*args)) if len(args) == 2 else None


def _transpose(node: ir.Node, args: list[Array]) -> Array:
    return np.transpose(args[0], attr(node, "perm"))


def _slice(node: ir.Node, args: list[Array]) -> Array | None:
    if len(args) < 4:
        return None
    x, starts, ends, axes = args[:4]
    steps = args[4] if len(args) == 5 else np.ones_like(axes)
    index = [slice(None)] * x.ndim
    bounds = zip(_axes(x, axes), starts.tolist(), ends.tolist(), steps.tolist(), strict=True)
    for axis, start, end, step in bounds:
        stop = None if step < 0 and end < -x.shape[axis] else end
        index[axis] = slice(start, stop, step)
    return x[tuple(index)]


def _expand(node: ir.Node, args: list[Array]) -> Array:
    x, shape = args
    return np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(shape.tolist())))


def _cast(node: ir.Node, args: list[Array]) -> Array | None:
    (x,) = args
    to = np.dtype(ir.DataType(attr(node, "to")).numpy())
    inexact = x.dtype.kind not in "iub"
    if inexact and to.kind in "iu":
        info = np.iinfo(to)
        wide = x.astype(np.float64)
        if not np.all((wide >= info.min) & (wide < float(info.max) + 1)):
            return None  # what a runtime gives here is its own affair
    return x.astype(to)


VIEWS: Mapping[str, Operation] = {
    "Transpose": _transpose,
    "Reshape": _reshape,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Slice": _slice,
    "Expand": _expand,
    "Cast": _cast,
    "Identity": lambda node, args: args[0],
}


def _ufunc(function: Callable[..., Any]) -> Operation:
    def operation(node: ir.Node, args: list[Array]) -> Array:
        out = args[0] if function in _REDUCIBLE and len(args) == 1 else function(*args[:2])
        for more in args[2:]:
            out = function(out, more)
        return np.asarray(out)

    return operation


_REDUCIBLE = (np.maximum, np.minimum)


def _float_divide(node: ir.Node, args: list[Array]) -> Array | None:
    return np.asarray(np.divide(*args)) if args[0].dtype.kind == "f" else None


def _clip(node: ir.Node, args: list[Array]) -> Array:
    x, *bounds = args
    for bound, limited in zip(bounds, (np.maximum, np.minimum), strict=False):
        x = np.asarray(limited(x, bound))
    return x


def _where(node: ir.Node, args: list[Array]) -> Array:
    return np.where(*args)


def _concat(node: ir.Node, args: list[Array]) -> Array:
    return np.concatenate(args, attr(node, "axis"))


def _range(node: ir.Node, args: list[Array]) -> Array | None:
    if args[0].dtype.kind != "i" or not args[2]:
        return None
    start, limit, step = (int(a) for a in args)
    return np.arange(start, limit, step).astype(args[0].dtype)


def _gather(node: ir.Node, args: list[Array]) -> Array | None:
    x, index = args
    axis = attr(node, "axis", 0)
    size = x.shape[axis]
    return np.take(x, index, axis) if np.all((index >= -size) & (index < size)) else None


def _reduction(function: Callable[..., Any]) -> Operation:
    def operation(node: ir.Node, args: list[Array]) -> Array | None:
        axes = tuple(args[1].tolist()) if len(args) == 2 else attr(node, "axes")
        if not axes or args[0].dtype.kind != "f":
            return None
        return np.asarray(function(args[0], axis=tuple(axes), keepdims=bool(attr(node, "keepdims", 1))))

    return operation


ELEMENTWISE: Mapping[str, Operation] = {
    "Abs": _ufunc(np.abs),
    "Add": _ufunc(np.add),
    "And": _ufunc(np.logical_and),
    "Ceil": _ufunc(np.ceil),
    "Clip": _clip,
    "Cos": _ufunc(np.cos),
    "Div": _float_divide,
    "Equal": _ufunc(np.equal),
    "Exp": _ufunc(np.exp),
    "Floor": _ufunc(np.floor),
    "Greater": _ufunc(np.greater),
    "GreaterOrEqual": _ufunc(np.greater_equal),
    "IsNaN": _ufunc(np.isnan),
    "Less": _ufunc(np.less),
    "LessOrEqual": _ufunc(np.less_equal),
    "Log": _ufunc(np.log),
    "Max": _ufunc(np.maximum),
    "Min": _ufunc(np.minimum),
    "Mul": _ufunc(np.multiply),
    "Neg": _ufunc(np.negative),
    "Not": _ufunc(np.logical_not),
    "Or": _ufunc(np.logical_or),
    "Reciprocal": lambda node, args: np.divide(np.ones((), args[0].dtype), args[0]),
    "Relu": lambda node, args: np.maximum(args[0], np.zeros((), args[0].dtype)),
    "Sign": _ufunc(np.sign),
    "Sin": _ufunc(np.sin),
    "Sqrt": _ufunc(np.sqrt),
    "Sub": _ufunc(np.subtract),
    "Tanh": _ufunc(np.tanh),
    "Where": _where,
    "Xor": _ufunc(np.logical_xor),
}

ARITHMETIC: Mapping[str, Operation] = {
    **ELEMENTWISE,
    "Concat": _concat,
    "Gather": _gather,
    "Range": _range,
    "ReduceMax": _reduction(np.max),
    "ReduceMean": _reduction(np.mean),
    "ReduceMin": _reduction(np.min),
    "ReduceSum": _reduction(np.sum),
}

# Of literals alone: a product of weights would leave the file with neither.
OF_LITERALS: Mapping[str, Operation] = {
    "MatMul": lambda node, args: np.matmul(*args) if args[0].dtype.kind == "f" else None,
}
