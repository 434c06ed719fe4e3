"""Legalization: a node of the core dialect for each row must load in ONNX Runtime and give NumPy's values."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest

from onnxproof import targets
from onnxproof.errors import IllegalForTarget, InputSpecError
from onnxproof.lowering.emit import attribute
from onnxproof.passes.dead import remove_dead
from onnxproof.passes.legalize import legalize
from onnxproof.passes.names import assign_names
from onnxproof.passes.pipeline import PassContext
from tests.running import assert_same, run, session

BF16 = ml_dtypes.bfloat16
OPSETS = (17, 21, 23, 28)


def model_of(
    op: str,
    args: Sequence[np.ndarray[Any, Any]],
    want: Sequence[np.ndarray[Any, Any]],
    attrs: dict[str, Any],
    opset: int,
    constants: Sequence[int] = (),
    shapes: dict[int, Sequence[Any]] | None = None,
) -> ir.Model:
    """A model of one node; the operands at ``constants`` are initializers."""
    values, initializers = [], []
    for i, array in enumerate(args):
        shape = (shapes or {}).get(i, array.shape)
        value = ir.Value(
            name=f"x{i}", type=ir.TensorType(ir.DataType.from_numpy(array.dtype)), shape=ir.Shape(shape)
        )
        if i in constants:
            value.const_value = ir.Tensor(array, name=value.name)
            initializers.append(value)
        values.append(value)
    node = ir.Node("", op, values, [attribute(k, v) for k, v in attrs.items()], num_outputs=len(want))
    node.metadata_props["onnxproof.source"] = "model.py:7"
    for i, (out, array) in enumerate(zip(node.outputs, want, strict=True)):
        out.name, out.type = f"y{i}", ir.TensorType(ir.DataType.from_numpy(array.dtype))
        out.shape = ir.Shape([None if shapes else d for d in array.shape])
    inputs = [v for i, v in enumerate(values) if i not in constants]
    graph = ir.Graph(
        inputs, node.outputs, nodes=[node], initializers=initializers, opset_imports={"": opset}, name="row"
    )
    return ir.Model(graph, ir_version=10)


def finish(model: ir.Model, opset: int) -> onnx.ModelProto:
    context = PassContext(opset, "ort-cpu")
    legalize(model, context)
    remove_dead(model, context)
    assign_names(model, context)
    proto = ir.to_proto(model)
    onnx.checker.check_model(proto, full_check=True)
    return proto


@dataclass(frozen=True)
class Row:
    """An operator, its operands, and the results that NumPy gives."""

    op: str
    args: Sequence[np.ndarray[Any, Any]]
    want: Any
    attrs: dict[str, Any] = field(default_factory=dict)
    opsets: Sequence[int] = OPSETS
    constants: Sequence[int] = ()
    rtol: float | None = None
    shapes: dict[int, Sequence[Any]] | None = None
    label: str = ""

    def results(self) -> list[np.ndarray[Any, Any]]:
        return list(self.want) if isinstance(self.want, (tuple, list)) else [self.want]


def extremes(dtype: Any) -> np.ndarray[Any, Any]:
    """Values of an integer type that a sloppy widening gets wrong."""
    info = np.iinfo(dtype)
    high, low = info.max, info.min
    return np.array([0, 1, 2, 3, high, high - 1, high // 2, high // 2 + 1, low, low // 2, 7], dtype)


SMALL = [np.int8, np.int16, np.uint8, np.uint16]
INTS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]
NUMPY: dict[str, Callable[..., Any]] = {
    "Max": np.maximum, "Min": np.minimum, "Add": np.add, "Mul": np.multiply, "Sub": np.subtract,
    "Equal": np.equal, "Less": np.less, "LessOrEqual": np.less_equal, "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal, "Abs": np.abs,
}  # fmt: skip


def arithmetic_rows() -> list[Row]:
    rows = []
    for dtype, (op, function) in itertools.product([*INTS, BF16, np.bool_], NUMPY.items()):
        if dtype is np.bool_ and op in ("Add", "Mul", "Sub", "Abs"):
            continue
        if dtype is BF16:
            x = np.array([1.5, -2.25, 3e38, 0.0, -0.0, np.inf, -np.inf, np.nan, 1e-30, 5.0, 1 / 3], BF16)
        elif dtype is np.bool_:
            x = np.array([True, False, True, False] * 2 + [True] * 3)
        else:
            x = extremes(dtype)
        y = x[::-1].copy()
        with np.errstate(all="ignore"):
            want = function(x) if op == "Abs" else function(x, y)
        rows.append(Row(op, [x] if op == "Abs" else [x, y], want))
    return rows


def movement_rows() -> list[Row]:
    rows = []
    for dtype in [*INTS, np.bool_, BF16, np.float16]:
        if dtype is np.bool_:
            x = np.array([[True, False, False], [False, True, True]])
        elif dtype in (BF16, np.float16):
            x = np.array([[0.5, -0.0, np.nan], [np.inf, 2.0, -3.0]], dtype)
        else:
            x = extremes(dtype)[[4, 1, 8, 9, 5, 7]].reshape(2, 3)
        y = x[::-1].copy()
        condition = np.array([[True, False, True], [False, False, True]])
        pads, around = np.array([0, 1, 1, 0], np.int64), ((0, 1), (1, 0))
        rows += [
            Row("Where", [condition, x, y], np.where(condition, x, y)),
            Row("Where", [condition, x, y[:1]], np.where(condition, x, y[:1]), constants=[2]),
            Row("Expand", [x, np.array([2, 2, 3], np.int64)], np.broadcast_to(x, (2, 2, 3)), constants=[1]),
            Row("Tile", [x, np.array([1, 2], np.int64)], np.tile(x, (1, 2)), constants=[1]),
            Row("Trilu", [x], np.tril(x), {"upper": 0}),
            Row("Pad", [x, pads, x[0, 0]], np.pad(x, around, constant_values=x[0, 0]), constants=[1]),
            Row("Pad", [x, pads], np.pad(x, around, mode="edge"), {"mode": "edge"}, constants=[1]),
            Row("Gather", [x, np.array([1, 0], np.int64)], x[:, [1, 0]], {"axis": 1}),
            Row("Concat", [x, y], np.concatenate([x, y]), {"axis": 0}),
            Row("Transpose", [x], x.T, {"perm": [1, 0]}),
        ]
    return rows


def order_rows() -> list[Row]:
    rows = []
    for dtype in [*INTS, BF16, np.bool_]:
        x = np.array([[3, 1, 2], [5, 5, 4]]).astype(dtype)
        if dtype not in (BF16, np.bool_):
            x = np.concatenate([x, extremes(dtype)[[4, 0, 8]][None], extremes(dtype)[[5, 7, 6]][None]])
        axes = np.array([1], np.int64)
        where = np.argsort([[-int(v) for v in row] for row in x.tolist()], axis=1, kind="stable")[:, :2]
        top = np.take_along_axis(x, where, 1)
        for opset in OPSETS:
            one = {"opsets": [opset], "constants": [1]}
            if opset >= 18:
                rows.append(Row("ReduceMax", [x, axes], x.max(1), {"keepdims": 0}, **one))
                rows.append(Row("ReduceMin", [x, axes], x.min(1), {"keepdims": 0}, **one))
            else:
                rows.append(Row("ReduceMax", [x], x.max(1), {"keepdims": 0, "axes": [1]}, [opset]))
        rows.append(Row("ArgMax", [x], x.argmax(1), {"axis": 1, "keepdims": 0}))
        rows.append(Row("ArgMin", [x], x.argmin(1), {"axis": 1, "keepdims": 0}))
        rows.append(Row("TopK", [x, np.array([2], np.int64)], [top, where], constants=[1]))
        if dtype is not np.bool_:
            low, high = x.min(), np.asarray(4, dtype)
            rows.append(Row("Clip", [x, low, high], np.clip(x, low, high), constants=[1, 2]))
    return rows


def integer_rows() -> list[Row]:
    rows = []
    for dtype in INTS:
        x = extremes(dtype)
        matrix, square = np.resize(x, (3, 4)), np.resize(x[2:], (3, 3))
        with np.errstate(all="ignore"):
            rows += [
                Row("MatMul", [matrix, matrix.T.copy()], matrix @ matrix.T),
                Row("CumSum", [x, np.array(0, np.int64)], np.cumsum(x, dtype=dtype), constants=[1]),
                Row("Neg", [x], (0 - x).astype(dtype)),
                Row("Einsum", [matrix, matrix], matrix @ matrix.T, {"equation": "ij,kj->ik"}),
                Row("Gemm", [matrix, matrix, square], matrix @ matrix.T + square, {"transB": 1}),
                Row("Relu", [x], np.maximum(x, 0).astype(dtype)),
                Row("Sign", [x], np.sign(x).astype(dtype)),
            ]
            if dtype not in (np.int32, np.int64):
                axes = np.array([1], np.int64)
                total = matrix.sum(1, dtype=dtype)
                rows.append(Row("ReduceSum", [matrix, axes], total, {"keepdims": 0}, constants=[1]))
        bits = np.iinfo(dtype).bits
        by = np.array([0, 1, 3, bits - 1, bits, 2, 1, 0, 1, bits - 1, bits + 3], dtype)
        sign = np.where(x < 0, -1, 0).astype(dtype)
        right = np.where(by >= bits, sign, x >> np.minimum(by, bits - 1)).astype(dtype)
        left = np.where(by >= bits, 0, x << np.minimum(by, bits - 1)).astype(dtype)
        rows.append(Row("BitShift", [x, by], right, {"direction": "RIGHT"}, label="right"))
        rows.append(Row("BitShift", [x, by], left, {"direction": "LEFT"}, label="left"))
    for dtype, reduction in itertools.product([np.float16, BF16, np.bool_], ["add", "mul", "max", "min"]):
        if dtype is np.bool_ and reduction in ("add", "mul"):
            continue
        data = np.array([1, 2, 0, 1]).astype(dtype)
        index = np.array([[1], [1], [3]], np.int64)
        updates = np.array([1, 3, 0]).astype(dtype)
        want = data.copy()
        function = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}[reduction]
        function.at(want, index[:, 0], updates)
        opsets = OPSETS if reduction in ("add", "mul") else OPSETS[1:]
        attrs = {"reduction": reduction}
        rows.append(Row("ScatterND", [data, index, updates], want, attrs, opsets))
        rows.append(Row("ScatterElements", [data, index[:, 0].copy(), updates], want, attrs, opsets))
    return rows


def _points() -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(3)
    spread = rng.normal(size=400) * 10.0 ** rng.integers(-20, 3, 400)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -0.5, 700.0, -700.0]
    return np.concatenate([spread, np.linspace(-12, 12, 481), special, [1e-300, 1e300, -1e300, 27.0]])


def _erfc(x: float) -> float:
    return math.erfc(x)


def _elementwise(function: Callable[[float], float], x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.array([function(float(v)) for v in x])


def _softplus(x: Any) -> Any:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


DOUBLE: dict[str, Callable[[Any], Any]] = {
    "Tan": np.tan, "Asin": np.arcsin, "Acos": np.arccos, "Atan": np.arctan, "Sinh": np.sinh, "Cosh": np.cosh,
    "Asinh": np.arcsinh, "Acosh": np.arccosh, "Atanh": np.arctanh, "Softplus": _softplus,
    "Erf": lambda x: _elementwise(math.erf, x), "Softsign": lambda x: x / (1 + np.abs(x)),
    "Elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "Mish": lambda x: x * np.tanh(_softplus(x)), "HardSwish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "LeakyRelu": lambda x: np.where(x < 0, x * 0.01, x),
}  # fmt: skip


def double_rows() -> list[Row]:
    x = _points()
    rows = []
    with np.errstate(all="ignore"):
        for op, function in DOUBLE.items():
            points = x[np.isfinite(x)] if op in ("Softsign", "Tan", "Mish", "HardSwish") else x
            rows.append(Row(op, [points], function(points), rtol=4e-15 if op != "Tan" else 1e-13))
        finite = x[np.isfinite(x)]
        exact = 0.5 * finite * _elementwise(_erfc, -finite / np.sqrt(2))
        cubic = 0.5 * finite * (1 + np.tanh(np.sqrt(2 / np.pi) * (finite + 0.044715 * finite**3)))
        rows.append(Row("Gelu", [finite], exact, opsets=OPSETS[1:], rtol=3e-13, label="erf"))
        rows.append(Row("Gelu", [finite], cubic, {"approximate": "tanh"}, OPSETS[1:], label="tanh"))
        rows.append(Row("PRelu", [finite, np.array([0.25])], np.where(finite < 0, 0.25 * finite, finite)))
        rows.append(Row("Mean", [finite, finite[::-1].copy()], finite / 2 + finite[::-1] / 2))
        swish = np.float32([0.7310586, -0.23840584, 2.8577223])
        rows.append(Row("Swish", [np.float32([1, -2, 3])], swish, opsets=[24, 25, 28]))
        rows.append(Row("Celu", [finite], np.where(finite > 0, finite, np.expm1(np.minimum(finite, 0)))))
    return rows


ROWS = [
    *arithmetic_rows(),
    *movement_rows(),
    *order_rows(),
    *integer_rows(),
    *double_rows(),
]


def _exists(op: str, opset: int) -> bool:
    return targets.get("ort-cpu").version(op, opset) is not None


@pytest.mark.parametrize(
    ("row", "opset"),
    [
        pytest.param(r, o, id=f"{r.op}{r.label}-{r.args[-1 if r.op == 'Where' else 0].dtype.name}-{i}-{o}")
        for i, r in enumerate(ROWS)
        for o in r.opsets
        if _exists(r.op, o)
    ],
)
def test_row(row: Row, opset: int) -> None:
    want = row.results()
    model = model_of(row.op, row.args, want, row.attrs, opset, row.constants, row.shapes)
    sess = session(finish(model, opset))
    got = run(sess, [a for i, a in enumerate(row.args) if i not in row.constants])
    for g, w in zip(got, want, strict=True):
        assert_same(g, w, row.rtol, 0.0 if row.rtol else None)


def test_unknown_target() -> None:
    with pytest.raises(InputSpecError, match="ort-cpu"):
        targets.get("ort-gpu")


def test_refusal_names_everything() -> None:
    x = np.ones((1, 1, 2, 2))
    model = model_of("Det", [x], [np.ones((1, 1))], {}, 21)
    with pytest.raises(IllegalForTarget, match=r"Det on float64 at opset 21\n  at model.py:7\n.*float32"):
        legalize(model, PassContext(21, "ort-cpu"))


@dataclass(frozen=True)
class WindowRow:
    """A convolution or pooling; its float32 kernel, exact on small integers, says what is right."""

    op: str
    x: tuple[int, ...]
    w: tuple[int, ...] = ()
    attrs: dict[str, Any] = field(default_factory=dict)
    bias: bool = False


WINDOWS = [
    WindowRow("Conv", (2, 3, 9), (4, 3, 3)),
    WindowRow("Conv", (2, 3, 7, 8), (4, 3, 1, 1)),
    WindowRow("Conv", (2, 3, 7, 8), (4, 3, 1, 1), {"strides": [2, 3]}, True),
    WindowRow("Conv", (2, 3, 7, 8), (5, 3, 3, 2), {"pads": [1, 0, 2, 1], "strides": [2, 1]}, True),
    WindowRow("Conv", (1, 4, 9, 8), (6, 2, 3, 3), {"group": 2, "dilations": [2, 1], "pads": [2, 2, 2, 2]}),
    WindowRow("Conv", (2, 4, 6, 6), (4, 1, 3, 3), {"group": 4, "auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    WindowRow("Conv", (2, 2, 7, 6), (3, 2, 2, 4), {"auto_pad": "SAME_LOWER"}),
    WindowRow("Conv", (1, 2, 4, 5, 6), (3, 2, 2, 3, 2), {"pads": [0, 1, 0, 1, 0, 1], "strides": [1, 2, 2]}),
    WindowRow("ConvTranspose", (2, 3, 5), (3, 4, 3), {"strides": [2]}),
    WindowRow("ConvTranspose", (2, 4, 4, 5), (4, 3, 3, 2), {"strides": [2, 3], "pads": [1, 0, 0, 1]}, True),
    WindowRow("ConvTranspose", (1, 4, 4, 4), (4, 2, 3, 3), {
        "group": 2, "dilations": [2, 1], "pads": [1, 3, 2, 3], "strides": [3, 2], "output_padding": [2, 1]}),
    WindowRow("AveragePool", (2, 3, 9), attrs={"kernel_shape": [3], "strides": [2]}),
    WindowRow("AveragePool", (2, 3, 7, 8), attrs={"kernel_shape": [3, 2], "pads": [1, 0, 1, 1]}),
    WindowRow("AveragePool", (2, 3, 7, 8), attrs={"kernel_shape": [2, 4], "pads": [0, 1, 1, 2],
                                                 "count_include_pad": 1}),
    WindowRow("AveragePool", (2, 3, 7, 8), attrs={"kernel_shape": [3, 3], "auto_pad": "SAME_UPPER",
                                                 "strides": [2, 2]}),
    WindowRow("MaxPool", (2, 3, 9), attrs={"kernel_shape": [3], "strides": [2], "pads": [1, 1]}),
    WindowRow("MaxPool", (2, 3, 7, 8), attrs={"kernel_shape": [2, 3], "dilations": [2, 1],
                                             "pads": [0, 1, 1, 1]}),
    WindowRow("GlobalAveragePool", (2, 3, 7, 8)),
    WindowRow("InstanceNormalization", (2, 3, 7, 8), attrs={"epsilon": 1e-3}, bias=True),
]  # fmt: skip


FLOATS_ONLY = ("AveragePool", "GlobalAveragePool", "InstanceNormalization")
WINDOW_DTYPES = [np.float64, BF16, np.int8, np.int32, np.int64, np.uint16, np.uint64]


@pytest.mark.parametrize("symbolic", [False, True], ids=["static", "symbolic"])
@pytest.mark.parametrize("opset", [17, 23])
@pytest.mark.parametrize(
    ("row", "dtype"),
    [
        pytest.param(r, d, id=f"{r.op}{len(r.x)}-{'-'.join(r.attrs)}-{np.dtype(d).name}")
        for r, d in itertools.product(WINDOWS, WINDOW_DTYPES)
        if r.op not in FLOATS_ONLY or d in (np.float64, BF16)
    ],
)
def test_window(row: WindowRow, dtype: Any, opset: int, symbolic: bool) -> None:
    rng = np.random.default_rng(7)
    low = 0 if np.dtype(dtype).kind == "u" else -3
    args = [rng.integers(low, 4, row.x)]
    if row.w:
        args.append(rng.integers(low, 2, row.w))
    if row.bias:
        channels = row.x[1] if not row.w else row.w[0] if row.op == "Conv" else row.w[1]
        args += [rng.integers(low, 4, channels)] * (1 if row.w else 2)
    singles = [a.astype(np.float32) for a in args]
    constants = range(1, len(args))
    unknown = {0: [None] * len(row.x)}
    single = model_of(row.op, singles, [singles[0]], row.attrs, opset, constants, unknown)
    (want,) = run(session(ir.to_proto(single)), singles[:1])
    shapes: dict[int, Sequence[Any]] | None = None
    if symbolic:
        shapes = {0: ["N", row.x[1], *(f"D{i}" for i in range(len(row.x) - 2))]}
    narrow = [a.astype(dtype) for a in args]
    want = want.astype(dtype) if dtype in (np.float64, BF16) else want.astype(np.int64).astype(dtype)
    model = model_of(row.op, narrow, [want], row.attrs, opset, constants, shapes)
    (got,) = run(session(finish(model, opset)), narrow[:1])
    assert_same(got, want, *((1e-6, 1e-6) if dtype is np.float64 else (None, None)))


# -- whole graphs -----------------------------------------------------------------------------


def value(name: str | None, dtype: Any, shape: Sequence[Any]) -> ir.Value:
    tensor = ir.TensorType(ir.DataType.from_numpy(np.dtype(dtype)))
    return ir.Value(name=name, type=tensor, shape=ir.Shape(shape))


def node(
    op: str, inputs: Sequence[ir.Value | None], dtype: Any, shape: Sequence[Any], **attrs: Any
) -> ir.Value:
    made = ir.Node("", op, inputs, [attribute(k, v) for k, v in attrs.items()])
    made.outputs[0].type = ir.TensorType(ir.DataType.from_numpy(np.dtype(dtype)))
    made.outputs[0].shape = ir.Shape(shape)
    return made.outputs[0]


def nodes_of(*outputs: ir.Value) -> list[ir.Node]:
    """The nodes behind values, in the order in which they were made."""
    found: dict[ir.Node, None] = {}

    def visit(v: ir.Value | None) -> None:
        made = None if v is None else v.producer()
        if made is not None and made not in found:
            for operand in made.inputs:
                visit(operand)
            found[made] = None

    for output in outputs:
        visit(output)
    return list(found)


def rounded(function: Callable[..., Any], *args: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A function of bfloat16, computed in float32 and rounded."""
    return np.asarray(function(*(a.astype(np.float32) for a in args)).astype(BF16))


