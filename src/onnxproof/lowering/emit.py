"""What a lowering rule is given: operators, constants, dimensions and sub-graphs.

Values carry a dtype always and a shape when it is known. Nothing here knows what a kernel supports: the graph is
in the *core* dialect, where every ONNX operator takes every dtype and means what JAX means.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxproof.capture import dims as dim_algebra
from onnxproof.capture.program import (
    NOWHERE,
    Atom,
    Aval,
    Dim,
    Eqn,
    Param,
    Program,
    Shape,
    Site,
    SymDim,
    Var,
    broadcast_shapes,
)
from onnxproof.capture.trace import program_of
from onnxproof.errors import InternalError, OpsetError, UnsupportedParam

BOOL = np.dtype(np.bool_)
I32 = np.dtype(np.int32)
I64 = np.dtype(np.int64)
U8 = np.dtype(np.uint8)
U32 = np.dtype(np.uint32)
U64 = np.dtype(np.uint64)
F32 = np.dtype(np.float32)
F64 = np.dtype(np.float64)

_TO_BOOL = frozenset("Equal Greater GreaterOrEqual Less LessOrEqual And Or Xor Not IsNaN IsInf".split())
_TO_I64 = frozenset("Shape Size NonZero ArgMax ArgMin".split())
_FROM_SECOND = frozenset({"Where"})
_UNARY = frozenset(
    """Abs Acos Acosh Asin Asinh Atan Atanh BitwiseNot Cast Ceil Clip Cos Cosh CumSum CumProd Elu Erf Exp Floor
    Gelu HardSigmoid HardSwish Identity IsInf IsNaN LeakyRelu Log LogSoftmax LayerNormalization Mish Neg Not
    Reciprocal Relu RMSNormalization Round Selu Sigmoid Sign Sin Sinh Softmax Softplus Softsign Sqrt Tan Tanh Trilu
    ScatterElements ScatterND""".split()
)
_BROADCAST = frozenset(
    """Add And BitShift BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater GreaterOrEqual Less LessOrEqual Max Mean
    Min Mod Mul Or Pow PRelu Sub Sum Where Xor""".split()
)


@lru_cache(maxsize=256)
def ir_type(dtype: np.dtype[Any]) -> ir.TensorType:
    """The ONNX tensor type of a NumPy dtype (``ml_dtypes`` included)."""
    return ir.TensorType(ir.DataType.from_numpy(dtype))


@lru_cache(maxsize=8192)
def ir_shape(shape: Shape) -> ir.Shape:
    """A frozen ``ir.Shape``; symbolic dimensions keep their text."""
    return ir.Shape([str(d) if isinstance(d, SymDim) else d for d in shape], frozen=True)


def attribute(name: str, value: Any) -> ir.Attr:
    """An ONNX attribute from a Python value."""
    if isinstance(value, (bool, int, np.integer)):
        return ir.AttrInt64(name, int(value))
    if isinstance(value, (float, np.floating)):
        return ir.AttrFloat32(name, float(value))
    if isinstance(value, str):
        return ir.AttrString(name, value)
    if isinstance(value, ir.DataType):
        return ir.AttrInt64(name, int(value))
    if isinstance(value, np.dtype):
        return ir.AttrInt64(name, int(ir.DataType.from_numpy(value)))
    if isinstance(value, ir.Graph):
        return ir.AttrGraph(name, value)
    if isinstance(value, ir.TensorProtocol):
        return ir.AttrTensor(name, value)
    items = list(value)
    if items and isinstance(items[0], str):
        return ir.AttrStrings(name, items)
    if items and isinstance(items[0], float):
        return ir.AttrFloat32s(name, items)
    return ir.AttrInt64s(name, [int(v) for v in items])


def constant_name(array: np.ndarray[Any, Any]) -> str:
    """A name that says what a constant is: its dtype and value, or a digest of its content."""
    kind = array.dtype.name
    if array.size <= 6 and array.ndim <= 1:
        values = "_".join(str(v) for v in array.ravel().tolist())
        return f"{kind}.{'vector.' if array.ndim else ''}{values or 'empty'}"
    digest = hashlib.sha256(f"{array.shape}".encode() + np.ascontiguousarray(array).tobytes()).hexdigest()
    return f"{kind}.{'x'.join(map(str, array.shape))}.{digest[:12]}"


class Scope:
    """One name scope of ONNX: the main graph, or the body of a function.

    Constants live in the scope; symbolic dimensions are computed once, ahead of its other nodes.
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self.prelude: list[ir.Node] = []
        self.initializers: dict[str, ir.Value] = {}
        self.taken: set[str] = set()  # names of inputs and outputs, which no initializer may carry
        self.env: dict[Var, ir.Value] = {}
        self._constants: dict[tuple[Any, ...], ir.Value] = {}
        self._dims: dict[Any, ir.Value] = {}

    def constant(self, array: np.ndarray[Any, Any]) -> ir.Value:
        """An initializer with this content; complex numbers are stored as pairs."""
        if array.dtype.kind == "c":
            array = paired(array)
        key = (array.dtype, array.shape, array.tobytes())
        value = self._constants.get(key)
        if value is None:
            value = self.initializer(constant_name(array), ir.Tensor(array))
            self._constants[key] = value
        return value

    def initializer(self, name: str, tensor: ir.TensorProtocol) -> ir.Value:
        """Register a tensor of the scope under ``name``, or the next free variant of it."""
        unique, n = name, 1
        while unique in self.initializers or unique in self.taken:
            unique, n = f"{name}.{n}", n + 1
        tensor.name = unique
        value = ir.Value(
            name=unique,
            shape=tensor.shape,  # type: ignore[arg-type]
            type=ir.TensorType(tensor.dtype),
            const_value=tensor,
        )
        self.initializers[unique] = value
        self.module.set_shape(value, tuple(tensor.shape.numpy()))
        return value

    def symbol(self, name: str) -> ir.Value:
        """The size of a dimension variable, int64 of shape [1]."""
        raise NotImplementedError

    def dim(self, dim: Dim) -> ir.Value:
        """A dimension as int64 of shape [1]."""
        if isinstance(dim, int):
            return self.constant(np.asarray([dim], np.int64))
        return self._expr(dim_algebra.parse(dim))

    def _expr(self, expr: dim_algebra.Expr) -> ir.Value:
        value = self._dims.get(expr)
        if value is not None:
            return value
        if isinstance(expr, dim_algebra.Num):
            value = self.constant(np.asarray([expr.value], np.int64))
        elif isinstance(expr, dim_algebra.Sym):
            value = self.symbol(expr.name)
        else:
            a, b = self._expr(expr.left), self._expr(expr.right)
            if expr.kind == "floordiv":
                value = self._pre("Div", self._pre("Sub", a, self._pre("Mod", a, b)), b)
            else:
                value = self._pre(_DIM_OPS[expr.kind], a, b)
        self._dims[expr] = value
        return value

    def _pre(self, op: str, *inputs: ir.Value, **attrs: Any) -> ir.Value:
        return self.module.node(self.prelude, op, inputs, attrs, (I64,), ((1,),), _SHAPE_SITE)[0]

    def dims(self, shape: Shape) -> ir.Value:
        """A whole shape as int64 of shape [rank]."""
        if all(isinstance(d, int) for d in shape):
            return self.constant(np.asarray(shape, np.int64))
        if len(shape) == 1:
            return self.dim(shape[0])
        value = self._dims.get(shape)
        if value is None:
            parts = [self.dim(d) for d in shape]
            (value,) = self.module.node(
                self.prelude, "Concat", parts, {"axis": 0}, (I64,), ((len(shape),),), _SHAPE_SITE
            )
            self._dims[shape] = value
        return value


