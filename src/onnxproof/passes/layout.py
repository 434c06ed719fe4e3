"""Move transposes together until they cancel.

Convolutions of a channels-last program arrive between two transposes. Each transpose is pushed towards the
results through operators that work on any layout; what is constant is laid out anew; opposite transposes meet
and vanish.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from onnxproof.passes.constants import SMALL, Constants, note
from onnxproof.passes.edit import Dims, dims_of, insert_like, only_user, replace_node, standing
from onnxproof.passes.evaluate import attr
from onnxproof.passes.graphs import graphs
from onnxproof.passes.perms import Perm, inverse, keeps_order, perm_of, without

if TYPE_CHECKING:
    from onnxproof.passes.pipeline import PassContext

_POINTWISE = frozenset(
    """Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast
    Ceil Celu Clip Cos Cosh Div Elu Equal Erf Exp Floor Gelu Greater GreaterOrEqual HardSigmoid HardSwish
    IsInf IsNaN LeakyRelu Less LessOrEqual Log Max Mean Min Mish Mod Mul Neg Not Or Pow Reciprocal Relu Round
    Selu Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Sub Sum Tan Tanh ThresholdedRelu Where Xor
    """.split()
)
_REDUCTIONS = frozenset(
    f"Reduce{kind}" for kind in ("L1", "L2", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
)


def arrange_layout(model: ir.Model, context: PassContext) -> None:
    """Cancel transposes against each other, and merge chains of reshapes."""
    constants = Constants(model, "layout" if context.provenance else None)
    for graph in graphs(model):
        if isinstance(graph, ir.Graph):  # a function holds no initializers
            _Arranger(graph, constants, context.provenance).run()
    constants.settle()


class _Arranger:
    """The work on one graph: a single walk in order, in which every transpose moves as far as it can."""

    def __init__(self, graph: ir.Graph, constants: Constants, provenance: bool) -> None:
        self.graph = graph
        self.constants = constants
        self.provenance = provenance
        self.relaid: dict[tuple[ir.Value, Perm, bool], ir.Value] = {}
        self.transposed: dict[tuple[ir.Value, Perm], ir.Value] = {}

    def run(self) -> None:
        for node in self.graph:
            if node.domain:
                continue
            if node.op_type == "Transpose":
                self.meet(node)
            elif node.op_type == "Reshape":
                self.reshape(node)
            elif node.op_type in _SINKS:
                self.sink(node)
        for node in reversed(self.graph):
            if (
                node.op_type == "Transpose"
                and not node.outputs[0].uses()
                and not node.outputs[0].is_graph_output()
            ):
                self.graph.remove(node, safe=True)

    # -- transposes and reshapes that meet ------------------------------------------------------

    def meet(self, node: ir.Node) -> None:
        """Merge a transpose with the transpose before it, or with an equal one."""
        source, perm = _operand(node), perm_of(node)
        before = source.producer()
        if before is not None and before.op_type == "Transpose":
            inner = perm_of(before)
            source, perm = _operand(before), tuple(inner[p] for p in perm)
        elif (
            before is not None
            and before.op_type in ("Reshape", "Unsqueeze")
            and self.regroup(node, before) is not None
        ):
            return
        identity = perm == tuple(range(len(perm)))
        known = source if identity else self.transposed.get((source, perm))
        if known is None:
            if source is not node.inputs[0]:
                new = insert_like(node, "Transpose", [source], [dims_of(node.outputs[0])], {"perm": perm})
                self.touch(new)
                replace_node(node, new.outputs)
                node = new
            self.transposed[source, perm] = node.outputs[0]
        elif not node.outputs[0].is_graph_output():
            node.outputs[0].replace_all_uses_with(known)
            self.graph.remove(node, safe=True)
        elif identity and self.may_become_output(known):
            replace_node(node, [known])

    def may_become_output(self, value: ir.Value) -> bool:
        producer = value.producer()
        return producer is not None and producer.graph is self.graph and not value.is_graph_output()

    def regroup(self, node: ir.Node, before: ir.Node) -> ir.Value | None:
        """Let a reshape put unit axes where the transpose would move them, if it moves nothing else."""
        numbers, perm = self.ints(before.inputs[1]), perm_of(node)
        if numbers is None or before.domain or not _moves_units_only(node):
            return None
        attributes = {k: v.value for k, v in before.attributes.items()}
        if before.op_type == "Unsqueeze":
            units = {a % len(perm) for a in numbers}
            if [p for p in perm if p not in units] != [p for p in range(len(perm)) if p not in units]:
                return None
            numbers = [i for i, p in enumerate(perm) if p in units]
        elif any(perm[i] != i for i in _copied(before, numbers)):
            return None
        else:
            numbers = [numbers[p] for p in perm]
        inputs = [before.inputs[0], self.constants.literal(np.asarray(numbers, np.int64))]
        new = insert_like(node, before.op_type, inputs, [dims_of(node.outputs[0])], attributes)
        self.touch(new)
        replace_node(node, new.outputs)
        return new.outputs[0]

    def reshape(self, node: ir.Node) -> None:
        """Reshape what the earlier reshapes, and transposes of unit axes alone, started from."""
        target = self.ints(node.inputs[1])
        if target is None:
            return
        source, copied = _operand(node), _copied(node, target)
        while (before := source.producer()) is not None and before.op_type in _REGROUP and not before.domain:
            if before.op_type == "Transpose" and not _moves_units_only(before):
                break
            earlier, later = dims_of(_operand(before)), dims_of(source)
            if (
                earlier is None
                or later is None
                or any(earlier[i : i + 1] != later[i : i + 1] for i in copied)
            ):
                break
            source = _operand(before)
        if source is not node.inputs[0]:
            node.replace_input_with(0, source)
            self.touch(node)
        shape = dims_of(source)
        if shape is not None and None not in shape and shape == dims_of(node.outputs[0]):
            self.skip(node, source)
        elif self.is_moved(source):
            self.flatten(node)

    def skip(self, node: ir.Node, source: ir.Value) -> None:
        """Let what reads ``node`` read ``source``, which has the same shape."""
        if not node.outputs[0].is_graph_output() or self.may_become_output(source):
            replace_node(node, [source])

    def flatten(self, node: ir.Node) -> None:
        """Reorder the rows of the matrix that a flattened, transposed operand is multiplied with."""
        before, user = _producer(_operand(node)), only_user(node.outputs[0])
        shape, flat, perm = dims_of(_operand(node)), dims_of(node.outputs[0]), perm_of(before)
        if shape is None or perm[0] != 0 or user is None or user.op_type != "MatMul":
            return
        sizes, matrix = [d for d in shape[1:] if isinstance(d, int)], user.inputs[1]
        if len(sizes) != len(perm) - 1 or flat != (shape[0], math.prod(sizes)) or matrix is None:
            return
        if not self.constants.is_constant(matrix) or matrix is user.inputs[0] or len(matrix.uses()) != 1:
            return
        if len(self.constants.shape(matrix)) != 2:
            return
        # A new node: the value of the old one is the program's, and this one holds it in another order.
        new = insert_like(node, "Reshape", [_operand(before), node.inputs[1]], [flat])
        user.replace_input_with(0, new.outputs[0])
        user.replace_input_with(1, self.reordered(matrix, sizes, tuple(i - 1 for i in inverse(perm)[1:])))
        self.graph.remove(node, safe=True)
        self.touch(new)

    def reordered(self, matrix: ir.Value, sizes: Sequence[int], order: Perm) -> ir.Value:
        """The matrix, its rows as they stand when the axes that they number are permuted."""
        shape = self.constants.shape(matrix)
        tensor = matrix.const_value
        assert tensor is not None

        def read() -> Any:
            full = np.asarray(tensor.numpy()).reshape(*sizes, shape[1])
            return full.transpose(*order, len(order)).reshape(shape)

        if not self.constants.is_weight(matrix):
            return self.constants.literal(read())
        dtype = np.dtype(matrix.dtype.numpy())  # type: ignore[union-attr]
        steps = [
            ["reshape", [*sizes, shape[1]]],
            ["transpose", [*order, len(order)]],
            ["reshape", list(shape)],
        ]
        return self.constants.derive([matrix], read, shape, dtype, "reordered", steps)

    # -- transposes that move --------------------------------------------------------------------

    def sink(self, node: ir.Node) -> None:
        """Let ``node`` work on the layout before its operands' transposes, and transpose its results."""
        moved = [v for v in node.inputs if v is not None and self.is_moved(v)]
        if not moved:
            return
        perm = perm_of(_producer(moved[0]))
        if any(perm_of(_producer(v)) != perm for v in moved):
            return
        if not all(self.worthwhile(v, node) for v in moved):
            return
        plan = _SINKS[node.op_type](self, node, perm)
        if plan is None:
            return
        inputs, attributes, out_perm = plan
        if any(old is not None and new is None for old, new in zip(node.inputs, inputs, strict=True)):
            return
        back = inverse(out_perm)
        shapes = [dims_of(v) for v in node.outputs]
        before = [None if s is None else tuple(s[i] for i in back) for s in shapes]
        new = insert_like(node, node.op_type, inputs, before, attributes)
        self.touch(new)
        results: list[ir.Value] = list(new.outputs)
        if out_perm != tuple(range(len(out_perm))):
            for i, (value, shape) in enumerate(zip(new.outputs, shapes, strict=True)):
                results[i] = self.transpose(node, value, out_perm, shape)
        replace_node(node, results)

    def is_moved(self, value: ir.Value | None) -> bool:
        producer = None if value is None else value.producer()
        return (
            producer is not None
            and producer.op_type == "Transpose"
            and not producer.domain
            and producer.graph is self.graph
        )

    def worthwhile(self, value: ir.Value, node: ir.Node) -> bool:
        """Whether no other reader keeps the transpose alive, or what follows cancels it."""
        others = [use.node for use in value.uses() if use.node is not node]
        if not value.is_graph_output() and all(o.op_type in _MOVERS for o in others):
            return True
        users = [use.node for out in node.outputs for use in out.uses()]
        return bool(users) and all(u.op_type == "Transpose" for u in users)

    def transpose(self, node: ir.Node, value: ir.Value, perm: Perm, shape: Dims | None) -> ir.Value:
        """Insert a transpose of ``value`` before ``node``."""
        new = ir.Node("", "Transpose", [value], attributes=[ir.AttrInt64s("perm", perm)])
        new.metadata_props.update(node.metadata_props)
        (out,) = new.outputs
        out.type = value.type
        out.shape = None if shape is None else ir.Shape(shape, frozen=True)
        self.graph.insert_before(node, new)
        self.touch(new)
        before = value.producer()
        if before is not None and before.op_type in ("Reshape", "Unsqueeze"):
            grouped = self.regroup(new, before)
            if grouped is not None:
                return grouped
        self.transposed[value, perm] = out
        return out

    def operand(self, node: ir.Node, value: ir.Value | None, perm: Perm, whole: bool) -> ir.Value | None:
        """``value`` in the layout before the transpose, or None where that costs more than it brings.

        ``whole``: the operator does not broadcast, so that constants keep their unit axes.
        """
        if value is None:
            return None
        if self.is_moved(value):
            return _operand(_producer(value))
        shape, back = dims_of(value), inverse(perm)
        if shape is None or len(shape) > len(perm):
            return None
        if all(d == 1 for d in shape) and not whole:
            return value
        if self.constants.is_constant(value):
            return self.relay(value, back, whole)
        if len(shape) != len(perm):
            return None if whole else self.widened(node, value, back)
        ready = self.transposed.get((value, back))
        if ready is None and not whole and sum(d != 1 for d in shape) <= len(perm) - 2:
            return self.transpose(node, value, back, tuple(shape[p] for p in back))
        return ready

    def widened(self, node: ir.Node, value: ir.Value, perm: Perm) -> ir.Value | None:
        """A runtime value of lower rank in another layout, where a reshape gives it."""
        shape = dims_of(value) or ()
        full = (1,) * (len(perm) - len(shape)) + shape
        numbers = [d for p in perm if isinstance(d := full[p], int)]
        if len(numbers) < len(full) or not keeps_order(perm, full):
            return None
        inputs = [value, self.constants.literal(np.asarray(numbers, np.int64))]
        new = insert_like(node, "Reshape", inputs, [tuple(numbers)], {})
        new.outputs[0].type = value.type
        self.touch(new)
        self.reshape(new)
        return standing(new.outputs[0])

    def relay(self, value: ir.Value, perm: Perm, whole: bool) -> ir.Value | None:
        """A constant in another layout, leading axes of size 1 left out where broadcasting supplies them."""
        shape = self.constants.shape(value)
        key = (value, perm, whole)
        if key in self.relaid:
            return self.relaid[key]
        if self.constants.nbytes(value) > SMALL and len(value.uses()) > 1:
            return None
        full = (1,) * (len(perm) - len(shape)) + shape
        new_shape = tuple(full[p] for p in perm)
        skip = 0 if whole else next(i for i, d in enumerate(new_shape) if d != 1)
        constants, tensor = self.constants, value.const_value
        assert tensor is not None

        def read() -> Any:
            return np.asarray(tensor.numpy()).reshape(full).transpose(perm).reshape(new_shape[skip:])

        if constants.is_weight(value):
            dtype = np.dtype(value.dtype.numpy())  # type: ignore[union-attr]
            steps = [["reshape", list(full)], ["transpose", list(perm)], ["reshape", list(new_shape[skip:])]]
            made = constants.derive([value], read, new_shape[skip:], dtype, "T", steps)
        else:
            made = constants.literal(np.array(read(), order="C"))
        self.relaid[key] = made
        return made

    def ints(self, value: ir.Value | None) -> list[int] | None:
        """The content of a constant of integers."""
        if value is None or not self.constants.is_constant(value):
            return None
        return [int(v) for v in self.constants.array(value).ravel()]

    def touch(self, node: ir.Node) -> None:
        if self.provenance:
            note(node, "layout")


