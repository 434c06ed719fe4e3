"""Symbolic dimensions: JAX's printed form, parsed.

The text of a dimension (``2*b + 1``, ``floordiv(b, 2)``) is JAX's own interchange form for symbolic shapes
(``jax.export.symbolic_shape`` reads it back), so it is parsed here instead of reaching into private classes.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from onnxproof.capture.program import Dim, SymDim
from onnxproof.errors import UnsupportedDimension


@dataclass(frozen=True, slots=True)
class Num:
    """An integer constant."""

    value: int


@dataclass(frozen=True, slots=True)
class Sym:
    """A dimension variable."""

    name: str


@dataclass(frozen=True, slots=True)
class Op:
    """``kind`` is one of add, sub, mul, floordiv, mod, max, min."""

    kind: str
    left: Expr
    right: Expr


Expr = Num | Sym | Op

_BINARY = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul"}
_CALLS = {"floordiv", "mod", "max", "min"}
_NAME = re.compile(r"[A-Za-z_]\w*")


@lru_cache(maxsize=65536)
def parse(text: str) -> Expr:
    """Parse the text of a dimension.

    Raises:
        UnsupportedDimension: the text uses a form that is not JAX's.
    """
    try:
        tree = ast.parse(text.replace("^", "**").strip(), mode="eval").body
        return _convert(tree)
    except (SyntaxError, KeyError, ValueError) as err:
        raise UnsupportedDimension(
            f"the dimension {text!r} is not a form of symbolic dimension that is known here",
            way_out="Use names, integers, + - *, floordiv, mod, max and min.",
        ) from err


def _convert(node: ast.expr) -> Expr:
    match node:
        case ast.Constant(value=int(value)):
            return Num(value)
        case ast.Name(id=name):
            return Sym(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            inner = _convert(operand)
            return Num(-inner.value) if isinstance(inner, Num) else Op("mul", Num(-1), inner)
        case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=int(power))) if power > 0:
            base = _convert(left)
            out = base
            for _ in range(power - 1):
                out = Op("mul", out, base)
            return out
        case ast.BinOp(left=left, op=op, right=right):
            return Op(_BINARY[type(op)], _convert(left), _convert(right))
        case ast.Call(func=ast.Name(id=kind), args=[left, right]) if kind in _CALLS:
            return Op(kind, _convert(left), _convert(right))
    raise ValueError(ast.dump(node))


def symbols(dim: Dim) -> frozenset[str]:
    """The dimension variables of ``dim``."""
    return frozenset() if isinstance(dim, int) else _symbols(parse(dim))


def _symbols(expr: Expr) -> frozenset[str]:
    if isinstance(expr, Sym):
        return frozenset((expr.name,))
    if isinstance(expr, Op):
        return _symbols(expr.left) | _symbols(expr.right)
    return frozenset()


def evaluate(dim: Dim, env: Mapping[str, int]) -> int:
    """The value of ``dim`` where each variable has the value that ``env`` gives it."""
    return dim if isinstance(dim, int) else _evaluate(parse(dim), env)


def _evaluate(expr: Expr, env: Mapping[str, int]) -> int:
    if isinstance(expr, Num):
        return expr.value
    if isinstance(expr, Sym):
        return env[expr.name]
    a, b = _evaluate(expr.left, env), _evaluate(expr.right, env)
    match expr.kind:
        case "add":
            return a + b
        case "sub":
            return a - b
        case "mul":
            return a * b
        case "floordiv":
            return a // b
        case "mod":
            return a % b
        case "max":
            return max(a, b)
        case _:
            return min(a, b)


@dataclass(frozen=True, slots=True)
class Solution:
    """How a variable is read: ``(shape(inputs[input])[axis] - offset) / factor``."""

    input: int
    axis: int
    factor: int
    offset: int


def solve(shapes: Sequence[Sequence[Dim]]) -> dict[str, Solution]:
    """Where each dimension variable of ``shapes`` can be read off the inputs.

    A place where the variable stands alone is preferred; else a place where it stands as ``factor*name + offset``.

    Raises:
        UnsupportedDimension: a variable stands only inside forms that can't be solved for it.
    """
    found: dict[str, Solution] = {}
    seen: dict[str, SymDim] = {}
    for i, shape in enumerate(shapes):
        for axis, dim in enumerate(shape):
            if isinstance(dim, int):
                continue
            for name in symbols(dim):
                seen.setdefault(name, dim)
            linear = _linear(parse(dim))
            if linear is None:
                continue
            name, factor, offset = linear
            plain = factor == 1 and offset == 0
            known = found.get(name)
            if known is None or (plain and (known.factor, known.offset) != (1, 0)):
                found[name] = Solution(i, axis, factor, offset)
    for name, dim in seen.items():
        if name not in found:
            raise UnsupportedDimension(
                f"the dimension variable {name!r} can't be computed: it stands only in {str(dim)!r}",
                way_out=f"Give some input an axis whose size is {name!r} alone, or a linear form of it.",
            )
    return found


def _linear(expr: Expr) -> tuple[str, int, int] | None:
    """(variable, factor, offset) when ``expr`` is linear in one variable with a nonzero factor."""
    terms = _terms(expr)
    if terms is None:
        return None
    names = [n for n in terms if n]
    if len(names) != 1 or terms[names[0]] == 0:
        return None
    return names[0], terms[names[0]], terms.get("", 0)


def _terms(expr: Expr) -> dict[str, int] | None:
    if isinstance(expr, Num):
        return {"": expr.value}
    if isinstance(expr, Sym):
        return {expr.name: 1}
    a, b = _terms(expr.left), _terms(expr.right)
    if a is None or b is None:
        return None
    if expr.kind in ("add", "sub"):
        sign = 1 if expr.kind == "add" else -1
        return {k: a.get(k, 0) + sign * b.get(k, 0) for k in {**a, **b}}
    if expr.kind == "mul":
        if set(a) <= {""}:
            return {k: a.get("", 0) * v for k, v in b.items()}
        if set(b) <= {""}:
            return {k: b.get("", 0) * v for k, v in a.items()}
    return None


def difference(a: Dim, b: Dim) -> int | None:
    """``a - b`` where that is one number whatever the variables are, else None."""
    if isinstance(a, int) and isinstance(b, int):
        return a - b
    if a == b:
        return 0
    terms = _terms(Op("sub", *(Num(d) if isinstance(d, int) else parse(d) for d in (a, b))))
    if terms is None or any(factor for name, factor in terms.items() if name):
        return None
    return terms.get("", 0)


def minus(a: Dim, b: Dim) -> Dim:
    """``a - b`` as a dimension."""
    number = difference(a, b)
    return SymDim(f"{a} - ({b})") if number is None else number


def plus(a: Dim, number: int) -> Dim:
    """``a + number`` as a dimension."""
    return a + number if isinstance(a, int) else SymDim(f"{a} + {number}") if number else a


def product(sizes: Sequence[Dim]) -> Dim:
    """The product of dimensions."""
    total, names = 1, []
    for size in sizes:
        if isinstance(size, SymDim):
            names.append(f"({size})")
        else:
            total *= size
    if not names:
        return total
    return SymDim("*".join(names if total == 1 else [str(total), *names]))


def check_constraints(constraints: Sequence[str], shape: Sequence[int | str]) -> None:
    """Refuse constraints on variables that no dimension of ``shape`` names, or that no integer can meet.

    Raises:
        UnsupportedDimension: a variable is unknown, or its bounds contradict each other.
    """
    known = set(_NAME.findall(" ".join(map(str, shape))))
    for text in constraints:
        unknown = sorted(set(_NAME.findall(text)) - known - _CALLS)
        if unknown:
            raise UnsupportedDimension(
                f"the constraint {text!r} is on {', '.join(unknown)}, which no input has",
                way_out=f"The inputs have {', '.join(sorted(known - _CALLS)) or 'no named dimensions'}.",
            )
    low: dict[str, int] = {}
    high: dict[str, int] = {}
    for text in constraints:
        for sign in (">=", "<=", "=="):
            left, found, right = text.partition(sign)
            if found:
                _bound(Op("sub", parse(left), parse(right)), sign, low, high)
                break
    for name, least in low.items():
        if name in high and least > high[name]:
            raise UnsupportedDimension(
                f"the constraints on {name!r} contradict each other: at least {least}, at most {high[name]}",
                way_out="Correct `constraints`.",
            )


def _bound(difference: Expr, sign: str, low: dict[str, int], high: dict[str, int]) -> None:
    """Take ``difference sign 0`` into the bounds, when it is linear in one variable."""
    linear = _linear(difference)
    if linear is None:
        return
    name, factor, offset = linear
    if sign == "==" or (sign == ">=") == (factor > 0):
        low[name] = max(low.get(name, 0), -((offset * (1 if factor > 0 else -1)) // abs(factor)))
    if sign == "==" or (sign == "<=") == (factor > 0):
        most = (-offset if factor > 0 else offset) // abs(factor)
        high[name] = min(high.get(name, most), most)
