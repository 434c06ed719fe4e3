"""Bring a Program into one spelling, so that rules and reference programs see fewer forms of one thing.

Every rewrite keeps values bit for bit: literals fold, selects on literals choose, unit axes are always inserted or
removed by ``reshape``, and operands of element-wise primitives are broadcast implicitly where that gives the same
shape (lowerings map these primitives to ONNX operators that broadcast).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from onnxproof.capture.program import (
    Atom,
    Dim,
    Eqn,
    Lit,
    Program,
    Shape,
    Site,
    SymDim,
    Var,
    broadcast_shapes,
)
from onnxproof.capture.simplify import drop_dead, map_bodies, merge_equal

_FOLD_LIMIT = 64  # elements of a literal result

BROADCASTING = frozenset(
    {"add", "sub", "mul", "div", "max", "min", "eq", "ne", "lt", "le", "gt", "ge", "and", "or", "xor"}
)
_FOLD: Mapping[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "neg": np.negative,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "not": np.invert,
    "max": np.maximum,
    "min": np.minimum,
    "nextafter": np.nextafter,
}


def normalize(program: Program) -> Program:
    """The Program in its normal spelling, without dead or duplicate equations."""
    program = drop_dead(program)
    return drop_dead(merge_equal(_Normalizer(_uses(program)).run(program)))


def _uses(program: Program) -> Mapping[Atom, int]:
    """How often equations and results read a Var."""
    bodies = [program, *(b for e in program.walk() for b in e.bodies())]
    read = [a for e in program.walk() for a in e.inputs] + [a for b in bodies for a in b.outputs]
    return Counter(a for a in read if isinstance(a, Var))


class _Normalizer:
    def __init__(self, uses: Mapping[Atom, int]) -> None:
        self.uses = uses
        self.env: dict[Var, Atom] = {}
        self.made_by: dict[Var, Eqn] = {}

    def run(self, program: Program) -> Program:
        eqns: list[Eqn] = []
        for eqn in program.eqns:
            inputs = tuple(self.read(a) for a in eqn.inputs)
            if inputs != eqn.inputs:
                eqn = replace(eqn, inputs=inputs)
            eqn = map_bodies(eqn, self.run)
            result = self.rewrite(eqn, eqns)
            if isinstance(result, Eqn):
                self.append(result, eqns)
            else:
                self.env[eqn.outputs[0]] = result
        return replace(program, eqns=tuple(eqns), outputs=tuple(self.read(a) for a in program.outputs))

    def read(self, atom: Atom) -> Atom:
        return self.env.get(atom, atom) if isinstance(atom, Var) else atom

    def append(self, eqn: Eqn, eqns: list[Eqn]) -> None:
        eqns.append(eqn)
        for var in eqn.outputs:
            self.made_by[var] = eqn

    def maker(self, atom: Atom) -> Eqn | None:
        return self.made_by.get(atom) if isinstance(atom, Var) else None

    def rewrite(self, eqn: Eqn, eqns: list[Eqn]) -> Eqn | Atom:
        """The equation in normal spelling, or the atom that its single result equals."""
        if len(eqn.outputs) != 1:
            return eqn
        folded = _fold(eqn)
        if folded is not None:
            return folded
        rule = _RULES.get(eqn.primitive)
        if rule is not None:
            result = rule(self, eqn, eqns)
            if not isinstance(result, Eqn) or result.primitive not in _ABSORBING:
                return result
            eqn = result
        if eqn.primitive in _ABSORBING:
            return self.absorb(eqn, eqns)
        return eqn

    # -- element-wise -------------------------------------------------------------------------

    def absorb(self, eqn: Eqn, eqns: list[Eqn]) -> Eqn:
        """Let operands broadcast implicitly."""
        inputs = list(eqn.inputs)
        first = 1 if eqn.primitive == "select_n" and not inputs[0].aval.shape else 0
        out = eqn.outputs[0].aval.shape
        for i in range(first, len(inputs)):
            fits = partial(_same, inputs, i, first=first, out=out)
            small = self.unbroadcast(inputs[i], eqn.site, eqns, fits)
            if small is None or (inputs[i].aval.shape == out and _unit_change(small.aval.shape, out)):
                continue  # nothing is broadcast: a result of full size keeps its shape, which patterns expect
            inputs[i] = small
        return eqn if tuple(inputs) == eqn.inputs else replace(eqn, inputs=tuple(inputs))

    def unbroadcast(
        self, atom: Atom, site: Site, eqns: list[Eqn], fits: Callable[[Shape], bool]
    ) -> Atom | None:
        """An operand that broadcasts to ``atom`` where ``fits`` accepts its shape, else None."""
        maker = self.maker(atom)
        if maker is None or maker.primitive not in ("reshape", "broadcast_in_dim"):
            return None
        source = maker.inputs[0]
        if maker.primitive == "reshape":
            target = atom.aval.shape
            while target and target[0] == 1:  # leading unit axes come by broadcasting
                target = target[1:]
            if target == atom.aval.shape or not fits(target):
                return None
            if target == source.aval.shape:
                return self.unbroadcast(source, site, eqns, fits) or source
            return self.reshaped(source, target, site, eqns)
        if len(maker.inputs) != 1:
            return None
        shape, at = maker.params["shape"], maker.params["broadcast_dimensions"]
        rank = len(shape)
        if tuple(at) == tuple(range(rank - len(at), rank)):
            target = source.aval.shape
        else:
            kept: list[Dim] = [1] * rank
            for axis, d in zip(at, source.aval.shape, strict=True):
                kept[axis] = d
            target = tuple(kept[min(at) :])
        if not fits(target):
            return None
        return self.reshaped(source, target, site, eqns)

    def reshaped(self, atom: Atom, shape: Shape, site: Site, eqns: list[Eqn]) -> Atom:
        if atom.aval.shape == shape:
            return atom
        if isinstance(atom, Lit):
            return Lit(atom.value.reshape([int(d) for d in shape]), replace(atom.aval, shape=shape))
        out = Var(replace(atom.aval, shape=shape))
        params = {"new_sizes": shape, "dimensions": None, "sharding": None}
        eqn = Eqn("reshape", (atom,), (out,), params, site)
        result = self.rewrite(eqn, eqns)
        if isinstance(result, Eqn):
            self.append(result, eqns)
            return out
        return result


def _same(inputs: Sequence[Atom], i: int, shape: Shape, first: int, out: Shape) -> bool:
    """Whether the operands still broadcast to ``out`` when operand ``i`` has ``shape``."""
    shapes = [shape if j == i else a.aval.shape for j, a in enumerate(inputs) if j >= first]
    return broadcast_shapes(shapes) == out


def _fold(eqn: Eqn) -> Lit | None:
    """The literal result of a cheap primitive on literals."""
    out = eqn.outputs[0].aval
    if out.size is None or out.size > _FOLD_LIMIT or not eqn.inputs:
        return None
    if not all(isinstance(a, Lit) for a in eqn.inputs):
        return None
    values = [a.value for a in eqn.inputs if isinstance(a, Lit)]
    if out.dtype.kind == "c" or any(v.dtype.kind == "c" for v in values):
        return None
    fn = _FOLD.get(eqn.primitive)
    with np.errstate(all="ignore"):
        if fn is not None:
            result = fn(*values)
        elif eqn.primitive == "div" and out.dtype.kind not in "iu":
            result = np.divide(*values)
        elif eqn.primitive == "convert_element_type":
            if out.dtype.kind in "iu" and values[0].dtype.kind not in "iub":
                return None  # float to integer saturates in JAX, not in NumPy
            result = values[0].astype(out.dtype)
        elif eqn.primitive in ("reshape", "squeeze"):
            result = values[0].reshape([int(d) for d in out.shape])
        else:
            return None
    return Lit(np.broadcast_to(np.asarray(result, out.dtype), [int(d) for d in out.shape]).copy(), out)


def _scalar(n: _Normalizer, atom: Atom) -> Any:
    """The value of a literal all of whose elements are equal, broadcast or not, else None."""
    maker = n.maker(atom)
    if maker is not None and maker.primitive == "broadcast_in_dim":
        atom = maker.inputs[0]
    if not isinstance(atom, Lit) or atom.value.size == 0:
        return None
    first = atom.value.reshape(-1)[0]
    return first if atom.value.size == 1 or bool(np.all(atom.value == first)) else None


def _unit_change(small: Shape, big: Shape) -> bool:
    """Whether two shapes differ only by axes of size 1."""
    return [d for d in small if d != 1] == [d for d in big if d != 1]


def _broadcast_in_dim(n: _Normalizer, eqn: Eqn, eqns: list[Eqn]) -> Eqn | Atom:
    if len(eqn.inputs) != 1:
        return eqn
    source, out = eqn.inputs[0], eqn.outputs[0].aval
    at = tuple(int(a) for a in eqn.params["broadcast_dimensions"])
    if source.aval.shape == out.shape:
        return source
    if _unit_change(source.aval.shape, out.shape) and all(
        source.aval.shape[i] == out.shape[a] for i, a in enumerate(at)
    ):
        params = {"new_sizes": out.shape, "dimensions": None, "sharding": None}
        return _reshape(n, replace(eqn, primitive="reshape", params=params), eqns)
    maker = n.maker(source)
    if maker is not None and maker.primitive == "reshape" and not maker.inputs[0].aval.shape:
        return replace(eqn, inputs=maker.inputs, params={**eqn.params, "broadcast_dimensions": ()})
    if maker is not None and maker.primitive == "broadcast_in_dim" and len(maker.inputs) == 1:
        inner = tuple(at[a] for a in maker.params["broadcast_dimensions"])
        params = {**eqn.params, "broadcast_dimensions": inner}
        return replace(eqn, inputs=maker.inputs, params=params)
    return replace(eqn, params={**eqn.params, "broadcast_dimensions": at})


def _reshape(n: _Normalizer, eqn: Eqn, eqns: list[Eqn]) -> Eqn | Atom:
    source, out = eqn.inputs[0], eqn.outputs[0].aval
    if eqn.params.get("dimensions") is not None or len(eqn.inputs) != 1:
        return eqn
    if source.aval.shape == out.shape:
        return source
    maker = n.maker(source)
    if maker is not None and maker.primitive == "reshape" and maker.params["dimensions"] is None:
        return _reshape(n, replace(eqn, inputs=maker.inputs), eqns)
    if maker is not None and maker.primitive == "broadcast_in_dim" and not maker.inputs[0].aval.shape:
        params = {"shape": out.shape, "broadcast_dimensions": (), "sharding": None}
        return replace(eqn, primitive="broadcast_in_dim", inputs=maker.inputs, params=params)
    return eqn


def _squeeze(n: _Normalizer, eqn: Eqn, eqns: list[Eqn]) -> Eqn | Atom:
    params = {"new_sizes": eqn.outputs[0].aval.shape, "dimensions": None, "sharding": None}
    return _reshape(n, replace(eqn, primitive="reshape", params=params), eqns)


def _select_n(n: _Normalizer, eqn: Eqn, eqns: list[Eqn]) -> Eqn | Atom:
    which, *cases = eqn.inputs
    chosen = _scalar(n, which)
    if chosen is not None:
        case = cases[int(chosen)]
        if case.aval.shape == eqn.outputs[0].aval.shape:
            return case
    out = eqn.outputs[0].aval
    if which.aval == out and [_scalar(n, case) for case in cases] == [False, True]:
        return which
    return eqn


def _logic(n: _Normalizer, eqn: Eqn, eqns: list[Eqn]) -> Eqn | Atom:
    """``x and true``, ``x or false`` of booleans."""
    out = eqn.outputs[0].aval
    for side, other in (eqn.inputs, eqn.inputs[::-1]):
        value = _scalar(n, other) if out.dtype.kind == "b" else None
        if value is None or bool(value) != (eqn.primitive == "and"):
            continue
        if side.aval == out:
            return side
        if side.aval.ndim == out.ndim:
            at = tuple(range(out.ndim))
            params = {"shape": out.shape, "broadcast_dimensions": at, "sharding": None}
            return replace(eqn, primitive="broadcast_in_dim", inputs=(side,), params=params)
    return eqn


def _square(n: _Normalizer, eqn: Eqn, eqns: list[Eqn]) -> Eqn | Atom:
    if eqn.primitive == "integer_pow" and eqn.params["y"] != 2:
        return eqn
    x = eqn.inputs[0]
    return replace(eqn, primitive="mul", inputs=(x, x), params={})


def _transpose(n: _Normalizer, eqn: Eqn, eqns: list[Eqn]) -> Eqn | Atom:
    perm = tuple(int(p) for p in eqn.params["permutation"])
    maker = n.maker(eqn.inputs[0])
    if maker is not None and maker.primitive == "transpose":
        perm = tuple(maker.params["permutation"][p] for p in perm)
        eqn = replace(eqn, inputs=maker.inputs)
    if perm == tuple(range(len(perm))):
        return eqn.inputs[0]
    shape, out = eqn.inputs[0].aval.shape, eqn.outputs[0].aval.shape
    kept = [p for p in perm if shape[p] != 1]
    if kept == sorted(kept):
        params = {"new_sizes": out, "dimensions": None, "sharding": None}
        return _reshape(n, replace(eqn, primitive="reshape", params=params), eqns)
    return _of_product(n, replace(eqn, params={"permutation": perm}), eqns)


def _of_product(n: _Normalizer, eqn: Eqn, eqns: list[Eqn]) -> Eqn:
    """A transpose that puts the second operand's axes of a batched product first: of the product the other way."""
    (product,), perm = eqn.inputs, eqn.params["permutation"]
    maker = n.maker(product)
    if maker is None or maker.primitive != "dot_general" or n.uses.get(product, 0) != 1:
        return eqn
    contract, batch = maker.params["dimension_numbers"]
    first, second = (
        a.aval.ndim - len(c) - len(b) for a, c, b in zip(maker.inputs, contract, batch, strict=True)
    )
    nb = len(batch[0])
    if not (nb and first and second) or perm.index(nb) < max(map(perm.index, range(nb + first, len(perm)))):
        return eqn
    order = (*range(nb), *range(nb + first, len(perm)), *range(nb, nb + first))
    params = {**maker.params, "dimension_numbers": (contract[::-1], batch[::-1])}
    aval = replace(product.aval, shape=tuple(product.aval.shape[i] for i in order))
    swapped = Var(aval)
    inputs = maker.inputs[::-1]
    n.append(replace(maker, inputs=inputs, outputs=(swapped,), params=params), eqns)
    return replace(eqn, inputs=(swapped,), params={"permutation": tuple(map(order.index, perm))})


