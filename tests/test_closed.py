"""The pipeline's last step refuses a graph in which a value is read that nothing gives."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from onnxproof.errors import InternalError
from onnxproof.passes.closed import require_closed
from onnxproof.passes.pipeline import PassContext

CONTEXT = PassContext(23, "ort-cpu")


def _model(*, lost: bool, inner: bool) -> ir.Model:
    """An If over ``x``; its branch reads ``x``, or a value whose node is in no graph."""
    x, test = (
        ir.Value(name=n, type=ir.TensorType(t))
        for n, t in (("x", ir.DataType.FLOAT), ("t", ir.DataType.BOOL))
    )
    stray = ir.Node("", "Neg", [x]).outputs[0]
    read = ir.Node("", "Abs", [stray if lost and inner else x])
    body = ir.Graph([], read.outputs, nodes=[read], name="body")
    branch = ir.Node("", "If", [test], attributes=[ir.AttrGraph("then_branch", body)])
    last = ir.Node("", "Exp", [stray if lost and not inner else branch.outputs[0]])
    return ir.Model(
        ir.Graph([x, test], last.outputs, nodes=[branch, last], name="g", opset_imports={"": 23}),
        ir_version=10,
    )


@pytest.mark.parametrize("inner", [True, False])
def test_a_lost_value(inner: bool) -> None:
    require_closed(_model(lost=False, inner=inner), CONTEXT)
    with pytest.raises(InternalError, match="reads"):
        require_closed(_model(lost=True, inner=inner), CONTEXT)