def ops(graph: ir.Graph | ir.Function) -> list[str]:
    return [n.op_type for n in graph]


def test_an_operand_that_no_cast_takes_is_refused() -> None:
    """Also where the result is of a type that needs no cast back."""
    x, y = np.ones((2, 3), BF16), np.ones((3, 2), BF16)
    for op, args, want in (("MatMul", [x, y], np.ones((2, 2), BF16)), ("Greater", [x, x], np.ones((2, 3), bool)),
                           ("Cast", [x], np.ones((2, 3), np.float32))):  # fmt: skip
        model = model_of(op, args, [want], {"to": ir.DataType.FLOAT} if op == "Cast" else {}, 21)
        with pytest.raises(IllegalForTarget, match="bfloat16"):
            legalize(model, PassContext(21, "ort-web-webgpu"))


@pytest.mark.parametrize(
    "bounds",
    [([-2], [0], [1], [-1]), ([4], [1], [-1], [-2]), ([-1, 1], [-(2**62), 3], [1, 0], [-1, 1]), ([0], [5], [1], [-1]),
     ([0, 2], [2, -(2**62)], [0, 1], [1, -1]), ([-1], [-(2**63)], [1], [-1])],
)  # fmt: skip
def test_slices_backwards_take_the_same_elements(bounds: tuple[list[int], ...]) -> None:
    """Where the target begins at the end whatever the start, only whole axes are turned."""
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    at = [slice(None)] * 2
    for start, end, axis, step in zip(*bounds, strict=True):
        at[axis] = slice(start, None if end < -6 else end, step)
    want = x[tuple(at)]
    args = [x, *(np.array(b, np.int64) for b in bounds)]
    model = model_of("Slice", args, [want], {}, 21, constants=(1, 2, 3, 4))
    legalize(model, PassContext(21, "ort-web-webgpu"))
    for node in model.graph:
        starts, steps = (node.inputs[i].const_value.numpy() for i in (1, 4))  # type: ignore[union-attr]
        assert all(s > 0 or b == -1 for b, s in zip(starts, steps, strict=True))
    remove_dead(model, PassContext(21, "ort-web-webgpu"))
    assign_names(model, PassContext(21, "ort-web-webgpu"))
    (got,) = run(session(ir.to_proto(model)), [x])
    assert_same(got, want)


