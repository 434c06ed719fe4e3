"""What a value is as a sum: products of vectors with constant matrices, and constant offsets.

The pre-activations of a recurrent cell are such sums, however a library cuts them: one matrix for all gates or
one for each, a product with the input and the state joined, matrices on the left or on the right.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from onnxproof.capture.program import Atom, Eqn, Lit, Var
from onnxproof.raising.match import Makers

Role = Literal["time", "batch", "feature"]
Roles = tuple[Role, ...]
Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Product:
    """``source`` times a rectangle of a constant matrix.

    Attributes:
        source: its feature axis is contracted; ``roles`` name its axes.
        free: the axis of the matrix that stays; the other one is contracted, over ``rows``.
        columns: of the free axis.
    """

    source: Atom
    roles: Roles
    weight: Atom
    free: int
    rows: Range
    columns: Range
    negative: bool


@dataclass(frozen=True, slots=True)
class Offset:
    """A constant vector's ``columns``, or a constant scalar (None)."""

    value: Atom
    columns: Range | None
    negative: bool


@dataclass(frozen=True, slots=True)
class Gated:
    """A sum multiplied by the logistic function of ``gate``."""

    gate: Atom
    terms: tuple[Term, ...]


Term = Product | Offset | Gated


class NotAffine(Exception):
    """The value is no such sum."""