def _neutral(n: _Normalizer, eqn: Eqn, eqns: list[Eqn]) -> Eqn | Atom:
    """``x*1``, ``x/1``, ``x-0``, ``max(x, -inf)``, ``min(x, inf)``: exact for every x, NaN and -0.0 included.

    ``x+0`` is x for integers.
    """
    x, y = eqn.inputs
    out = eqn.outputs[0].aval
    right = _scalar(n, y)
    side, value = (x, right) if right is not None else (y, _scalar(n, x))
    if value is None or side.aval != out:
        return eqn
    swapped = side is y
    name, floating = eqn.primitive, out.dtype.kind not in "iub"
    if (name == "mul" and value == 1) or (name == "div" and value == 1 and not swapped):
        return side
    if name == "sub" and value == 0 and not swapped and not np.signbit(np.float64(value)):
        return side
    if name == "add" and value == 0 and not floating:
        return side
    if floating and ((name == "max" and value == -np.inf) or (name == "min" and value == np.inf)):
        return side
    return eqn


def _iota(n: _Normalizer, eqn: Eqn, eqns: list[Eqn]) -> Eqn:
    """Numbers along an axis where a size is symbolic: those of the axis alone, broadcast."""
    out, axis = eqn.outputs[0].aval, eqn.params["dimension"]
    if out.ndim < 2 or out.size is not None or eqn.inputs:
        return eqn
    line = (out.shape[axis],)
    numbers = Var(replace(out, shape=line))
    counted = {**eqn.params, "shape": line, "dimension": 0}
    n.append(replace(eqn, outputs=(numbers,), params=counted), eqns)
    params = {"shape": out.shape, "broadcast_dimensions": (axis,), "sharding": None}
    return replace(eqn, primitive="broadcast_in_dim", inputs=(numbers,), params=params)