def test_a_slice_backwards_of_an_unknown_size_is_refused() -> None:
    args = [np.zeros((4, 6), np.float32), *(np.array(b, np.int64) for b in ([3], [0], [1], [-1]))]
    model = model_of(
        "Slice", args, [args[0][:, 3:0:-1]], {}, 21, constants=(1, 2, 3, 4), shapes={0: (4, "N")}
    )
    with pytest.raises(IllegalForTarget, match="backwards along an axis of unknown size"):
        legalize(model, PassContext(21, "ort-web-webgpu"))


@pytest.mark.parametrize(("opset", "axis"), [(17, -1), (21, 2), (23, -1)])
def test_rows_are_centred_before_they_are_normalized(opset: int, axis: int) -> None:
    """The kernel of WebGPU cancels, and gives NaN where a row lies far from 0."""
    x = (np.random.default_rng(0).normal(size=(2, 3, 64)) + 1e4).astype(np.float32)
    scale, bias = np.linspace(0.5, 2, 64, dtype=np.float32), np.ones(64, np.float32)
    wide = x.astype(np.float64)
    normal = (wide - wide.mean(-1, keepdims=True)) / np.sqrt(wide.var(-1, keepdims=True) + 1e-5)
    want = (normal * scale + bias).astype(np.float32)
    model = model_of("LayerNormalization", [x, scale, bias], [want], {"axis": axis, "epsilon": 1e-5}, opset)
    for _ in range(2):  # what is centred is left alone
        legalize(model, PassContext(opset, "ort-web-webgpu"))
        assert ops(model.graph) == ["ReduceMean", "Sub", "LayerNormalization"]
    assign_names(model, PassContext(opset, "ort-web-webgpu"))
    (got,) = run(session(ir.to_proto(model)), [x, scale, bias])
    assert_same(got, want, 1e-5, 1e-5)


