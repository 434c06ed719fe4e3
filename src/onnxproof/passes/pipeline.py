"""The ordered list of passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from onnxproof.passes.closed import require_closed
from onnxproof.passes.contract import contract_affine
from onnxproof.passes.dead import remove_dead
from onnxproof.passes.fold import fold_constants
from onnxproof.passes.layout import arrange_layout
from onnxproof.passes.legalize import legalize
from onnxproof.passes.merge import merge_equal_nodes
from onnxproof.passes.names import assign_names
from onnxproof.passes.pointwise import multiply_pointwise
from onnxproof.passes.residual import keep_residuals
from onnxproof.passes.widen_transposed import widen_transposed


@dataclass(frozen=True, slots=True)
class PassContext:
    """What passes may depend on besides the graph."""

    opset: int
    target: str
    provenance: bool = True


Pass = Callable[[ir.Model, PassContext], None]

PIPELINE: Sequence[Pass] = (
    remove_dead,  # rules may emit operators that no result needs
    fold_constants,  # before any rewrite that looks for constant operands
    merge_equal_nodes,  # after folding: equal constants are one; before layout, which counts readers
    arrange_layout,  # after folding: constants take the layout that cancels most transposes
    contract_affine,  # after layout: then what follows a convolution stands next to it
    arrange_layout,  # again: reshapes that meet since the factor between them went into weights
    multiply_pointwise,  # after contraction: biases are where they end up
    remove_dead,  # rewrites leave what they replaced
    keep_residuals,  # after dead values: it asks for the one reader of a sum
    legalize,  # after whatever chooses operators: what it leaves, the target runs
    widen_transposed,  # after legalization, which puts casts after transposes
    remove_dead,  # transposes that only such products read
    assign_names,  # after all changes: names say what the finished graph holds
    require_closed,  # last: no file that a runtime could not read leaves the pipeline
)


def run(model: ir.Model, context: PassContext) -> None:
    """Run every pass, in place."""
    for step in PIPELINE:
        step(model, context)
