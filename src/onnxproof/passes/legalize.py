"""Rewrite what the target has no kernel for, from a table keyed by the operator and the type that is missing.

Three ways, tried in this order: an *expansion* into other operators (``legalize_centre``, ``legalize_fourier``,
``legalize_logic``, ``legalize_math``, ``legalize_reduce``, ``legalize_resize``, ``legalize_slice``,
``legalize_window``), a *widening* (``legalize_widen``: compute in a larger type that has a kernel and narrow the
result, where that gives the same value), and an error that says what it would take. What a rewrite writes is
legalized in turn, so an expansion may use any operator of the core dialect. Forms that a kernel gets wrong
(``legalize_avoided``) count as without one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import onnx_ir as ir

from onnxproof import targets
from onnxproof.errors import IllegalForTarget
from onnxproof.passes import (
    legalize_centre,
    legalize_fourier,
    legalize_logic,
    legalize_math,
    legalize_reduce,
    legalize_resize,
    legalize_slice,
    legalize_window,
)
from onnxproof.passes.edit import STANDS_FOR
from onnxproof.passes.graphs import graphs, nested
from onnxproof.passes.legalize_avoided import AVOIDED, LIMIT, Avoided
from onnxproof.passes.legalize_emit import Constants, DType, Emitter, dtype_of, site_of
from onnxproof.passes.legalize_single import chain, in_single
from onnxproof.passes.legalize_widen import Widener
from onnxproof.targets import OpVersion, Target

if TYPE_CHECKING:
    from onnxproof.passes.pipeline import PassContext

Expansion = Callable[[Emitter], ir.Value | None]

EXPANSIONS: Mapping[tuple[str, DType | None], Expansion] = {
    **legalize_centre.EXPANSIONS,
    **legalize_fourier.EXPANSIONS,
    **legalize_logic.EXPANSIONS,
    **legalize_math.EXPANSIONS,
    **legalize_reduce.EXPANSIONS,
    **legalize_resize.EXPANSIONS,
    **legalize_slice.EXPANSIONS,
    **legalize_window.EXPANSIONS,
}
"""(operator, the type without a kernel or None for every type) → the rule; it returns None to decline."""


def legalize(model: ir.Model, context: PassContext) -> None:
    """Make every node of the model runnable on the target, in place.

    Raises:
        IllegalForTarget: a node has neither a kernel nor a legal spelling.
    """
    Legalizer(model, targets.get(context.target), context.opset).run()


_MAX_DEPTH = 32  # of rewrites of what rewrites wrote; beyond it they go in circles


class Legalizer:
    """One run of the pass over one model."""

    def __init__(self, model: ir.Model, target: Target, opset: int) -> None:
        self._model = model
        self._target = target
        self._opset = opset
        rows = [AVOIDED[name] for name in target.limits.get(LIMIT, ())]
        self._avoided = {row.operator: row for row in rows}
        self._widener = Widener()
        self._verdicts: dict[tuple[object, ...], bool] = {}
        self._operators: dict[str, OpVersion | None] = {}
        self._depth = 0

    def run(self) -> None:
        main = self._model.graph
        for root in (main, *(f.graph for f in self._model.functions.values())):
            constants = Constants(root, in_function=root is not main)
            for graph in nested(root):
                self._leave_double(graph, constants)
                for node in list(graph):
                    if not self._is_legal(node):
                        self._replace(node, constants)
        self._widener.sweep()
        self._require_legal()

    def _require_legal(self) -> None:
        """Raise for what rewrites left: a widened operand is cast where it is made, and not every target casts all."""
        for graph in graphs(self._model):
            for node in graph:
                if not self._is_legal(node):
                    version = self._version(node)
                    raise self._refusal(node, version, *self._missing(node, version))

    # -- judging ------------------------------------------------------------------------------

    def _is_legal(self, node: ir.Node) -> bool:
        op = node.op_type
        if node.domain or op == "Constant":  # a runtime makes a Constant an initializer: that needs no kernel
            return True  # a call of a function of this model, or an operator that a rule asked for by name
        if op in self._avoided and self._avoided_form(node):
            return False
        version = self._operators.get(op)
        if version is None:
            version = self._operators[op] = self._version(node)
        inputs = tuple([None if v is None else v.dtype for v in node.inputs])
        outputs = tuple([v.dtype for v in node.outputs])
        variant = _variant(node, version) if version.refused_by else ""
        key = (op, inputs, outputs, variant)
        verdict = self._verdicts.get(key)
        if verdict is None:
            verdict = version.runs(version.bind(inputs, outputs), variant)
            self._verdicts[key] = verdict
        return verdict

    def _avoided_form(self, node: ir.Node, opset: int | None = None) -> Avoided | None:
        """The form of a node that has a kernel, which must not be given it."""
        row = self._avoided.get(node.op_type)
        version = self._target.version(node.op_type, opset or self._opset)
        if row is None or version is None or not row.applies(node):
            return None
        bound = version.bind(
            [None if v is None else v.dtype for v in node.inputs], [v.dtype for v in node.outputs]
        )
        return row if not self._target.accelerator or version.accelerates(bound) else None

    def _version(self, node: ir.Node) -> OpVersion:
        version = self._target.version(node.op_type, self._opset)
        if version is None:
            later = self._target.version(node.op_type, self._target.max_opset)
            raise IllegalForTarget(
                f"ONNX has no operator {node.op_type} at opset {self._opset}",
                site=site_of(node),
                way_out=f"Export with opset={later.since} or later." if later else "",
            )
        return version

    def _missing(self, node: ir.Node, version: OpVersion) -> tuple[str, DType]:
        """The type variable, and the type in it, that no kernel takes."""
        variant = _variant(node, version)
        places = [(version.inputs.letter(i), v) for i, v in enumerate(node.inputs) if v is not None]
        places += [(version.outputs.letter(i), v) for i, v in enumerate(node.outputs)]
        for letter, value in places:
            if dtype_of(value) not in version.accepted(letter, variant):
                return letter, dtype_of(value)
        letter, value = places[0]
        return letter, dtype_of(value)

    def _leave_double(self, graph: ir.Graph, constants: Constants) -> None:
        """Take float64 out of conversions to integers, where the target has no cast to it."""
        if self._target.runs("Cast", self._opset, [DType.FLOAT], [DType.DOUBLE]):
            return
        for node in list(graph):
            found = chain(node)
            if found is not None and found[0].inputs[0] is not None:
                emitter = Emitter(node, self._opset, constants, self._settle)
                _stand_in(emitter, node.outputs[0], in_single(emitter, found[0].inputs[0]))
                for dead in (node, found[1], found[0]):
                    if (
                        not any(True for _ in dead.outputs[0].uses())
                        and not dead.outputs[0].is_graph_output()
                    ):
                        graph.remove(dead, safe=True)

    # -- rewriting ----------------------------------------------------------------------------

    def _settle(self, node: ir.Node, constants: Constants) -> Sequence[ir.Value]:
        """The results of a node just written, after whatever it takes to make it legal."""
        if self._is_legal(node):
            return node.outputs
        if self._depth == _MAX_DEPTH:
            version = self._version(node)
            raise self._refusal(node, version, *self._missing(node, version))
        self._depth += 1
        results = self._replace(node, constants)
        self._depth -= 1
        return results

    def _replace(self, node: ir.Node, constants: Constants) -> Sequence[ir.Value]:
        version = self._version(node)
        letter, missing = self._missing(node, version)
        emitter = Emitter(node, self._opset, constants, self._settle)
        results = self._expand(emitter, missing)
        if results is None:
            results = self._widener.widen(emitter, version, missing, _variant(node, version))
        if results is None:
            raise self._refusal(node, version, letter, missing)
        results = [_stand_in(emitter, old, new) for old, new in zip(node.outputs, results, strict=True)]
        if node.graph is not None:
            node.graph.remove(node, safe=True)
        return results

    def _expand(self, emitter: Emitter, missing: DType) -> Sequence[ir.Value] | None:
        op = emitter.node.op_type
        rule = EXPANSIONS.get((op, missing)) or EXPANSIONS.get((op, None))
        result = rule(emitter) if rule is not None else None
        return None if result is None else [result]

    def _refusal(self, node: ir.Node, version: OpVersion, letter: str, missing: DType) -> IllegalForTarget:
        if form := self._avoided_form(node):
            return self._refusal_of_form(node, form)
        accepted = sorted(str(d.numpy()) for d in version.accepted(letter, _variant(node, version)))
        operands = f"{node.op_type} on {missing.numpy()} at opset {self._opset}"
        what = f"{self._target.name} has no kernel for {operands}"
        if not accepted:
            way_out = "No type has one: write that part with other operations."
        else:
            way_out = f"It has kernels for {', '.join(accepted)}: convert the operands to one of these there."
        return IllegalForTarget(what, site=site_of(node), way_out=way_out)

    def _refusal_of_form(self, node: ir.Node, form: Avoided) -> IllegalForTarget:
        """The error; at an opset for which the accelerator has no kernel, the node runs beside it."""
        opsets = range(self._opset + 1, self._target.max_opset + 1)
        later = next((opset for opset in opsets if self._avoided_form(node, opset) is None), None)
        beside = f"Export with opset={later}: it then runs beside {self._target.accelerator}."
        return IllegalForTarget(
            f"{self._target.name} can't run {node.op_type} {form.what} at opset {self._opset}",
            site=site_of(node),
            way_out=beside if later else "Write that part with other operations.",
        )


def _variant(node: ir.Node, version: OpVersion) -> str:
    """The value of the attribute that decides whether a listed kernel works."""
    if not version.refused_by:
        return ""
    found = node.attributes.get(version.refused_by)
    if found is not None:
        return str(found.value)
    return {"fmod": "0", "reduction": "none", "mode": "nearest"}.get(version.refused_by, "")


def _is_known(shape: ir.Shape | None) -> bool:
    return shape is not None and all(isinstance(d, int) or d.value is not None for d in shape)


def _stand_in(emitter: Emitter, old: ir.Value, new: ir.Value) -> ir.Value:
    """Let ``new`` take the place of ``old`` everywhere, as a graph output too."""
    produced_here = new.producer() is not None and new.graph is old.graph
    if old.is_graph_output() and (not produced_here or new.is_graph_output()):
        new = emitter.op("Identity", new)
    if old.shape is not None and not _is_known(new.shape):
        new.shape = old.shape
    if old.is_graph_output():
        new.name = old.name
    old.replace_all_uses_with(new, replace_graph_outputs=True)
    old.meta[STANDS_FOR] = new
    return new
