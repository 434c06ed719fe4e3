"""Walk a Program and lower each equation through its rule."""

from __future__ import annotations

import importlib
import os
import pkgutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import onnx_ir as ir

from onnxproof.capture import dims as dim_algebra
from onnxproof.capture.program import Atom, Eqn, Program, Site, Var
from onnxproof.errors import InternalError, UnsupportedPrimitive
from onnxproof.lowering.emit import (
    Ctx,
    MainScope,
    Module,
    Scope,
    constant_name,
    ir_shape,
    ir_type,
    param_tensor,
)
from onnxproof.lowering.registry import COMPLEX_RULES, NOT_LOWERED, RULES, Lowering

_READABLE = 65536  # elements of a table of indices, whose values rules may want to know
_INFRASTRUCTURE = frozenset({"driver", "emit", "registry"})


@cache
def load_rules() -> Collection[str]:
    """Import every family of rules and return the names of the primitives that have one."""
    for module in pkgutil.iter_modules([os.path.dirname(__file__)]):
        if module.name not in _INFRASTRUCTURE:
            importlib.import_module(f"onnxproof.lowering.{module.name}")
    return RULES.keys() | COMPLEX_RULES.keys()


def _is_complex(eqn: Eqn) -> bool:
    return any(a.aval.is_complex for a in (*eqn.inputs, *eqn.outputs))


def _rule_of(eqn: Eqn) -> Lowering | None:
    return (COMPLEX_RULES if _is_complex(eqn) else RULES).get(eqn.primitive)


def check_supported(program: Program) -> None:
    """Raise one error that names every primitive of the program that has no lowering.

    Raises:
        UnsupportedPrimitive: with the first place of each.
    """
    missing: dict[str, list[Eqn]] = {}
    for eqn in program.walk():
        if _rule_of(eqn) is None:
            name = f"{eqn.primitive} (complex)" if _is_complex(eqn) else eqn.primitive
            missing.setdefault(name, []).append(eqn)
    if not missing:
        return
    lines = []
    for name, eqns in missing.items():
        first = eqns[0]
        times = f", {len(eqns)} times" if len(eqns) > 1 else ""
        why = NOT_LOWERED.get(first.primitive)
        reason = f": {why}" if why else ""
        lines.append(f"  {name} on {', '.join(str(a.aval) for a in first.inputs)}"
                     f" at {str(first.site) or 'an unknown place'}{times}{reason}")  # fmt: skip
    raise UnsupportedPrimitive(
        "the program uses "
        + ("a primitive" if len(missing) == 1 else f"{len(missing)} primitives")
        + " without a lowering to ONNX:\n"
        + "\n".join(lines),
        primitives=tuple(missing),
        way_out="Write that part with other operations, or leave it outside the exported function.",
    )


@dataclass(frozen=True, slots=True)
class Lowered:
    """A model, and the value that each Var became; one of a function's body is not among them."""

    model: ir.Model
    values: Mapping[Var, ir.Value]


def lower(program: Program, *, opset: int, name: str, provenance: bool = True) -> Lowered:
    """Lower a whole Program to a model in the core dialect.

    Raises:
        UnsupportedPrimitive, UnsupportedParam, UnsupportedDimension, OpsetError: see each.
    """
    load_rules()
    check_supported(program)
    module = Module(opset, provenance)
    inputs = []
    for var, label in zip(program.inputs, program.input_names, strict=True):
        aval = var.aval.stored
        value = ir.Value(name=label, type=ir_type(aval.dtype), shape=ir_shape(aval.shape))
        module.set_shape(value, aval.shape)
        inputs.append(value)
    solutions = dim_algebra.solve([v.aval.shape for v in program.inputs])
    scope = MainScope(module, inputs, solutions)
    scope.taken.update(program.input_names, program.output_names)
    scope.env.update(zip(program.inputs, inputs, strict=True))
    for var, param in program.params.items():
        size = var.aval.size
        if not param.name and var.aval.dtype.kind in "iub" and size is not None and size <= _READABLE:
            scope.env[var] = scope.constant(np.asarray(param.array))
            continue
        tensor = param_tensor(param)
        label = param.name or constant_name(tensor.numpy())
        scope.env[var] = scope.initializer(label, tensor)
        if param.aliases and provenance:
            scope.env[var].metadata_props["onnxproof.aliases"] = " ".join(param.aliases)
    nodes: list[ir.Node] = []
    lower_program(program, scope, nodes, None)
    outputs = [scope.env[a] if isinstance(a, Var) else scope.constant(a.value) for a in program.outputs]
    outputs = _distinct_outputs(module, nodes, outputs, program.output_names)
    graph = ir.Graph(
        inputs,
        outputs,
        nodes=[*scope.prelude, *nodes],
        initializers=list(scope.initializers.values()),
        opset_imports={"": opset, **{d.function.domain: 1 for d in module.functions.values()}},
        name=name,
    )
    model = ir.Model(
        graph,
        ir_version=_ir_version(opset, provenance),
        producer_name="onnxproof",
        functions=[d.function for d in module.functions.values()],
    )
    if taken := _complex_names(program.inputs, program.input_names):
        model.metadata_props["onnxproof.complex_inputs"] = taken
    if given := _complex_names(program.outputs, program.output_names):
        model.metadata_props["onnxproof.complex_outputs"] = given
    return Lowered(model, scope.env)