@pytest.mark.parametrize("shape", [(3,), (2, 3), (1, 1, 2, 1, 1, 3)])
def test_resizing_has_two_to_five_axes(shape: tuple[int, ...]) -> None:
    x = np.arange(math.prod(shape), dtype=np.float32).reshape(shape)
    want = x.repeat(2, -1)
    scales = np.array([1] * (len(shape) - 1) + [2], np.float32)
    modes = {
        "mode": "nearest",
        "coordinate_transformation_mode": "asymmetric",
        "nearest_mode": "floor",
    }
    model = model_of("Resize", [x, np.zeros(0, np.float32), scales], [want], modes, 21, constants=(1, 2))
    if len(shape) > 5:
        with pytest.raises(IllegalForTarget, match="Resize of one axis or more than five"):
            legalize(model, PassContext(21, "ort-web-webgpu"))
        return
    legalize(model, PassContext(21, "ort-web-webgpu"))
    kept = ["Unsqueeze", "Resize", "Squeeze"] if len(shape) == 1 else ["Resize"]
    assert ops(model.graph) == kept
    assign_names(model, PassContext(21, "ort-web-webgpu"))
    (got,) = run(session(ir.to_proto(model)), [x])
    assert_same(got, want)


def test_convolutions_that_fail_when_they_run_are_refused() -> None:
    """Also where a kernel takes their types; a transposed one is beside WebGPU from opset 22 on."""
    x, w = np.ones((1, 1, 2, 2, 2), np.float32), np.ones((1, 1, 1, 1, 1), np.float32)
    four = [x[..., None], w[..., None]]
    for opset in (21, 23):
        legalize(model_of("Conv", [x, w], [x], {}, opset), PassContext(opset, "ort-web-webgpu"))
        with pytest.raises(IllegalForTarget, match=r"(?s)Conv over more than three axes.*other operations"):
            legalize(model_of("Conv", four, four[:1], {}, opset), PassContext(opset, "ort-web-webgpu"))
    legalize(model_of("ConvTranspose", [x, w], [x], {}, 22), PassContext(22, "ort-web-webgpu"))
    with pytest.raises(IllegalForTarget, match=r"(?s)over more than two axes.*opset=22.*beside WebGPU"):
        legalize(model_of("ConvTranspose", [x, w], [x], {}, 21), PassContext(21, "ort-web-webgpu"))
    for op, args in (("Conv", four), ("ConvTranspose", [x, w])):
        legalize(model_of(op, args, args[:1], {}, 21), PassContext(21, "ort-web-wasm"))


