"""Python's integer division: ``%`` and ``//`` by a literal."""

from __future__ import annotations

from collections.abc import Iterable

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as ir

from onnxproof.capture.program import Lit
from onnxproof.lowering.emit import BOOL, Ctx
from onnxproof.raising.composite import Candidate, Variant, composite


def _literal_divisor(candidate: Candidate) -> Iterable[Variant]:
    """The divisor as the nearest ``rem`` above has it; -1 and 0 have cases of their own."""
    if candidate.out.dtype.kind not in "iu":
        return
    for eqn in candidate.near:
        if eqn.primitive == "rem" and eqn.inputs[0].aval == candidate.out:
            divisor = eqn.inputs[1]
            if isinstance(divisor, Lit) and divisor.value.size == 1:
                value = int(divisor.value.reshape(()))
                if value not in (0, -1):
                    yield Variant((candidate.out,), (("divisor", value),))
            return


def _remainder(x: jax.Array, *, divisor: int) -> jax.Array:
    return jnp.remainder(x, np.asarray(divisor, x.dtype))


@composite("remainder", references=[_remainder], root="select_n", anchor="rem", specs=_literal_divisor)
def remainder(ctx: Ctx, x: ir.Value, *, divisor: int) -> ir.Value:
    """ONNX's integer Mod takes the sign of the divisor, as Python does."""
    return ctx.op("Mod", x, ctx.like(divisor, x))


def _floor_divide(x: jax.Array, *, divisor: int) -> jax.Array:
    return jnp.floor_divide(x, np.asarray(divisor, x.dtype))


@composite("floor_divide", references=[_floor_divide], root="select_n", anchor="rem", specs=_literal_divisor)
def floor_divide(ctx: Ctx, x: ir.Value, *, divisor: int) -> ir.Value:
    """The truncated quotient, less one where it times the divisor has passed ``x``."""
    k = ctx.like(divisor, x)
    quotient = ctx.op("Div", x, k)
    back = ctx.op("Mul", quotient, k)
    passed = ctx.op("Greater" if divisor > 0 else "Less", back, x, dtype=BOOL)
    return ctx.op("Sub", quotient, ctx.cast(passed, ctx.dtype(x)))
