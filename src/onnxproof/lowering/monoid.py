"""The scalar computations that ``reduce`` and ``reduce_window`` carry: recognised, or lifted to arrays."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from onnxproof.capture.program import Atom, Eqn, Lit, Program, Shape, Var

NAMED: Final = frozenset({"add", "mul", "max", "min", "and", "or", "xor"})
# Primitives whose rule on arrays is their rule on scalars, element by element.
_ELEMENTWISE: Final = frozenset(
    """abs acos acosh add add_any and asin asinh atan atan2 atanh bessel_i0e bessel_i1e cbrt ceil clamp clz
    convert_element_type copy cos cosh digamma div eq erf erf_inv erfc exp exp2 expm1 floor floor_divide ge gt
    integer_pow is_finite le lgamma log log1p log2 logistic lt max min mul mulhi ne neg nextafter not
    one_minus_square or polynomial population_count pow reduce_precision rem round rsqrt select_n shift_left
    shift_right_arithmetic shift_right_logical sign sin sinh sqrt square stop_gradient sub tan tanh xor""".split()
)


def named(program: Program) -> str | None:
    """The primitive of :data:`NAMED` that the two-operand ``program`` is, if it is one."""
    if len(program.eqns) != 1 or len(program.inputs) != 2:
        return None
    eqn = program.eqns[0]
    if program.outputs != eqn.outputs or set(eqn.inputs) != set(program.inputs):
        return None
    return eqn.primitive if eqn.primitive in NAMED else None


def lift(program: Program, shape: Shape) -> Program | None:
    """``program``, which is on scalars, on arrays of ``shape``; None when it is not element-wise."""
    if any(e.primitive not in _ELEMENTWISE for e in program.eqns):
        return None
    lifted: dict[Var, Var] = {}

    def define(var: Var) -> Var:
        lifted[var] = Var(replace(var.aval, shape=shape))
        return lifted[var]

    def use(atom: Atom) -> Atom:
        return atom if isinstance(atom, Lit) else lifted.get(atom, atom)

    inputs = tuple(map(define, program.inputs))
    eqns = []
    for eqn in program.eqns:
        operands = tuple(map(use, eqn.inputs))
        outputs = tuple(map(define, eqn.outputs))
        eqns.append(Eqn(eqn.primitive, operands, outputs, eqn.params, eqn.site))
    return Program(inputs, tuple(eqns), tuple(map(use, program.outputs)))
