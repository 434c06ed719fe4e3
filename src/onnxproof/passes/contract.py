"""Fold what follows a contraction into its constants: bias, batch normalisation, scales.

A chain of Add, Sub, Mul and Div by one constant for each channel after Conv, ConvTranspose or MatMul is an
affine map of its channels; the scale goes into the kernel, the shift into the bias.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from onnxproof.passes.constants import SMALL, Array, Constants, note
from onnxproof.passes.edit import dims_of, graph_of, insert_like, only_user, replace_node
from onnxproof.passes.evaluate import attr
from onnxproof.passes.graphs import graphs

if TYPE_CHECKING:
    from onnxproof.passes.pipeline import PassContext

_CONVOLUTIONS = ("Conv", "ConvTranspose")
_TYPES = (ir.DataType.FLOAT, ir.DataType.DOUBLE)  # half floats round between the steps, as the program says
_LARGEST = 1e6  # a scale beyond this, or below its inverse, could overflow or lose the kernel
_WIDE = 1 << 26  # bytes up to which a kernel is scaled in float64


def contract_affine(model: ir.Model, context: PassContext) -> None:
    """Fold channel-wise constants into the convolution or product that only they use."""
    constants = Constants(model, "contract" if context.provenance else None)
    contractor = _Contractor(constants, context.provenance)
    for graph in graphs(model):
        if not isinstance(graph, ir.Graph):
            continue  # a function holds no initializers
        for node in graph:
            if node.domain or node.outputs[0].dtype not in _TYPES:
                continue
            if node.op_type in _CONVOLUTIONS:
                contractor.pad(node)
                contractor.convolution(node)
            elif node.op_type == "MatMul":
                contractor.product(node)
    constants.settle()


@dataclass
class _Affine:
    """``y = scale * x + shift`` for each channel, by which nodes, from which constants.

    ``split`` is the last reshape on the way, if any, that split the last axis into ``tail``.
    """

    scale: Array
    shift: Array
    tail: tuple[int, ...]
    nodes: list[ir.Node] = field(default_factory=list)
    split: ir.Node | None = None
    sources: list[ir.Value] = field(default_factory=list)

    @property
    def added(self) -> ir.Value | None:
        """The constant, where adding it is all that there is to do."""
        one = len(self.sources) == 1 and [n.op_type for n in self.nodes if n.op_type != "Reshape"] == ["Add"]
        return self.sources[0] if one else None

    @property
    def scales(self) -> bool:
        return any(node.op_type in ("Mul", "Div") for node in self.nodes) or bool(np.any(self.scale != 1))

    @property
    def shifts(self) -> bool:
        return any(node.op_type in ("Add", "Sub") for node in self.nodes)  # a bias of zeros stays a bias

    @property
    def sound(self) -> bool:
        """Whether scale and shift are of a size that folding survives."""
        size = np.abs(self.scale)
        ordinary = np.all(((size <= _LARGEST) & (size >= 1 / _LARGEST)) | (size == 0))
        return bool(ordinary and np.all(np.isfinite(self.shift)))


class _Contractor:
    def __init__(self, constants: Constants, provenance: bool) -> None:
        self.constants = constants
        self.provenance = provenance
        self._scaled: dict[tuple[ir.Value, bytes], ir.Value] = {}

    def affine(self, node: ir.Node, channels: int, axis: int, may_scale: bool) -> _Affine:
        """The longest chain of channel-wise steps that alone uses the result of ``node``."""
        found = _Affine(np.ones(channels), np.zeros(channels), (channels,))
        value = node.outputs[0]
        rank = len(dims_of(value) or ())
        last = axis == rank - 1
        waiting: list[ir.Node] = []  # reshapes that no step has followed yet
        while (user := only_user(value)) is not None:
            if last and (tail := _split_last(user, value, len(found.tail), channels)):
                found.tail = tail
                waiting.append(user)
                value = user.outputs[0]
                continue
            after = 0 if last else rank - 1 - axis
            step = self.step(user, value, found.tail, after)
            if step is None:
                break
            scale, shift, source = step
            if not may_scale and np.any(scale != 1):
                break
            with np.errstate(all="ignore"):
                following = replace(found, scale=found.scale * scale, shift=found.shift * scale + shift)
            if not following.sound:
                break
            found.scale, found.shift = following.scale, following.shift
            found.split = waiting[-1] if waiting else found.split
            found.nodes += [*waiting, user]
            waiting.clear()
            found.sources.insert(0, source)
            value = user.outputs[0]
        return found

    def step(
        self, node: ir.Node, value: ir.Value, tail: tuple[int, ...], after: int
    ) -> tuple[Array, Array, ir.Value] | None:
        """(scale, shift, constant) of one operator, or None if it is not channel-wise.

        Channels are numbered by the axes ``tail``, ``after`` axes before the last.
        """
        if node.domain or node.op_type not in ("Add", "Sub", "Mul", "Div") or len(node.inputs) != 2:
            return None
        first = node.inputs[0] is value
        other = node.inputs[1] if first else node.inputs[0]
        if other is None or other is value or not self.constants.is_constant(other):
            return None
        shape, rank = self.constants.shape(other), len(dims_of(value) or ())
        if len(shape) > rank:
            return None
        lead = rank - after - len(tail)
        full = (1,) * (rank - len(shape)) + shape
        own = full[lead : rank - after]
        if math.prod(full) != math.prod(own) or any(d not in (1, t) for d, t in zip(own, tail, strict=True)):
            return None
        channels = math.prod(tail)
        c = np.broadcast_to(self.constants.array(other).astype(np.float64).reshape(own), tail).ravel()
        one, zero = np.ones(channels), np.zeros(channels)
        with np.errstate(all="ignore"):
            match node.op_type, first:
                case "Add", _:
                    return one, c, other
                case "Sub", True:
                    return one, -c, other
                case "Sub", False:
                    return -one, c, other
                case "Mul", _:
                    return c, zero, other
                case "Div", True:
                    return 1 / c, zero, other
        return None

    def convolution(self, node: ir.Node) -> None:
        """Conv or ConvTranspose, the scale after it in its kernel, the shift in its bias."""
        kernel = node.inputs[1]
        bias = node.inputs[2] if len(node.inputs) > 2 else None
        shape = dims_of(node.outputs[0])
        if kernel is None or shape is None or not isinstance(shape[1], int):
            return
        if bias is not None and not self.constants.is_constant(bias):
            return
        found = self.affine(node, shape[1], 1, self.may_scale(kernel))
        if not found.nodes:
            return
        start = np.zeros(shape[1]) if bias is None else self.constants.array(bias).astype(np.float64)
        shift = start * found.scale + found.shift
        if found.scales:
            groups = int(attr(node, "group", 1))
            kernel = self.scaled(kernel, _kernel_scale(node.op_type, found.scale, kernel, groups))
        inputs = [node.inputs[0], kernel]
        if bias is not None or found.shifts:
            before = [] if bias is None else [bias]
            added = None if bias is not None else found.added
            inputs.append(self.vector(shift, kernel, [*before, *found.sources], added))
        new = insert_like(node, node.op_type, inputs, [shape])
        self.finish(new, node, found.nodes)

    def product(self, node: ir.Node) -> None:
        """MatMul with a constant matrix: scale into the matrix, one Add for the shift, or both in Gemm."""
        x, matrix = node.inputs
        out = dims_of(node.outputs[0])
        if x is None or matrix is None or not self.constants.is_constant(matrix) or not out:
            return
        shape = self.constants.shape(matrix)
        if len(shape) != 2 or out[-1] != shape[1]:
            return
        found = self.affine(node, shape[1], len(out) - 1, self.may_scale(matrix))
        if not found.nodes or (len(found.nodes) == 1 and found.shifts and len(out) != 2):
            return  # one Add is what would be left
        if found.scales:
            matrix = self.scaled(matrix, found.scale)
        bias = self.vector(found.shift, matrix, found.sources, found.added) if found.shifts else None
        if bias is not None and len(out) == 2 and len(dims_of(x) or ()) == 2:
            new = insert_like(node, "Gemm", [x, matrix, bias], [out], {})
        else:
            new = insert_like(node, "MatMul", [x, matrix], [out])
            if bias is not None:
                self.touch(new)
                new = insert_like(node, "Add", [new.outputs[0], bias], [out], {})
        if found.split is not None:
            self.touch(new)
            end = dims_of(found.nodes[-1].outputs[0])
            attributes = {k: a.value for k, a in found.split.attributes.items()}
            shape_input = found.split.inputs[1]
            new = insert_like(found.nodes[-1], "Reshape", [new.outputs[0], shape_input], [end], attributes)
        self.finish(new, node, found.nodes)

    def pad(self, node: ir.Node) -> None:
        """Zeros put around the input, also before its transpose, are the convolution's own padding."""
        source = node.inputs[0]
        turn = source.producer() if source is not None else None
        if source is None or turn is None or turn.graph is not node.graph or "auto_pad" in node.attributes:
            return
        moved = turn.op_type == "Transpose" and only_user(source) is node
        padded = turn.inputs[0] if moved else source
        pad = padded.producer() if padded is not None else None
        if padded is None or pad is None or only_user(padded) is not (turn if moved else node):
            return
        amounts = self.zeros_around(pad)
        if amounts is None:
            return
        low, high = amounts
        if moved:
            perm = list(attr(turn, "perm"))
            low, high = low[perm], high[perm]
        if node.op_type != "Conv" or low[:2].any() or high[:2].any():
            return
        own = np.asarray(attr(node, "pads", [0] * (2 * (len(low) - 2))))
        total = own + np.concatenate([low[2:], high[2:]])
        node.attributes.add(ir.AttrInt64s("pads", [int(p) for p in total]))
        start = pad.inputs[0]
        if moved and start is not None:
            dims = dims_of(start)
            shape = None if dims is None else [dims[p] for p in perm]
            new = insert_like(turn, "Transpose", [start], [None if shape is None else tuple(shape)])
            start = new.outputs[0]
        node.replace_input_with(0, start)
        for old in (turn, pad) if moved else (pad,):
            graph_of(old).remove(old, safe=True)
        self.touch(node)

    def zeros_around(self, pad: ir.Node) -> tuple[Array, Array] | None:
        """How many zeros a Pad puts before and after each axis; None if it does anything else."""
        amounts, value = pad.inputs[1] if len(pad.inputs) > 1 else None, (*pad.inputs, None, None)[2]
        if pad.op_type != "Pad" or pad.domain or len(pad.inputs) > 3 or amounts is None:
            return None
        if attr(pad, "mode", "constant") != "constant" or not self.constants.is_constant(amounts):
            return None
        if value is not None and (not self.constants.is_constant(value) or self.constants.array(value).any()):
            return None
        low, high = np.split(self.constants.array(amounts), 2)
        return None if low.min() < 0 or high.min() < 0 else (low, high)

    def may_scale(self, weight: ir.Value) -> bool:
        """Whether a scaled copy replaces the weight, or is small beside everything else."""
        if not self.constants.is_constant(weight):
            return False
        alone = len(weight.uses()) == 1 and not weight.is_graph_output()
        return alone or self.constants.nbytes(weight) <= SMALL

    def scaled(self, weight: ir.Value, scale: Array) -> ir.Value:
        """The weight times ``scale``, which broadcasts against it."""
        tensor, dtype = weight.const_value, np.dtype(weight.dtype.numpy())  # type: ignore[union-attr]
        assert tensor is not None
        key = (weight, scale.tobytes())
        if key not in self._scaled:
            kind: Any = np.float64 if tensor.nbytes <= _WIDE else dtype
            read = partial(_multiplied, tensor, scale.astype(kind), dtype)
            if self.constants.is_weight(weight):
                shape = self.constants.shape(weight)
                self._scaled[key] = self.constants.derive([weight], read, shape, dtype, "scaled")
            else:
                self._scaled[key] = self.constants.literal(read())
        return self._scaled[key]

    def vector(
        self, values: Array, like: ir.Value, sources: list[ir.Value], added: ir.Value | None
    ) -> ir.Value:
        """A bias, rounded to the dtype of ``like`` once; ``added``, which is all of it, stays what it was."""
        array = values.astype(like.dtype.numpy())  # type: ignore[union-attr]
        steps = None
        if added is not None and math.prod(self.constants.shape(added)) == array.size:
            if self.constants.shape(added) == array.shape:
                return added
            steps = [["reshape", list(array.shape)]]
        if not any(map(self.constants.is_weight, sources)):
            return self.constants.literal(array)
        return self.constants.derive(sources, lambda: array, array.shape, array.dtype, "bias", steps)

    def finish(self, new: ir.Node, node: ir.Node, chain: list[ir.Node]) -> None:
        """Put ``new`` in the place of ``node`` and the chain after it."""
        self.touch(new)
        replace_node(chain[-1], new.outputs)
        for old in (*reversed(chain[:-1]), node):
            graph_of(old).remove(old, safe=True)

    def touch(self, node: ir.Node) -> None:
        if self.provenance:
            note(node, "contract")


