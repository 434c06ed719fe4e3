"""Compute at export what depends on constants alone, where that does not make the file larger."""

from __future__ import annotations

import math
from collections.abc import Hashable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from onnxproof.errors import InternalError
from onnxproof.passes.constants import EAGER, SMALL, Array, Constants, Steps
from onnxproof.passes.evaluate import ARITHMETIC, ELEMENTWISE, OF_LITERALS, VIEWS, Operation, attr
from onnxproof.passes.graphs import graphs

if TYPE_CHECKING:
    from onnxproof.passes.pipeline import PassContext

_MAX_DEPTH = 8  # lazy steps on one weight: each is repeated whenever the result is read
_WRITTEN_OUT = (
    1 << 16
)  # bytes of a computed table: matrices of resizing, masks of attention; a few dozen nodes less
_SUFFIX = {"Transpose": "T"}
_OPERATIONS = {**VIEWS, **ARITHMETIC, **OF_LITERALS}


def fold_constants(model: ir.Model, context: PassContext) -> None:
    """Replace operators on constants by constants.

    Rearranged weights stay lazy and keep their names; arithmetic on small ones is done in their own dtype, in
    the order that the program has. A large weight is derived from only where nothing else needs it as it is.
    """
    folder = _Folder(Constants(model, "fold" if context.provenance else None))
    for graph in graphs(model):
        if isinstance(graph, ir.Function):
            continue  # a function holds no initializers
        outputs = set(graph.outputs)
        for node in graph:
            if node.domain or len(node.outputs) != 1 or node.outputs[0] in outputs:
                continue
            value = folder.fold(node) or folder.passed(node)
            if value is not None:
                node.outputs[0].replace_all_uses_with(value)
                graph.remove(node, safe=True)
    folder.constants.settle()


