"""Gathers: many windows of an array, by computed starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxproof.capture import dims
from onnxproof.capture.program import Dim, Shape, SymDim
from onnxproof.lowering.emit import I64, Ctx
from onnxproof.lowering.indices import evaluate
from onnxproof.lowering.regions import Start, read_window
from onnxproof.lowering.registry import lowers
from onnxproof.lowering.shape import picked
from onnxproof.lowering.starts import (
    Axis,
    Starts,
    elements_axis,
    into_range,
    offsets,
    one_start,
    pick_columns,
    spread_windows,
    without_last,
)


@dataclass(frozen=True)
class _Gather:
    """The geometry of a gather, in terms of the axes of operand, starts and result."""

    shape: Shape
    starts: Shape
    window: Shape
    map: tuple[int, ...]
    collapsed: tuple[int, ...]
    batching: tuple[int, ...]
    starts_batching: tuple[int, ...]
    offset: tuple[int, ...]
    out: Shape

    @cached_property
    def batch(self) -> tuple[int, ...]:
        """Axes of the starts, without that of columns."""
        return tuple(range(len(self.starts) - 1))

    @cached_property
    def kept(self) -> tuple[int, ...]:
        """Axes of the operand that the result has."""
        gone = {*self.collapsed, *self.batching}
        return tuple(d for d in range(len(self.shape)) if d not in gone)

    @cached_property
    def axes(self) -> list[Axis]:
        """One for each column of the starts."""
        return [Axis(self.shape[d], self.window[d]) for d in self.map]

    @cached_property
    def labels(self) -> list[tuple[str, int]]:
        """What each axis of the result is: an axis of the starts, or of the operand."""
        offsets, batch = iter(self.kept), iter(self.batch)
        return [
            ("x", next(offsets)) if i in self.offset else ("i", next(batch)) for i in range(len(self.out))
        ]


@lowers("gather")
def gather(
    ctx: Ctx,
    x: ir.Value,
    indices: ir.Value,
    *,
    dimension_numbers: Any,
    slice_sizes: Sequence[Dim],
    mode: Any,
    fill_value: Any,
    unique_indices: bool,
    indices_are_sorted: bool,
) -> ir.Value:
    name = mode.name
    if name not in ("CLIP", "FILL_OR_DROP", "PROMISE_IN_BOUNDS"):
        raise ctx.unsupported(f"mode {name.lower()}")
    out = ctx.out
    if 0 in out.shape:
        return ctx.expand(ctx.const(0, out.dtype), out.shape)
    numbers = dimension_numbers
    form = _Gather(
        ctx.ins[0].shape,
        ctx.ins[1].shape,
        tuple(slice_sizes),
        _ints(numbers.start_index_map),
        _ints(numbers.collapsed_slice_dims),
        _ints(numbers.operand_batching_dims),
        _ints(numbers.start_indices_batching_dims),
        _ints(numbers.offset_dims),
        out.shape,
    )
    if 0 in form.shape:
        return ctx.expand(_fill(ctx, fill_value), out.shape)
    # A slice of an array with symbolic sizes: JAX has checked its bounds.
    trust = name == "PROMISE_IN_BOUNDS" and unique_indices and indices_are_sorted
    reader = _Reader(
        ctx, form, check=name == "FILL_OR_DROP", trust=trust, guarded=name == "PROMISE_IN_BOUNDS"
    )
    result, ok = reader.read(x, indices)
    if ok is None:
        return result
    if ctx.rank(ok):
        at = [form.starts[i] if kind == "i" else 1 for kind, i in form.labels]
        while at and at[0] == 1:
            at.pop(0)
        ok = ctx.reshape(ok, at)
    return ctx.op("Where", ok, result, _fill(ctx, fill_value), shape=out.shape)


def _ints(values: Sequence[Any]) -> tuple[int, ...]:
    return tuple(int(v) for v in values)


def _fill(ctx: Ctx, fill_value: Any) -> ir.Value:
    """What stands for elements out of range: NaN, the least signed, the greatest unsigned number, or True."""
    dtype = ctx.out.dtype
    if fill_value is None:
        kind = dtype.kind
        if kind == "b":
            fill_value = True
        elif kind in "iu":
            bounds = np.iinfo(dtype)
            fill_value = bounds.min if kind == "i" else bounds.max
        else:
            fill_value = np.nan
    return ctx.const(np.asarray(fill_value).astype(dtype))


@dataclass(frozen=True)
class _Reader:
    ctx: Ctx
    form: _Gather
    check: bool
    trust: bool
    guarded: bool  # whether constants out of range may fail at run time

    def read(self, x: ir.Value, indices: ir.Value) -> tuple[ir.Value, ir.Value | None]:
        form = self.form
        if all(form.starts[i] == 1 for i in form.batch):
            return self._one(x, indices)
        x = self._cut(x)
        used = [k for k, axis in enumerate(form.axes) if axis.size != axis.window]
        if not used and form.map and (form.batching or self.check):
            used = list(range(len(form.map)))
        if not used:
            if form.batching:
                raise self.ctx.unsupported("batches without an index")
            return self._repeat(x), None
        order = sorted(used, key=lambda k: form.map[k])
        if form.batching:
            return self._batched(x, indices, order)
        if len(order) == 1:
            return self._along(x, indices, order)
        return self._tuples(x, indices, order)

    # -- one window ---------------------------------------------------------------------------

    def _one(self, x: ir.Value, indices: ir.Value) -> tuple[ir.Value, ir.Value | None]:
        ctx, form = self.ctx, self.form
        found, ok = one_start(ctx, indices, form.map, form.axes, self.check, self.trust)
        window = read_window(ctx, self._cut(x), found, form.window)
        return picked(ctx, window, form.out) or ctx.reshape(window, form.out), ok

    # -- several windows ----------------------------------------------------------------------

    def _cut(self, x: ir.Value) -> ir.Value:
        """Only the first part is read of an axis that no index moves along."""
        form = self.form
        whole = list(form.shape)
        starts = {}
        for d, (size, window) in enumerate(zip(form.shape, form.window, strict=True)):
            if size != window and d not in form.map and d not in form.batching:
                starts[d] = Start(self.ctx.const(0, I64))
                whole[d] = window
        return read_window(self.ctx, x, starts, whole)

    def _repeat(self, x: ir.Value) -> ir.Value:
        form = self.form
        line = [form.window[i] if kind == "x" else 1 for kind, i in form.labels]
        return self.ctx.expand(self.ctx.reshape(x, line), form.out)

    def _starts(self, indices: ir.Value, order: Sequence[int], wide: bool, wrap: bool = True) -> Starts:
        """Starts in range, the columns of ``order`` only; ``ok`` tells of all columns."""
        ctx, form = self.ctx, self.form
        axes = form.axes
        if not self.check or list(order) == list(range(len(axes))):
            indices = pick_columns(ctx, indices, order)
            axes = [axes[k] for k in order]
            return into_range(ctx, indices, axes, check=self.check, trust=self.trust,
                              wrap=wrap, wide=wide, column=True, guarded=self.guarded)  # fmt: skip
        found = into_range(
            ctx, indices, axes, check=True, wrap=wrap, wide=wide, column=True, guarded=self.guarded
        )
        return Starts(pick_columns(ctx, found.value, order), found.ok)

    def _along(
        self, x: ir.Value, indices: ir.Value, order: Sequence[int]
    ) -> tuple[ir.Value, ir.Value | None]:
        """One axis is indexed: Gather."""
        ctx, form = self.ctx, self.form
        axis = form.map[order[0]]
        size, ok = form.window[axis], None
        batch = form.starts[:-1]
        single = len(form.map) == 1
        if size == 1 and single:
            found = into_range(ctx, without_last(ctx, indices), form.axes, check=self.check, trust=self.trust,
                               guarded=self.guarded)  # fmt: skip
            index, ok = found.value, found.ok
        else:
            found = self._starts(indices, order, wide=size != 1)
            index, ok = found.value, found.ok
            if size == 1:
                index = without_last(ctx, index)
            else:
                index = ctx.op("Add", index, ctx.reshape(offsets(ctx, {0: size}, 1), (size,)))
        shape = ctx.shape(x) or ()
        places = batch if size == 1 else (*batch, size)
        result = ctx.op("Gather", x, index, axis=axis, shape=shape[:axis] + places + shape[axis + 1 :])
        labels = [("x", d) for d in range(axis)] + [("i", i) for i in form.batch]
        labels += [("x", axis)] if size != 1 else []
        labels += [("x", d) for d in range(axis + 1, len(form.shape))]
        return self._arrange(result, labels), ok

    def _tuples(
        self, x: ir.Value, indices: ir.Value, order: Sequence[int]
    ) -> tuple[ir.Value, ir.Value | None]:
        """Several axes are indexed: GatherND, or Gather along their product where that moves less."""
        ctx, form = self.ctx, self.form
        axes = [form.map[k] for k in order]
        first, count = axes[0], len(axes)
        shape = ctx.shape(x) or ()
        rest = [d for d in range(len(shape)) if d not in axes]
        run = axes == list(range(first, first + count))
        strides = [shape[d] for d in axes[1:]]
        flat = run and first > 0 and all(form.window[d] == 1 for d in axes)
        if flat and not any(isinstance(s, SymDim) for s in strides):
            found = self._starts(indices, order, wide=True, wrap=False)
            weights = np.cumprod([1, *reversed([int(s) for s in strides])])[::-1]
            known = evaluate(ctx, found.value)
            batch = form.starts[:-1]
            if known is not None:
                index = ctx.const(known @ weights, I64)
            else:
                index = ctx.op("MatMul", found.value, ctx.i64(weights.tolist()), shape=batch)
            long = dims.product(shape[first : first + count])
            x = ctx.reshape(x, (*shape[:first], long, *shape[first + count :]))
            result = ctx.op("Gather", x, index, axis=first,
                            shape=shape[:first] + batch + shape[first + count :])  # fmt: skip
            labels = [("x", d) for d in range(first)] + [("i", i) for i in form.batch]
            labels += [("x", d) for d in range(first + count, len(shape))]
            return self._arrange(result, labels), found.ok
        found = self._starts(indices, order, wide=True)
        x = ctx.transpose(x, [*axes, *rest])
        result, windows = self._gather_nd(x, found.value, axes, 0, form.starts[:-1])
        labels = [("i", i) for i in form.batch] + windows + [("x", d) for d in rest]
        return self._arrange(result, labels), found.ok

    def _gather_nd(
        self, x: ir.Value, tuples: ir.Value, axes: Sequence[int], batch_dims: int, batch: Shape
    ) -> tuple[ir.Value, list[tuple[str, int]]]:
        """GatherND on leading ``axes`` (after ``batch_dims``), and the labels of the result's window axes."""
        ctx, form = self.ctx, self.form
        windows = {k: form.window[d] for k, d in enumerate(axes) if form.window[d] != 1}
        index = spread_windows(ctx, tuples, windows, len(axes), batch)
        rest = (ctx.shape(x) or ())[batch_dims + len(axes) :]
        shape = (*batch, *windows.values(), *rest)
        attr = batch_dims or None
        result = ctx.op("GatherND", x, index, batch_dims=attr, shape=shape)
        return result, [("x", axes[k]) for k in windows]

    def _batched(
        self, x: ir.Value, indices: ir.Value, order: Sequence[int]
    ) -> tuple[ir.Value, ir.Value | None]:
        """Axes of operand and starts run together: GatherElements, or GatherND with batch axes."""
        ctx, form = self.ctx, self.form
        axes = [form.map[k] for k in order]
        rank = len(form.shape)
        plan = elements_axis(rank, form.map, form.batching, form.starts_batching, form.batch, form.window)
        if plan is not None:
            axis, inner = plan
            size = form.window[axis]
            if inner:
                found = into_range(
                    ctx, without_last(ctx, indices), form.axes, check=self.check, guarded=self.guarded
                )
                shape: Shape = form.starts[:-1]
                labels = [("i", i) for i in form.batch]
                index = found.value
            else:
                found = self._starts(indices, order, wide=size != 1)
                index = found.value
                if size != 1:
                    index = ctx.op("Add", index, ctx.reshape(offsets(ctx, {0: size}, 1), (size,)))
                shape = (*form.starts[:-1], size)
                labels = [("i", i) for i in form.batch] + [("x", axis)]
            result = ctx.op("GatherElements", x, index, axis=axis, shape=shape)
            return self._arrange(result, labels), found.ok
        found = self._starts(indices, order, wide=True)
        rest = [d for d in range(rank) if d not in axes and d not in form.batching]
        x = ctx.transpose(x, [*form.batching, *axes, *rest])
        others = [i for i in form.batch if i not in form.starts_batching]
        lead = [*form.starts_batching, *others]
        tuples = ctx.transpose(found.value, [*lead, len(form.batch)])
        batch = tuple(form.starts[i] for i in lead)
        result, windows = self._gather_nd(x, tuples, axes, len(form.batching), batch)
        labels = [("i", i) for i in lead] + windows + [("x", d) for d in rest]
        return self._arrange(result, labels), found.ok

    def _arrange(self, value: ir.Value, labels: Sequence[tuple[str, int]]) -> ir.Value:
        """Bring the axes of a result, which ``labels`` names, into their order; others have size 1."""
        form = self.form
        wanted = [label for label in form.labels if label in labels]
        wanted += [label for label in labels if label not in wanted]
        value = self.ctx.transpose(value, [labels.index(label) for label in wanted])
        return self.ctx.reshape(value, form.out)
