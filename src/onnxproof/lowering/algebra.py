"""Arithmetic on values with Python's operators, for the rules that spell out a formula.

Numbers stay scalars, so broadcasting is left to the operators and no constant is expanded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxproof.lowering.emit import F32, Ctx


@dataclass(frozen=True, slots=True, eq=False)
class Num:
    """A value under construction. Comparisons give boolean Nums; operands are Nums or Python numbers."""

    ctx: Ctx
    value: ir.Value

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.ctx.dtype(self.value)

    def _operand(self, other: Operand) -> ir.Value:
        return other.value if isinstance(other, Num) else self.ctx.like(other, self.value)

    def _do(self, op: str, *others: Operand, **attrs: Any) -> Num:
        return Num(self.ctx, self.ctx.op(op, self.value, *map(self._operand, others), **attrs))

    def _flipped(self, op: str, other: Operand) -> Num:
        return Num(self.ctx, self.ctx.op(op, self._operand(other), self.value))

    def __add__(self, other: Operand) -> Num:
        return self._do("Add", other)

    __radd__ = __add__

    def __mul__(self, other: Operand) -> Num:
        return self._do("Mul", other)

    __rmul__ = __mul__

    def __sub__(self, other: Operand) -> Num:
        return self._do("Sub", other)

    def __rsub__(self, other: Operand) -> Num:
        return self._flipped("Sub", other)

    def __truediv__(self, other: Operand) -> Num:
        return self._do("Div", other)

    def __rtruediv__(self, other: Operand) -> Num:
        return self._do("Reciprocal") if other == 1 else self._flipped("Div", other)

    def __neg__(self) -> Num:
        return self._do("Neg")

    def __abs__(self) -> Num:
        return self._do("Abs")

    def __lt__(self, other: Operand) -> Num:
        return self._do("Less", other)

    def __le__(self, other: Operand) -> Num:
        return self._do("LessOrEqual", other)

    def __gt__(self, other: Operand) -> Num:
        return self._do("Greater", other)

    def __ge__(self, other: Operand) -> Num:
        return self._do("GreaterOrEqual", other)

    def __and__(self, other: Num) -> Num:
        return self._do("And", other)

    def __or__(self, other: Num) -> Num:
        return self._do("Or", other)

    def __xor__(self, other: Num) -> Num:
        return self._do("Xor", other)

    def __invert__(self) -> Num:
        return self._do("Not")

    def equal(self, other: Operand) -> Num:
        return self._do("Equal", other)

    def clip(self, low: float, high: float) -> Num:
        return self._do("Clip", low, high)

    def do(self, op: str) -> Num:
        """A unary ONNX operator."""
        return self._do(op)

    def cast(self, dtype: np.dtype[Any]) -> Num:
        return Num(self.ctx, self.ctx.cast(self.value, dtype))

    def where(self, yes: Num, no: Operand) -> Num:
        """``yes`` where this is true, ``no`` elsewhere; ``yes`` gives the dtype."""
        return Num(self.ctx, self.ctx.op("Where", self.value, yes.value, yes._operand(no)))

    def polynomial(self, coefficients: Sequence[float]) -> Num:
        """Horner's rule; the highest power first."""
        total: Operand = coefficients[0]
        for c in coefficients[1:]:
            total = self * total + c
        return total if isinstance(total, Num) else self * 0.0 + total


Operand = Num | float | int


def where(condition: Num, yes: Operand, no: Operand, like: Num) -> Num:
    """Select where either side may be a number; ``like`` gives the dtype."""
    ctx = condition.ctx
    return Num(ctx, ctx.op("Where", condition.value, like._operand(yes), like._operand(no), dtype=like.dtype))


def formula(fn: Callable[..., Num]) -> Callable[..., ir.Value]:
    """A rule from a function of Nums. Half precision is computed in float32 and rounded once, as JAX does."""

    @wraps(fn)
    def rule(ctx: Ctx, *operands: ir.Value) -> ir.Value:
        dtype = ctx.out.dtype
        work = F32 if dtype.itemsize < 4 else dtype
        result = fn(*(Num(ctx, ctx.cast(v, work)) for v in operands))
        return ctx.cast(result.value, dtype)

    # The registry reads a rule's own parameters, not those of the function of Nums.
    del rule.__wrapped__
    return rule