LowerProgram = Callable[[Program, Scope, list[ir.Node], Site | None], None]
_DIM_OPS = {"add": "Add", "sub": "Sub", "mul": "Mul", "mod": "Mod", "max": "Max", "min": "Min"}
_SHAPE_SITE = ("shape", NOWHERE)


class MainScope(Scope):
    """The scope of the main graph: dimension variables are read off the inputs."""

    def __init__(
        self,
        module: Module,
        inputs: Sequence[ir.Value],
        solutions: Mapping[str, dim_algebra.Solution],
    ) -> None:
        super().__init__(module)
        self._inputs = inputs
        self._solutions = solutions

    def symbol(self, name: str) -> ir.Value:
        at = self._solutions[name]
        value = self._pre("Shape", self._inputs[at.input], start=at.axis, end=at.axis + 1)
        if at.offset:
            value = self._pre("Sub", value, self.constant(np.asarray([at.offset], np.int64)))
        if at.factor != 1:
            value = self._pre("Div", value, self.constant(np.asarray([at.factor], np.int64)))
        return value


@dataclass(frozen=True, slots=True)
class Defined:
    """A function of the model, and the dimension variables that it takes after its operands."""

    function: ir.Function
    symbols: tuple[str, ...]


class Module:
    """The model under construction, and the facts that hold for all of it."""

    def __init__(self, opset: int, provenance: bool = True) -> None:
        self.opset = opset
        self.provenance = provenance
        self.functions: dict[Any, Defined] = {}
        self.programs: dict[Any, Program] = {}
        self._shapes: dict[ir.Value, Shape] = {}
        self.sizes: dict[ir.Value, Dim] = {}  # scalars that hold a dimension
        # What stands for a Sigmoid where it has to be exact, by the list of nodes that says so.
        self.exact: dict[tuple[int, ir.Value], tuple[list[ir.Node], ir.Value]] = {}
        self.parts: dict[ir.Value, tuple[ir.Value, ir.Value]] = {}  # of complex values made from parts
        # Parts that were taken out of complex values, by the list of nodes that does it.
        self.taken: dict[int, tuple[list[ir.Node], dict[ir.Value, tuple[ir.Value, ir.Value]]]] = {}

    def shape(self, value: ir.Value) -> Shape | None:
        return self._shapes.get(value)

    def set_shape(self, value: ir.Value, shape: Shape) -> None:
        self._shapes[value] = shape
        if value.shape is None:
            value.shape = ir_shape(shape)

    def node(
        self,
        nodes: list[ir.Node],
        op: str,
        inputs: Sequence[ir.Value | None],
        attrs: Mapping[str, Any],
        dtypes: Sequence[np.dtype[Any]],
        shapes: Sequence[Shape | None],
        origin: tuple[str, Site],
        domain: str = "",
    ) -> Sequence[ir.Value]:
        """Append a node to ``nodes`` and return its results."""
        node = ir.Node(
            domain,
            op,
            inputs,
            attributes=[attribute(k, v) for k, v in attrs.items() if v is not None],
            num_outputs=len(dtypes),
        )
        if self.provenance:
            primitive, site = origin
            props = node.metadata_props
            props["onnxproof.primitive"] = primitive
            if site.scope:
                props["namespace"] = site.scope
            if site.line:
                props["onnxproof.source"] = site.line
        for out, dtype, shape in zip(node.outputs, dtypes, shapes, strict=True):
            out.type = ir_type(dtype)
            if shape is not None:
                self._shapes[out] = shape
                out.shape = ir_shape(shape)
        nodes.append(node)
        return node.outputs


