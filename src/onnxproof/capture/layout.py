"""Channel order at the boundary: a Program that takes or gives NCHW where the callable has NHWC."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from onnxproof.capture.program import NOWHERE, Aval, Eqn, Program, Shape, Var
from onnxproof.errors import InputSpecError


def with_channels_first(program: Program, inputs: Sequence[int], outputs: Sequence[int]) -> Program:
    """Give the inputs and outputs at these positions with channels as their second axis.

    Raises:
        InputSpecError: a position does not exist, or its array has fewer than three axes.
    """
    if not inputs and not outputs:
        return program
    before: list[Eqn] = []
    new_inputs = list(program.inputs)
    for i in _checked(inputs, [v.aval for v in program.inputs], "inputs_as_nchw"):
        inner = program.inputs[i]
        rank = inner.aval.ndim
        outer = Var(replace(inner.aval, shape=_permuted(inner.aval, (0, rank - 1, *range(1, rank - 1)))))
        perm = (0, *range(2, rank), 1)
        before.append(Eqn("transpose", (outer,), (inner,), {"permutation": perm}, NOWHERE))
        new_inputs[i] = outer
    after: list[Eqn] = []
    new_outputs = list(program.outputs)
    for i in _checked(outputs, [a.aval for a in program.outputs], "outputs_as_nchw"):
        atom = program.outputs[i]
        rank = atom.aval.ndim
        perm = (0, rank - 1, *range(1, rank - 1))
        out = Var(replace(atom.aval, shape=_permuted(atom.aval, perm)))
        after.append(Eqn("transpose", (atom,), (out,), {"permutation": perm}, NOWHERE))
        new_outputs[i] = out
    return replace(
        program,
        inputs=tuple(new_inputs),
        eqns=(*before, *program.eqns, *after),
        outputs=tuple(new_outputs),
    )


def _permuted(aval: Aval, perm: Sequence[int]) -> Shape:
    return tuple(aval.shape[p] for p in perm)


def _checked(positions: Sequence[int], avals: Sequence[Aval], option: str) -> list[int]:
    for i in positions:
        if not isinstance(i, int) or not 0 <= i < len(avals):
            raise InputSpecError(
                f"{option} names position {i!r}, of {len(avals)}",
                way_out="Give positions counted from 0, pytrees flattened in JAX's order.",
            )
        if avals[i].ndim < 3:
            raise InputSpecError(
                f"{option}: the array at position {i} has the shape {avals[i]}, without a spatial axis"
            )
    return sorted(set(positions))
