"""Run a Program in JAX, equation by equation, as it is or in float64."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any

import jax
import jax.extend.core.primitives as jax_primitives
import jax.extend.random as jax_random
import jax.numpy as jnp
import numpy as np
from jax import lax

from onnxproof.capture import dims as dim_algebra
from onnxproof.capture.normalize import BROADCASTING
from onnxproof.capture.program import Atom, Eqn, Lit, Program, SymDim, Var
from onnxproof.errors import UnsupportedPrimitive

Values = dict[Var, Any]
_WIDE = {"float16": "float64", "bfloat16": "float64", "float32": "float64", "complex64": "complex128"}
_SCATTER = ("dimension_numbers", "indices_are_sorted", "unique_indices", "mode")
# Bits of a float32 mean nothing in float64: these keep the dtype they were traced with.
_BITWISE = frozenset({"bitcast_convert_type", "reduce_precision", "nextafter"})


@lru_cache(maxsize=1)
def _primitives() -> Mapping[str, Any]:
    """JAX's public primitives by name."""
    found: dict[str, Any] = {}
    for module in (lax, lax.linalg, jax_primitives, jax_random):
        for label in dir(module):
            if label.endswith("_p"):
                primitive = getattr(module, label)
                found.setdefault(primitive.name, primitive)
    return found


def evaluate(
    program: Program, inputs: Sequence[Any], *, double: bool = False
) -> dict[Var, np.ndarray[Any, Any]]:
    """The value of every Var that the top level of ``program`` defines.

    Args:
        inputs: one array for each input of the program, keys as words.
        double: compute in float64: floats are widened on the way in, and dtypes of equations with them.

    Raises:
        UnsupportedPrimitive: an equation applies a primitive that JAX does not make public.
    """
    kept = [v for eqn in program.eqns for v in eqn.outputs]
    return dict(zip(kept, _computed(program, inputs, kept, double), strict=True))


