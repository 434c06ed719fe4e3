"""NNX modules that use state of their own while they run.

NNX lets a module be changed, or transformed, only inside the trace that made it. A module that needs this is
traced as a copy, whose RNG state comes in as extra inputs: a recurrent layer counts the keys that it takes
for an initial carry of zeros. What no result needs is dropped again; any other state is refused.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax

from onnxproof.capture.keys import is_key, key_impl
from onnxproof.capture.program import Program
from onnxproof.capture.weights import path_parts
from onnxproof.errors import TraceError

_WAY_OUT = "Put the model in inference mode (for example model.eval()), without live RNG state."


@dataclass(frozen=True, slots=True)
class Lifted:
    """A module as a function of its RNG state.

    Attributes:
        call: ``call(state, *args, **kwargs)``.
        state: shapes and dtypes of the RNG state, keys as their words.
        paths: where each of them is in the module.
    """

    call: Callable[..., Any]
    state: tuple[jax.ShapeDtypeStruct, ...]
    paths: tuple[str, ...]


def is_refusal(err: BaseException | None) -> bool:
    """Whether NNX refused to touch a module from inside a trace."""
    return "TraceContext" in type(err).__name__ or "different trace level" in str(err)


def lift(fn: Callable[..., Any]) -> Lifted | None:
    """The form of an NNX module, or of a method of one, that makes a copy for each call; else None."""
    nnx = sys.modules.get("flax.nnx")
    owner = fn.__self__ if isinstance(fn, types.MethodType) else fn
    if nnx is None or not isinstance(owner, nnx.Module):
        return None
    method = fn.__func__ if isinstance(fn, types.MethodType) else type(owner).__call__
    graphdef, rng, rest = nnx.split(owner, nnx.RngState, ...)
    flat, treedef = jax.tree_util.tree_flatten_with_path(rng)
    impls = [key_impl(x.dtype) if is_key(x.dtype) else None for _, x in flat]
    before = _arrays(rest)

    def call(state: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        wrapped = [
            x if impl is None else jax.random.wrap_key_data(x, impl=impl)
            for x, impl in zip(state, impls, strict=True)
        ]
        module = nnx.merge(graphdef, jax.tree_util.tree_unflatten(treedef, wrapped), rest, copy=True)
        out = method(module, *args, **kwargs)
        after = _arrays(nnx.split(module, nnx.RngState, ...)[2])
        changed = sorted(k for k in before.keys() | after.keys() if before.get(k) is not after.get(k))
        if changed:
            raise TraceError(
                f"the module changes its own state while it runs: {', '.join(changed)}", way_out=_WAY_OUT
            )
        return out

    words = [x if impl is None else jax.random.key_data(x) for (_, x), impl in zip(flat, impls, strict=True)]
    state = tuple(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in words)
    return Lifted(call, state, tuple(_name(path) for path, _ in flat))


def drop_state(program: Program, paths: Sequence[str]) -> Program:
    """``program`` without its first inputs, the RNG state at ``paths``.

    Raises:
        TraceError: a result depends on that state.
    """
    if not paths:
        return program
    count = len(paths)
    used = set(replace(program, inputs=program.inputs[count:]).captured())
    live = [path for var, path in zip(program.inputs, paths, strict=False) if var in used]
    if live:
        raise TraceError(
            f"the module draws random numbers from its own state: {', '.join(live)}", way_out=_WAY_OUT
        )
    return replace(program, inputs=program.inputs[count:], input_names=program.input_names[count:])


def _arrays(state: Any) -> dict[str, Any]:
    return {_name(path): leaf for path, leaf in jax.tree_util.tree_flatten_with_path(state)[0]}


def _name(path: tuple[Any, ...]) -> str:
    return ".".join(path_parts(path))
