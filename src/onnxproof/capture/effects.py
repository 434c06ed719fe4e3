"""Side effects: what may be left out when the user says so, and the errors for the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jax.extend import core as jex_core

from onnxproof.capture.jaxprs import open_jaxpr
from onnxproof.capture.program import Lit, Program
from onnxproof.errors import EffectfulProgram

_CALLBACK = "pure_callback"


def is_debug(eqn: Any) -> bool:
    """Whether an equation of JAX only shows values while the program runs."""
    return bool(eqn.primitive.name.startswith("debug_")) and not eqn.outvars


def refusal(eqn: Any, site: Any) -> EffectfulProgram:
    """The error for an equation of JAX with an effect."""
    name = eqn.primitive.name
    if is_debug(eqn):
        return EffectfulProgram(
            f"the program prints or calls back while it runs ({name})",
            site=site,
            way_out='Remove it, or pass drop_effects=("debug",) to leave debug output out.',
        )
    effects = ", ".join(sorted(map(str, eqn.effects)))
    return EffectfulProgram(
        f"{name} has a side effect ({effects}), which a graph can't carry",
        site=site,
        way_out="Move the effect out of the exported function.",
    )


def passing_branch(branches: Sequence[Any]) -> Any | None:
    """The branch of a ``cond`` that gives the checked values, when every other one reports a failed check.

    So Equinox's ``error_if`` is made. A branch fails when it gives only what callbacks return. Those read
    nothing but constants, or the number of a message: then one callback raises and another stands in for its
    results where raising is not possible, and the passing branch gives operands of its own and nothing else.
    """
    failing = [_failing(b) for b in branches]
    passing = [b for b, reads in zip(branches, failing, strict=True) if reads is None]
    if len(passing) != 1 or len(branches) == 1:
        return None
    read = set().union(*(reads for reads in failing if reads is not None))
    if read:
        jaxpr, _ = open_jaxpr(passing[0])
        given = {v for i, v in enumerate(jaxpr.invars) if i not in read}
        if jaxpr.eqns or any(v not in given for v in jaxpr.outvars if not isinstance(v, jex_core.Literal)):
            return None
    return passing[0]


def _failing(closed: Any) -> set[int] | None:
    """The operands that a branch which only reports a failed check reads, or None where it does more."""
    jaxpr, _ = open_jaxpr(closed)
    operands = {v: i for i, v in enumerate(jaxpr.invars) if is_message(v.aval)}
    made: set[Any] = set()
    read: set[int] = set()
    last: set[Any] = set()
    second = False  # a callback after the first, which takes what the one before it gave
    for eqn in jaxpr.eqns:
        atoms = [v for v in eqn.invars if not isinstance(v, jex_core.Literal)]
        taken = {operands[v] for v in atoms if v in operands}
        if len(taken) < sum(v not in made for v in set(atoms)):
            return None
        if eqn.primitive.name == _CALLBACK:
            second, last = bool(last) and last <= set(atoms), set(eqn.outvars)
            read |= taken
        elif not eqn.invars or taken:
            return None
        made.update(eqn.outvars)
    results = [v for v in jaxpr.outvars if not isinstance(v, jex_core.Literal)]
    if not last or len(results) < len(jaxpr.outvars) or not made.issuperset(results) or (read and not second):
        return None
    return read


def is_message(aval: Any) -> bool:
    """Whether a value may be the number of the message of a check: one integer."""
    return bool(aval.shape == () and aval.dtype == np.int32)


def refuse_callbacks(program: Program) -> None:
    """Raise for the callbacks that are left in a program without dead code.

    Raises:
        EffectfulProgram: at the first of them.
    """
    for eqn in program.walk():
        if eqn.primitive == _CALLBACK:
            check = all(isinstance(a, Lit) or is_message(a.aval) for a in eqn.inputs)
            raise EffectfulProgram(
                "the program calls back into Python (pure_callback), which a graph can't",
                site=eqn.site,
                way_out='If it is a check of values, pass drop_effects=("checks",) to leave it out.'
                if check
                else "Write that part in JAX, or leave it outside the exported function.",
            )
