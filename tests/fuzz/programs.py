"""Random programs: a few inputs, lines of expressions, one output; as text and as a function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from hypothesis import strategies as st
from jax import lax

from tests.fuzz.expressions import BODIES, MORE, SIMPLE, WEIGHTED, WIDE, Draw, Pool, Value

NAMES = {"jax": jax, "jnp": jnp, "lax": lax, "np": np}
MAX_ELEMENTS = 4096
MAX_DEPTH = 2
# What JAX says of an expression that does not hold at its operands' shapes or dtypes.
REFUSALS = (
    TypeError, ValueError, NotImplementedError, IndexError, ZeroDivisionError, OverflowError, AttributeError,
    jax.errors.JAXTypeError, jax.errors.JAXIndexError,
)  # fmt: skip
SPECIAL = {
    "f": [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, 1e-3, 3e4, -2.5, 7.5],
    "i": [0, 1, 2, -1, 3, 5, 100, -3],
}


@dataclass(frozen=True)
class Line:
    """``name = text``, of values named in ``operands``."""

    name: str
    text: str
    operands: tuple[str, ...]

    @cached_property
    def fn(self) -> Any:
        """The expression as a function of its operands."""
        return eval(f"lambda {', '.join(self.operands)}: {self.text}", dict(NAMES))


@dataclass(frozen=True)
class Program:
    """A program: ``inputs`` are named v0, v1, ...; the last line is its result.

    Attributes:
        batch: a name in place of the first dimension of every input that has one, or None.
    """

    inputs: tuple[tuple[tuple[int, ...], str], ...]
    lines: tuple[Line, ...]
    batch: str | None
    seed: int
    special: bool
    x64: bool = False

    def __str__(self) -> str:
        heads = [f"v{i} = {dtype}{list(shape)}" for i, (shape, dtype) in enumerate(self.inputs)]
        batch = f"# first dimension: {self.batch}\n" if self.batch else ""
        data = f"# seed {self.seed}, {'special' if self.special else 'ordinary'} values\n"
        return data + batch + "\n".join([*heads, *(f"{x.name} = {x.text}" for x in self.lines)])

    def steps(self, *inputs: Any) -> list[Any]:
        """Every line's value."""
        env = {f"v{i}": x for i, x in enumerate(inputs)}
        for line in self.lines:
            env[line.name] = line.fn(*(env[name] for name in line.operands))
        return [env[line.name] for line in self.lines]

    def __call__(self, *inputs: Any) -> Any:
        return self.steps(*inputs)[-1]

    def specs(self) -> list[jax.ShapeDtypeStruct]:
        """What ``to_onnx`` takes as inputs."""
        return [
            jax.ShapeDtypeStruct((self.batch, *shape[1:]) if self.batch and shape else shape, dtype)  # type: ignore[arg-type]
            for shape, dtype in self.inputs
        ]

    def arguments(self, batch: int | None = None) -> list[np.ndarray[Any, Any]]:
        """Inputs drawn from the seed; ``batch`` replaces the first dimension."""
        rng = np.random.default_rng(self.seed)
        shapes = [((batch, *s[1:]) if batch is not None and s else s, d) for s, d in self.inputs]
        return [
            _array(rng, shape, np.dtype(getattr(ml_dtypes, dtype, dtype)), self.special)
            for shape, dtype in shapes
        ]


def _array(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any], special: bool) -> Any:
    if dtype == np.bool_:
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        low = 0 if dtype.kind == "u" else -4
        plain = rng.integers(low, 6, shape).astype(dtype)
        info = np.iinfo(dtype)
        extremes = np.array([info.min, info.max, 0, 1, 2, info.max - 1]).astype(dtype)
    else:
        plain = rng.normal(size=shape).astype(dtype)
        extremes = np.array(SPECIAL["f"]).astype(dtype)
    if not special:
        return plain
    return np.where(rng.random(shape) < 0.4, rng.choice(extremes, shape), plain).astype(dtype)