def _operand(node: ir.Node) -> ir.Value:
    value = node.inputs[0]
    assert value is not None
    return value


def _copied(node: ir.Node, target: list[int]) -> list[int]:
    """The axes whose size a reshape takes over from its operand."""
    return [] if attr(node, "allowzero", 0) else [i for i, d in enumerate(target) if d == 0]


def _moves_units_only(node: ir.Node) -> bool:
    shape = dims_of(_operand(node))
    return shape is not None and keeps_order(perm_of(node), shape)


def _base(node: ir.Node) -> ir.Value:
    """The operand of the transpose that gives the node's first operand."""
    return _operand(_producer(_operand(node)))


def _producer(value: ir.Value) -> ir.Node:
    producer = value.producer()
    assert producer is not None
    return producer


# -- how each kind of operator changes with the layout: inputs, attributes (None: kept), result's transpose

Plan = tuple[Sequence[ir.Value | None], dict[str, Any] | None, Perm]


def _pointwise(a: _Arranger, node: ir.Node, perm: Perm) -> Plan | None:
    out = dims_of(node.outputs[0])
    if out is None or len(out) != len(perm):
        return None
    full = any(a.is_moved(v) and dims_of(v) == out for v in node.inputs if v is not None)
    if not full:
        return None
    return [a.operand(node, v, perm, whole=False) for v in node.inputs], None, perm