def test_casts_are_shared_and_keep_their_rounding() -> None:
    x, w = value("x", BF16, [8]), value("w", BF16, [8])
    total = node("Add", [x, w], BF16, [8])
    largest = node("Max", [total, x], BF16, [8])
    y = node("Mul", [largest, total], BF16, [8])
    y.name = "y"
    graph = ir.Graph([x, w], [y], nodes=nodes_of(y), opset_imports={"": 21}, name="chain")
    model = ir.Model(graph, ir_version=10)
    proto = finish(model, 21)
    # x and w widened, the sum rounded (two casts), the maximum never, the product rounded.
    assert sorted(ops(model.graph)) == sorted(["Add", "Max", "Mul", *["Cast"] * 5])
    a = np.linspace(0.1, 3, 8).astype(BF16)
    b = (np.linspace(0.1, 3, 8) / 300).astype(BF16)
    sums = rounded(np.add, a, b)
    want = rounded(np.multiply, np.maximum(sums, a), sums)
    for optimized in (False, True):
        (got,) = run(session(proto, optimized), [a, b])
        np.testing.assert_array_equal(got.view(np.uint16), want.view(np.uint16))


def test_bodies_share_the_casts_outside() -> None:
    """A weight that a loop body reads is widened once, outside of the loop."""
    x, w = value("x", BF16, [3, 4]), value("w", BF16, [4])
    row, carry = value(None, BF16, [4]), value(None, BF16, [4])
    new = node("Add", [node("Mul", [carry, w], BF16, [4]), row], BF16, [4])
    out = node("Identity", [new], BF16, [4])
    body = ir.Graph([carry, row], [new, out], nodes=nodes_of(out), name="body")
    start = node("Identity", [w], BF16, [4])
    attributes = [ir.AttrGraph("body", body), ir.AttrInt64("num_scan_inputs", 1)]
    made = ir.Node("", "Scan", [start, x], attributes, num_outputs=2)
    for output, shape, name in zip(made.outputs, ([4], [3, 4]), ("last", "all"), strict=True):
        output.type, output.shape, output.name = x.type, ir.Shape(shape), name
    start_node = start.producer()
    assert start_node is not None
    graph = ir.Graph([x, w], made.outputs, nodes=[start_node, made], opset_imports={"": 21}, name="loop")
    model = ir.Model(graph, ir_version=10)
    proto = finish(model, 21)
    assert ops(model.graph) == ["Cast", "Identity", "Scan"]
    assert ops(body).count("Cast") == 5  # carry, product and back, row, result
    xs = np.arange(12).reshape(3, 4).astype(BF16)
    ws = np.array([0.5, 1, -1, 0.3], BF16)
    state, rows = ws, []
    for r in xs:
        product = rounded(np.multiply, state, ws)
        state = rounded(np.add, product, r)
        rows.append(state)
    last, every = run(session(proto), [xs, ws])
    np.testing.assert_array_equal(last, state)
    np.testing.assert_array_equal(every, np.stack(rows))


