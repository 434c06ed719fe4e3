"""The nodes of an LSTM or GRU: matrices stacked gate by gate as ONNX orders them, biases as rows of them.

A bias that the reset gate multiplies (``linear_before_reset``) can't be a row of the input's matrix. It becomes a
column of the state's matrix, for one more unit whose state is 1 throughout: its update gate is 1, and where an
input drives that gate to 0, its candidate is 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from onnxproof.capture.program import Shape
from onnxproof.lowering.emit import Ctx
from onnxproof.lowering.registry import lowers
from onnxproof.raising.affine import Offset, Product
from onnxproof.raising.recurrent import Gate

# Of the unit that is always 1: how its gates weigh the input (not at all would make NaN of an infinite input),
# and the offsets that saturate its update gate and, past the other end of that, its candidate.
_WEIGHT, _UPDATE, _CANDIDATE = 2.0**-20, 100.0, 300.0


def _rectangle(ctx: Ctx, product: Product) -> ir.Value:
    """[columns, rows]: the weight of a product as ONNX has it."""
    weight = ctx.read(product.weight)
    shape = ctx.shape(weight) or ()
    free = product.free
    ranges = {free: product.columns, 1 - free: product.rows}
    cut = [axis for axis in (0, 1) if ranges[axis] != (0, shape[axis])]
    if cut:
        sizes = tuple(ranges[a][1] - ranges[a][0] for a in (0, 1))
        weight = ctx.slice(weight, [ranges[a][0] for a in cut], [ranges[a][1] for a in cut], cut, shape=sizes)
    weight = ctx.transpose(weight, (0, 1) if free == 0 else (1, 0))
    return ctx.op("Neg", weight) if product.negative else weight


def _vector(ctx: Ctx, offsets: Sequence[Offset], size: int) -> ir.Value:
    """[size]: the sum of offsets."""
    total = None
    for offset in offsets:
        value = ctx.read(offset.value)
        if offset.columns is None:
            value = ctx.expand(value, (size,))
        elif offset.columns != (0, (ctx.shape(value) or ())[0]):
            first, last = offset.columns
            value = ctx.slice(value, [first], [last], [0], shape=(size,))
        value = ctx.op("Neg", value) if offset.negative else value
        total = value if total is None else ctx.op("Add", total, value)
    return ctx.const(np.zeros(size, np.float32)) if total is None else total


def _joined(ctx: Ctx, parts: Sequence[ir.Value], axis: int) -> ir.Value:
    if len(parts) == 1:
        return parts[0]
    shapes = [ctx.shape(p) or () for p in parts]
    shape = list(shapes[0])
    shape[axis] = sum(int(s[axis]) for s in shapes)
    return ctx.op("Concat", *parts, axis=axis, shape=tuple(shape))


def _stacked(ctx: Ctx, matrices: Sequence[ir.Value], columns: Sequence[ir.Value] | None) -> ir.Value:
    """[1, sum of rows, columns + 1]: matrices one below the other, with a last column."""
    whole = _joined(ctx, matrices, 0)
    if columns is not None:
        whole = _joined(ctx, [whole, ctx.unsqueeze(_joined(ctx, columns, 0), [1])], 1)
    return ctx.unsqueeze(whole, [0])


def _time_first(ctx: Ctx, x: ir.Value, roles: Sequence[str]) -> ir.Value:
    """[time, batch, features]."""
    order = [roles.index(r) for r in ("time", "batch", "feature") if r in roles]
    x = ctx.transpose(x, order)
    return x if "batch" in roles else ctx.unsqueeze(x, [1])


def _with_one(ctx: Ctx, x: ir.Value) -> ir.Value:
    """The input with one more feature, which is 1."""
    time, batch, size = ctx.shape(x) or ()
    pads = ctx.i64([0, 0, 0, 0, 0, 1])
    return ctx.op("Pad", x, pads, ctx.const(np.float32(1)), shape=(time, batch, int(size) + 1))


def _states(ctx: Ctx, starts: Sequence[ir.Value], batched: bool, zero: bool) -> Sequence[ir.Value | None]:
    """[1, batch, hidden] each; zeros are what the operator starts with by itself."""
    if zero:
        return [None] * len(starts)
    return [ctx.unsqueeze(s, [0] if batched else [0, 1]) for s in starts]


def _results(
    ctx: Ctx,
    op: str,
    inputs: Sequence[ir.Value | None],
    results: Sequence[str],
    batched: bool,
    hidden: int,
    reverse: bool,
    take: Callable[[ir.Value], ir.Value] = lambda value: value,
    linear_before_reset: int | None = None,
) -> list[ir.Value]:
    """The operator, and those of its results that the equation has, in their order and shape."""
    time, batch, _ = ctx.shape(inputs[0]) or ()  # type: ignore[arg-type]
    state: Shape = (1, batch, hidden)
    outputs = ctx.multi(
        op,
        *inputs,
        dtypes=[ctx.out.dtype] * (3 if op == "LSTM" else 2),
        shapes=[(time, 1, batch, hidden), state, state][: 3 if op == "LSTM" else 2],
        hidden_size=hidden,
        direction="reverse" if reverse else None,
        linear_before_reset=linear_before_reset,
    )
    by_name = dict(zip(("stack", "h", "c"), outputs, strict=False))
    extra = [] if batched else [1]
    axes = {"stack": [1, *(e + 1 for e in extra)], "h": [0, *extra], "c": [0, *extra]}
    return [ctx.squeeze(take(by_name[r]), axes[r]) for r in results]


def _weighed(
    ctx: Ctx, x: ir.Value, gates: Sequence[Gate], hidden: int
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """The input, with a column of ones where gates have offsets, and the weights of input and of state."""
    offsets = None
    if any(g.offsets for g in gates):
        x = _with_one(ctx, x)
        offsets = [_vector(ctx, g.offsets, hidden) for g in gates]
    w = _stacked(ctx, [_rectangle(ctx, g.x) for g in gates], offsets)
    return x, w, _stacked(ctx, [_rectangle(ctx, g.state) for g in gates], None)


@lowers("lstm")
def lstm(
    ctx: Ctx,
    x: ir.Value,
    h: ir.Value,
    c: ir.Value,
    *weights: ir.Value,
    gates: Sequence[Gate],
    results: Sequence[str],
    reverse: bool,
    zero_state: bool,
) -> list[ir.Value]:
    """``gates`` in ONNX's order: input, output, forget, cell."""
    roles = gates[0].x.roles
    hidden = int((ctx.shape(h) or ())[-1])
    x = _time_first(ctx, x, roles)
    x, w, r = _weighed(ctx, x, gates, hidden)
    batched = "batch" in roles
    starts = _states(ctx, (h, c), batched, zero_state)
    rest = [] if zero_state else [None, None, *starts]
    return _results(ctx, "LSTM", [x, w, r, *rest], results, batched, hidden, reverse)