class _Folder:
    def __init__(self, constants: Constants) -> None:
        self.constants = constants
        self._known: dict[Hashable, ir.Value] = {}
        self._depth: dict[ir.Value, int] = {}

    def fold(self, node: ir.Node) -> ir.Value | None:
        """The constant that ``node`` computes, or None."""
        operation = _OPERATIONS.get(node.op_type)
        inputs = [v for v in node.inputs if v is not None]
        if operation is None or not inputs or len(inputs) < len(node.inputs):
            return None
        if not all(map(self.constants.is_constant, inputs)):
            return None
        key = _key(node)
        if key not in self._known:
            made = self._compute(node, operation, inputs)
            if made is None:
                return None
            self._known[key] = made
        return self._known[key]

    def passed(self, node: ir.Node) -> ir.Value | None:
        """The operand that ``node`` gives as it is: what a constant chooses everywhere, or a neutral one leaves."""
        match node.op_type, node.inputs:
            case "Where", (which, yes, no):
                all_ = self._everywhere(which)
                chosen = yes if yes is no or all_ is True else no if all_ is False else None
            case "And" | "Or" as op, (x, y):
                neutral = op == "And"
                chosen = (
                    x if self._everywhere(y) is neutral else y if self._everywhere(x) is neutral else None
                )
            case _:
                return None
        shape = node.outputs[0].shape
        return chosen if chosen is not None and shape is not None and chosen.shape == shape else None

    def _everywhere(self, truth: ir.Value | None) -> bool | None:
        """What a constant of booleans is in all its places, None where they differ or it is not one."""
        if truth is None or not self.constants.is_constant(truth) or self.constants.is_weight(truth):
            return None
        truths = self.constants.array(truth)
        return bool(truths.flat[0]) if truths.size and truths.min() == truths.max() else None

    def _compute(self, node: ir.Node, operation: Operation, inputs: list[ir.Value]) -> ir.Value | None:
        constants = self.constants
        view = node.op_type in VIEWS
        shape, dtype = _static_shape(node), node.outputs[0].dtype
        total = constants.nbytes(inputs[0]) if view else sum(map(constants.nbytes, inputs))
        weights = [v for v in inputs if constants.is_weight(v)]
        most = max(SMALL if weights or view else _WRITTEN_OUT, total)
        if shape is None or dtype is None or dtype.itemsize * math.prod(shape) > most:
            return None
        if weights and node.op_type in OF_LITERALS:
            return None
        if any(constants.nbytes(w) > SMALL and not _only_reader(w, node) for w in weights):
            return None
        large = max(map(constants.nbytes, inputs)) > EAGER
        if not weights:
            return None if large else self._literal(node, operation, inputs)
        if view or (large and (node.op_type in ELEMENTWISE or node.op_type == "Concat")):
            return self._lazy(node, operation, inputs)
        return None if large else self._eager(node, operation, inputs)

    def _literal(self, node: ir.Node, operation: Operation, inputs: list[ir.Value]) -> ir.Value | None:
        array = _run(operation, node, list(map(self.constants.array, inputs)))
        return None if array is None else self.constants.literal(np.array(array, order="C"))

    def _eager(self, node: ir.Node, operation: Operation, inputs: list[ir.Value]) -> ir.Value | None:
        array = _run(operation, node, list(map(self.constants.array, inputs)))
        if array is None:
            return None
        return self.constants.derive(inputs, lambda: array, array.shape, array.dtype, "folded")

    def _lazy(self, node: ir.Node, operation: Operation, inputs: list[ir.Value]) -> ir.Value | None:
        steps = 1 if node.op_type in VIEWS else 2
        depth = steps + max(self._depth.get(v, 0) for v in inputs)
        shape, dtype = _static_shape(node), np.dtype(node.outputs[0].dtype.numpy())  # type: ignore[union-attr]
        if depth > _MAX_DEPTH or shape is None or not self._can_wait(node, inputs):
            return None
        tensors = [v.const_value for v in inputs if v.const_value is not None]
        read = partial(_read, operation, node, tensors, shape)
        suffix = _SUFFIX.get(node.op_type, "folded")
        value = self.constants.derive(inputs, read, shape, dtype, suffix, self._steps(node, inputs, shape))
        self._depth[value] = depth
        return value

    def _steps(self, node: ir.Node, inputs: list[ir.Value], shape: tuple[int, ...]) -> Steps | None:
        """The operation on its first operand, in steps that a file can say; None where it takes others."""
        match node.op_type:
            case "Identity":
                return []
            case "Reshape" | "Squeeze" | "Unsqueeze":
                return [["reshape", list(shape)]]
            case "Transpose":
                rank = len(self.constants.shape(inputs[0]))
                return [["transpose", [int(p) for p in attr(node, "perm", range(rank)[::-1])]]]
            case "Slice" if len(inputs) >= 4:
                numbers = [self.constants.array(v).ravel().tolist() for v in inputs[1:]]
                starts, ends, axes = numbers[:3]
                return [["slice", starts, ends, axes, numbers[3] if len(numbers) > 3 else [1] * len(axes)]]
        return None

    def _can_wait(self, node: ir.Node, inputs: list[ir.Value]) -> bool:
        """Whether it is certain, without reading the weight, that the operation will be evaluated."""
        match node.op_type:
            case "Reshape":
                return 0 not in self.constants.array(inputs[1])
            case "Slice":
                return len(inputs) >= 4
            case "Squeeze":
                return len(inputs) == 2
            case "Cast" | "Div":
                kinds = [np.dtype(v.dtype.numpy()).kind for v in (inputs[0], *node.outputs) if v.dtype]
                return all(kind not in "iub" for kind in kinds)
        return True


def _read(
    operation: Operation, node: ir.Node, tensors: list[ir.TensorProtocol], shape: tuple[int, ...]
) -> Array:
    array = _run(operation, node, [np.asarray(t.numpy()) for t in tensors])
    if array is None or array.shape != shape:
        raise InternalError(f"{node.op_type} on a weight was folded to the shape {shape}")
    return array


def _run(operation: Operation, node: ir.Node, arrays: list[Array]) -> Array | None:
    """The result, or None where it is not what the operator's result was declared to be."""
    with np.errstate(all="ignore"):
        array = operation(node, arrays)
    declared = node.outputs[0]
    if array is None or declared.dtype is None or array.dtype != declared.dtype.numpy():
        return None
    shape = _static_shape(node)
    return array if shape is None or array.shape == shape else None


def _static_shape(node: ir.Node) -> tuple[int, ...] | None:
    shape = node.outputs[0].shape
    if shape is None or not all(isinstance(d, int) for d in shape):
        return None
    return tuple(int(d) for d in shape)  # type: ignore[arg-type]


def _only_reader(weight: ir.Value, node: ir.Node) -> bool:
    """Whether all uses of the weight are this node, its like, or pieces cut out of it."""
    like = _key(node)
    users = {use.node for use in weight.uses()}
    return not weight.is_graph_output() and all(
        user is node or _key(user) == like or user.op_type == node.op_type == "Slice" for user in users
    )


def _key(node: ir.Node) -> Hashable:
    attributes = tuple(sorted((a.name, repr(a.value)) for a in node.attributes.values()))
    return (node.domain, node.op_type, tuple(map(id, node.inputs)), attributes)
