"""The size of a symbolic dimension, where every name in it stands for one number."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable

from onnxproof.errors import InputSpecError


def dimension(text: str, size: int) -> int:
    """The size of a dimension such as ``2*B + 1`` where every name in it stands for ``size``.

    Raises:
        InputSpecError: the text is no such expression.
    """
    if not text or not _EXPRESSION.fullmatch(text):
        return size  # a name that is no expression, or a dimension without one
    try:
        return _value(ast.parse(text, mode="eval").body, size)
    except (SyntaxError, KeyError, ZeroDivisionError) as err:
        raise InputSpecError(f"the dimension {text!r} can't be computed") from err


def _value(node: ast.expr, size: int) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.Name):
        return size
    if isinstance(node, ast.BinOp):
        return _OPERATIONS[type(node.op)](_value(node.left, size), _value(node.right, size))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 2:
        return _CALLS[node.func.id](*(_value(a, size) for a in node.args))
    raise SyntaxError(ast.unparse(node))


_EXPRESSION = re.compile(r"[A-Za-z_0-9+\-*/%(), ]{1,200}")
_OPERATIONS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_CALLS: dict[str, Callable[[int, int], int]] = {
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "max": max,
    "min": min,
}
