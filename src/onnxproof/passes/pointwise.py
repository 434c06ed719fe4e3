"""Convolutions of single elements, alone between two layouts, as products in the outer layout."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from onnxproof.passes.constants import Array, Constants, note
from onnxproof.passes.edit import dims_of, graph_of, insert_like, only_user, replace_node
from onnxproof.passes.evaluate import attr
from onnxproof.passes.graphs import graphs

if TYPE_CHECKING:
    from onnxproof.passes.pipeline import PassContext

_UNARY = ("Abs", "Clip", "Elu", "Erf", "Exp", "Gelu", "LeakyRelu", "Neg", "Relu", "Sigmoid", "Sqrt", "Tanh")


def multiply_pointwise(model: ir.Model, context: PassContext) -> None:
    """Where channels go first only for 1x1 convolutions and go last again, leave them last and use MatMul."""
    constants = Constants(model, "pointwise" if context.provenance else None)
    for graph in graphs(model):
        if not isinstance(graph, ir.Graph):
            continue  # a function holds no initializers
        for node in graph:
            chain = _chain(node, constants)
            if chain:
                _rebuild(node, chain, constants, context.provenance)
    constants.settle()


def _chain(node: ir.Node, constants: Constants) -> list[ir.Node]:
    """What follows a transpose to channels first, up to the transpose back; empty if nothing fits."""
    rank = len(dims_of(node.outputs[0]) or ())
    if rank < 3 or not _is_transpose(node, (0, rank - 1, *range(1, rank - 1))):
        return []
    chain: list[ir.Node] = []
    user = only_user(node.outputs[0])
    while user is not None and not user.domain and (user.op_type in _UNARY or _is_pointwise(user, constants)):
        chain.append(user)
        user = only_user(user.outputs[0])
    if user is None or not _is_transpose(user, (0, *range(2, rank), 1)):
        return []
    return [*chain, user] if any(step.op_type == "Conv" for step in chain) else []


def _is_transpose(node: ir.Node, perm: tuple[int, ...]) -> bool:
    return node.op_type == "Transpose" and not node.domain and tuple(attr(node, "perm")) == perm


def _is_pointwise(node: ir.Node, constants: Constants) -> bool:
    if node.op_type != "Conv" or {"strides", "pads", "group", "auto_pad"} & set(node.attributes):
        return False
    kernel = node.inputs[1]
    return (
        kernel is not None
        and constants.is_constant(kernel)
        and len(kernel.uses()) == 1
        and math.prod(constants.shape(kernel)[2:]) == 1
    )


def _rebuild(node: ir.Node, chain: list[ir.Node], constants: Constants, provenance: bool) -> None:
    """Put the chain before its last node, the transpose back, in the layout before ``node``."""
    *steps, last = chain
    value = node.inputs[0]
    for step in steps:
        shape = dims_of(step.outputs[0])
        dims = None if shape is None else (shape[0], *shape[2:], shape[1])
        if step.op_type != "Conv":
            attributes = {k: a.value for k, a in step.attributes.items()}
            new = insert_like(last, step.op_type, [value, *step.inputs[1:]], [dims], attributes)
        else:
            kernel = step.inputs[1]
            assert kernel is not None
            new = insert_like(last, "MatMul", [value, _matrix(kernel, constants)], [dims], {})
            if len(step.inputs) > 2:
                _describe(new, step, provenance)
                new = insert_like(last, "Add", [new.outputs[0], step.inputs[2]], [dims], {})
        _describe(new, step, provenance)
        value = new.outputs[0]
    assert value is not None
    replace_node(last, [value])
    for old in (*reversed(steps), node):
        graph_of(old).remove(old, safe=True)


def _describe(new: ir.Node, step: ir.Node, provenance: bool) -> None:
    new.metadata_props.update(step.metadata_props)
    if provenance:
        note(new, "pointwise")


def _matrix(kernel: ir.Value, constants: Constants) -> ir.Value:
    """A kernel ``[o, c, 1, ...]`` as the matrix ``[c, o]``."""
    out, channels = constants.shape(kernel)[:2]
    tensor = kernel.const_value
    assert tensor is not None

    def read() -> Array:
        return np.asarray(tensor.numpy()).reshape(out, channels).T

    if not constants.is_weight(kernel):
        return constants.literal(np.array(read(), order="C"))
    dtype = np.dtype(kernel.dtype.numpy())  # type: ignore[union-attr]
    steps = [["reshape", [out, channels]], ["transpose", [1, 0]]]
    return constants.derive([kernel], read, (channels, out), dtype, "T", steps)
