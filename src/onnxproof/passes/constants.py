"""The constants of a model, and tensors derived from them.

A *weight* is an initializer that reads an array of the exported callable when it is written (an
``ir.LazyTensor``); what is derived from it stays lazy and keeps its name. Any other initializer is a literal.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxproof.lowering.emit import constant_name, ir_shape, ir_type

Array = np.ndarray[Any, Any]
SMALL = 4096  # bytes that a derived constant may always have
EAGER = 1 << 20  # bytes up to which arithmetic on weights is done at once
# Metadata: the weights that a tensor comes from, and the shape of the one and the steps that make the tensor of it.
DERIVED = "onnxproof.derived"
# ["reshape", shape], ["transpose", order], ["slice", starts, ends, axes, strides]: what NumPy does by these names.
Steps = Sequence[Sequence[Any]]


class Constants:
    """Initializers of the main graph; every graph inside it may capture them."""

    def __init__(self, model: ir.Model, derived_by: str | None) -> None:
        """``derived_by`` is the pass that derived tensors name in their metadata, None to leave it out."""
        self._graph = model.graph
        self._outputs = set(model.graph.outputs)
        self._derived_by = derived_by
        self._roots: dict[ir.Value, ir.Value] = {}
        self._numbers: dict[str, int] = {}

    def is_constant(self, value: ir.Value | None) -> bool:
        return value is not None and value.const_value is not None and value.producer() is None

    def is_weight(self, value: ir.Value) -> bool:
        return isinstance(value.const_value, ir.LazyTensor)

    def nbytes(self, value: ir.Value) -> int:
        assert value.const_value is not None
        return value.const_value.nbytes

    def array(self, value: ir.Value) -> Array:
        """The content; of a weight without copying where NumPy can view it."""
        assert value.const_value is not None
        return np.asarray(value.const_value.numpy())

    def shape(self, value: ir.Value) -> tuple[int, ...]:
        assert value.const_value is not None
        return tuple(int(d) for d in value.const_value.shape.numpy())

    def literal(self, array: Array) -> ir.Value:
        """An initializer for a constant of the program, shared with one of equal content."""
        name = constant_name(array)
        known = self._graph.initializers.get(name)
        if known is not None and not self.is_weight(known) and self._same(known, array):
            return known
        return self._add(name, ir.Tensor(array), array.dtype)

    def derive(
        self,
        sources: Iterable[ir.Value],
        read: Callable[[], Array],
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        suffix: str,
        steps: Steps | None = None,
    ) -> ir.Value:
        """A tensor computed from weights when it is written; it takes the name of one of them.

        Args:
            sources: the tensors it comes from; the largest weight among them, the first of equals, names it.
            read: computes the content.
            suffix: tells its name from the weight's where both stay (``kernel.T``).
            steps: what makes it of the one source, where that can be said; others can't be made anew by a reader.
        """
        weights = [s for s in sources if self.is_weight(s)]
        original = [w for w in weights if w not in self._roots] or weights
        root = max(original, key=self.nbytes)
        root = self._roots.get(root, root)
        onnx_type = ir.DataType.from_numpy(dtype)

        def tensor() -> ir.TensorProtocol:
            return ir.Tensor(np.asarray(read(), dtype), dtype=onnx_type)

        lazy = ir.LazyTensor(tensor, dtype=onnx_type, shape=ir.Shape(shape), cache=False)
        value = self._add(f"{root.name}.{suffix}", lazy, dtype)
        self._roots[value] = root
        value.metadata_props.update(root.metadata_props)
        if self._derived_by:
            note(value, self._derived_by)
            value.metadata_props[DERIVED] = _recipe(weights, steps)
        return value

    def settle(self) -> None:
        """Drop the tensors that nothing reads any more; what was derived from them inherits their names."""
        initializers = self._graph.initializers
        heirs: dict[ir.Value, ir.Value] = {}
        for value, root in self._roots.items():
            if value.uses() or value in self._outputs:
                heirs.setdefault(root, value)
            else:
                self._remove(value)
        for root, heir in heirs.items():
            if root.uses() or root in self._outputs or root.name not in initializers:
                continue
            name = root.name
            self._remove(root)
            self._remove(heir)
            self._rename(heir, str(name))
        self._roots.clear()

    def _same(self, known: ir.Value, array: Array) -> bool:
        other = self.array(known)
        return (
            other.dtype == array.dtype and other.shape == array.shape and other.tobytes() == array.tobytes()
        )

    def _add(self, name: str, tensor: ir.TensorProtocol, dtype: np.dtype[Any]) -> ir.Value:
        shape = ir_shape(tuple(int(d) for d in tensor.shape.numpy()))
        value = ir.Value(name=name, shape=shape, type=ir_type(dtype), const_value=tensor)
        self._rename(value, name)
        return value

    def _rename(self, value: ir.Value, name: str) -> None:
        unique, n = name, self._numbers.get(name, 1)
        while unique in self._graph.initializers:
            unique, n = f"{name}.{n}", n + 1
        self._numbers[name] = n
        value.name = unique
        assert value.const_value is not None
        value.const_value.name = unique
        self._graph.initializers[unique] = value

    def _remove(self, value: ir.Value) -> None:
        if self._graph.initializers.get(str(value.name)) is value:
            del self._graph.initializers[str(value.name)]


def _recipe(weights: Sequence[ir.Value], steps: Steps | None) -> str:
    """What a file says of a derived tensor: where it comes from, and how, in steps from the weight of the program."""
    before = [json.loads(w.metadata_props.get(DERIVED, '{"from": [], "steps": []}')) for w in weights]
    names = [name for w, said in zip(weights, before, strict=True) for name in said["from"] or [str(w.name)]]
    known = steps is not None and len(weights) == 1 and before[0]["steps"] is not None
    if not known:
        return json.dumps({"from": list(dict.fromkeys(names)), "steps": None})
    assert weights[0].const_value is not None
    # A reader needs the shape: other shapes would fit a reshape or a slice just as well, and mean something else.
    shape = before[0].get("shape", [int(d) for d in weights[0].const_value.shape.numpy()])
    return json.dumps({"from": names, "shape": shape, "steps": [*before[0]["steps"], *(steps or ())]})


def note(item: ir.Value | ir.Node, pass_name: str) -> None:
    """Add ``pass_name`` to the passes that touched ``item``."""
    touched = item.metadata_props.get("onnxproof.passes", "").split()
    if pass_name not in touched:
        item.metadata_props["onnxproof.passes"] = " ".join([*touched, pass_name])
