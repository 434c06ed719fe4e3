"""Residual sums before a layer normalization, kept apart from it.

ONNX Runtime fuses an Add whose operands have one shape with the LayerNormalization that alone reads it. The fused
kernel takes the variance as E[x²] - E[x]² and is the slower one; a Sum of two operands is computed as Add is, and
is left alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx_ir as ir

from onnxproof import targets
from onnxproof.passes.edit import dims_of, insert_like, only_user, replace_node
from onnxproof.passes.graphs import graphs

if TYPE_CHECKING:
    from onnxproof.passes.pipeline import PassContext


def keep_residuals(model: ir.Model, context: PassContext) -> None:
    """Turn such an Add into a Sum, but for an accelerator, which fuses in its own way and may not have Sum."""
    if targets.get(context.target).accelerator:
        return
    for graph in graphs(model):
        for node in list(graph):
            if node.op_type == "Add" and not node.domain and _would_fuse(node):
                (result,) = node.outputs
                total = insert_like(node, "Sum", list(node.inputs), [dims_of(result)])
                replace_node(node, total.outputs)


def _would_fuse(node: ir.Node) -> bool:
    (result,) = node.outputs
    user = only_user(result)
    shapes = [None if v is None else dims_of(v) for v in node.inputs]
    return (
        user is not None
        and user.op_type == "LayerNormalization"
        and user.inputs[0] is result
        and result.dtype is ir.DataType.FLOAT
        and None not in shapes
        and len(set(shapes)) == 1
    )
