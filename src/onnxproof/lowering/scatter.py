"""Writing into arrays at computed positions: scatter and its combining forms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as ir

from onnxproof.capture import dims
from onnxproof.capture.program import Dim, Program, Shape, SymDim
from onnxproof.lowering.apply import apply_at
from onnxproof.lowering.emit import BOOL, I64, Ctx
from onnxproof.lowering.indices import evaluate
from onnxproof.lowering.regions import (
    Start,
    read_window,
    tuple_axes,
    tuple_window,
    tuples,
    unit,
    write_window,
)
from onnxproof.lowering.registry import ANY, Rule, lowers
from onnxproof.lowering.starts import (
    Axis,
    Starts,
    count_along,
    elements_axis,
    into_range,
    one_start,
    pick_columns,
    spread_windows,
    without_last,
)

_MOST_POSITIONS = 65536  # of a window that is written by position

# How a scatter combines: the ``reduction`` of ScatterND, and the operator on a value and its update.
_REDUCTION: Final[Mapping[str, str]] = {
    "scatter": "none",
    "scatter-add": "add",
    "scatter-sub": "add",
    "scatter-mul": "mul",
    "scatter-min": "min",
    "scatter-max": "max",
}
_OPERATOR: Final[Mapping[str, str]] = {
    "scatter-add": "Add",
    "scatter-sub": "Sub",
    "scatter-mul": "Mul",
    "scatter-min": "Min",
    "scatter-max": "Max",
}


@dataclass(frozen=True)
class _Scatter:
    """The geometry of a scatter, in terms of the axes of operand, starts and update."""

    shape: Shape
    starts: Shape
    update: Shape
    window_axes: tuple[int, ...]
    inserted: tuple[int, ...]
    map: tuple[int, ...]
    batching: tuple[int, ...]
    starts_batching: tuple[int, ...]

    @cached_property
    def batch(self) -> tuple[int, ...]:
        """Axes of the starts, without that of columns."""
        return tuple(range(len(self.starts) - 1))

    @cached_property
    def kept(self) -> tuple[int, ...]:
        """Axes of the operand that the update has."""
        gone = {*self.inserted, *self.batching}
        return tuple(d for d in range(len(self.shape)) if d not in gone)

    @cached_property
    def window(self) -> Shape:
        """The size of a window along each axis of the operand."""
        sizes: list[Dim] = [1] * len(self.shape)
        for d, axis in zip(self.kept, self.window_axes, strict=True):
            sizes[d] = self.update[axis]
        return tuple(sizes)

    @cached_property
    def axes(self) -> list[Axis]:
        """One for each column of the starts."""
        return [Axis(self.shape[d], self.window[d]) for d in self.map]

    @cached_property
    def labels(self) -> list[tuple[str, int]]:
        """What each axis of the update is: an axis of the starts, or of the operand."""
        kept, batch = iter(self.kept), iter(self.batch)
        return [
            ("x", next(kept)) if i in self.window_axes else ("i", next(batch))
            for i in range(len(self.update))
        ]


def _rule(name: str) -> Rule:
    def rule(
        ctx: Ctx,
        x: ir.Value,
        indices: ir.Value,
        update: ir.Value,
        *,
        dimension_numbers: Any,
        mode: Any,
        update_jaxpr: Program | None,
        update_consts: Sequence[Any],
        unique_indices: bool,
    ) -> ir.Value:
        if mode.name not in ("CLIP", "FILL_OR_DROP", "PROMISE_IN_BOUNDS"):
            raise ctx.unsupported(f"mode {mode.name.lower()}")
        numbers = dimension_numbers
        form = _Scatter(
            ctx.ins[0].shape,
            ctx.ins[1].shape,
            ctx.ins[2].shape,
            _ints(numbers.update_window_dims),
            _ints(numbers.inserted_window_dims),
            _ints(numbers.scatter_dims_to_operand_dims),
            _ints(numbers.operand_batching_dims),
            _ints(numbers.scatter_indices_batching_dims),
        )
        if 0 in form.shape or 0 in form.update:
            return x
        if name == "scatter" and update_jaxpr is not None and not _replaces(update_jaxpr):
            single = unique_indices or all(form.starts[i] == 1 for i in form.batch)
            return apply_at(ctx, x, indices, update, update_jaxpr, partial(_times, numbers, mode), single)
        # XLA drops what is out of range also where that is promised not to happen.
        writer = _Writer(ctx, form, name, check=mode.name != "CLIP")
        if all(form.starts[i] == 1 for i in form.batch):
            return writer.one(x, indices, update)
        return writer.many(x, indices, update)

    return rule


for _name in _REDUCTION:
    lowers(_name, indices_are_sorted=ANY)(_rule(_name))


def _ints(values: Sequence[Any]) -> tuple[int, ...]:
    return tuple(int(v) for v in values)


def _replaces(update: Program) -> bool:
    """Whether a new value takes the place of the old one as it is."""
    return not update.eqns and update.outputs[0] is update.inputs[1]


def _times(numbers: Any, mode: Any, x: jax.Array, indices: jax.Array, update: jax.Array) -> jax.Array:
    """How often each element of x is written."""
    ones = jnp.ones(update.shape, jnp.int32)
    return jax.lax.scatter_add(jnp.zeros(x.shape, jnp.int32), indices, ones, numbers, mode=mode)


@dataclass(frozen=True)
class _Writer:
    ctx: Ctx
    form: _Scatter
    name: str
    check: bool

    @property
    def reduction(self) -> str:
        return _REDUCTION[self.name]

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.ctx.out.dtype

    # -- one window ---------------------------------------------------------------------------

    def one(self, x: ir.Value, indices: ir.Value, update: ir.Value) -> ir.Value:
        """A single window: read, combine and write it, or let ScatterND combine in place."""
        ctx, form = self.ctx, self.form
        lead = tuple_axes(form.shape, form.window)
        wrap = lead is not None and all(axis.window == 1 for axis in form.axes)
        starts, ok = one_start(ctx, indices, form.map, form.axes, self.check, wrap=wrap)
        for d, (size, window) in enumerate(zip(form.shape, form.window, strict=True)):
            if size != window and d not in starts:
                starts[d] = Start(ctx.const(0, I64))
        known = None if ok is None else evaluate(ctx, ok)
        if known is not None:
            if not known.all():
                return x
            ok = None
        if lead:
            return self._at_tuples(x, tuples(ctx, starts, form.window, lead), ok, update, lead)
        update = ctx.reshape(update, form.window)
        if self.name != "scatter" or ok is not None:
            update = self._chosen(ok, read_window(ctx, x, starts, form.window), update)
        return write_window(ctx, x, starts, form.window, update)

    def _at_tuples(
        self, x: ir.Value, index: ir.Value, ok: ir.Value | None, update: ir.Value, lead: int
    ) -> ir.Value:
        ctx, window = self.ctx, self.form.window
        shape = tuple_window(window, lead)
        update = ctx.reshape(update, shape)
        if self.reduction in ("add", "mul") and self.dtype.kind in "iuf" and self.dtype.itemsize > 2:
            update = self._addend(update)
            if ok is not None:
                update = ctx.op("Where", ok, update, self._neutral(), shape=shape)
            return self._scatter_nd(x, index, update)
        if self.name != "scatter" or ok is not None:
            update = self._chosen(ok, ctx.op("GatherND", x, index, shape=shape), update)
        return ctx.op("ScatterND", x, index, update)

    def _chosen(self, ok: ir.Value | None, current: ir.Value, update: ir.Value) -> ir.Value:
        """What a window holds afterwards."""
        ctx, shape = self.ctx, self.ctx.shape(update)
        if self.name != "scatter":
            update = ctx.op(self._operator(), current, update, shape=shape)
        return update if ok is None else ctx.op("Where", ok, update, current, shape=shape)

    def _operator(self) -> str:
        """The operator of one update; on truth values sum and product are or and and."""
        name = _OPERATOR[self.name]
        if self.dtype == BOOL:
            return {"Add": "Or", "Max": "Or", "Mul": "And", "Min": "And", "Sub": "Xor"}[name]
        return name

    # -- several windows ----------------------------------------------------------------------

    def many(self, x: ir.Value, indices: ir.Value, update: ir.Value) -> ir.Value:
        used = [k for k, axis in enumerate(self.form.axes) if axis.size != axis.window]
        if not self.check and used and len(used) < len(self.form.map):
            # The start of a window that fills its axis is clamped to 0.
            kept = replace(
                self.form,
                map=tuple(self.form.map[k] for k in used),
                starts=(*self.form.starts[:-1], len(used)),
            )
            indices = pick_columns(self.ctx, indices, used)
            return replace(self, form=kept).many(x, indices, update)
        form = self.form
        if not form.map:
            raise self.ctx.unsupported("several windows without an index")
        update = self._addend(update)
        plan = elements_axis(
            len(form.shape), form.map, form.batching, form.starts_batching, form.batch, form.window
        )
        if plan is not None and not (self.check and self.reduction == "none"):
            return self._elements(x, indices, update, *plan)
        lead = self._lead()
        order = list(range(len(form.shape)))
        if lead is None:
            keyed = sorted({*form.map, *form.batching, *self._partial()})
            order = [*keyed, *(d for d in order if d not in keyed)]
            lead = len(keyed)
        x = self.ctx.transpose(x, order)
        found = into_range(self.ctx, indices, form.axes, check=self.check, wide=True, column=True)
        index, update = self._tuples(found.value, update, order[:lead], order[lead:])
        if found.ok is not None:
            index, update = self._only(found.ok, index, update)
        result = self._combine(x, index, update, order)
        return self.ctx.transpose(result, [order.index(d) for d in range(len(order))])

    def _partial(self) -> list[int]:
        """Axes that no index moves along and that the window does not fill."""
        form = self.form
        return [
            d
            for d, (size, window) in enumerate(zip(form.shape, form.window, strict=True))
            if size != window and d not in form.map and d not in form.batching
        ]

    def _lead(self) -> int | None:
        """How many leading axes tuples name, without a transposition; None when that means too many."""
        form = self.form
        keyed = {*form.map, *form.batching, *self._partial()}
        lead = max(keyed, default=-1) + 1
        between = [form.window[d] for d in range(lead) if d not in keyed]
        if any(isinstance(w, SymDim) for w in between):
            return None
        return lead if np.prod(between, dtype=np.int64) <= _MOST_POSITIONS else None  # type: ignore[arg-type]

    def _tuples(
        self, starts: ir.Value, update: ir.Value, named: Sequence[int], rest: Sequence[int]
    ) -> tuple[ir.Value, ir.Value]:
        """Index tuples over the axes ``named``, batch + windows + [columns], and the update to match."""
        ctx, form = self.ctx, self.form
        batch, width = form.starts[:-1], len(named)
        index = self._placed(starts, named)
        for d, i in zip(form.batching, form.starts_batching, strict=True):
            line = count_along(ctx, form.starts[i], i, len(batch) + 1)
            index = ctx.op("Add", index, ctx.op("Mul", line, unit(ctx, named.index(d), width)),
                           shape=(*batch, width))  # fmt: skip
        windows = {k: form.window[d] for k, d in enumerate(named) if form.window[d] != 1}
        index = spread_windows(ctx, index, windows, width, batch)
        labels = [("i", i) for i in form.batch] + [("x", d) for d in (*named, *rest)]
        wanted = [label for label in labels if label in form.labels]
        update = ctx.transpose(update, [form.labels.index(label) for label in wanted])
        shape = (*batch, *windows.values(), *(form.window[d] for d in rest))
        return index, ctx.reshape(update, shape)

    def _placed(self, starts: ir.Value, named: Sequence[int]) -> ir.Value:
        """Starts with a column for each axis of ``named``; 0 where no index moves along the axis."""
        ctx, form = self.ctx, self.form
        if tuple(named) == form.map:
            return starts
        batch, width = form.starts[:-1], len(named)
        places = np.zeros((len(form.map), width), np.int64)
        for k, d in enumerate(form.map):
            places[k, list(named).index(d)] = 1
        known = evaluate(ctx, starts)
        if known is not None:
            return ctx.const(known @ places, I64)
        if not form.map:
            return ctx.expand(ctx.i64([0] * width), (*batch, width))
        if len(form.map) == 1:
            return ctx.op("Mul", starts, ctx.const(places[0]), shape=(*batch, width))
        return ctx.op("MatMul", starts, ctx.const(places), shape=(*batch, width))

    def _only(self, ok: ir.Value, index: ir.Value, update: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Without the windows that lie out of range: they are left out, or made to change nothing."""
        ctx, form = self.ctx, self.form
        batch = form.starts[:-1]
        if self.reduction != "none":
            shape = ctx.shape(update) or ()
            ok = self._lined(ok, (*batch, *([1] * (len(shape) - len(batch)))))
            return index, ctx.op("Where", ok, update, self._neutral(), shape=shape)
        count = dims.product(batch)
        ok = ctx.reshape(ok, (count,))
        flat = [ctx.reshape(v, (count, *(ctx.shape(v) or ())[len(batch) :])) for v in (index, update)]
        left = [ctx.op("Compress", v, ok, axis=0) for v in flat]
        return left[0], left[1]

    def _lined(self, ok: ir.Value, shape: Shape) -> ir.Value:
        """``ok`` in a shape; where it lost its last axis just before, from what it was."""
        node = ok.producer()
        before = node.inputs[0] if node is not None and node.op_type == "Squeeze" else None
        return self.ctx.reshape(ok if before is None else before, shape)

    def _elements(self, x: ir.Value, indices: ir.Value, update: ir.Value, axis: int, inner: bool) -> ir.Value:
        """Axes of operand and starts run together: ScatterElements along the one that is left."""
        ctx, form = self.ctx, self.form
        size = form.window[axis]
        source = without_last(ctx, indices) if inner else indices
        found: Starts = into_range(ctx, source, form.axes, check=self.check, wide=not inner and size != 1)
        index = found.value
        if not inner and size != 1:
            index = ctx.op("Add", index, ctx.reshape(count_along(ctx, size, 0, 1), (size,)))
        shape = form.starts[:-1] if inner else (*form.starts[:-1], size)
        update = ctx.reshape(self._in_order(update, axis, inner), shape)
        if found.ok is not None:
            update = ctx.op("Where", found.ok, update, self._neutral(), shape=shape)
        return self._combine(x, index, update, None, axis=axis)

    def _in_order(self, update: ir.Value, axis: int, inner: bool) -> ir.Value:
        form = self.form
        labels = [("i", i) for i in form.batch] + ([] if inner else [("x", axis)])
        wanted = [label for label in labels if label in form.labels]
        rest = [label for label in form.labels if label not in wanted]
        return self.ctx.transpose(update, [form.labels.index(label) for label in [*wanted, *rest]])

    # -- combining ----------------------------------------------------------------------------

    def _addend(self, update: ir.Value) -> ir.Value:
        """A subtraction adds the negative."""
        return self.ctx.op("Neg", update) if self.name == "scatter-sub" else update

    def _neutral(self) -> ir.Value:
        """The update that changes nothing."""
        dtype, reduction = self.dtype, self.reduction
        if reduction == "add":
            return self.ctx.const(np.asarray(-0.0).astype(dtype))
        if reduction == "mul":
            return self.ctx.const(np.asarray(1).astype(dtype))
        least = reduction == "max"
        if dtype == BOOL:
            return self.ctx.const(not least)
        if dtype.kind in "iu":
            bounds = np.iinfo(dtype)
            return self.ctx.const(bounds.min if least else bounds.max, dtype)
        return self.ctx.const(np.asarray(-np.inf if least else np.inf).astype(dtype))

    def _combine(
        self,
        x: ir.Value,
        index: ir.Value,
        update: ir.Value,
        order: Sequence[int] | None,
        axis: int | None = None,
    ) -> ir.Value:
        """Scatter; the greatest and the least of numbers among which a NaN is, is NaN."""
        ctx = self.ctx
        result = self._write(x, index, update, self.reduction, axis)
        if self.reduction not in ("min", "max") or self.dtype.kind in "iub":
            return result
        nan = ctx.const(np.asarray(np.nan).astype(self.dtype))
        nothing = ctx.const(np.asarray(-0.0).astype(self.dtype))
        marks = ctx.op("Where", ctx.op("IsNaN", update), nan, nothing, shape=ctx.shape(update))
        result = self._write(result, index, marks, "add", axis)
        return ctx.op("Where", ctx.op("IsNaN", x), x, result)

    def _write(
        self, x: ir.Value, index: ir.Value, update: ir.Value, reduction: str, axis: int | None
    ) -> ir.Value:
        if axis is None:
            return self._scatter_nd(x, index, update, reduction)
        self._need(reduction)
        attr = None if reduction == "none" else reduction
        return self.ctx.op("ScatterElements", x, index, update, axis=axis, reduction=attr)

    def _scatter_nd(
        self, x: ir.Value, index: ir.Value, update: ir.Value, reduction: str | None = None
    ) -> ir.Value:
        reduction = reduction or self.reduction
        self._need(reduction)
        attr = None if reduction == "none" else reduction
        return self.ctx.op("ScatterND", x, index, update, reduction=attr)

    def _need(self, reduction: str) -> None:
        if reduction != "none":
            since = 18 if reduction in ("min", "max") else 16
            self.ctx.need_opset(since, f"a scatter that combines by {reduction}")
