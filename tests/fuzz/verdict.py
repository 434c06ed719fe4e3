"""Whether an exported program computes what JAX computes.

Errors grow through a random program until nothing is comparable, so a difference of the whole is looked into line
by line: each line's result in ONNX Runtime is held against JAX's for the operands that ONNX Runtime had.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument

from onnxproof import errors, to_onnx
from tests.fuzz.expressions import SUMS
from tests.fuzz.programs import REFUSALS, Program
from tests.running import TOLERANCE, run, session

BATCHES = (1, 3, 4)
SLACK = 20.0  # of the tolerances of single operators, over a whole program or a line with a body


@dataclass(frozen=True)
class Verdict:
    """``agrees``, ``refused`` (by us), ``by-jax``, ``out-of-range``, ``denormal``, ``ill-conditioned`` or ``fault``.

    ``out-of-range``: the program promises that an index is in range, which at this size it is not. ``denormal``: the
    line that differs has an operand or a result that XLA flushes to zero.
    """

    outcome: str
    detail: str = ""


def _close(got: Any, want: Any, scale: float = 0.0, slack: float = 1.0) -> str:
    """What differs, or an empty string; ``scale`` is the size of terms that may have cancelled."""
    want = _array(want)
    if want.dtype.kind == "c":
        if got.shape != (*want.shape, 2):
            return f"shape {got.shape}, JAX {want.shape}"
        want = np.stack([want.real, want.imag], -1)
        scale = max(scale, _size(want))
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{list(got.shape)}, JAX {want.dtype}{list(want.shape)}"
    name = want.dtype.name
    if name not in TOLERANCE:
        bad = got != want
    else:
        rtol, atol = (slack * t for t in TOLERANCE[name])
        a, b = got.astype(np.float64), want.astype(np.float64)
        with np.errstate(invalid="ignore"):
            same = (a == b) | (np.isnan(a) & np.isnan(b))
            near = np.abs(a - b) <= atol + rtol * (np.abs(b) + scale)
        bad = ~(same | (near & np.isfinite(a) & np.isfinite(b)))
    if not bad.any():
        return ""
    at = tuple(int(i) for i in np.argwhere(bad)[0])
    return f"{int(bad.sum())} of {bad.size} differ; at {at} {got[at]}, JAX {want[at]}"


def _array(value: Any) -> Any:
    """An array; tangents of integers and booleans are false, as in the graph."""
    array = np.asarray(value)
    return np.zeros(array.shape, np.bool_) if array.dtype == jax.dtypes.float0 else array


def _size(value: Any) -> float:
    """The largest finite magnitude, or 0."""
    array = _array(value)
    if array.dtype.kind == "b" or not array.size:
        return 0.0
    parts = np.abs(array.astype(np.complex128 if array.dtype.kind == "c" else np.float64))
    finite = parts[np.isfinite(parts)]
    return float(finite.max()) if finite.size else 0.0


def _denormal(value: Any) -> bool:
    """Whether a number is there between 0 and the smallest normal one."""
    array = _array(value)
    if array.dtype.kind not in "fcV":
        return False
    parts = np.stack([array.real, array.imag]) if array.dtype.kind == "c" else array
    tiny = float(jnp.finfo(parts.dtype).tiny)
    return bool(((parts != 0) & (np.abs(parts.astype(np.float64)) < tiny)).any())


def _as_jax(value: Any, like: Any) -> Any:
    """What ONNX Runtime gave, as JAX has it."""
    if np.issubdtype(like.dtype, np.complexfloating):
        return jax.lax.complex(value[..., 0], value[..., 1])
    return jnp.asarray(value)


def judge(program: Program) -> Verdict:
    """Export, run at several sizes, compare."""
    try:
        model = to_onnx(program, program.specs(), enable_double_precision=program.x64)
    except errors.OnnxProofError as err:
        return Verdict("refused", f"{type(err).__name__}: {err}")
    except REFUSALS as err:
        try:
            jax.make_jaxpr(program)(*program.arguments())
        except REFUSALS:
            return Verdict("by-jax")
        return Verdict("fault", f"export: {type(err).__name__}: {err}")
    runner = session(model)
    for batch in BATCHES if program.batch else (None,):
        arguments = program.arguments(batch)
        try:
            want = jax.jit(program)(*arguments)
        except REFUSALS:
            return Verdict("by-jax")
        try:
            got = run(runner, arguments)[0]
        except InvalidArgument as err:
            if program.batch and "out of data bounds" in str(err):
                return Verdict("out-of-range")
            raise
        detail = _close(got, want, slack=SLACK)
        if detail:
            return _line_by_line(program, arguments, detail)
    return Verdict("agrees")


def _line_by_line(program: Program, arguments: list[Any], whole: str) -> Verdict:
    model = to_onnx(program.steps, program.specs(), enable_double_precision=program.x64)
    got = run(session(model), arguments)
    shapes = jax.eval_shape(program.steps, *arguments)
    env: dict[str, Any] = {f"v{i}": jnp.asarray(a) for i, a in enumerate(arguments)}
    for line, value, shape in zip(program.lines, got, shapes, strict=True):
        operands = [env[name] for name in line.operands]
        want = line.fn(*operands)  # not jitted: XLA makes 1 of x / x, also where x is 0
        sums = any(word in line.text for word in SUMS)
        size = max((_size(o) for o in operands), default=0.0)
        count = max((np.asarray(o).size for o in operands), default=1)
        scale = size * count if sums else 0.0
        if any(w in line.text for w in ("dot", "matmul", "einsum", "outer")):
            scale *= max(size, 1.0)
        if "lambda" in line.text:
            scale = max(scale, _size(want))
        detail = _close(value, want, scale, SLACK if "lambda" in line.text else 4.0)
        if detail and any(_denormal(x) for x in (*operands, value)):
            return Verdict("denormal", line.text)
        if detail:
            shown = ", ".join(f"{n} = {env[n]!r}" for n in line.operands)
            return Verdict("fault", f"{line.name} = {line.text}: {detail}\n{shown}")
        env[line.name] = _as_jax(value, shape)
    return Verdict("ill-conditioned", whole)