class Ctx:
    """What a rule sees: the avals of its equation, and the means to emit operators."""

    __slots__ = ("_lower", "eqn", "ins", "module", "nodes", "outs", "scope", "site")

    def __init__(self, scope: Scope, nodes: list[ir.Node], eqn: Eqn, site: Site, lower: LowerProgram) -> None:
        self.scope = scope
        self.module = scope.module
        self.nodes = nodes
        self.eqn = eqn
        self.site = site
        self.ins: tuple[Aval, ...] = tuple(a.aval for a in eqn.inputs)
        self.outs: tuple[Aval, ...] = tuple(v.aval for v in eqn.outputs)
        self._lower = lower

    # -- facts --------------------------------------------------------------------------------

    @property
    def opset(self) -> int:
        return self.module.opset

    @property
    def out(self) -> Aval:
        """The aval of the first result."""
        return self.outs[0]

    def dtype(self, value: ir.Value) -> np.dtype[Any]:
        """The dtype of a value."""
        if value.dtype is None:
            raise InternalError(f"a value of {self.eqn.primitive} has no dtype", site=self.site)
        return np.dtype(value.dtype.numpy())

    def shape(self, value: ir.Value) -> Shape | None:
        """The shape of a value, None when it is not known."""
        return self.module.shape(value)

    def rank(self, value: ir.Value) -> int:
        shape = self.shape(value)
        if shape is None:
            raise InternalError(f"a value of {self.eqn.primitive} has no shape", site=self.site)
        return len(shape)

    def constant_value(self, value: ir.Value) -> np.ndarray[Any, Any] | None:
        """The array behind a literal or a small constant, else None (weights are not read)."""
        tensor = value.const_value
        return tensor.numpy() if isinstance(tensor, ir.Tensor) else None

    # -- operators ----------------------------------------------------------------------------

    def op(
        self,
        op: str,
        *inputs: ir.Value | None,
        dtype: np.dtype[Any] | None = None,
        shape: Shape | None = None,
        since: int = 0,
        **attrs: Any,
    ) -> ir.Value:
        """Emit an ONNX operator with one result.

        Args:
            dtype: of the result, where it can't be told from the operator and its first operand.
            shape: of the result, where it is known and the operator is not element-wise.
            since: lowest opset that has this form of the operator.

        Raises:
            OpsetError: the requested opset is below ``since``.
        """
        if since:
            self.need_opset(since, op)
        if dtype is None:
            dtype = self._result_dtype(op, inputs, attrs)
        if shape is None:
            shape = self._result_shape(op, inputs)
        origin = (self.eqn.primitive, self.site)
        return self.module.node(self.nodes, op, inputs, attrs, (dtype,), (shape,), origin)[0]

    def multi(
        self,
        op: str,
        *inputs: ir.Value | None,
        dtypes: Sequence[np.dtype[Any]],
        shapes: Sequence[Shape | None] | None = None,
        domain: str = "",
        **attrs: Any,
    ) -> Sequence[ir.Value]:
        """Emit an operator with several results of the given dtypes."""
        shapes = shapes if shapes is not None else (None,) * len(dtypes)
        origin = (self.eqn.primitive, self.site)
        return self.module.node(self.nodes, op, inputs, attrs, dtypes, shapes, origin, domain)

    def _result_dtype(
        self, op: str, inputs: Sequence[ir.Value | None], attrs: Mapping[str, Any]
    ) -> np.dtype[Any]:
        if op in _TO_BOOL:
            return BOOL
        if op in _TO_I64:
            return I64
        if op == "Cast":
            to: np.dtype[Any] = attrs["to"]
            return to
        source = inputs[1] if op in _FROM_SECOND else inputs[0]
        if source is None:
            raise InternalError(f"the dtype of {op} has to be given", site=self.site)
        return self.dtype(source)

    def _result_shape(self, op: str, inputs: Sequence[ir.Value | None]) -> Shape | None:
        if op in _UNARY:
            return self.shape(inputs[0]) if inputs[0] is not None else None
        if op in _BROADCAST:
            shapes = [self.shape(v) for v in inputs if v is not None]
            known = [s for s in shapes if s is not None]
            return broadcast_shapes(known) if len(known) == len(shapes) else None
        return None

    def need_opset(self, since: int, what: str) -> None:
        """Raise OpsetError unless the model's opset is at least ``since``."""
        if self.opset < since:
            raise OpsetError(
                f"{self.eqn.primitive} needs {what}, which ONNX has from opset {since} on;"
                f" the export is for opset {self.opset}",
                site=self.site,
                way_out=f"Export with opset={since} or later.",
            )

    def unsupported(self, what: str, way_out: str = "") -> UnsupportedParam:
        """The error for a form of this primitive that can't be lowered, at the user's line."""
        return UnsupportedParam(f"{self.eqn.primitive}: {what}", site=self.site, way_out=way_out)

    def cast(self, value: ir.Value, dtype: np.dtype[Any]) -> ir.Value:
        """Cast as ONNX casts (not as JAX converts), or the value itself when nothing changes."""
        return value if self.dtype(value) == dtype else self.op("Cast", value, to=dtype)

    # -- constants and dimensions -------------------------------------------------------------

    def const(self, value: Any, dtype: np.dtype[Any] | None = None) -> ir.Value:
        """A constant tensor."""
        return self.scope.constant(np.asarray(value, dtype))

    def like(self, value: Any, other: ir.Value) -> ir.Value:
        """A scalar constant in the dtype of ``other``."""
        return self.scope.constant(np.asarray(value, self.dtype(other)))

    def i64(self, values: Sequence[int]) -> ir.Value:
        """A one-dimensional int64 constant."""
        return self.scope.constant(np.asarray(values, np.int64).reshape(-1))

    def dim(self, dim: Dim) -> ir.Value:
        """A dimension as int64 of shape [1]."""
        return self.scope.dim(dim)

    def dims(self, shape: Sequence[Dim]) -> ir.Value:
        """A shape as int64 of shape [rank]; computed from the inputs where it is symbolic."""
        return self.scope.dims(tuple(shape))

    def dim_scalar(self, dim: Dim, dtype: np.dtype[Any] = I64) -> ir.Value:
        """A dimension as a scalar."""
        if isinstance(dim, int):
            return self.const(dim, dtype)
        value = self.cast(self.op("Squeeze", self.dim(dim), self.i64([0]), shape=()), dtype)
        self.module.sizes[value] = dim
        return value

    # -- shapes -------------------------------------------------------------------------------

    def reshape(self, value: ir.Value, shape: Sequence[Dim]) -> ir.Value:
        """Reshape, or the value itself when its shape is already that."""
        shape = tuple(shape)
        if self.shape(value) == shape:
            return value
        symbolic = [i for i, d in enumerate(shape) if isinstance(d, SymDim)]
        known = self.shape(value)
        if known is not None and len(symbolic) > 1:
            # Unit axes come and go without a shape that has to be computed.
            if (added := _unit_axes(known, shape)) is not None:
                return self.unsqueeze(value, added)
            if (removed := _unit_axes(shape, known)) is not None:
                return self.squeeze(value, removed)
            if [d for d in known if d != 1] == [d for d in shape if d != 1]:
                bare = self.squeeze(value, [i for i, d in enumerate(known) if d == 1])
                return self.unsqueeze(bare, [i for i, d in enumerate(shape) if d == 1])
        in_place = known is not None and all(known[i : i + 1] == shape[i : i + 1] for i in symbolic)
        zero = None
        if symbolic and 0 not in shape and (in_place or len(symbolic) == 1):
            # A size that stays in its place is copied (0); the only other one can be inferred (-1).
            unknown = 0 if in_place else -1
            target = self.i64([unknown if isinstance(d, SymDim) else d for d in shape])
        else:
            target = self.dims(shape)
            # Among sizes that are given or computed, 0 means "no elements", not "copy the dimension of the operand".
            zero = 1 if symbolic or 0 in shape else None
        return self.op("Reshape", value, target, shape=shape, allowzero=zero)

    def expand(self, value: ir.Value, shape: Sequence[Dim]) -> ir.Value:
        """Broadcast to ``shape``, or the value itself when nothing changes."""
        shape = tuple(shape)
        if self.shape(value) == shape:
            return value
        known = self.shape(value)
        # ONNX Runtime loses an Expand to nothing between a Reshape and another.
        if 0 in shape and known != ():
            return self.expand(self.const(0, self.dtype(value)), shape)
        target = list(shape)
        if known is not None:  # 1 keeps the size of the operand, so that it needs no computing
            lead = len(shape) - len(known)
            target = [1 if i >= lead and known[i - lead] == d else d for i, d in enumerate(shape)]
        return self.op("Expand", value, self.dims(target), shape=shape)

    def transpose(self, value: ir.Value, perm: Sequence[int]) -> ir.Value:
        """Transpose, or the value itself for the identity."""
        perm = [int(p) for p in perm]
        if perm == list(range(len(perm))):
            return value
        known = self.shape(value)
        shape = None if known is None else tuple(known[p] for p in perm)
        return self.op("Transpose", value, perm=perm, shape=shape)

    def unsqueeze(self, value: ir.Value, axes: Sequence[int]) -> ir.Value:
        """Insert axes of size 1 at positions of the *result*."""
        if not axes:
            return value
        known = self.shape(value)
        shape: Shape | None = None
        if known is not None:
            rank = len(known) + len(axes)
            at = {a % rank for a in axes}
            rest = iter(known)
            shape = tuple(1 if i in at else next(rest) for i in range(rank))
        return self.op("Unsqueeze", value, self.i64(axes), shape=shape)

    def squeeze(self, value: ir.Value, axes: Sequence[int]) -> ir.Value:
        """Remove axes of size 1."""
        if not axes:
            return value
        known = self.shape(value)
        shape: Shape | None = None
        if known is not None:
            at = {a % len(known) for a in axes}
            shape = tuple(d for i, d in enumerate(known) if i not in at)
        return self.op("Squeeze", value, self.i64(axes), shape=shape)

    def reduce(self, op: str, value: ir.Value, axes: Sequence[int], keepdims: bool = False) -> ir.Value:
        """A Reduce* operator; axes are an attribute before opset 18 (13 for ReduceSum)."""
        if not axes:
            return value
        known = self.shape(value)
        shape: Shape | None = None
        if known is not None:
            at = {a % len(known) for a in axes}
            kept = [(1 if i in at else d) for i, d in enumerate(known) if keepdims or i not in at]
            shape = tuple(kept)
        if self.opset >= 18 or op == "ReduceSum":
            return self.op(op, value, self.i64(axes), keepdims=int(keepdims), shape=shape)
        return self.op(op, value, axes=list(axes), keepdims=int(keepdims), shape=shape)

    def slice(
        self,
        value: ir.Value,
        starts: Sequence[int],
        ends: Sequence[int],
        axes: Sequence[int],
        steps: Sequence[int] | None = None,
        shape: Shape | None = None,
    ) -> ir.Value:
        """Slice with constant bounds."""
        step = None if steps is None or all(s == 1 for s in steps) else self.i64(steps)
        bounds = [self.i64(starts), self.i64(ends), self.i64(axes)]
        return self.op("Slice", value, *bounds, *([] if step is None else [step]), shape=shape)

    # -- programs inside programs -------------------------------------------------------------

    def within(self, scope: Scope, nodes: list[ir.Node]) -> Ctx:
        """A Ctx for the same equation that emits into ``nodes``, which belong to ``scope``."""
        return Ctx(scope, nodes, self.eqn, self.site, self._lower)

    def viewed(self, ins: Sequence[Aval], outs: Sequence[Aval], params: Mapping[str, Any]) -> Ctx:
        """A Ctx that emits in the same place for the same primitive, but between other avals."""
        eqn = Eqn(self.eqn.primitive, tuple(map(Var, ins)), tuple(map(Var, outs)), params, self.eqn.site)
        return Ctx(self.scope, self.nodes, eqn, self.site, self._lower)

    def read(self, atom: Atom) -> ir.Value:
        """The value of an atom of the program."""
        if isinstance(atom, Var):
            return self.scope.env[atom]
        return self.scope.constant(np.asarray(atom.value))

    def value(self, aval: Aval) -> ir.Value:
        """A new value that no node computes: the input of a sub-graph."""
        aval = aval.stored
        value = ir.Value(type=ir_type(aval.dtype), shape=ir_shape(aval.shape))
        self.module.set_shape(value, aval.shape)
        return value

    def inline(
        self, program: Program, operands: Sequence[ir.Value], site: Site | None = None
    ) -> list[ir.Value]:
        """Lower a Program here, on ``operands``; its equations stand at ``site`` when that is given."""
        env = self.scope.env
        env.update(zip(program.inputs, operands, strict=True))
        for var, param in program.params.items():
            env[var] = self.scope.constant(np.asarray(param.array))
        self._lower(program, self.scope, self.nodes, site)
        return [self.read(a) for a in program.outputs]

    def distinct(self, outputs: Sequence[ir.Value]) -> list[ir.Value]:
        """Outputs of a graph of this Ctx's nodes: each a value of its own that one of the nodes computes."""
        own = {v for n in self.nodes for v in n.outputs}
        distinct: list[ir.Value] = []
        for value in outputs:
            if value not in own or value in distinct:
                value = self.op("Identity", value, shape=self.shape(value))
            distinct.append(value)
        return distinct

    def body(self, program: Program) -> Body:
        """Lower the body of a Scan, Loop or If into a graph of its own; outer values are captured by name."""
        inner = self.within(self.scope, [])
        inputs = [inner.value(v.aval) for v in program.inputs]
        return Body(inner, inputs, inner.inline(program, inputs))

    def jax(
        self, fn: Callable[..., Any], *operands: ir.Value, avals: Sequence[Aval] | None = None
    ) -> list[ir.Value]:
        """Lower a JAX function on ``operands``: the spelling of a rule in terms of other primitives.

        ``avals`` default to those of the equation's operands. The trace is kept for the module under
        construction under ``fn``, which must therefore be a module-level function (or a partial of one, hashable).
        """
        avals = tuple(self.ins if avals is None else avals)
        key = (fn, avals)
        program = self.module.programs.get(key)
        if program is None:
            program = program_of(fn, avals)
            self.module.programs[key] = program
        return self.inline(program, operands, self.site)


