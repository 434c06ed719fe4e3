"""Side effects: what may be left out when the user says so, and the errors for the rest."""

from __future__ import annotations

from typing import Any

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


def fails(closed: Any) -> bool:
    """Whether a branch gives only what callbacks on constants return: a failed check of values ends there.

    Such a check is a ``cond`` between this branch and one that gives the checked values, as Equinox's
    ``error_if`` makes it.
    """
    jaxpr, _ = open_jaxpr(closed)
    made: set[Any] = set()
    for eqn in jaxpr.eqns:
        if not all(isinstance(v, jex_core.Literal) or v in made for v in eqn.invars):
            return False
        if eqn.primitive.name != _CALLBACK and not eqn.invars:
            return False
        made.update(eqn.outvars)
    called = any(e.primitive.name == _CALLBACK for e in jaxpr.eqns)
    return called and all(not isinstance(v, jex_core.Literal) and v in made for v in jaxpr.outvars)


def refuse_callbacks(program: Program) -> None:
    """Raise for the callbacks that are left in a program without dead code.

    Raises:
        EffectfulProgram: at the first of them.
    """
    for eqn in program.walk():
        if eqn.primitive == _CALLBACK:
            check = all(isinstance(a, Lit) for a in eqn.inputs)
            raise EffectfulProgram(
                "the program calls back into Python (pure_callback), which a graph can't",
                site=eqn.site,
                way_out='If it is a check of values, pass drop_effects=("checks",) to leave it out.'
                if check
                else "Write that part in JAX, or leave it outside the exported function.",
            )
