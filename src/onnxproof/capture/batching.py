"""One equation of a loop body for all trips at once: operands and results gain a leading axis of trips.

It does the same arithmetic on the same numbers, so moving it out of a loop changes no value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from onnxproof.capture.program import Atom, Aval, Dim, Eqn, Var

Axes = Sequence[bool]
Batcher = Callable[[Eqn, tuple[Atom, ...], Axes, Dim], list[Eqn] | None]

_UNARY = frozenset(
    {
        "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "ceil",
        "convert_element_type", "cos", "cosh", "erf", "erfc", "erf_inv", "exp", "exp2", "expm1",
        "floor", "imag", "integer_pow", "is_finite", "log", "log1p", "logistic", "neg", "not", "real",
        "round", "rsqrt", "sign", "sin", "sinh", "sqrt", "square", "tan", "tanh",
    }
)  # fmt: skip
_BINARY = frozenset(
    {
        "add", "add_any", "and", "atan2", "div", "eq", "ge", "gt", "le", "lt", "max", "min", "mul",
        "ne", "nextafter", "or", "pow", "rem", "shift_left", "shift_right_arithmetic",
        "shift_right_logical", "sub", "xor",
    }
)  # fmt: skip
_REDUCTIONS = frozenset(
    {
        "reduce_and", "reduce_max", "reduce_min", "reduce_or", "reduce_prod", "reduce_sum", "argmax",
        "argmin",
    }
)  # fmt: skip


def batch(eqn: Eqn, inputs: tuple[Atom, ...], batched: Axes, length: Dim) -> list[Eqn] | None:
    """The equations that compute ``eqn`` for all trips.

    Args:
        inputs: the operands, those flagged in ``batched`` with their leading axis.

    Returns:
        The equations, the last of which gives the batched results; None where it can't be batched.
    """
    rule = _RULES.get(eqn.primitive)
    return None if rule is None else rule(eqn, inputs, batched, length)


def computes(eqn: Eqn) -> bool:
    """Whether an equation does arithmetic, so that a trip is worth sparing it; others only move data."""
    return eqn.primitive in _WORK


def with_axis(aval: Aval, length: Dim) -> Aval:
    """``aval`` with a leading axis."""
    return Aval((length, *aval.shape), aval.dtype)


def _rebuilt(eqn: Eqn, inputs: Sequence[Atom], length: Dim, params: Mapping[str, Any] | None = None) -> Eqn:
    outputs = tuple(Var(with_axis(v.aval, length)) for v in eqn.outputs)
    new = eqn.params if params is None else {**eqn.params, **params}
    return replace(eqn, inputs=tuple(inputs), outputs=outputs, params=new)


def _elementwise(eqn: Eqn, inputs: tuple[Atom, ...], batched: Axes, length: Dim) -> list[Eqn] | None:
    """Operands broadcast from the right: those of lower rank get unit axes between trips and their own."""
    rank = eqn.outputs[0].aval.ndim
    before: list[Eqn] = []
    aligned: list[Atom] = []
    for atom, has_axis in zip(inputs, batched, strict=True):
        missing = rank + 1 - atom.aval.ndim
        if has_axis and missing:
            shape = (length, *(1,) * missing, *atom.aval.shape[1:])
            out = Var(Aval(shape, atom.aval.dtype))
            params = {"new_sizes": shape, "dimensions": None, "sharding": None}
            before.append(Eqn("reshape", (atom,), (out,), params, eqn.site))
            atom = out
        aligned.append(atom)
    return [*before, _rebuilt(eqn, aligned, length)]


def _select(eqn: Eqn, inputs: tuple[Atom, ...], batched: Axes, length: Dim) -> list[Eqn] | None:
    if eqn.inputs[0].aval.ndim == 0 and batched[0] and eqn.outputs[0].aval.ndim:
        return None  # one choice a trip: a branch of the loop
    return _elementwise(eqn, inputs, batched, length)


def _clamp(eqn: Eqn, inputs: tuple[Atom, ...], batched: Axes, length: Dim) -> list[Eqn] | None:
    return None if batched[0] or batched[2] else _elementwise(eqn, inputs, batched, length)


def _dot_general(eqn: Eqn, inputs: tuple[Atom, ...], batched: Axes, length: Dim) -> list[Eqn] | None:
    (cx, cy), (bx, by) = eqn.params["dimension_numbers"]
    if all(batched):
        numbers: Any = ((_up(cx), _up(cy)), ((0, *_up(bx)), (0, *_up(by))))
        return [_rebuilt(eqn, inputs, length, {"dimension_numbers": numbers})]
    if bx:
        return None  # the axis of trips would not come out first
    if batched[0]:
        numbers = ((_up(cx), tuple(cy)), ((), ()))
        return [_rebuilt(eqn, inputs, length, {"dimension_numbers": numbers})]
    # The operand with the axis of trips goes first; its own free axes then stand before those of the other.
    numbers = ((_up(cy), tuple(cx)), ((), ()))
    swapped = _rebuilt(eqn, inputs[::-1], length, {"dimension_numbers": numbers})
    own = eqn.inputs[1].aval.ndim - len(cy)
    other = eqn.inputs[0].aval.ndim - len(cx)
    if own == 0 or other == 0:
        return [swapped]
    perm = (0, *range(1 + own, 1 + own + other), *range(1, 1 + own))
    given = swapped.outputs[0].aval
    back = [0] * len(perm)
    for at, source in enumerate(perm):
        back[source] = at
    middle = Var(Aval(tuple(given.shape[i] for i in back), given.dtype))
    turned = Eqn("transpose", (middle,), swapped.outputs, {"permutation": perm}, eqn.site)
    return [replace(swapped, outputs=(middle,)), turned]


def _up(axes: Sequence[int]) -> tuple[int, ...]:
    return tuple(a + 1 for a in axes)


def _reduce(eqn: Eqn, inputs: tuple[Atom, ...], batched: Axes, length: Dim) -> list[Eqn] | None:
    return [_rebuilt(eqn, inputs, length, {"axes": _up(eqn.params["axes"])})]


def _transpose(eqn: Eqn, inputs: tuple[Atom, ...], batched: Axes, length: Dim) -> list[Eqn] | None:
    return [_rebuilt(eqn, inputs, length, {"permutation": (0, *_up(eqn.params["permutation"]))})]


def _reshape(eqn: Eqn, inputs: tuple[Atom, ...], batched: Axes, length: Dim) -> list[Eqn] | None:
    if eqn.params.get("dimensions") is not None:
        return None
    return [_rebuilt(eqn, inputs, length, {"new_sizes": (length, *eqn.params["new_sizes"])})]


def _squeeze(eqn: Eqn, inputs: tuple[Atom, ...], batched: Axes, length: Dim) -> list[Eqn] | None:
    rank = eqn.inputs[0].aval.ndim
    axes = _up([d % rank for d in eqn.params["dimensions"]])
    return [_rebuilt(eqn, inputs, length, {"dimensions": axes})]


def _broadcast_in_dim(eqn: Eqn, inputs: tuple[Atom, ...], batched: Axes, length: Dim) -> list[Eqn] | None:
    params = {
        "shape": (length, *eqn.params["shape"]),
        "broadcast_dimensions": (0, *_up(eqn.params["broadcast_dimensions"])),
    }
    return [_rebuilt(eqn, inputs, length, params)] if len(eqn.inputs) == 1 else None


def _slice(eqn: Eqn, inputs: tuple[Atom, ...], batched: Axes, length: Dim) -> list[Eqn] | None:
    strides = eqn.params["strides"]
    params = {
        "start_indices": (0, *eqn.params["start_indices"]),
        "limit_indices": (length, *eqn.params["limit_indices"]),
        "strides": None if strides is None else (1, *strides),
    }
    return [_rebuilt(eqn, inputs, length, params)]


def _along_axis(eqn: Eqn, inputs: tuple[Atom, ...], batched: Axes, length: Dim) -> list[Eqn] | None:
    return [_rebuilt(eqn, inputs, length, {"axis": eqn.params["axis"] + 1})]


def _concatenate(eqn: Eqn, inputs: tuple[Atom, ...], batched: Axes, length: Dim) -> list[Eqn] | None:
    if not all(batched):
        return None
    return [_rebuilt(eqn, inputs, length, {"dimension": eqn.params["dimension"] + 1})]


_RULES: Mapping[str, Batcher] = {
    **dict.fromkeys([*_UNARY, *_BINARY], _elementwise),
    **dict.fromkeys(_REDUCTIONS, _reduce),
    "clamp": _clamp,
    "select_n": _select,
    "dot_general": _dot_general,
    "transpose": _transpose,
    "reshape": _reshape,
    "squeeze": _squeeze,
    "broadcast_in_dim": _broadcast_in_dim,
    "slice": _slice,
    "split": _along_axis,
    "unstack": _along_axis,
    "concatenate": _concatenate,
}
_WORK = frozenset([*_UNARY, *_BINARY, *_REDUCTIONS, "clamp", "select_n", "dot_general"]) - {
    "convert_element_type",
    "real",
    "imag",
    "not",
}
