"""How legalization writes nodes: constants, casts that are shared, and provenance that is inherited."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxproof.capture.program import SymDim
from onnxproof.errors import IllegalForTarget, InternalError
from onnxproof.lowering.emit import attribute, constant_name

MaybeDim = int | SymDim | None
DType = ir.DataType
_PREDICATES = frozenset(
    ["And", "Equal", "Greater", "GreaterOrEqual", "IsInf", "IsNaN", "Less", "LessOrEqual", "Not", "Or"]
)
_TRACE = "onnxproof.passes"


def dims_of(value: ir.Value) -> tuple[MaybeDim, ...] | None:
    """The shape of a value: sizes, texts of symbolic dimensions, None where a dimension is unknown."""
    if value.shape is None:
        return None
    return tuple(
        d if isinstance(d, int) else None if d.value is None else SymDim(d.value) for d in value.shape
    )


def dtype_of(value: ir.Value) -> DType:
    if value.dtype is None:
        raise InternalError(f"the value {value.name!r} has no dtype")
    return value.dtype


def small_constant(value: ir.Value) -> np.ndarray[Any, Any] | None:
    """The array behind a literal; weights, which are lazy, are not read."""
    tensor = value.const_value
    return tensor.numpy() if isinstance(tensor, ir.Tensor) else None


def broadcast(shapes: Sequence[tuple[MaybeDim, ...] | None]) -> tuple[MaybeDim, ...] | None:
    """NumPy broadcasting; a dimension that can't be told is None, and so is the whole where a rank can't."""
    if any(s is None for s in shapes):
        return None
    known = [s for s in shapes if s is not None]
    rank = max((len(s) for s in known), default=0)
    out: list[MaybeDim] = []
    for i in range(-rank, 0):
        found = {s[i] for s in known if len(s) >= -i} - {1}
        sizes = [d for d in found if isinstance(d, int)]
        out.append(sizes[0] if sizes else 1 if not found else found.pop() if len(found) == 1 else None)
    return tuple(out)


def _key(array: np.ndarray[Any, Any]) -> tuple[Any, ...]:
    return array.dtype, array.shape, array.tobytes()


class Constants:
    """The constants that legalization adds: initializers of the main graph, nodes in a function."""

    def __init__(self, graph: ir.Graph, in_function: bool) -> None:
        self._graph = graph
        self._in_function = in_function
        self._known: dict[tuple[Any, ...], ir.Value] = {}

    def get(self, array: np.ndarray[Any, Any]) -> ir.Value:
        key = _key(array)
        value = self._known.get(key)
        if value is None:
            value = self._node(array) if self._in_function else self._initializer(array)
            self._known[key] = value
        return value

    def _initializer(self, array: np.ndarray[Any, Any]) -> ir.Value:
        initializers = self._graph.initializers
        name = base = constant_name(array)
        n = 1
        while name in initializers:
            found = small_constant(initializers[name])
            if found is not None and _key(found) == _key(array):
                return initializers[name]
            name, n = f"{base}.{n}", n + 1
        tensor = ir.Tensor(array, name=name)
        value = ir.Value(
            name=name, type=ir.TensorType(tensor.dtype), shape=ir.Shape(array.shape), const_value=tensor
        )
        initializers[name] = value
        return value

    def _node(self, array: np.ndarray[Any, Any]) -> ir.Value:
        tensor = ir.Tensor(array)
        node = ir.Node("", "Constant", [], attributes=[ir.AttrTensor("value", tensor)])
        out = node.outputs[0]
        out.type, out.shape, out.const_value = ir.TensorType(tensor.dtype), ir.Shape(array.shape), tensor
        self._graph.insert_before(self._graph[0], node)
        return out


Legalize = Callable[[ir.Node, Constants], Sequence[ir.Value]]


class Emitter:
    """Writes nodes in front of one node, which they are to replace. Each is legalized as it is written."""

    def __init__(self, node: ir.Node, opset: int, constants: Constants, legalize: Legalize) -> None:
        if node.graph is None:
            raise InternalError(f"a {node.op_type} node stands in no graph")
        self.node = node
        self.opset = opset
        self.constants = constants
        self._legalize = legalize
        self._props = dict(node.metadata_props)
        if self._props:
            passes = self._props.get(_TRACE, "").split()
            self._props[_TRACE] = " ".join([*passes, *([] if "legalize" in passes else ["legalize"])])

    # -- nodes --------------------------------------------------------------------------------

    def build(
        self,
        op: str,
        inputs: Sequence[ir.Value | None],
        attributes: Sequence[ir.Attr],
        dtypes: Sequence[DType],
    ) -> ir.Node:
        """A node that is in no graph yet, with the provenance of the one it stands for."""
        node = ir.Node("", op, inputs, attributes=attributes, num_outputs=len(dtypes))
        node.metadata_props.update(self._props)
        for out, dtype in zip(node.outputs, dtypes, strict=True):
            out.type = ir.TensorType(dtype)
        return node

    def insert(self, node: ir.Node) -> Sequence[ir.Value]:
        """Put a node in front of the one to be replaced; its results, or those of what it had to become."""
        graph = self.node.graph
        if graph is None:
            raise InternalError("legalization works on a node that was removed")
        graph.insert_before(self.node, node)
        return self._legalize(node, self.constants)

    def op(
        self,
        op: str,
        *inputs: ir.Value | None,
        dtype: DType | None = None,
        shape: Sequence[MaybeDim] | None = None,
        **attrs: Any,
    ) -> ir.Value:
        """Emit an operator with one result: of the dtype of its first operand, broadcast, unless told."""
        operands = [v for v in inputs if v is not None]
        if dtype is None:
            dtype = DType.BOOL if op in _PREDICATES else dtype_of(operands[1 if op == "Where" else 0])
        while inputs and inputs[-1] is None:
            inputs = inputs[:-1]
        node = self.build(op, inputs, [attribute(k, v) for k, v in attrs.items()], [dtype])
        known = broadcast([dims_of(v) for v in operands]) if shape is None else tuple(shape)
        if known is not None:
            node.outputs[0].shape = ir.Shape([str(d) if isinstance(d, SymDim) else d for d in known])
        return self.insert(node)[0]

    def cast(self, value: ir.Value, dtype: DType) -> ir.Value:
        if dtype_of(value) == dtype:
            return value
        return self.op("Cast", value, to=dtype, dtype=dtype, shape=dims_of(value))

    # -- constants ----------------------------------------------------------------------------

    def const(self, value: Any, dtype: DType | None = None) -> ir.Value:
        array = np.asarray(value, None if dtype is None else dtype.numpy())
        return self.constants.get(array)

    def like(self, value: Any, other: ir.Value) -> ir.Value:
        """A scalar in the dtype of ``other``."""
        return self.const(value, dtype_of(other))

    def i64(self, values: Sequence[int]) -> ir.Value:
        return self.const(list(values), DType.INT64)

    # -- facts about the node -----------------------------------------------------------------

    def attr(self, name: str, default: Any = None) -> Any:
        """The value of an attribute of the node."""
        found = self.node.attributes.get(name)
        return default if found is None else found.value

    def rank(self, value: ir.Value) -> int:
        if value.shape is None:
            raise self.refuse("on a value of unknown rank")
        return len(value.shape)

    def refuse(self, why: str, way_out: str = "") -> IllegalForTarget:
        """The error for a node that has no legal spelling."""
        return IllegalForTarget(
            f"{self.node.op_type} {why} can't be run by the target (opset {self.opset})",
            site=site_of(self.node),
            way_out=way_out or "Compute that part in float32.",
        )


def site_of(node: ir.Node) -> str:
    """The user's line that a node stands for."""
    return node.metadata_props.get("onnxproof.source", "")
