"""jaxpr → :class:`Program`: the one place that reads a jaxpr.

Releases of JAX rename parameters (``scan`` lost ``num_consts``, ``pjit`` became ``jit``, ``ClosedJaxpr``
merged into ``Jaxpr``); whatever differs between them is evened out here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any

import jax
import jax.export
import numpy as np
from jax.extend import core as jex_core

from onnxproof.capture import effects, keys
from onnxproof.capture.draws import Draws
from onnxproof.capture.foreign import Foreign
from onnxproof.capture.jaxprs import is_jaxpr, open_jaxpr
from onnxproof.capture.keys import is_key
from onnxproof.capture.marks import MARKED_BODY, mark_of
from onnxproof.capture.program import (
    NOWHERE,
    Atom,
    Aval,
    Eqn,
    Lit,
    Param,
    Program,
    Site,
    SymDim,
    Var,
)
from onnxproof.capture.sites import SiteFinder, boundary_of
from onnxproof.capture.weights import Key, WeightNames, key_of
from onnxproof.errors import InternalError, TraceError, UnsupportedParam

# Primitive → the parameter that holds its body; the body takes the equation's operands one to one.
_CALLS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "eval_jaxpr": "call_jaxpr",
    "remat": "jaxpr",
    "remat2": "jaxpr",
    "checkpoint": "jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vjp_call_jaxpr": "fun_jaxpr",
    "custom_lin": "jaxpr",
    "linear_call": "callee",
}
# Each output is the operand of the same position: placement, sharding, names and key wrappers carry no value.
_ALIASES = frozenset(
    {
        "copy",
        "copy_p",
        "device_put",
        "optimization_barrier",
        "sharding_constraint",
        "reshard",
        "pvary",
        "name",
        "random_wrap",
        "random_unwrap",
        "random_clone",
        "stop_gradient",
    }
)
_SCAN_PARAMS = frozenset(
    {
        "reverse", "length", "jaxpr", "num_consts", "num_carry", "linear", "unroll",
        "_split_transpose", "ft_in", "ft_out",
    }
)  # fmt: skip
_WHILE_PARAMS = frozenset({"cond_nconsts", "cond_jaxpr", "body_nconsts", "body_jaxpr"})
_COND_PARAMS = frozenset({"branches", "branches_platforms", "linear", "ft_in", "ft_out"})
_MAX_LITERAL = 64  # elements; larger unnamed constants become Params

_OURS = ("", "")  # the boundary of a trace that was made here: no line in it is the user's

Env = dict[Any, Atom]


@lru_cache(maxsize=1)
def _symbolic_type() -> type:
    (dim,) = jax.export.symbolic_shape("n")
    return type(dim)


def to_dim(value: Any) -> Any:
    """An int as it is, a symbolic dimension as its text."""
    return SymDim(value) if isinstance(value, _symbolic_type()) else int(value)


def to_aval(aval: Any) -> Aval:
    """A JAX abstract value as ours; keys as their words, float0 as bool."""
    shape = tuple(to_dim(d) for d in aval.shape)
    if is_key(aval.dtype):
        return Aval(shape + keys.key_words(aval.dtype), np.dtype(np.uint32))
    if aval.dtype == jax.dtypes.float0:
        return Aval(shape, np.dtype(np.bool_))
    return Aval(shape, np.dtype(aval.dtype))


class Inliner:
    """Builds the Program of a traced callable."""

    def __init__(
        self,
        names: WeightNames,
        known: Collection[str],
        drop_effects: Collection[str] = (),
    ) -> None:
        self._names = names
        self._known = known
        self._drop = frozenset(drop_effects)
        self._sites = SiteFinder()
        self.params: dict[Var, Param] = {}
        self._constants: dict[Key, Atom] = {}
        self._keep: list[Any] = []
        self._views: list[Eqn] = []
        self._draws = Draws(self.params)
        self._foreign = Foreign()
        self.dropped: list[str] = []

    def program(self, closed: Any, input_names: Sequence[str], output_names: Sequence[str]) -> Program:
        """The Program of the whole callable."""
        jaxpr, consts = open_jaxpr(closed)
        inputs = tuple(Var(to_aval(v.aval)) for v in jaxpr.invars)
        env: Env = dict(zip(jaxpr.invars, inputs, strict=True))
        env.update(zip(jaxpr.constvars, map(self._constant, consts), strict=True))
        eqns: list[Eqn] = []
        outputs = self._inline(jaxpr, env, eqns, NOWHERE, None)
        eqns[:0] = self._views
        return Program(inputs, tuple(eqns), outputs, self.params, tuple(input_names), tuple(output_names))

    # -- atoms --------------------------------------------------------------------------------

    def _constant(self, value: Any) -> Atom:
        key = key_of(value)
        known = self._constants.get(key)
        if known is not None:
            return known
        if isinstance(value, jax.core.Tracer):
            raise TraceError(
                f"the callable uses a tracer of another trace: {value}",
                way_out="It kept a traced value in a global, an attribute or a closure; return it instead.",
            )
        self._keep.append(value)
        array = value
        if hasattr(value, "dtype") and is_key(value.dtype):
            array = jax.random.key_data(value)
        elif not hasattr(value, "dtype"):
            array = np.asarray(value, jax.dtypes.canonicalize_dtype(np.asarray(value).dtype))
        if array.dtype == jax.dtypes.float0:
            array = np.zeros(array.shape, np.bool_)
        aval = Aval(tuple(map(int, array.shape)), np.dtype(array.dtype))
        param = self._names.find(value)
        atom: Atom
        if param is None and (view := self._names.view(value)) is not None:
            atom = Var(aval)
            whole = self._constant(view.array)
            self._views.append(Eqn(view.primitive, (whole,), (atom,), view.params, NOWHERE))
        elif param is None and array.size <= _MAX_LITERAL:
            atom = Lit(np.asarray(array), aval)
        else:
            atom = Var(aval)
            self.params[atom] = Param("", array) if param is None else Param(param.name, array, param.aliases)
        self._constants[key] = atom
        return atom

    def _read(self, env: Env, atom: Any) -> Atom:
        if isinstance(atom, jex_core.Literal):
            aval = to_aval(atom.aval)
            if aval.size is not None and aval.size > _MAX_LITERAL:
                return self._constant(atom.val)
            return Lit(np.asarray(atom.val, aval.dtype).reshape(aval.shape), aval)
        return env[atom]

    # -- equations ----------------------------------------------------------------------------

    def _inline(
        self,
        jaxpr: Any,
        env: Env,
        eqns: list[Eqn],
        caller: Site,
        boundary: tuple[str, str] | None,
    ) -> tuple[Atom, ...]:
        """Append the equations of ``jaxpr`` and return its outputs."""
        for eqn in jaxpr.eqns:
            info = eqn.source_info
            stack = str(info.name_stack)
            scope = f"{caller.scope}/{stack}".strip("/") if stack else caller.scope
            site = self._sites.site(info.traceback, scope, boundary, caller)
            outs = self._equation(eqn, env, eqns, site)
            env.update(zip(eqn.outvars, outs, strict=True))
        return tuple(self._read(env, v) for v in jaxpr.outvars)

    def _equation(self, eqn: Any, env: Env, eqns: list[Eqn], site: Site) -> Sequence[Atom]:
        name = eqn.primitive.name
        inputs = [self._read(env, v) for v in eqn.invars]
        if name in _ALIASES:
            return inputs
        if name == "convert_element_type" and to_aval(eqn.outvars[0].aval) == inputs[0].aval:
            return inputs
        if name in _CALLS:
            return self._call(eqn, inputs, eqns, site)
        if name == "dce_sink":  # keeps a value from being dropped, and has no result
            return ()
        special = _SPECIAL.get(name)
        if special is not None:
            return special(self, eqn, inputs, eqns, site)
        if eqn.effects:
            if not (effects.is_debug(eqn) and "debug" in self._drop):
                raise effects.refusal(eqn, site)
            self.dropped.append(f"{name} at {site}" if site.line else name)
            return ()
        if (drawn := self._draws.results(eqn, inputs, site)) is not None:
            atoms = [self._constant(array) for array in drawn]
            for atom, array in zip(atoms, drawn, strict=True):
                self._draws.mark(atom, array)
            return atoms
        moved = keys.moved_params(eqn)
        if moved is None and (closed := self._replacement(eqn, site)) is not None:
            if name in keys.DRAWS:  # what a draw computes from constants alone, say fold_in's datum, folds
                for literal in (a for a in inputs if isinstance(a, Lit)):
                    self._draws.mark(literal, literal.value)
            return self._inline_closed(closed, inputs, eqns, site, _OURS)
        inputs += [Lit(np.zeros((), a.dtype), Aval((), a.dtype)) for a in keys.moved_indices(eqn)]
        params = {k: self._param(v, site) for k, v in (moved or eqn.params).items()}
        outputs = self._emit(name, inputs, eqn.outvars, params, eqns, site)
        self._draws.note(eqn, inputs, outputs)
        return outputs

    def _replacement(self, eqn: Any, site: Site) -> Any | None:
        """A trace to inline in place of an equation on keys, or of a primitive that has no rule."""
        name = eqn.primitive.name
        foreign = name not in self._known and name not in keys.DRAWS
        if foreign and (body := self._foreign.body(eqn)) is not None:
            return body
        words = keys.physical(eqn, site)
        return None if words is None else jax.make_jaxpr(words)(*keys.structs(eqn.invars))

    def _inline_closed(
        self,
        closed: Any,
        inputs: Sequence[Atom],
        eqns: list[Eqn],
        site: Site,
        boundary: tuple[str, str] | None = None,
    ) -> tuple[Atom, ...]:
        """Inline a jaxpr with its constants on ``inputs``."""
        jaxpr, consts = open_jaxpr(closed)
        env: Env = dict(zip(jaxpr.invars, inputs, strict=True))
        env.update(zip(jaxpr.constvars, map(self._constant, consts), strict=True))
        return self._inline(jaxpr, env, eqns, site, boundary or boundary_of(jaxpr.debug_info))

    def _emit(
        self,
        name: str,
        inputs: Sequence[Atom],
        outvars: Sequence[Any],
        params: Mapping[str, Any],
        eqns: list[Eqn],
        site: Site,
    ) -> tuple[Var, ...]:
        outputs = tuple(Var(to_aval(v.aval)) for v in outvars)
        eqns.append(Eqn(name, tuple(inputs), outputs, params, site))
        return outputs

    def _call(self, eqn: Any, inputs: Sequence[Atom], eqns: list[Eqn], site: Site) -> Sequence[Atom]:
        body = eqn.params[_CALLS[eqn.primitive.name]]
        if (mark := mark_of(str(eqn.params.get("name", "")))) is not None:
            program = self._body(body, len(inputs), (), site, MARKED_BODY)
            params = {"body": program, "name": mark[0], "unique": mark[1]}
            return self._emit("function", inputs, eqn.outvars, params, eqns, site)
        return self._inline_closed(body, inputs, eqns, site)

    def _body(
        self,
        closed: Any,
        num_args: int,
        captured: Sequence[Atom],
        site: Site,
        boundary: tuple[str, str] | None = None,
    ) -> Program:
        """A body whose first operands are values of the program around it."""
        jaxpr, consts = open_jaxpr(closed)
        inputs = tuple(Var(to_aval(v.aval)) for v in jaxpr.invars[len(captured) :])
        if len(inputs) != num_args:
            raise InternalError(f"a body takes {len(inputs)} operands, not {num_args}", site=site)
        env: Env = dict(zip(jaxpr.invars, (*captured, *inputs), strict=True))
        env.update(zip(jaxpr.constvars, map(self._constant, consts), strict=True))
        eqns: list[Eqn] = []
        boundary = boundary or boundary_of(jaxpr.debug_info)
        outputs = self._inline(jaxpr, env, eqns, site, boundary)
        return Program(inputs, tuple(eqns), outputs)

    # -- parameters ---------------------------------------------------------------------------

    def _param(self, value: Any, site: Site) -> Any:
        if isinstance(value, (str, bool, int, float, type(None))):
            return value
        if isinstance(value, _symbolic_type()):
            return SymDim(value)
        if isinstance(value, np.integer):
            return int(value)
        if is_jaxpr(value):
            return self._body(value, len(open_jaxpr(value)[0].invars), (), site)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*(self._param(v, site) for v in value))
        if isinstance(value, (tuple, list)):
            return tuple(self._param(v, site) for v in value)
        if isinstance(value, (jax.Array, np.ndarray)) and not hasattr(value, "aval"):
            return np.asarray(value)
        return value

    # -- control flow -------------------------------------------------------------------------

    def _scan(self, eqn: Any, inputs: Sequence[Atom], eqns: list[Eqn], site: Site) -> Sequence[Atom]:
        p = eqn.params
        _only(eqn, _SCAN_PARAMS, site)
        if "ft_in" in p:
            num_consts, num_carry, _ = (len(part) for part in p["ft_in"].unpack())
        else:
            num_consts, num_carry = p["num_consts"], p["num_carry"]
        captured, operands = inputs[:num_consts], inputs[num_consts:]
        body = self._body(p["jaxpr"], len(operands), captured, site)
        params = {
            "body": body,
            "num_carry": num_carry,
            "length": to_dim(p["length"]),
            "reverse": bool(p["reverse"]),
        }
        return self._emit("scan", operands, eqn.outvars, params, eqns, site)

    def _while(self, eqn: Any, inputs: Sequence[Atom], eqns: list[Eqn], site: Site) -> Sequence[Atom]:
        p = eqn.params
        _only(eqn, _WHILE_PARAMS, site)
        nc, nb = p["cond_nconsts"], p["body_nconsts"]
        carry = inputs[nc + nb :]
        params = {
            "cond": self._body(p["cond_jaxpr"], len(carry), inputs[:nc], site),
            "body": self._body(p["body_jaxpr"], len(carry), inputs[nc : nc + nb], site),
        }
        return self._emit("while", carry, eqn.outvars, params, eqns, site)

    def _cond(self, eqn: Any, inputs: Sequence[Atom], eqns: list[Eqn], site: Site) -> Sequence[Atom]:
        _only(eqn, _COND_PARAMS, site)
        index, *operands = inputs
        branches = eqn.params["branches"]
        if isinstance(index, Lit):
            chosen = branches[min(max(int(index.value), 0), len(branches) - 1)]
            return self._inline_closed(chosen, operands, eqns, site)
        if "checks" in self._drop and (passing := effects.passing_branch(branches)) is not None:
            self.dropped.append(f"a check at {site}" if site.line else "a check")
            return self._inline_closed(passing, operands, eqns, site)
        bodies = tuple(self._body(b, 0, operands, site) for b in branches)
        return self._emit("cond", (index,), eqn.outvars, {"branches": bodies}, eqns, site)

    def _linear_solve(self, eqn: Any, inputs: Sequence[Atom], eqns: list[Eqn], site: Site) -> Sequence[Atom]:
        """``custom_linear_solve`` is its ``solve`` function: the others serve derivatives only."""
        lengths, jaxprs = eqn.params["const_lengths"], eqn.params["jaxprs"]
        start = lengths.matvec + lengths.vecmat
        total = start + lengths.solve + lengths.transpose_solve
        operands = (*inputs[start : start + lengths.solve], *inputs[total:])
        return self._inline_closed(jaxprs.solve, operands, eqns, site)

    def _platform_index(
        self, eqn: Any, inputs: Sequence[Atom], eqns: list[Eqn], site: Site
    ) -> Sequence[Atom]:
        """The branch that JAX takes on a CPU: the one that names it, else the default one."""
        platforms = eqn.params["platforms"]
        index = next(
            (i for i, names in enumerate(platforms) if names is None or "cpu" in names),
            len(platforms) - 1,
        )
        return [Lit(np.asarray(index, np.int32), Aval((), np.dtype(np.int32)))]


def _only(eqn: Any, known: frozenset[str], site: Site) -> None:
    unknown = sorted(set(eqn.params) - known)
    if unknown:
        raise UnsupportedParam(
            f"{eqn.primitive.name} carries parameters that are not known here: {', '.join(unknown)}",
            site=site,
            way_out="This JAX is newer than this onnxproof: upgrade onnxproof, or report it.",
        )


Special = Callable[[Inliner, Any, Sequence[Atom], list[Eqn], Site], Sequence[Atom]]
_SPECIAL: Mapping[str, Special] = {
    "scan": Inliner._scan,
    "while": Inliner._while,
    "cond": Inliner._cond,
    "custom_linear_solve": Inliner._linear_solve,
    "platform_index": Inliner._platform_index,
}
NORMALIZED = frozenset(_CALLS) | _ALIASES | {"custom_linear_solve", "platform_index"}