@dataclass(frozen=True, slots=True)
class Affine:
    """The means to take values apart.

    Attributes:
        makers: of the loop's body and of what is around it.
        stacks: what is scanned over: a value of the body → the same for all trips, time first.
        is_constant: whether an atom depends on weights and literals alone.
    """

    makers: Makers
    stacks: Mapping[Atom, Atom]
    is_constant: Callable[[Atom], bool]

    def terms(self, atom: Atom, roles: Roles, columns: Range, negative: bool = False) -> list[Term]:
        """The terms of ``columns`` of the feature axis of ``atom``.

        Raises:
            NotAffine: it is none.
        """
        if isinstance(atom, Lit) and not atom.value.any():
            return []
        if atom.aval.ndim <= 1 and self.is_constant(atom):
            return [self._offset(atom, roles, columns, negative)]
        if atom in self.stacks:
            return self.terms(self.stacks[atom], ("time", *roles), columns, negative)
        eqn = self._maker(atom)
        at = roles.index("feature")
        match eqn.primitive:
            case "add" | "sub":
                second = negative ^ (eqn.primitive == "sub")
                signed = zip(eqn.inputs, (negative, second), strict=True)
                return [t for a, minus in signed for t in self._operand(a, eqn, roles, columns, minus)]
            case "neg":
                return self.terms(eqn.inputs[0], roles, columns, not negative)
            case "mul" if not negative:
                return [self._gated(eqn, roles, columns)]
            case "transpose":
                return self.terms(eqn.inputs[0], _before(eqn, roles), columns, negative)
            case "split" | "slice" | "concatenate":
                source, firsts = _cut(eqn, atom, {at: columns})
                if source is not None:
                    return self.terms(source, roles, _shifted(columns, firsts.get(at, 0)), negative)
            case "gather":
                first = self._window(eqn, at)
                return self.terms(eqn.inputs[0], roles, _shifted(columns, first), negative)
            case "broadcast_in_dim" if len(eqn.inputs) == 1 and self.is_constant(eqn.inputs[0]):
                kept = tuple(roles[d] for d in eqn.params["broadcast_dimensions"])
                return [self._offset(eqn.inputs[0], kept, columns, negative)]
            case "reshape" if self.is_constant(eqn.inputs[0]) or _keeps_axes(eqn):
                return self.terms(eqn.inputs[0], _squeezed(eqn, roles), columns, negative)
            case "dot_general":
                return self._product(eqn, roles, columns, negative)
        raise NotAffine

    def _offset(self, value: Atom, roles: Roles, columns: Range, negative: bool) -> Offset:
        """A scalar or a vector over the features."""
        shape = value.aval.shape
        if not shape:
            return Offset(value, None, negative)
        if roles == ("feature",) and isinstance(shape[0], int) and columns[1] <= shape[0]:
            value, _, (columns,) = self._origin(value, (0,), (columns,))
            return Offset(value, columns, negative)
        raise NotAffine

    def _origin(
        self, atom: Atom, axes: tuple[int, ...], ranges: tuple[Range, ...]
    ) -> tuple[Atom, tuple[int, ...], tuple[Range, ...]]:
        """The constant that ``ranges`` along ``axes`` of a constant are cut out of."""
        eqn = self.makers.get(atom) if isinstance(atom, Var) else None
        match eqn.primitive if eqn is not None else "":
            case "transpose" if eqn is not None:
                order = eqn.params["permutation"]
                return self._origin(eqn.inputs[0], tuple(order[a] for a in axes), ranges)
            case "split" | "slice" | "concatenate" if eqn is not None:
                source, firsts = _cut(eqn, atom, dict(zip(axes, ranges, strict=True)))
                if source is not None:
                    moved = (_shifted(r, firsts.get(a, 0)) for a, r in zip(axes, ranges, strict=True))
                    return self._origin(source, axes, tuple(moved))
        return atom, axes, ranges

    def _window(self, eqn: Eqn, axis: int) -> int:
        """Where along ``axis`` a gather starts that takes one window, at a literal, of an array of symbolic shape."""
        how, sizes = eqn.params["dimension_numbers"], eqn.params["slice_sizes"]
        x, index = eqn.inputs
        maker = self.makers.get(index) if isinstance(index, Var) else None
        if maker is not None and maker.primitive == "reshape":
            (index,) = maker.inputs
        whole = all(s == d for a, (s, d) in enumerate(zip(sizes, x.aval.shape, strict=True)) if a != axis)
        plain = how.start_index_map == (axis,) and tuple(how.offset_dims) == tuple(range(x.aval.ndim))
        if not (plain and whole and isinstance(index, Lit) and index.value.size == 1):
            raise NotAffine
        first, last = int(index.value.reshape(())), x.aval.shape[axis]
        if not isinstance(last, int) or not 0 <= first <= last - sizes[axis]:
            raise NotAffine
        return first

    def _maker(self, atom: Atom) -> Eqn:
        eqn = self.makers.get(atom) if isinstance(atom, Var) else None
        if eqn is None:
            raise NotAffine
        return eqn

    def _operand(self, atom: Atom, eqn: Eqn, roles: Roles, columns: Range, negative: bool) -> list[Term]:
        shape = eqn.outputs[0].aval.shape
        if not self.is_constant(atom) and atom.aval.shape != shape:
            raise NotAffine  # an operand that is broadcast
        return self.terms(atom, roles[len(shape) - atom.aval.ndim :], columns, negative)

    def _gated(self, eqn: Eqn, roles: Roles, columns: Range) -> Gated:
        for gate, other in (eqn.inputs, eqn.inputs[::-1]):
            maker = self.makers.get(gate) if isinstance(gate, Var) else None
            if maker is not None and maker.primitive == "logistic" and gate.aval == other.aval:
                if roles.index("feature") != len(roles) - 1 or columns != (0, gate.aval.shape[-1]):
                    break
                return Gated(maker.inputs[0], tuple(self.terms(other, roles, columns)))
        raise NotAffine

    def _product(self, eqn: Eqn, roles: Roles, columns: Range, negative: bool) -> list[Term]:
        (contract, batch) = eqn.params["dimension_numbers"]
        if any(batch) or len(contract[0]) != 1:
            raise NotAffine
        for side in (1, 0):
            weight, source = eqn.inputs[side], eqn.inputs[1 - side]
            inner, axis = contract[side][0], contract[1 - side][0]
            place = len(roles) - 1 if side else 0  # where the result has the weight's free axis
            if weight.aval.ndim == 2 and roles[place] == "feature" and self.is_constant(weight):
                others = list(roles[:place] + roles[place + 1 :])
                others.insert(axis, "feature")
                if source.aval.dtype != eqn.outputs[0].aval.dtype:
                    break
                whole = Product(source, tuple(others), weight, 1 - inner, (0, 0), columns, negative)
                return list(self._joined(whole, 0))
        raise NotAffine

    def _joined(self, product: Product, first: int) -> Sequence[Product]:
        """The product, or those of the parts that its source was joined from inside the loop."""
        source, roles = product.source, product.roles
        at = roles.index("feature")
        maker = self.makers.get(source) if isinstance(source, Var) else None
        if maker is not None and maker.primitive == "transpose":
            moved = replace(product, source=maker.inputs[0], roles=_before(maker, roles))
            return self._joined(moved, first)
        if maker is not None and maker.primitive == "reshape" and _keeps_axes(maker):
            moved = replace(product, source=maker.inputs[0], roles=_squeezed(maker, roles))
            return self._joined(moved, first)
        joined = maker is not None and maker.primitive == "concatenate" and "time" not in roles
        if maker is not None and joined and maker.params["dimension"] == at:
            return [
                p
                for piece, start, _ in _pieces(maker, at)
                for p in self._joined(replace(product, source=piece), first + start)
            ]
        if source in self.stacks:
            source, roles, at = self.stacks[source], ("time", *roles), at + 1
        size = source.aval.shape[at]
        if not isinstance(size, int):
            raise NotAffine
        free, columns = product.free, product.columns
        ranges = (columns, (first, first + size))
        weight, axes, (columns, rows) = self._origin(product.weight, (free, 1 - free), ranges)
        if weight.aval.ndim != 2:
            raise NotAffine
        whole = replace(product, source=source, roles=roles, weight=weight)
        return [replace(whole, free=axes[0], rows=rows, columns=columns)]