def _reduction(a: _Arranger, node: ir.Node, perm: Perm) -> Plan | None:
    by_input = len(node.inputs) > 1
    axes = a.ints(node.inputs[1]) if by_input else attr(node, "axes")
    if not axes or not a.is_moved(node.inputs[0]):
        return None
    at = sorted(perm[x % len(perm)] for x in axes)
    attributes = {k: v.value for k, v in node.attributes.items()}
    inputs = [_base(node)]
    if by_input:
        inputs.append(a.constants.literal(np.asarray(at, np.int64)))
    else:
        attributes["axes"] = at
    if attr(node, "keepdims", 1):
        return inputs, attributes, perm
    return inputs, attributes, without(perm, at)


def _squeeze(a: _Arranger, node: ir.Node, perm: Perm) -> Plan | None:
    axes = a.ints(node.inputs[1]) if len(node.inputs) > 1 else None
    if not axes or not a.is_moved(node.inputs[0]):
        return None
    at = sorted(perm[x % len(perm)] for x in axes)
    inputs = [_base(node), a.constants.literal(np.asarray(at, np.int64))]
    return inputs, None, without(perm, at)


def _concat(a: _Arranger, node: ir.Node, perm: Perm) -> Plan | None:
    inputs = [a.operand(node, v, perm, whole=True) for v in node.inputs]
    return inputs, {"axis": perm[int(attr(node, "axis")) % len(perm)]}, perm