@dataclass(frozen=True, slots=True)
class Body:
    """A lowered body: its own Ctx, and the values of the program's inputs and outputs."""

    ctx: Ctx
    inputs: list[ir.Value]
    outputs: list[ir.Value]

    def graph(self, name: str, inputs: Sequence[ir.Value], outputs: Sequence[ir.Value]) -> ir.Graph:
        """Close the graph. Each output becomes a distinct value that a node of the graph computes."""
        distinct = self.ctx.distinct(outputs)
        return ir.Graph(list(inputs), distinct, nodes=self.ctx.nodes, name=name)


def _unit_axes(small: Shape, big: Shape) -> list[int] | None:
    """Axes of size 1 which ``big`` has and ``small`` has not, None when the shapes differ otherwise."""
    axes: list[int] = []
    rest = list(small)
    for i, d in enumerate(big):
        if rest and rest[0] == d and not (d == 1 and len(big) - i > len(rest)):
            rest.pop(0)
        elif d == 1:
            axes.append(i)
        else:
            return None
    return None if rest else axes


def paired(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Complex numbers as pairs of reals along a new last axis."""
    return np.stack([array.real, array.imag], -1)


def param_tensor(param: Param) -> ir.TensorProtocol:
    """A tensor that reads the weight's own memory when it is written, and keeps nothing."""
    array = param.array
    stored = Aval(tuple(int(d) for d in array.shape), np.dtype(array.dtype)).stored
    is_complex = stored.dtype != array.dtype

    def read() -> ir.TensorProtocol:
        data = np.asarray(array)
        return ir.Tensor(paired(data) if is_complex else data, dtype=ir.DataType.from_numpy(stored.dtype))

    return ir.LazyTensor(
        read,
        dtype=ir.DataType.from_numpy(stored.dtype),
        shape=ir.Shape(list(stored.shape)),
        name=param.name,
        cache=False,
    )