def _dynamic_slice(n: _Normalizer, eqn: Eqn, eqns: list[Eqn]) -> Eqn | Atom:
    """With literal starts on axes whose sizes are known, a plain ``slice``."""
    x, *starts = eqn.inputs
    sizes = eqn.params["slice_sizes"]
    if len(starts) != len(sizes):
        return eqn
    begin = []
    for start, size, dim in zip(starts, sizes, x.aval.shape, strict=True):
        if not isinstance(start, Lit):
            return eqn
        at = int(start.value)
        if size == dim:
            begin.append(0)
        elif isinstance(size, SymDim) or isinstance(dim, SymDim):
            return eqn
        else:
            begin.append(min(max(at, 0), dim - size))
    if any(isinstance(s, SymDim) and b for s, b in zip(sizes, begin, strict=True)):
        return eqn
    limit = tuple(s if isinstance(s, SymDim) else b + s for s, b in zip(sizes, begin, strict=True))
    params = {"start_indices": tuple(begin), "limit_indices": limit, "strides": None}
    return replace(eqn, primitive="slice", inputs=(x,), params=params)


_RULES: Mapping[str, Callable[[_Normalizer, Eqn, list[Eqn]], Eqn | Atom]] = {
    "broadcast_in_dim": _broadcast_in_dim,
    "reshape": _reshape,
    "squeeze": _squeeze,
    "select_n": _select_n,
    "square": _square,
    "integer_pow": _square,
    "transpose": _transpose,
    "add": _neutral,
    "iota": _iota,
    "mul": _neutral,
    "div": _neutral,
    "sub": _neutral,
    "max": _neutral,
    "min": _neutral,
    "and": _logic,
    "or": _logic,
    "dynamic_slice": _dynamic_slice,
}
_ABSORBING = BROADCASTING | {"select_n"}