def _result(line: Line, values: Sequence[Value]) -> Value | None:
    known = {v.name: jax.ShapeDtypeStruct(v.shape, v.dtype) for v in values}
    try:
        out = jax.eval_shape(line.fn, *(known[name] for name in line.operands))
    except Exception:  # JAX refuses what does not hold in many ways, and this line is then not written
        return None
    if not isinstance(out, jax.ShapeDtypeStruct) or out.dtype.name.startswith("key"):
        return None
    static = [d for d in out.shape if isinstance(d, int)]
    if len(out.shape) > 5 or np.prod(static) > MAX_ELEMENTS:
        return None
    return Value(line.name, tuple(out.shape), np.dtype(out.dtype))


def _operands(text: str, values: Sequence[Value]) -> tuple[str, ...]:
    """The names in ``text`` that are values, in the order of the pool."""
    names = set(compile(text, "<line>", "eval").co_names) | _inner(compile(text, "<line>", "eval"))
    return tuple(v.name for v in values if v.name in names)


def _inner(code: Any) -> set[str]:
    found: set[str] = set()
    for const in code.co_consts:
        if hasattr(const, "co_names"):
            found |= set(const.co_names) | _inner(const)
    return found


def _extend(draw: Draw, values: list[Value], name: str, depth: int) -> Line | None:
    """One more line over the values at hand, or None where what was drawn does not hold."""

    def body(own: Sequence[Value], like: Value | None) -> str | None:
        return _body(draw, [*values, *own], own, like, depth + 1)

    families = [*SIMPLE, *MORE] if depth else [*SIMPLE, *MORE, *BODIES, *BODIES]
    if depth == 1:
        families = [*families, *BODIES]
    template = draw(st.sampled_from(families))
    text = template(Pool(draw, values, body, depth))
    if not text:
        return None
    return Line(name, text, _operands(text, values))


def _body(
    draw: Draw, values: list[Value], own: Sequence[Value], like: Value | None, depth: int
) -> str | None:
    """An expression of one to three steps over ``values``, of the shape and dtype of ``like``; it uses ``own``."""
    if depth > MAX_DEPTH:
        return None
    text, last = own[0].name, own[0]
    for _ in range(draw(st.integers(1, 3))):
        name = f"t{depth}"
        pool = [*values, Value(name, last.shape, last.dtype)] if text != own[0].name else list(values)
        line = _extend(draw, pool, name, depth)
        if line is None:
            continue
        made = _result(line, pool)
        if made is None or (name not in line.operands and not any(v.name in line.operands for v in own)):
            continue
        text = f"(lambda {name}: {line.text})({text})" if name in line.operands else line.text
        last = made
    if like is not None and (last.shape != like.shape or last.dtype != like.dtype):
        if last.kind == "c":
            return None
        text = f"jnp.broadcast_to(jnp.sum({text}), {like.name}.shape).astype({like.name}.dtype)"
    return text


@st.composite
def programs(draw: Any, x64: bool = False) -> Program:
    """Programs of one to three inputs and two to eight lines; ``x64`` where JAX computes in 64 bits."""
    dtypes = (*WEIGHTED, *WIDE) if x64 else WEIGHTED
    batch = draw(st.sampled_from([None, None, "B"]))
    inputs = []
    for _ in range(draw(st.integers(1, 3))):
        shape = draw(st.lists(st.sampled_from([2, 3, 3, 4, 1, 5, 0]), max_size=3))
        inputs.append((tuple(shape), draw(st.sampled_from(dtypes))))
    symbol = jax.export.symbolic_shape("B")[0] if batch else None
    values = [
        Value(f"v{i}", (symbol, *s[1:]) if batch and s else s, np.dtype(getattr(ml_dtypes, d, d)))
        for i, (s, d) in enumerate(inputs)
    ]
    lines: list[Line] = []
    wanted = draw(st.integers(2, 8))
    for _ in range(3 * wanted):
        if len(lines) == wanted:
            break
        line = _extend(draw, values, f"v{len(values)}", 0)
        if line is None or not line.operands:
            continue
        made = _result(line, values)
        if made is not None:
            lines.append(line)
            values.append(made)
    if not lines:
        lines.append(Line(f"v{len(values)}", "v0 * 1", ("v0",)))
    return Program(tuple(inputs), tuple(lines), batch, draw(st.integers(0, 2**16)), draw(st.booleans()), x64)