def _complex_names(atoms: Sequence[Atom], names: Sequence[str]) -> str:
    return " ".join(name for atom, name in zip(atoms, names, strict=True) if atom.aval.is_complex)


def _ir_version(opset: int, provenance: bool) -> int:
    """The lowest IR version that holds the opset; metadata of nodes needs version 10.

    Older runtimes refuse versions that they don't know. The table is ``onnx.helper.OP_SET_ID_VERSION_MAP``'s, but
    for opsets from 23 on, whose files need nothing newer than version 10.
    """
    if provenance or opset >= 21:
        return 10
    return 9 if opset >= 19 else 8


def lower_program(program: Program, scope: Scope, nodes: list[ir.Node], site: Site | None) -> None:
    """Append the nodes of ``program`` to ``nodes``; operands are read from, results put into, the scope."""
    env = scope.env
    for eqn in program.eqns:
        lowering = _rule_of(eqn)
        if lowering is None:
            check_supported(Program(program.inputs, (eqn,), ()))
            raise InternalError(f"{eqn.primitive} has no rule", site=eqn.site)
        ctx = Ctx(scope, nodes, eqn, eqn.site if site is None else site, lower_program)
        operands = [ctx.read(a) for a in eqn.inputs]
        results = lowering.rule(ctx, *operands, **lowering.params_of(eqn))
        if isinstance(results, ir.Value):
            results = (results,)
        if len(results) != len(eqn.outputs):
            raise InternalError(
                f"the lowering of {eqn.primitive} gives {len(results)} results", site=ctx.site
            )
        for var, value in zip(eqn.outputs, results, strict=True):
            _check_result(ctx, var, value)
            env[var] = value


def _check_result(ctx: Ctx, var: Var, value: ir.Value) -> None:
    """Hold each result against the aval of the source program."""
    stored = var.aval.stored
    shape, dtype = stored.shape, stored.dtype
    if value.dtype is None or value.dtype.numpy() != dtype:
        raise InternalError(
            f"the lowering of {ctx.eqn.primitive} gives {value.dtype}, JAX {var.aval}", site=ctx.site
        )
    known = ctx.shape(value)
    if known is None:
        ctx.module.set_shape(value, shape)
    elif known != shape and (
        len(known) != len(shape)
        or any(isinstance(a, int) and isinstance(b, int) and a != b
               for a, b in zip(known, shape, strict=True))
    ):  # fmt: skip
        raise InternalError(
            f"the lowering of {ctx.eqn.primitive} gives the shape {known}, JAX {var.aval}",
            site=ctx.site,
        )


def _distinct_outputs(
    module: Module, nodes: list[ir.Node], outputs: Sequence[ir.Value], names: Sequence[str]
) -> list[ir.Value]:
    """Graph outputs: each a value of its own, computed by a node, under its own name."""
    out: list[ir.Value] = []
    for value, name in zip(outputs, names, strict=True):
        if value.producer() is None or value in out:
            assert value.dtype is not None
            dtypes, shapes = (value.dtype.numpy(),), (module.shape(value),)
            (value,) = module.node(nodes, "Identity", [value], {}, dtypes, shapes, ("output", Site()))
        value.name = name
        out.append(value)
    return out
