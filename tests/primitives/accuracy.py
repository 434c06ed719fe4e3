"""How far a result is from the same program computed in float64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import ml_dtypes
import numpy as np

from onnxproof.capture.evaluate import outputs_in_float64
from onnxproof.capture.program import Program
from onnxproof.capture.trace import capture, x64
from onnxproof.errors import OnnxProofError
from onnxproof.lowering.driver import load_rules
from tests.primitives.corpus import Call

Array = np.ndarray[Any, Any]

# Elements of their results are sums over many others, and may cancel: their errors are relative to the largest.
SUMS = frozenset(
    "dot_general conv_general_dilated reduce_sum cumsum cumlogsumexp reduce_window_sum fft scatter-add scatter_add"
    " select_and_scatter_add reduce reduce_window cholesky lu qr svd eigh eig geqrf householder_product"
    " triangular_solve tridiagonal_solve custom_linear_solve".split()
)
NARROW = {"float32", "float16", "bfloat16", "complex64"}  # what float64 is a reference for


def program_of(call: Call) -> Program:
    with x64(call.x64):
        return capture(call.fn, list(call.args), known=load_rules()).program


def exact(call: Call) -> tuple[list[Array], bool]:
    """(the outputs in float64, whether they are sums)."""
    program = program_of(call)
    sums = any(eqn.primitive in SUMS for eqn in program.walk())
    try:
        return outputs_in_float64(program, call.args), sums
    except OnnxProofError:  # a primitive that JAX does not make public; the function itself may still widen
        wide = [_widened(a) for a in call.args]
        with jax.enable_x64(True):
            return [np.asarray(x) for x in jax.tree.leaves(jax.jit(call.fn)(*wide))], sums


def _widened(array: Array) -> Array:
    if array.dtype.name not in NARROW:
        return array
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def error(got: Array, reference: Array, sums: bool) -> float:
    """The largest error of ``got`` in units in the last place of the reference, as the dtype of ``got`` has them.

    Where elements are sums, the unit is that of the largest element. Numbers below the least normal one are no
    further from each other than one unit: JAX flushes them to zero. A value that rounds to what was got is no error
    beyond half a unit, which also holds for infinities; where one side alone is NaN or infinite, the error is infinite.
    """
    if got.size == 0:
        return 0.0
    info = ml_dtypes.finfo(got.real.dtype)
    tiny, eps = float(info.tiny), float(info.eps)
    with np.errstate(all="ignore"):
        wide = got.astype(np.complex128 if got.dtype.kind == "c" else np.float64)
        size = np.abs(reference)
        if sums:
            size = np.full_like(size, size[np.isfinite(size)].max(initial=0.0))
        unit = np.maximum(2.0 ** np.floor(np.log2(np.maximum(size, tiny))) * eps, tiny)
        off = np.abs(wide - reference) / unit
        same = (wide == reference) | (np.isnan(wide) & np.isnan(reference)) | _rounds_to(got, reference)
        off = np.where(same, np.minimum(np.nan_to_num(off, nan=0.0, posinf=0.0), 0.5), off)
        return float(np.nan_to_num(off, nan=np.inf, posinf=np.inf).max())


def _rounds_to(got: Array, reference: Array) -> Array:
    rounded = reference.astype(got.dtype)
    result: Array = (rounded == got) | (np.isnan(rounded) & np.isnan(got))
    return result


def errors(got: Sequence[Array], reference: Sequence[Array], sums: bool) -> float:
    """The largest error over the float outputs that have a reference."""
    return max(
        (error(g, r, sums) for g, r in zip(got, reference, strict=True) if g.dtype.name in NARROW),
        default=0.0,
    )
