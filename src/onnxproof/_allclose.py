"""``allclose``: one model file, one set of inputs, two answers."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from onnxproof.errors import InputSpecError
from onnxproof.evidence.compare import difference, join_complex, report
from onnxproof.evidence.references.jax import JaxReference
from onnxproof.evidence.runtimes.ort import OrtSession

Array = np.ndarray[Any, Any]


def allclose(
    fn: Callable[..., Any],
    model: Any,
    inputs: Sequence[Any],
    rtol: float | None = None,
    atol: float | None = None,
    *,
    input_params: Mapping[str, Any] | None = None,
    enable_double_precision: bool = False,
    inputs_as_nchw: Sequence[int] | None = None,
    outputs_as_nchw: Sequence[int] | None = None,
) -> tuple[bool, str]:
    """Run ``fn`` in JAX and ``model`` in ONNX Runtime (CPU) on the same inputs and compare.

    Args:
        fn: the callable that was exported.
        model: path, bytes or ``ModelProto``.
        inputs: concrete arguments; a shape tuple of integers stands for standard normal float32 values.
        rtol, atol: of inexact outputs, ``|got - want| <= atol + rtol * |want|``; by dtype when not given (1e-5
            for float32). Other outputs have to be equal.
        input_params: the keyword arguments of the export.

    Returns:
        Whether all outputs match, and a message that names the worst output and index, both values, and the
        error of both against a float64 run where the callable has one.

    Raises:
        InputSpecError: an input is not an array.
        ArtifactError, ConformanceError: the model can't be loaded or run.
    """
    args = [concrete(i, x) for i, x in enumerate(inputs)]
    session = OrtSession(model if not isinstance(model, os.PathLike) else os.fspath(model))
    return against_jax(
        fn,
        args,
        lambda flat: list(zip(session.output_names, session.run(flat), strict=True)),
        "ONNX Runtime",
        (rtol, atol),
        params=dict(input_params or {}),
        double=enable_double_precision,
        nchw=(inputs_as_nchw or (), outputs_as_nchw or ()),
    )


def against_jax(
    fn: Callable[..., Any],
    args: Sequence[Any],
    run: Callable[[list[Array]], list[tuple[str, Array]]],
    runtime: str,
    tolerance: tuple[float | None, float | None],
    *,
    params: Mapping[str, Any],
    double: bool,
    nchw: tuple[Sequence[int], Sequence[int]],
) -> tuple[bool, str]:
    """Compare what ``run`` gives of the graph's inputs, names and arrays, with what ``fn`` gives of ``args``.

    Args:
        runtime: what a message calls ``run``.
        double: run ``fn`` with 64-bit types, also where JAX is not set to have them.
        nchw: positions of inputs and outputs that have their channels first in the graph.
    """
    double = double or jax.dtypes.canonicalize_dtype(np.float64) == np.float64
    reference = JaxReference(fn, params, double=double)
    flat = reference.flat(args)
    leaves = jax.tree_util.tree_leaves(args)
    for i in nchw[0]:
        flat[i] = np.moveaxis(flat[i], _channels(leaves[i]), 1)
    named = run(flat)
    got = [array for _, array in named]
    want = reference.run(args)
    if len(got) != len(want):
        return False, f"the model has {len(got)} outputs, the callable {len(want)}"
    for i in nchw[1]:
        got[i] = np.moveaxis(got[i], 1, _channels(want[i]))
    results = [difference(join_complex(g, w), w, *tolerance) for g, w in zip(got, want, strict=True)]
    oracle = reference.oracle(args)
    true = None if oracle is None else oracle.outputs
    text = report([name for name, _ in named], results, true, (runtime, "JAX"))
    return all(r.matches for r in results), text


def _channels(array: Any) -> int:
    """The axis of channels in the graph's form of an array: pairs of complex numbers stand behind it."""
    return -2 if np.iscomplexobj(array) else -1


def concrete(position: int, value: Any) -> Any:
    """An argument; a tuple of integers stands for standard normal float32 values of that shape."""
    if isinstance(value, (tuple, list)) and value and all(type(d) is int for d in value):
        return np.random.default_rng(position).normal(size=tuple(value)).astype(np.float32)
    if isinstance(value, (tuple, list)) and any(isinstance(d, str) for d in value):
        raise InputSpecError(
            f"input {position} has symbolic dimensions: {value!r}",
            way_out="Give concrete arrays to compare on.",
        )
    return value
