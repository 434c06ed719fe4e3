"""The expressions that random programs are made of, as text: what fails is printed ready to paste.

A template draws its operands from the values at hand and returns an expression, or None where no value fits.
Whether the expression holds at the operands' shapes is JAX's to say: see :mod:`tests.fuzz.programs`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

Draw = Callable[[st.SearchStrategy[Any]], Any]
FLOATS = ("float32", "float16", "bfloat16")
INTS = ("int32", "int8", "int16", "uint8", "uint16", "uint32")
DTYPES = (*FLOATS, *INTS, "bool")
WEIGHTED = (
    ("float32",) * 6
    + ("int32",) * 3
    + ("float16", "bfloat16", "int8", "int16", "uint8", "uint16", "uint32", "bool")
)
WIDE = ("float64",) * 8 + ("int64",) * 4 + ("uint64",)

UNARY = {
    "f": (
        "jnp.exp jnp.exp2 jnp.log jnp.log2 jnp.log1p jnp.expm1 jnp.sin jnp.cos jnp.tan jnp.tanh jnp.sinh jnp.cosh "
        "jnp.arcsin jnp.arccos jnp.arctan jnp.arcsinh jnp.arccosh jnp.arctanh jnp.sqrt lax.rsqrt jnp.cbrt lax.erf "
        "lax.erfc lax.erf_inv jax.nn.sigmoid jax.nn.relu jax.nn.gelu jax.nn.silu jax.nn.softplus jax.nn.elu "
        "jax.nn.log_sigmoid jax.nn.relu6 jax.nn.hard_swish jnp.floor jnp.ceil jnp.round jnp.trunc jnp.sign jnp.abs "
        "jnp.negative jnp.square jnp.reciprocal jnp.isfinite jnp.isnan jnp.isinf jnp.signbit jnp.sinc jnp.deg2rad"
    ).split(),
    "i": "jnp.negative jnp.abs jnp.sign jnp.invert jnp.square lax.population_count lax.clz".split(),
    "b": ["jnp.invert"],
    "c": (
        "jnp.exp jnp.sin jnp.sqrt jnp.log jnp.conj jnp.real jnp.imag jnp.abs jnp.negative jnp.square jnp.angle"
    ).split(),
}
BINARY = {
    "f": (
        "jnp.add jnp.subtract jnp.multiply jnp.divide jnp.floor_divide jnp.remainder lax.rem jnp.power jnp.maximum "
        "jnp.minimum jnp.arctan2 jnp.hypot jnp.logaddexp jnp.nextafter jnp.equal jnp.not_equal jnp.less "
        "jnp.less_equal jnp.greater jnp.copysign jnp.heaviside jnp.fmax jnp.fmin"
    ).split(),
    "i": (
        "jnp.add jnp.subtract jnp.multiply jnp.floor_divide jnp.remainder lax.div lax.rem jnp.maximum jnp.minimum "
        "jnp.bitwise_and jnp.bitwise_or jnp.bitwise_xor jnp.left_shift jnp.right_shift lax.shift_right_logical "
        "jnp.equal jnp.less jnp.greater_equal jnp.divide jnp.gcd"
    ).split(),
    "b": "jnp.logical_and jnp.logical_or jnp.logical_xor jnp.equal".split(),
    "c": "jnp.add jnp.subtract jnp.multiply jnp.divide jnp.equal".split(),
}
REDUCE = {
    "f": (
        "jnp.sum jnp.prod jnp.max jnp.min jnp.mean jnp.argmax jnp.argmin jnp.var jax.nn.logsumexp jnp.nansum jnp.any"
    ).split(),
    "i": "jnp.sum jnp.prod jnp.max jnp.min jnp.argmax jnp.argmin jnp.any jnp.all".split(),
    "b": "jnp.any jnp.all jnp.sum jnp.argmax".split(),
    "c": "jnp.sum jnp.prod jnp.mean".split(),
}
ALONG = {
    "f": (
        "jnp.cumsum jnp.cumprod jnp.sort jnp.argsort jnp.flip jax.nn.softmax jax.nn.log_softmax jnp.diff "
        "lax.cummax lax.cummin lax.cumlogsumexp jax.nn.standardize"
    ).split(),
    "i": "jnp.cumsum jnp.cumprod jnp.sort jnp.argsort jnp.flip jnp.diff lax.cummax lax.cummin".split(),
    "b": "jnp.flip jnp.sort jnp.cumsum".split(),
    "c": "jnp.cumsum jnp.flip".split(),
}
# Where the error of a result is measured against: the operands' size, since terms may cancel.
SUMS = (
    "sum",
    "mean",
    "var",
    "dot",
    "einsum",
    "matmul",
    "conv",
    "fft",
    "segment",
    "add",
    "subtract",
    "standardize",
    "diff",
    "grad",
    "scan",
    "fori",
    "while",
    "logsumexp",
    "associative",
)


@dataclass(frozen=True)
class Value:
    """A value of the program: its name in the text and its abstract value."""

    name: str
    shape: tuple[Any, ...]
    dtype: np.dtype[Any]

    @property
    def kind(self) -> str:
        """``f``, ``i``, ``b`` or ``c``."""
        kind = self.dtype.kind
        return {"u": "i", "V": "f"}.get(kind, kind)


@dataclass
class Pool:
    """What a template draws from; ``depth`` is how many bodies are around it."""

    draw: Draw
    values: Sequence[Value]
    body: Callable[[Sequence[Value], Value | None], str | None]
    depth: int = 0

    def own(self, letter: str, shape: tuple[Any, ...], dtype: np.dtype[Any]) -> Value:
        """An argument of a body; bodies within bodies have names of their own."""
        return Value(f"{letter}{self.depth}", shape, dtype)

    def pick(self, fits: Callable[[Value], bool] = lambda v: True) -> Value | None:
        found = [v for v in self.values if fits(v)]
        # The newest values first: long chains find more than wide programs.
        return self.draw(st.sampled_from(found[::-1])) if found else None

    def one(self, choices: Sequence[Any]) -> Any:
        return self.draw(st.sampled_from(list(choices)))

    def integer(self, low: int, high: int) -> int:
        return int(self.draw(st.integers(low, high)))

    def axis(self, v: Value) -> int:
        return self.integer(-len(v.shape), len(v.shape) - 1)

    def like(self, v: Value) -> str:
        """An operand that broadcasts against ``v``: another value, a slice of it, or a number."""
        same = [w for w in self.values if w.dtype == v.dtype and _broadcasts(w.shape, v.shape)]
        options = [w.name for w in same]
        if v.shape:
            options.append(
                f"{v.name}.max({self.axis(v)}, keepdims=True)"
                if v.kind in "fi" and 0 not in v.shape
                else v.name
            )
        options.append(f"jnp.asarray({self.number(v.kind)}, '{v.dtype.name}')")
        return str(self.one(options))

    def number(self, kind: str) -> str:
        if kind == "f":
            return str(self.one(["0.5", "2", "-1.5", "0.", "-0.", "jnp.inf", "jnp.nan", "1e-3", "3"]))
        if kind == "b":
            return str(self.one(["True", "False"]))
        return str(self.one(["1", "2", "3", "0", "7", "31"]))


def _broadcasts(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    return all(x == y or x == 1 or y == 1 for x, y in zip(a[::-1], b[::-1], strict=False))


def has_rank(low: int, kinds: str = "fib") -> Callable[[Value], bool]:
    return lambda v: len(v.shape) >= low and v.kind in kinds


def unary(p: Pool) -> str | None:
    v = p.pick()
    return v and f"{p.one(UNARY[v.kind])}({v.name})"


def binary(p: Pool) -> str | None:
    v = p.pick()
    if v is None:
        return None
    pair = [v.name, p.like(v)]
    a, b = pair if p.integer(0, 1) else pair[::-1]
    return f"{p.one(BINARY[v.kind])}({a}, {b})"


def select(p: Pool) -> str | None:
    v = p.pick()
    if v is None:
        return None
    cond = p.pick(lambda w: w.kind == "b" and _broadcasts(w.shape, v.shape))
    test = cond.name if cond is not None else f"{v.name} {p.one(['==', '!='])} {p.like(v)}"
    return f"jnp.where({test}, {v.name}, {p.like(v)})"


def clamp(p: Pool) -> str | None:
    v = p.pick(has_rank(0, "fi"))
    return v and f"jnp.clip({v.name}, {p.like(v)}, {p.like(v)})"


def cast(p: Pool) -> str | None:
    v = p.pick()
    if v is None:
        return None
    dtype = p.one(DTYPES)
    how = p.integer(0, 5)
    if how == 0 and v.kind in "fi" and v.dtype.itemsize == np.dtype("float32").itemsize:
        # The sign bits of NaN, and of zeros from where, are known limits.
        bits = v.name if v.kind == "i" else f"jnp.abs(jnp.where(jnp.isnan({v.name}), 0, {v.name}))"
        return (
            f"lax.bitcast_convert_type({bits}, '{p.one(['int32', 'uint32', 'float32', 'int8', 'uint16'])}')"
        )
    if how == 1 and v.kind == "f":
        return f"lax.reduce_precision({v.name}, {p.integer(2, 8)}, {p.integer(1, 23)})"
    if v.kind == "c":
        return f"{v.name}.real"
    return f"{v.name}.astype('{dtype}')"


def make_complex(p: Pool) -> str | None:
    v = p.pick(lambda w: w.dtype == np.float32)
    return v and f"lax.complex({v.name}, jnp.broadcast_to({p.like(v)}, {v.name}.shape))"


def fft(p: Pool) -> str | None:
    v = p.pick(lambda w: (w.dtype == np.float32 or w.kind == "c") and len(w.shape) > 0)
    if v is None:
        return None
    names = ["fft", "ifft", "irfft"] if v.kind == "c" else ["fft", "rfft"]
    # A transform of infinite numbers depends on how it is computed.
    return f"jnp.fft.{p.one(names)}(jnp.where(jnp.isfinite({v.name}), {v.name}, 1))"


def reduction(p: Pool) -> str | None:
    v = p.pick(has_rank(1, "fibc"))
    if v is None:
        return None
    axis = p.one([None, p.axis(v)])
    return f"{p.one(REDUCE[v.kind])}({v.name}, axis={axis}{p.one(['', ', keepdims=True'])})"


def along(p: Pool) -> str | None:
    v = p.pick(has_rank(1, "fibc"))
    if v is None:
        return None
    name = p.one(ALONG[v.kind])
    axis = p.integer(0, len(v.shape) - 1)
    reverse = p.one(["", ", reverse=True"]) if name.startswith("lax.cum") else ""
    return f"{name}({v.name}, axis={axis}{reverse})"


def top_k(p: Pool) -> str | None:
    v = p.pick(has_rank(1, "fi"))
    if v is None:
        return None
    # The sign of NaN, which lax.top_k orders by, no operator of ONNX sees: docs/limits.md.
    operand = f"jnp.where(jnp.isnan({v.name}), 0, {v.name})" if v.kind == "f" else v.name
    return f"lax.top_k({operand}, {p.integer(0, 3)})[{p.integer(0, 1)}]"


def layout(p: Pool) -> str | None:
    v = p.pick()
    if v is None:
        return None
    rank = len(v.shape)
    if rank == 0:
        return str(
            p.one(
                [
                    f"{v.name}[None]",
                    f"jnp.broadcast_to({v.name}, (2, {p.integer(0, 3)}))",
                    f"jnp.full((3,), {v.name})",
                ]
            )
        )
    a, b = p.axis(v), p.axis(v)
    n, m, k = p.integer(-3, 3), p.integer(0, 2), p.integer(-1, 2)
    mode = p.one(["constant", "edge", "reflect", "wrap", "symmetric"])
    return str(
        p.one(
            [
                f"jnp.swapaxes({v.name}, {a}, {b})",
                f"{v.name}.T",
                f"{v.name}.reshape(-1)",
                f"{v.name}.reshape({v.name}.shape[0], -1)",
                f"{v.name}.reshape(1, *{v.name}.shape)",
                f"jnp.expand_dims({v.name}, {a})",
                f"jnp.squeeze({v.name})",
                f"jnp.concatenate([{v.name}, {v.name}], {a})",
                f"jnp.stack([{v.name}, {v.name}], {a})",
                f"jnp.roll({v.name}, {n}, {a})",
                f"jnp.tile({v.name}, {p.integer(0, 3)})",
                f"jnp.repeat({v.name}, {p.integer(0, 3)}, axis={a})",
                f"jnp.pad({v.name}, {m}, mode='{mode}')",
                f"lax.pad({v.name}, jnp.zeros((), {v.name}.dtype), [({n}, {k}, {m})] * {rank})",
                f"jnp.flip({v.name})",
                f"jnp.moveaxis({v.name}, {a}, {b})",
                f"jnp.tril({v.name}, {n})",
                f"jnp.rot90({v.name})",
                f"jnp.diagonal({v.name})",
                f"jnp.broadcast_to({v.name}, (2, *{v.name}.shape))",
            ]
        )
    )


def sliced(p: Pool) -> str | None:
    v = p.pick(has_rank(1, "fibc"))
    if v is None:
        return None
    bound = [None, 0, 1, 2, -1, -2, 5]
    start, stop, step = p.one(bound), p.one(bound), p.one([None, 1, 2, 3, -1, -2])
    text = ":".join("" if x is None else str(x) for x in (start, stop, step))
    return f"{v.name}[{p.one(['', '..., '])}{text}]"


def _indices(p: Pool) -> str:
    v = p.pick(lambda w: w.kind == "i" and len(w.shape) < 3)
    fixed = p.one(["[0, 1]", "[-1, 0, 5]", "[[0], [1]]", "2", "-9", "[1, 1, 1]"])
    return str(p.one([v.name, f"jnp.asarray({fixed})"] if v is not None else [f"jnp.asarray({fixed})"]))


def gathered(p: Pool) -> str | None:
    v = p.pick(has_rank(1, "fibc"))
    if v is None:
        return None
    at, axis = _indices(p), p.axis(v)
    return str(
        p.one(
            [
                f"{v.name}[{at}]",
                f"{v.name}[..., {at}]",
                f"{v.name}.at[{at}].get(mode='{p.one(['clip', 'fill'])}')",
                f"jnp.take({v.name}, {at}, axis={axis}, mode='{p.one(['clip', 'fill', 'wrap'])}')",
                f"jnp.take_along_axis({v.name}, jnp.argsort({v.name}, axis={axis}), axis={axis})"
                if v.kind != "c"
                else v.name,
                f"lax.dynamic_slice_in_dim({v.name}, {p.integer(-2, 5)} + jnp.sum({at}), 1, {axis % len(v.shape)})",
                f"lax.dynamic_index_in_dim({v.name}, jnp.max({at}), {axis % len(v.shape)}, keepdims=False)",
            ]
        )
    )


def scattered(p: Pool) -> str | None:
    v = p.pick(has_rank(1, "fib"))
    if v is None:
        return None
    at = _indices(p)
    how = p.one(["set", "add", "min", "max", "multiply"] if v.kind != "b" else ["set", "max"])
    mode = p.one(["drop", "clip"])
    where = p.one([at, f"..., {at}", f":, {at}", f"{at}, 0"])
    number = f"jnp.asarray({p.number(v.kind)}, {v.name}.dtype)"
    return f"{v.name}.at[{where}].{how}({p.one([p.like(v), number])}, mode='{mode}')"


def updated(p: Pool) -> str | None:
    v = p.pick(has_rank(1, "fibc"))
    return (
        v
        and f"lax.dynamic_update_slice_in_dim({v.name}, {v.name}[:1], {_indices(p)}.sum() {p.one(['', '* -1'])}, 0)"
    )


def contracted(p: Pool) -> str | None:
    v = p.pick(has_rank(1, "fic"))
    if v is None:
        return None
    other = p.pick(lambda w: w.dtype == v.dtype and len(w.shape) >= 1)
    w = other or v
    return str(
        p.one(
            [
                f"jnp.dot({v.name}, {w.name})",
                f"jnp.matmul({v.name}, {w.name})",
                f"jnp.matmul({v.name}, jnp.swapaxes({v.name}, -1, -2))",
                f"jnp.tensordot({v.name}, {v.name}, {p.integer(0, len(v.shape))})",
                f"jnp.einsum('...i,...i->...', {v.name}, {v.name})",
                f"jnp.einsum('i...,j...->ij...', {v.name}, {w.name})",
                f"jnp.outer({v.name}, {w.name})",
                f"jnp.einsum('ab,cb->ac', {v.name}, {w.name})",
                f"jnp.einsum('abc,abd->acd', {v.name}, {w.name})",
            ]
        )
    )


def windowed(p: Pool) -> str | None:
    v = p.pick(has_rank(1, "fi"))
    if v is None:
        return None
    rank = len(v.shape)
    name, start = p.one([("lax.add", "0"), ("lax.max", "MIN"), ("lax.min", "MAX"), ("lax.mul", "1")])
    if start in ("MIN", "MAX"):
        info = "jnp.finfo" if v.kind == "f" else "jnp.iinfo"
        start = (
            f"{'-' if start == 'MIN' else ''}jnp.inf"
            if v.kind == "f"
            else f"{info}({v.name}.dtype).{start.lower()}"
        )
    window, stride, dilation = (f"({p.integer(1, n)},) * {rank}" for n in (3, 2, 2))
    return (
        f"lax.reduce_window({v.name}, jnp.asarray({start}, {v.name}.dtype), {name}, {window}, {stride}, "
        f"'{p.one(['SAME', 'VALID'])}', window_dilation={dilation})"
    )


def convolved(p: Pool) -> str | None:
    v = p.pick(lambda w: len(w.shape) == 3 and w.kind == "f")
    if v is None:
        return None
    width, out = p.integer(1, 3), p.integer(1, 3)
    channels = f"{v.name}.shape[1]"
    numbers = f"jnp.arange(1., {width * out} * {channels} + 1)"
    kernel = f"{numbers}.reshape({out}, {channels}, {width}).astype({v.name}.dtype)"
    return (
        f"lax.conv_general_dilated({v.name}, {kernel}, ({p.integer(1, 2)},), '{p.one(['SAME', 'VALID'])}', "
        f"lhs_dilation=({p.integer(1, 2)},), rhs_dilation=({p.integer(1, 2)},))"
    )


def segments(p: Pool) -> str | None:
    v = p.pick(has_rank(1, "fi"))
    return (
        v
        and f"jax.ops.segment_{p.one(['sum', 'max', 'min', 'prod'])}({v.name}, jnp.arange({v.name}.shape[0]) % 2, 3)"
    )


def scanned(p: Pool) -> str | None:
    xs = p.pick(has_rank(1, "fib"))
    carry = p.pick(has_rank(0, "fib"))
    if xs is None or carry is None:
        return None
    x, c = p.own("x", xs.shape[1:], xs.dtype), p.own("c", carry.shape, carry.dtype)
    body = p.body([c, x], c)
    if body is None:
        return None
    out = p.one([x.name, c.name])
    reverse, which = bool(p.integer(0, 1)), p.integer(0, 1)
    head = f"lambda {c.name}, {x.name}: ({body}, {out})"
    return f"lax.scan({head}, {carry.name}, {xs.name}, reverse={reverse})[{which}]"


def looped(p: Pool) -> str | None:
    v = p.pick(has_rank(0, "fib"))
    if v is None:
        return None
    c, i = p.own("c", v.shape, v.dtype), p.own("i", (), np.dtype("int32"))
    body = p.body([c, i], c)
    if body is None:
        return None
    limit, head = p.integer(0, 4), f"lambda {i.name}, {c.name}"
    if p.integer(0, 1):
        return f"lax.fori_loop(0, {limit}, {head}: {body}, {v.name})"
    step = f"lambda s: ({head}: ({i.name} + 1, {body}))(*s)"
    return f"lax.while_loop(lambda s: s[0] < {limit}, {step}, (0, {v.name}))[1]"


def branched(p: Pool) -> str | None:
    v = p.pick()
    if v is None:
        return None
    c = p.own("c", v.shape, v.dtype)
    one, two = p.body([c], c), p.body([c], c)
    if one is None or two is None:
        return None
    head = f"lambda {c.name}"
    test = p.pick(lambda w: w.kind in "bi" and w.shape == ())
    if test is not None and test.kind == "i":
        return f"lax.switch({test.name}, [{head}: {one}, {head}: {two}, {head}: {c.name}], {v.name})"
    flag = test.name if test is not None else f"{v.name}.sum().real > 0"
    return f"lax.cond({flag}, {head}: {one}, {head}: {two}, {v.name})"


def mapped(p: Pool) -> str | None:
    v = p.pick(has_rank(1, "fib"))
    if v is None:
        return None
    c = p.own("c", v.shape[1:], v.dtype)
    body = p.body([c], None)
    return body and f"jax.vmap(lambda {c.name}: {body}, out_axes={p.one([0, 0, -1])})({v.name})"


def differentiated(p: Pool) -> str | None:
    v = p.pick(lambda w: w.dtype == np.float32)
    if v is None:
        return None
    c = p.own("c", v.shape, v.dtype)
    body = p.body([c], None)
    if body is None:
        return None
    return str(
        p.one(
            [
                f"jax.grad(lambda {c.name}: jnp.sum(({body}).real.astype('float32')))({v.name})",
                f"jax.jvp(lambda {c.name}: {body}, ({v.name},), (jnp.ones_like({v.name}),))[1]",
            ]
        )
    )


def associated(p: Pool) -> str | None:
    v = p.pick(has_rank(1, "fi"))
    if v is None:
        return None
    how = p.one(["jnp.add", "jnp.maximum", "jnp.multiply", "lambda a, b: a + b * 2"])
    return f"lax.associative_scan({how}, {v.name}, reverse={bool(p.integer(0, 1))})"


def drawn(p: Pool) -> str | None:
    v = p.pick()
    name = p.one(["uniform", "normal", "bits", "exponential", "rademacher"])
    return (
        v and f"jax.random.{name}(jax.random.fold_in(jax.random.key({p.integer(0, 9)}), 3), {v.name}.shape)"
    )


SIMPLE = [
    unary,
    unary,
    unary,
    binary,
    binary,
    binary,
    select,
    clamp,
    cast,
    reduction,
    along,
    layout,
    layout,
    sliced,
]
MORE = [make_complex, fft, top_k, gathered, gathered, scattered, scattered, updated, contracted, contracted, windowed,
        convolved, segments, associated, drawn]  # fmt: skip
BODIES = [scanned, looped, branched, mapped, differentiated]