def test_functions_hold_their_constants() -> None:
    x = value("x", np.float64, [None])
    y = node("Softplus", [x], np.float64, [None])
    function = ir.Function(
        "local", "f", "", graph=ir.Graph([x], [y], nodes=nodes_of(y), opset_imports={"": 21}), attributes=[]
    )
    outer = value("x", np.float64, [3])
    call = ir.Node("local", "f", [outer])
    call.outputs[0].type, call.outputs[0].shape, call.outputs[0].name = x.type, ir.Shape([3]), "y"
    graph = ir.Graph([outer], call.outputs, nodes=[call], opset_imports={"": 21, "local": 1}, name="calls")
    model = ir.Model(graph, ir_version=10, functions=[function])
    proto = finish(model, 21)
    assert not model.graph.initializers
    points = np.array([-2.0, 0.0, 3.0])
    (got,) = run(session(proto), [points])
    np.testing.assert_allclose(got, np.log1p(np.exp(points)), rtol=1e-14)


def test_results_stay_the_outputs() -> None:
    """Names of outputs survive a rewrite, also one that gives back an input."""
    x = value("x", np.uint64, [2])
    y = node("Relu", [x], np.uint64, [2])
    z = node("Max", [x, y], np.uint64, [2])
    y.name, z.name = "y", "z"
    graph = ir.Graph([x], [y, z], nodes=nodes_of(y, z), opset_imports={"": 21}, name="outputs")
    proto = finish(ir.Model(graph, ir_version=10), 21)
    assert [o.name for o in proto.graph.output] == ["y", "z"]
    big = np.array([1, 2**64 - 1], np.uint64)
    for got in run(session(proto), [big]):
        np.testing.assert_array_equal(got, big)


