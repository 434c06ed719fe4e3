"""The table of lowering rules and their parameter contracts."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from onnxproof.capture.program import Eqn
from onnxproof.errors import InternalError, UnsupportedParam

Rule = Callable[..., Any]
R = TypeVar("R", bound=Rule)


class Registration(Protocol):
    """A decorator that gives a rule back as it is, so that rules can call each other with their types."""

    def __call__(self, rule: R, /) -> R: ...


class _Any:
    """Stands for every value in a declaration of neutral parameters."""

    def __repr__(self) -> str:
        return "ANY"


ANY: Final = _Any()


@dataclass(frozen=True, slots=True)
class Lowering:
    """A rule with the parameters it names and those that it declares to have no meaning for it."""

    rule: Rule
    named: frozenset[str]
    neutral: Mapping[str, Any]

    def params_of(self, eqn: Eqn) -> dict[str, Any]:
        """The parameters to hand to the rule.

        Raises:
            UnsupportedParam: the equation carries a parameter that is neither named nor neutral.
        """
        params: dict[str, Any] = {}
        for key, value in eqn.params.items():
            if key in self.named:
                params[key] = value
                continue
            neutral = self.neutral.get(key, self)
            if neutral is self:
                raise UnsupportedParam(
                    f"{eqn.primitive} carries the parameter {key}={value!r}, which its lowering does not know",
                    site=eqn.site,
                    way_out="This JAX may be newer than this onnxproof: upgrade onnxproof, or report it.",
                )
            if neutral is not ANY and value != neutral:
                raise UnsupportedParam(
                    f"{eqn.primitive} with {key}={value!r} can't be lowered (only {neutral!r} can)",
                    site=eqn.site,
                    way_out=f"Call it with {key}={neutral!r}.",
                )
        return params


RULES: dict[str, Lowering] = {}
COMPLEX_RULES: dict[str, Lowering] = {}
NOT_LOWERED: dict[str, str] = {}


def _register(
    table: dict[str, Lowering], primitives: tuple[str, ...], neutral: Mapping[str, Any]
) -> Registration:
    def decorate(rule: R) -> R:
        parameters = inspect.signature(rule).parameters.values()
        named = frozenset(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)
        for primitive in primitives:
            if primitive in table:
                raise InternalError(f"{primitive} has two lowerings")
            table[primitive] = Lowering(rule, named, neutral)
        return rule

    return decorate


def lowers(*primitives: str, **neutral: Any) -> Registration:
    """Register a rule for primitives on real values.

    The rule is called as ``rule(ctx, *operands, **params)`` and returns a value, or one for each result. Its
    keyword-only arguments are the equation parameters it understands; ``neutral`` lists the parameters that mean
    nothing to it, each with the one value it may have (``ANY`` for every value). Anything else raises.
    """
    return _register(RULES, primitives, neutral)


def lowers_complex(*primitives: str, **neutral: Any) -> Registration:
    """Register a rule for primitives where an operand or result is complex.

    Complex values reach the rule, and leave it, as reals with a trailing axis of two: real and imaginary part.
    """
    return _register(COMPLEX_RULES, primitives, neutral)


def not_lowered(reason: str, *primitives: str) -> None:
    """Declare primitives that have no lowering, with the reason that users read."""
    for primitive in primitives:
        NOT_LOWERED[primitive] = reason