@lowers("gru")
def gru(
    ctx: Ctx,
    x: ir.Value,
    h: ir.Value,
    *weights: ir.Value,
    gates: Sequence[Gate],
    results: Sequence[str],
    reverse: bool,
    zero_state: bool,
    linear_before_reset: bool,
) -> list[ir.Value]:
    """``gates`` in ONNX's order: update, reset, candidate."""
    roles = gates[0].x.roles
    batched = "batch" in roles
    x = _time_first(ctx, x, roles)
    hidden = int((ctx.shape(h) or ())[-1])
    before = int(linear_before_reset) or None
    if gates[2].state_offsets:
        return _gru_with_unit(ctx, x, gates, results, batched, hidden, reverse)
    x, w, r = _weighed(ctx, x, gates, hidden)
    starts = _states(ctx, (h,), batched, zero_state)
    rest = [] if zero_state else [None, None, *starts]
    return _results(
        ctx, "GRU", [x, w, r, *rest], results, batched, hidden, reverse, linear_before_reset=before
    )


def _gru_with_unit(
    ctx: Ctx,
    x: ir.Value,
    gates: Sequence[Gate],
    results: Sequence[str],
    batched: bool,
    hidden: int,
    reverse: bool,
) -> list[ir.Value]:
    """A GRU with a bias under the reset gate: one more unit, the last, whose state is 1."""
    _, batch, size = ctx.shape(x) or ()
    x = _with_one(ctx, x)
    signs = (_WEIGHT, _WEIGHT, -_WEIGHT)
    ws, columns, rs = [], [], []
    for gate, sign, offset in zip(gates, signs, (_UPDATE, _UPDATE, _CANDIDATE), strict=True):
        row = ctx.const(np.full((1, int(size)), sign, np.float32))
        ws.append(_joined(ctx, [_rectangle(ctx, gate.x), row], 0))
        last = ctx.const(np.asarray([offset], np.float32))
        columns.append(_joined(ctx, [_vector(ctx, gate.offsets, hidden), last], 0))
        column = ctx.unsqueeze(_vector(ctx, gate.state_offsets, hidden), [1])
        wide = _joined(ctx, [_rectangle(ctx, gate.state), column], 1)
        rs.append(_joined(ctx, [wide, ctx.const(np.zeros((1, hidden + 1), np.float32))], 0))
    start = np.zeros((1, 1, hidden + 1), np.float32)
    start[..., -1] = 1
    state = ctx.expand(ctx.const(start), (1, batch, hidden + 1))

    def take(value: ir.Value) -> ir.Value:
        shape = ctx.shape(value) or ()
        return ctx.slice(value, [0], [hidden], [len(shape) - 1], shape=(*shape[:-1], hidden))

    inputs = [x, _stacked(ctx, ws, columns), _stacked(ctx, rs, None), None, None, state]
    return _results(ctx, "GRU", inputs, results, batched, hidden + 1, reverse, take, linear_before_reset=1)
