"""Functions of the model: bodies that are lowered once and called by name."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxproof.capture.program import NOWHERE, Atom, Aval, Lit, Program, SymDim, Var
from onnxproof.capture.simplify import freeze
from onnxproof.lowering.emit import I64, Ctx, Defined, Module, Scope, ir_type
from onnxproof.lowering.registry import lowers

DOMAIN = "onnxproof.functions"


class FunctionScope(Scope):
    """The scope of a function's body: constants are nodes, dimension variables are further inputs."""

    def __init__(self, module: Module) -> None:
        super().__init__(module)
        self.symbols: dict[str, ir.Value] = {}

    def initializer(self, name: str, tensor: ir.TensorProtocol) -> ir.Value:
        shape = tuple(tensor.shape.numpy())
        dtype = np.dtype(tensor.dtype.numpy())
        origin = ("constant", NOWHERE)
        (value,) = self.module.node(
            self.prelude, "Constant", (), {"value": tensor}, (dtype,), (shape,), origin
        )
        value.const_value = tensor
        return value

    def symbol(self, name: str) -> ir.Value:
        value = ir.Value(type=ir_type(I64))
        self.module.set_shape(value, (1,))
        self.symbols[name] = value
        return value


Build = Callable[[Ctx, FunctionScope, Sequence[ir.Value]], list[ir.Value]]


def define(
    ctx: Ctx, key: Hashable, build: Build, name: str, operands: Sequence[Aval | np.dtype[Any]]
) -> Defined:
    """The function known under ``key``; ``build`` emits its body the first time.

    Operands given by dtype alone may have any shape.
    """
    module = ctx.module
    known = module.functions.get(key)
    if known is not None:
        return known
    scope = FunctionScope(module)
    nodes: list[ir.Node] = []
    inner = ctx.within(scope, nodes)
    inputs = [_input(inner, o) for o in operands]
    results = build(inner, scope, inputs)
    outputs = inner.distinct(results)
    unique = _free_name(module, name)
    graph = ir.Graph(
        [*inputs, *scope.symbols.values()],
        outputs,
        nodes=[*scope.prelude, *nodes],
        name=unique,
        opset_imports={"": module.opset, **{n.domain: 1 for n in _all_nodes(nodes) if n.domain}},
    )
    defined = Defined(ir.Function(DOMAIN, unique, graph=graph, attributes=()), tuple(scope.symbols))
    module.functions[key] = defined
    return defined


def call(
    ctx: Ctx, defined: Defined, operands: Sequence[ir.Value], outs: Sequence[Aval]
) -> Sequence[ir.Value]:
    """Call a function of the model."""
    sizes = [ctx.dim(SymDim(name)) for name in defined.symbols]
    function = defined.function
    return ctx.multi(
        function.name,
        *operands,
        *sizes,
        dtypes=[a.dtype for a in outs],
        shapes=[a.shape for a in outs],
        domain=function.domain,
    )


@lowers("function")
def function(ctx: Ctx, *operands: ir.Value, body: Program, name: str, unique: bool) -> Sequence[ir.Value]:
    """A call of a function that the user marked: what its body captures becomes further inputs."""
    captured = body.captured()
    inner = (*body.inputs, *captured)

    def build(inside: Ctx, scope: FunctionScope, values: Sequence[ir.Value]) -> list[ir.Value]:
        scope.env.update(zip(inner, values, strict=True))
        return inside.inline(body, values[: len(body.inputs)])

    key = (name, fingerprint(body)) if unique else body
    defined = define(ctx, key, build, name, [v.aval for v in inner])
    return call(ctx, defined, (*operands, *(ctx.read(v) for v in captured)), ctx.outs)


def fingerprint(program: Program) -> Hashable:
    """Equal for programs that compute the same from their inputs and what they capture, in the same way."""
    numbers: dict[Var, int] = {}
    for var in (*program.inputs, *program.captured()):
        numbers.setdefault(var, len(numbers))
    return _fingerprint(program, numbers)


def _fingerprint(program: Program, numbers: dict[Var, int]) -> Hashable:
    def atom(a: Atom) -> Hashable:
        if isinstance(a, Lit):
            return a.aval, np.ascontiguousarray(a.value).tobytes()
        return numbers.setdefault(a, len(numbers)), a.aval

    def param(value: Any) -> Hashable:
        if isinstance(value, Program):
            return _fingerprint(value, numbers)
        if isinstance(value, tuple) and any(isinstance(v, Program) for v in value):
            return tuple(param(v) for v in value)
        return freeze(value)

    lines: list[Hashable] = [tuple(map(atom, program.inputs))]
    for eqn in program.eqns:
        params = tuple((k, param(v)) for k, v in sorted(eqn.params.items()))
        lines.append((eqn.primitive, tuple(map(atom, eqn.inputs)), params, tuple(map(atom, eqn.outputs))))
    return tuple(lines), tuple(map(atom, program.outputs))


def _input(ctx: Ctx, operand: Aval | np.dtype[Any]) -> ir.Value:
    return ctx.value(operand) if isinstance(operand, Aval) else ir.Value(type=ir_type(operand))


def _free_name(module: Module, name: str) -> str:
    taken = {d.function.name for d in module.functions.values()}
    unique, n = name, 1
    while unique in taken:
        unique, n = f"{name}_{n}", n + 1
    return unique


def _all_nodes(nodes: Sequence[ir.Node]) -> Iterator[ir.Node]:
    for node in nodes:
        yield node
        for attr in node.attributes.values():
            if attr.type == ir.AttributeType.GRAPH:
                yield from _all_nodes(list(attr.as_graph()))