def test_provenance_is_inherited() -> None:
    x = np.ones(3)
    model = model_of("Sinh", [x], [x], {}, 21)
    legalize(model, PassContext(21, "ort-cpu"))
    assert {n.metadata_props["onnxproof.source"] for n in model.graph} == {"model.py:7"}
    assert {n.metadata_props["onnxproof.passes"] for n in model.graph} == {"legalize"}


def test_operator_newer_than_the_opset() -> None:
    x = np.ones(3, np.float32)
    model = model_of("Gelu", [x], [x], {}, 17)
    with pytest.raises(IllegalForTarget, match="opset=20"):
        legalize(model, PassContext(17, "ort-cpu"))


@pytest.mark.parametrize("narrow", [*INTS, np.bool_, BF16, np.float16, np.float32, np.float64])
@pytest.mark.parametrize("opset", [17, 21, 23, 24, 25, 28])
def test_every_cast_has_a_kernel(narrow: Any, opset: int) -> None:
    target = targets.get("ort-cpu")
    for wide in (np.uint8, np.int32, np.int64, np.float32, np.float64, np.uint64):
        pair = [ir.DataType.from_numpy(np.dtype(d)) for d in (narrow, wide)]
        assert target.runs("Cast", opset, pair[:1], pair[1:])
        assert target.runs("Cast", opset, pair[1:], pair[:1])


def test_biased_casts_follow_the_constants_of_a_function() -> None:
    x = value("x", np.uint64, [None, 2])
    y = node("ArgMax", [x], np.int64, [None], axis=1, keepdims=0)
    inner = ir.Graph([x], [y], nodes=nodes_of(y), opset_imports={"": 21})
    function = ir.Function("local", "f", "", graph=inner, attributes=[])
    outer = value("x", np.uint64, [2, 2])
    call = ir.Node("local", "f", [outer])
    call.outputs[0].type, call.outputs[0].shape, call.outputs[0].name = y.type, ir.Shape([2]), "y"
    graph = ir.Graph([outer], call.outputs, nodes=[call], opset_imports={"": 21, "local": 1}, name="calls")
    proto = finish(ir.Model(graph, ir_version=10, functions=[function]), 21)
    (got,) = run(session(proto), [np.array([[1, 2**63], [2**64 - 1, 2**63 - 1]], np.uint64)])
    np.testing.assert_array_equal(got, [1, 0])
