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