def _split(a: _Arranger, node: ir.Node, perm: Perm) -> Plan | None:
    attributes = {k: v.value for k, v in node.attributes.items()}
    attributes["axis"] = perm[int(attr(node, "axis", 0)) % len(perm)]
    return [_base(node), *node.inputs[1:]], attributes, perm


def _pad(a: _Arranger, node: ir.Node, perm: Perm) -> Plan | None:
    amounts = a.ints(node.inputs[1])
    if amounts is None or len(node.inputs) > 3:
        return None
    back, r = inverse(perm), len(perm)
    moved = [amounts[i] for i in back] + [amounts[r + i] for i in back]
    pads = a.constants.literal(np.asarray(moved, np.int64))
    return [_base(node), pads, *node.inputs[2:]], None, perm


def _slice(a: _Arranger, node: ir.Node, perm: Perm) -> Plan | None:
    axes = a.ints(node.inputs[3]) if len(node.inputs) > 3 else None
    if not axes or not a.is_moved(node.inputs[0]):
        return None
    at = a.constants.literal(np.asarray([perm[x % len(perm)] for x in axes], np.int64))
    source = _base(node)
    return [source, *node.inputs[1:3], at, *node.inputs[4:]], None, perm


_SINKS: Mapping[str, Callable[[_Arranger, ir.Node, Perm], Plan | None]] = {
    **dict.fromkeys(_POINTWISE, _pointwise),
    **dict.fromkeys(_REDUCTIONS, _reduction),
    "Concat": _concat,
    "Pad": _pad,
    "Slice": _slice,
    "Split": _split,
    "Squeeze": _squeeze,
}
_MOVERS = frozenset({*_SINKS, "Transpose"})
_REGROUP = frozenset({"Reshape", "Squeeze", "Transpose", "Unsqueeze"})