def _before(transpose: Eqn, roles: Roles) -> Roles:
    """The roles of a transpose's operand, from those of its result."""
    order = transpose.params["permutation"]
    return tuple(roles[order.index(axis)] for axis in range(len(order)))


def _keeps_axes(reshape: Eqn) -> bool:
    """Whether a reshape is a transpose that moves axes of size 1 alone."""
    return reshape.inputs[0].aval.ndim == reshape.outputs[0].aval.ndim and _same_but_for_ones(reshape)


def _same_but_for_ones(reshape: Eqn) -> bool:
    before, after = ([d for d in a.aval.shape if d != 1] for a in (reshape.inputs[0], reshape.outputs[0]))
    return before == after


def _squeezed(reshape: Eqn, roles: Roles) -> Roles:
    """The roles of the operand of a reshape that moves axes of size 1, or adds them to a constant vector of features.

    Raises:
        NotAffine: it does something else.
    """
    before, after = reshape.inputs[0].aval.shape, reshape.outputs[0].aval.shape
    wide = [role for role, d in zip(roles, after, strict=True) if d != 1]
    if not _same_but_for_ones(reshape):
        raise NotAffine
    if len(before) == 1 and wide in ([], ["feature"]):
        return ("feature",)
    if len(before) != len(after):
        raise NotAffine
    ones = [role for role, d in zip(roles, after, strict=True) if d == 1]
    return tuple(ones.pop(0) if d == 1 else wide.pop(0) for d in before)


def _shifted(columns: Range, by: int) -> Range:
    return columns[0] + by, columns[1] + by


def _pieces(eqn: Eqn, axis: int) -> Sequence[tuple[Atom, int, int]]:
    """(operand, where it starts, its size) of a concatenation."""
    out, first = [], 0
    for atom in eqn.inputs:
        size = atom.aval.shape[axis]
        if not isinstance(size, int):
            raise NotAffine
        out.append((atom, first, size))
        first += size
    return out


def _cut(eqn: Eqn, atom: Atom, ranges: Mapping[int, Range]) -> tuple[Atom | None, Mapping[int, int]]:
    """Where ``ranges`` of the result of a split, slice or concatenation come from.

    Returns the operand, or None when there is no one, and how far positions move along each axis. An axis that
    has no range is one that has to stay whole.
    """
    match eqn.primitive:
        case "split":
            axis = eqn.params["axis"]
            first = sum(eqn.params["sizes"][: eqn.outputs.index(atom)])
            return (eqn.inputs[0] if axis in ranges else None), {axis: first}
        case "slice":
            before, after = eqn.inputs[0].aval.shape, eqn.outputs[0].aval.shape
            strides = eqn.params["strides"]
            whole = all(a == b or d in ranges for d, (a, b) in enumerate(zip(before, after, strict=True)))
            if not whole or (strides is not None and any(s != 1 for s in strides)):
                return None, {}
            starts = eqn.params["start_indices"]
            return eqn.inputs[0], {axis: starts[axis] for axis in ranges}
    axis = eqn.params["dimension"]
    if axis in ranges:
        for piece, first, size in _pieces(eqn, axis):
            if first <= ranges[axis][0] and ranges[axis][1] <= first + size:
                return piece, {axis: -first}
    return None, {}


def constants(makers: Makers, weights: Collection[Var]) -> Callable[[Atom], bool]:
    """Whether an atom depends on nothing but literals and ``weights``; answers are kept."""
    known: dict[Var, bool] = dict.fromkeys(weights, True)

    def is_constant(atom: Atom) -> bool:
        if isinstance(atom, Lit):
            return True
        if atom not in known:
            eqn = makers.get(atom)
            known[atom] = (
                eqn is not None
                and eqn.primitive in _REARRANGING
                and all(isinstance(d, int) for d in atom.aval.shape)
                and all(map(is_constant, eqn.inputs))
            )
        return known[atom]

    return is_constant


_REARRANGING = frozenset(
    {"add", "broadcast_in_dim", "concatenate", "mul", "neg", "reshape", "slice", "split", "squeeze", "sub", "transpose"}
)  # fmt: skip
