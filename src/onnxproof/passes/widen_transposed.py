"""Products of transposed 16-bit floating point, spelled so that ONNX Runtime can load them.

ONNX Runtime computes these products in float32 and puts the casts in itself. Where a transpose that moves the first
axis to one of the last two stands before such a cast and the operands of the product differ in rank, its fusion of
the three leaves a node without a schema, and the pass for blocked layouts reads that schema: the process dies while
the session is made (seen in 1.24 to 1.32, on x86-64 with all optimizations). With the cast before the transpose
there is nothing to fuse.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx_ir as ir

from onnxproof.passes.edit import Dims, dims_of, insert_like, replace_node
from onnxproof.passes.evaluate import attr
from onnxproof.passes.graphs import graphs

if TYPE_CHECKING:
    from onnxproof.passes.pipeline import PassContext

_NARROW = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
_WIDE = ir.DataType.FLOAT


def widen_transposed(model: ir.Model, context: PassContext) -> None:
    """Put the cast to float32 before the transpose of such products."""
    for graph in graphs(model):
        for node in graph:
            if node.op_type == "MatMul" and not node.domain and _ranks_differ(node):
                moved = [_transpose_of(value) for value in node.inputs]
                if any(moved):
                    _rewrite(node, moved)


def _ranks_differ(node: ir.Node) -> bool:
    ranks = [None if v is None or v.shape is None else len(v.shape) for v in node.inputs]
    return None not in ranks and len(set(ranks)) > 1


def _transpose_of(value: ir.Value | None) -> ir.Node | None:
    """The transpose that a 16-bit operand is a result of, with or without a cast after it."""
    producer = None if value is None else value.producer()
    if producer is not None and producer.op_type == "Cast" and not producer.domain:
        value = producer.inputs[0]
        producer = None if value is None else value.producer()
    if producer is None or producer.op_type != "Transpose" or producer.domain or value is None:
        return None
    return producer if value.dtype in _NARROW and _moves_first(tuple(attr(producer, "perm"))) else None


def _moves_first(perm: tuple[int, ...]) -> bool:
    """Whether the first axis becomes the last or the last but one, while all others keep their order."""
    rest = tuple(axis for axis in perm if axis != 0)
    return len(perm) > 2 and perm.index(0) >= len(perm) - 2 and rest == tuple(sorted(rest))


def _rewrite(node: ir.Node, moved: list[ir.Node | None]) -> None:
    operands = []
    for value, transpose in zip(node.inputs, moved, strict=True):
        assert value is not None
        if transpose is None:
            operands.append(value if value.dtype == _WIDE else _cast(node, value, _WIDE))
            continue
        wide = _cast(node, transpose.inputs[0], _WIDE)
        new = insert_like(node, "Transpose", [wide], [dims_of(transpose.outputs[0])], _perm(transpose))
        operands.append(_typed(new.outputs[0], _WIDE))
    product = insert_like(node, "MatMul", operands, [dims_of(node.outputs[0])], {}).outputs[0]
    dtype = node.outputs[0].dtype
    if dtype != _WIDE and dtype is not None:
        product = _cast(node, _typed(product, _WIDE), dtype)
    replace_node(node, [product])


def _cast(node: ir.Node, value: ir.Value | None, dtype: ir.DataType) -> ir.Value:
    assert value is not None
    dims: Dims | None = dims_of(value)
    return _typed(insert_like(node, "Cast", [value], [dims], {"to": dtype}).outputs[0], dtype)


def _typed(value: ir.Value, dtype: ir.DataType) -> ir.Value:
    value.type = ir.TensorType(dtype)
    return value


def _perm(transpose: ir.Node) -> dict[str, list[int]]:
    return {"perm": [int(axis) for axis in attr(transpose, "perm")]}