def _split_last(node: ir.Node, value: ir.Value, parts: int, channels: int) -> tuple[int, ...] | None:
    """The axes into which a reshape splits the channels, which stand in the last ``parts`` axes."""
    before, after = dims_of(value), dims_of(node.outputs[0])
    if node.op_type != "Reshape" or node.domain or node.inputs[0] is not value or not before or not after:
        return None
    lead = len(before) - parts
    tail = tuple(d for d in after[lead:] if isinstance(d, int))
    if after[:lead] != before[:lead] or len(tail) != len(after) - lead or math.prod(tail) != channels:
        return None
    return tail or None


def _multiplied(tensor: ir.TensorProtocol, scale: Array, dtype: np.dtype[Any]) -> Array:
    return np.asarray(np.asarray(tensor.numpy()) * scale).astype(dtype)


def _kernel_scale(op: str, scale: Array, kernel: ir.Value, groups: int) -> Array:
    """The scale of output channels against the kernel, which is ``[o, c/g, ...]`` or ``[c, o/g, ...]``."""
    shape = [int(d) for d in kernel.shape.numpy()]  # type: ignore[union-attr]
    ones = [1] * (len(shape) - 2)
    if op == "Conv":
        return scale.reshape(-1, 1, *ones)
    return np.repeat(scale.reshape(groups, -1), shape[0] // groups, axis=0).reshape(*shape[:2], *ones)
