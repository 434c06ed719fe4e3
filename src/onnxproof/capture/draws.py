"""What is drawn from constant keys is computed at export, while it is small."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np

from onnxproof.capture import keys
from onnxproof.capture.jaxprs import sub_jaxprs
from onnxproof.capture.program import Atom, Lit, Param, Site, Var

MAX_ELEMENTS = 4096  # of one folded result


class Draws:
    """Values of atoms that random draws with constant keys give, and of what is computed from them alone.

    Equations on literals only are noted, not evaluated: they are needed when a draw meets them.
    """

    def __init__(self, params: Mapping[Var, Param]) -> None:
        self._params = params
        self._values: dict[Atom, np.ndarray[Any, Any]] = {}
        self._noted: dict[Atom, tuple[Any, Sequence[Atom], int]] = {}

    def mark(self, atom: Atom, value: np.ndarray[Any, Any]) -> None:
        """Let what is computed from ``atom`` alone be folded."""
        self._values[atom] = value

    def note(self, eqn: Any, inputs: Sequence[Atom], outputs: Sequence[Atom]) -> None:
        """Remember an equation whose operands are literals, or come of such equations."""
        if all(isinstance(a, Lit) or a in self._noted for a in inputs) and _is_small(eqn):
            self._noted.update((out, (eqn, tuple(inputs), i)) for i, out in enumerate(outputs))

    def results(self, eqn: Any, inputs: Sequence[Atom], site: Site) -> list[np.ndarray[Any, Any]] | None:
        """The results of a draw from constant keys or of an equation on drawn values; None for all others."""
        starts = eqn.primitive.name in keys.DRAWS or keys.has_keys(eqn)
        if not (starts or any(a in self._values for a in inputs)) or not _is_small(eqn):
            return None
        values = [self._value(a, starts) for a in inputs]
        return None if any(v is None for v in values) else _evaluate(eqn, values, site)

    def _value(self, atom: Atom, weights: bool) -> np.ndarray[Any, Any] | None:
        if isinstance(atom, Lit):
            return atom.value
        if atom in self._values:
            return self._values[atom]
        if atom in self._noted:
            eqn, inputs, index = self._noted[atom]
            operands = [self._value(a, False) for a in inputs]
            return _evaluate(eqn, operands, Site())[index]
        return np.asarray(self._params[atom].array) if weights and atom in self._params else None


def _is_small(eqn: Any) -> bool:
    """Whether an equation is pure, without bodies, and gives few elements."""
    if eqn.effects or any(True for _ in sub_jaxprs(eqn)):
        return False
    shapes = [v.aval.shape for v in eqn.outvars]
    if not all(isinstance(d, int) for shape in shapes for d in shape):
        return False
    return all(int(np.prod(shape)) <= MAX_ELEMENTS for shape in shapes)


def _evaluate(eqn: Any, values: Sequence[Any], site: Site) -> list[np.ndarray[Any, Any]]:
    fn = keys.physical(eqn, site)
    run = partial(eqn.primitive.bind, **eqn.params) if fn is None else jax.jit(fn)
    return [np.asarray(v) for v in jax.tree_util.tree_leaves(run(*values))]
