"""Marked calls: while an export traces, a ``jit`` of a telling name stands for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import jax
import numpy as np

FUNCTION_MARK: Final = "onnxproof_function:"
# JAX keys its caches by this: an ordinary call never finds what was traced for an export, nor the reverse.
EXPORTING: Final = jax.make_user_context(default_value=False)
MARKED_BODY: Final = ("body", __file__)  # (function, file) of the frame that encloses a marked body
_CONTAINERS = (tuple, list, dict)


def marked(
    fn: Callable[..., Any], label: str, unique: bool, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Any:
    """Call ``fn`` under its mark.

    Arrays, also inside tuples, lists and dicts, become operands of the call. All else (modules, settings) is
    closed over as it is, so ``fn`` sees the very objects that it was given.
    """
    leaves, tree = jax.tree_util.tree_flatten(
        (args, dict(kwargs)), is_leaf=lambda v: not isinstance(v, _CONTAINERS)
    )
    at = [i for i, leaf in enumerate(leaves) if isinstance(leaf, (jax.Array, np.ndarray))]
    fixed: list[Any] = []

    def body(*arrays: Any) -> list[Any]:
        for i, array in zip(at, arrays, strict=True):
            leaves[i] = array
        inner_args, inner_kwargs = jax.tree_util.tree_unflatten(tree, leaves)
        out, out_tree = jax.tree_util.tree_flatten(fn(*inner_args, **inner_kwargs))
        is_array = [isinstance(v, (jax.Array, np.ndarray)) for v in out]
        fixed.append((out_tree, [None if a else v for v, a in zip(out, is_array, strict=True)], is_array))
        return [v for v, a in zip(out, is_array, strict=True) if a]

    body.__name__ = f"{FUNCTION_MARK}{label}:{'unique' if unique else ''}"
    results = iter(jax.jit(body)(*(leaves[i] for i in at)))
    out_tree, others, is_array = fixed[0]
    merged = [next(results) if a else v for v, a in zip(others, is_array, strict=True)]
    return jax.tree_util.tree_unflatten(out_tree, merged)


def mark_of(name: str) -> tuple[str, bool] | None:
    """(name, unique) of the function that a jit's name marks, None for an ordinary one."""
    if not name.startswith(FUNCTION_MARK):
        return None
    label, _, kind = name.removeprefix(FUNCTION_MARK).rpartition(":")
    return label, kind == "unique"