def outputs_in_float64(program: Program, inputs: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
    """The outputs of ``program`` computed in float64; arguments and errors are those of :func:`evaluate`."""
    return _computed(program, inputs, program.outputs, True)


def _computed(
    program: Program, inputs: Sequence[Any], kept: Sequence[Atom], double: bool
) -> list[np.ndarray[Any, Any]]:
    evaluator = Evaluator(dimensions(program, inputs), double)

    def run(*arrays: Any) -> list[Any]:
        values: Values = dict(zip(program.inputs, arrays, strict=True))
        for var, param in program.params.items():
            values[var] = widened(np.asarray(param.array), double)
        evaluator.run(program, values)
        return [evaluator.read(a, values) for a in kept]

    with enough_bits(program, double):
        results = jax.jit(run)(*(widened(np.asarray(x), double) for x in inputs))
        return [np.asarray(r) for r in results]


def enough_bits(program: Program, double: bool) -> AbstractContextManager[None]:
    """A context with 64-bit types where the program has them or ``double`` asks for them."""
    own = any(v.aval.dtype.itemsize // (2 if v.aval.is_complex else 1) == 8 for v in _vars(program))
    context: AbstractContextManager[None] = jax.enable_x64(
        double or own or jax.dtypes.canonicalize_dtype(np.float64) == np.float64
    )
    return context


def _vars(program: Program) -> Iterator[Var]:
    yield from program.inputs
    for eqn in program.walk():
        yield from eqn.outputs


def dimensions(program: Program, inputs: Sequence[Any]) -> dict[str, int]:
    """Sizes of the symbolic dimensions at these inputs."""
    solutions = dim_algebra.solve([v.aval.shape for v in program.inputs])
    return {name: (np.shape(inputs[s.input])[s.axis] - s.offset) // s.factor for name, s in solutions.items()}


def widened(array: Any, double: bool) -> Any:
    """``array``, a float of which becomes float64 where ``double`` asks for it."""
    wide = _WIDE.get(np.dtype(array.dtype).name) if double else None
    return array if wide is None else array.astype(wide)


class Evaluator:
    """Applies equations to arrays, concrete or traced.

    Args:
        env: sizes of the symbolic dimensions.
        double: floats are float64 throughout.
    """

    def __init__(self, env: Mapping[str, int], double: bool) -> None:
        self.env = env
        self.double = double

    def run(self, program: Program, values: Values) -> list[Any]:
        for eqn in program.eqns:
            operands = [self.read(a, values) for a in eqn.inputs]
            values.update(zip(eqn.outputs, self.apply(eqn, operands, values), strict=True))
        return [self.read(a, values) for a in program.outputs]

    def read(self, atom: Atom, values: Values) -> Any:
        return values[atom] if isinstance(atom, Var) else widened(_literal(atom), self.double)

    def dim(self, value: Any) -> Any:
        """A parameter with its symbolic dimensions replaced by their sizes, its dtypes by the wide ones."""
        if isinstance(value, SymDim):
            return dim_algebra.evaluate(value, self.env)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*map(self.dim, value))
        if isinstance(value, tuple):
            return tuple(map(self.dim, value))
        if isinstance(value, np.dtype) and self.double:
            return np.dtype(_WIDE.get(value.name, value))
        return value

    def body(self, program: Program, values: Values, *arguments: Any) -> list[Any]:
        inner = dict(values)
        inner.update(zip(program.inputs, arguments, strict=True))
        return self.run(program, inner)

    def apply(self, eqn: Eqn, operands: list[Any], values: Values) -> Sequence[Any]:
        name, p = eqn.primitive, eqn.params
        shape = tuple(self.dim(d) for d in eqn.outputs[0].aval.shape)
        match name:
            case "scan":
                return self.scan(eqn, operands, values)
            case "while":
                return self.while_(eqn, operands, values)
            case "cond":
                branches = [lambda b=b: tuple(self.body(b, values)) for b in p["branches"]]
                return lax.switch(operands[0].astype(np.int32), branches)  # type: ignore[no-any-return]
            case "function":
                return self.body(p["body"], values, *operands)
            case "dim_as_value":
                dtype = eqn.outputs[0].aval.dtype
                return [jnp.asarray(dim_algebra.evaluate(p["dim"], self.env), dtype)]
            case "reshape":
                return [lax.reshape(operands[0], shape, self.dim(p.get("dimensions")))]
            case "broadcast_in_dim":
                return [lax.broadcast_in_dim(operands[0], shape, p["broadcast_dimensions"])]
            case "iota":
                return [lax.broadcasted_iota(self.dim(p["dtype"]), shape, p["dimension"])]
            case "iota_2x32_shape":
                low = jnp.arange(math.prod(shape), dtype=np.uint32).reshape(shape)
                return [jnp.zeros(shape, np.uint32), low]
            case "scatter" if isinstance(p["update_jaxpr"], Program):
                return [self.scatter_apply(eqn, operands, values)]
            case "scatter-add" | "scatter-sub" | "scatter-mul" | "scatter-min" | "scatter-max":
                return [self.scatter(eqn, operands)]
            case "reduce" | "reduce_window":
                return self.reduce(eqn, operands, values)
            case "mul":
                return [jnp.multiply(*self.broadcast(operands, shape))]
        if name in BROADCASTING:
            operands = self.broadcast(operands, shape)
        elif name == "select_n":
            which = operands[0] if not np.ndim(operands[0]) else jnp.broadcast_to(operands[0], shape)
            operands = [which, *self.broadcast(operands[1:], shape)]
        return self.bind(eqn, operands)

    def broadcast(self, operands: Sequence[Any], shape: tuple[int, ...]) -> list[Any]:
        return [jnp.broadcast_to(x, shape) for x in operands]

    def while_(self, eqn: Eqn, operands: list[Any], values: Values) -> Sequence[Any]:
        """A loop; one mapped over a batch goes on while any element asks for it, and changes only those."""

        def asks(carry: Sequence[Any]) -> Any:
            return self.body(eqn.params["cond"], values, *carry)[0]

        def step(carry: Sequence[Any]) -> Sequence[Any]:
            live = asks(carry)
            new = self.body(eqn.params["body"], values, *carry)
            return tuple(
                jnp.where(live.reshape((*live.shape, *(1,) * (n.ndim - live.ndim))), n, o)
                for n, o in zip(new, carry, strict=True)
            )

        return lax.while_loop(lambda c: jnp.any(asks(c)), step, tuple(operands))

    def scan(self, eqn: Eqn, operands: list[Any], values: Values) -> Sequence[Any]:
        p = eqn.params
        carried = p["num_carry"]

        def step(carry: tuple[Any, ...], xs: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
            out = self.body(p["body"], values, *carry, *xs)
            return tuple(out[:carried]), tuple(out[carried:])

        init, xs = tuple(operands[:carried]), tuple(operands[carried:])
        carry, ys = lax.scan(step, init, xs, self.dim(p["length"]), reverse=p["reverse"])
        return [*carry, *ys]

    def scatter(self, eqn: Eqn, operands: Sequence[Any]) -> Any:
        """Through the public function, which builds anew what the primitive keeps as a Program here."""
        function = getattr(lax, eqn.primitive.replace("-", "_"))
        return function(*operands, **{name: eqn.params[name] for name in _SCATTER})

    def scatter_apply(self, eqn: Eqn, operands: Sequence[Any], values: Values) -> Any:
        """``x.at[...].apply(f)``; an update that takes the place of the old value as it is comes as a Program too."""
        update: Program = eqn.params["update_jaxpr"]
        if not update.eqns and update.outputs[0] is update.inputs[1]:
            return self.scatter(eqn, operands)
        x, indices, updates = operands

        def changed(old: Any) -> Any:
            return self.body(update, values, old, jnp.zeros_like(old))[0]

        options = {name: eqn.params[name] for name in _SCATTER}
        return lax.scatter_apply(x, indices, changed, update_shape=np.shape(updates), **options)

    def reduce(self, eqn: Eqn, operands: list[Any], values: Values) -> Sequence[Any]:
        half, p = len(operands) // 2, eqn.params

        def step(left: tuple[Any, ...], right: tuple[Any, ...]) -> tuple[Any, ...]:
            return tuple(self.body(p["jaxpr"], values, *left, *right))

        arrays, start = tuple(operands[:half]), tuple(operands[half:])
        if eqn.primitive == "reduce":
            return list(lax.reduce(arrays, start, step, p["dimensions"]))
        window = {k: self.dim(v) for k, v in p.items() if k not in ("jaxpr", "consts")}
        return list(lax.reduce_window(arrays, start, step, **window))

    def bind(self, eqn: Eqn, operands: list[Any]) -> Sequence[Any]:
        primitive = _primitives().get(eqn.primitive)
        if primitive is None:
            raise UnsupportedPrimitive(
                f"{eqn.primitive} can't be run by itself: JAX does not make it public",
                primitives=(eqn.primitive,),
                site=eqn.site,
            )
        if eqn.primitive in _BITWISE:
            operands = [x.astype(a.aval.dtype) for x, a in zip(operands, eqn.inputs, strict=True)]
            out = primitive.bind(*operands, **dict(eqn.params))
            return [widened(out, self.double)]
        params = {k: self.dim(v) for k, v in eqn.params.items()}
        results = primitive.bind(*operands, **params)
        return results if primitive.multiple_results else [results]


def _literal(atom: Lit) -> np.ndarray[Any, Any]:
    return np.asarray(atom.value, atom.aval.dtype)
