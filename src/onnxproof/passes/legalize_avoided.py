"""Forms of operators that a target has kernels for and must not be given: they compute otherwise there, or fail.

A target names them in its limit ``avoided``. They bear on kernels of its accelerator where it has one: what runs
beside that is computed as on the CPU. A form is rewritten by an expansion of its operator, or refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import onnx_ir as ir

from onnxproof.passes import legalize_centre, legalize_resize, legalize_slice

LIMIT = "avoided"  # of a target: names of rows below


@dataclass(frozen=True, slots=True)
class Avoided:
    """One form of an operator.

    Attributes:
        applies: whether a node of this operator has the form.
        what: the form, as errors say it after the operator.
    """

    operator: str
    applies: Callable[[ir.Node], bool]
    what: str


def _more_axes_than(most: int) -> Callable[[ir.Node], bool]:
    """Whether the first operand has more spatial axes; without a shape that is not known to be so."""

    def applies(node: ir.Node) -> bool:
        x = node.inputs[0]
        return x is not None and x.shape is not None and len(x.shape) - 2 > most

    return applies


AVOIDED: Mapping[str, Avoided] = {
    "slices-backwards": Avoided("Slice", legalize_slice.is_partial, "backwards from within an axis"),
    "rows-far-from-0": Avoided(
        "LayerNormalization", legalize_centre.is_uncentred, "of rows that are not centred"
    ),
    "resizing-of-other-ranks": Avoided(
        "Resize", legalize_resize.is_of_other_rank, "of one axis or more than five"
    ),
    "convolution-of-4-axes": Avoided("Conv", _more_axes_than(3), "over more than three axes"),
    "transposed-convolution-of-3-axes": Avoided(
        "ConvTranspose", _more_axes_than(2), "over more than two axes"
    ),
}
