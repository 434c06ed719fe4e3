"""Elementary functions of float64 that have no kernel, from those that have: Exp, Log, Sin, Cos, Tanh, Sqrt.

Errors are a few units in the last place, relative, over the whole range; signs of zero, infinities and NaN
follow the function.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import onnx_ir as ir

from onnxproof.passes.legalize_emit import DType, Emitter


class F:
    """A value in a formula: Python's operators emit ONNX's."""

    __slots__ = ("e", "value")

    def __init__(self, e: Emitter, value: ir.Value) -> None:
        self.e = e
        self.value = value

    def op(self, name: str, *others: F | float) -> F:
        return F(self.e, self.e.op(name, self.value, *(self.lift(o).value for o in others)))

    def lift(self, other: F | float) -> F:
        return other if isinstance(other, F) else F(self.e, self.e.like(other, self.value))

    def __add__(self, other: F | float) -> F:
        return self.op("Add", other)

    def __radd__(self, other: float) -> F:
        return self.lift(other) + self

    def __sub__(self, other: F | float) -> F:
        return self.op("Sub", other)

    def __rsub__(self, other: float) -> F:
        return self.lift(other) - self

    def __mul__(self, other: F | float) -> F:
        return self.op("Mul", other)

    def __rmul__(self, other: float) -> F:
        return self.lift(other) * self

    def __truediv__(self, other: F | float) -> F:
        return self.op("Div", other)

    def __rtruediv__(self, other: float) -> F:
        return self.lift(other) / self

    def __neg__(self) -> F:
        return self.op("Neg")

    def __lt__(self, other: F | float) -> F:
        return self.op("Less", other)

    def __gt__(self, other: F | float) -> F:
        return self.op("Greater", other)


def where(condition: F, a: F | float, b: F) -> F:
    return F(b.e, b.e.op("Where", condition.value, b.lift(a).value, b.value))


def polynomial(x: F, coefficients: Sequence[float]) -> F:
    """Horner's rule, the highest power first."""
    result = x * coefficients[0] + coefficients[1]
    for c in coefficients[2:]:
        result = result * x + c
    return result


def odd(x: F, of_magnitude: Callable[[F], F]) -> F:
    """An odd function that is the identity near zero, from its values on ``|x|``."""
    magnitude = x.op("Abs")
    return where(magnitude < 1e-9, x, x.op("Sign") * of_magnitude(magnitude))


def expm1(x: F) -> F:
    """``tanh(x/2) (exp(x) + 1)``."""
    return (x * 0.5).op("Tanh") * (x.op("Exp") + 1.0)


def log1p(x: F) -> F:
    """Kahan's form: what rounding ``1 + x`` took away is put back as a factor."""
    u = (1.0 + x).op("Min", 1.7976931348623157e308)
    lost = u - 1.0
    return where(lost.op("Equal", 0.0), x, u.op("Log") * (x / lost))


def tan(x: F) -> F:
    return x.op("Sin") / x.op("Cos")


def cosh(x: F) -> F:
    half = (x.op("Abs") * 0.5).op("Exp")
    return (half * 0.5) * half + (0.5 / half) / half


def sinh(x: F) -> F:
    return x.op("Tanh") * cosh(x)


def asinh(x: F) -> F:
    def of(a: F) -> F:
        square = a * a
        small = log1p(a + square / (1.0 + (1.0 + square).op("Sqrt")))
        return where(a > 2.0**28, a.op("Log") + math.log(2.0), small)

    return odd(x, of)


def acosh(x: F) -> F:
    t = x - 1.0
    small = log1p(t + (t * (t + 2.0)).op("Sqrt"))
    return where(x < 1.0, math.nan, where(x > 2.0**28, x.op("Log") + math.log(2.0), small))


def atanh(x: F) -> F:
    return odd(x, lambda a: 0.5 * log1p((2.0 * a) / (1.0 - a)))


def atan(x: F) -> F:
    """The float32 kernel's answer, corrected by the angle between it and the exact one.

    With ``y`` near ``atan(x)``, ``atan(x) - y`` is the arctangent of ``(x cos y - sin y) / (cos y +
    x sin y)``, which is about 1e-7: there the arctangent is the identity to working precision.
    """
    x = x.op("Max", -1e300).op("Min", 1e300)  # so that infinities are corrected too
    single = x.e.op("Atan", x.e.cast(x.value, DType.FLOAT))
    y = F(x.e, x.e.cast(single, DType.DOUBLE))
    sine, cosine = y.op("Sin"), y.op("Cos")
    return y + (x * cosine - sine) / (cosine + x * sine)


def asin(x: F) -> F:
    return 2.0 * atan(x / (1.0 + ((1.0 - x) * (1.0 + x)).op("Sqrt")))


def acos(x: F) -> F:
    return 2.0 * atan(((1.0 - x) / (1.0 + x)).op("Sqrt"))


# Rational approximations of erf on [0, 1], and of erfc(x) exp(x^2) on [1, 8] and on [8, inf): Cephes Math
# Library, ndtr.c (S. L. Moshier, 1988), relative error about 4e-16 in double precision.
_ERF_P = (
    9.60497373987051638749e0, 9.00260197203842689217e1, 2.23200534594684319226e3, 7.00332514112805075473e3,
    5.55923013010394962768e4,
)  # fmt: skip
_ERF_Q = (
    1.0, 3.35617141647503099647e1, 5.21357949780152679795e2, 4.59432382970980127987e3,
    2.26290000613890934246e4, 4.92673942608635921086e4,
)  # fmt: skip
_ERFC_P = (
    2.46196981473530512524e-10, 5.64189564831068821977e-1, 7.46321056442269912687e0, 4.86371970985681366614e1,
    1.96520832956077098242e2, 5.26445194995477358631e2, 9.34528527171957607540e2, 1.02755188689515710272e3,
    5.57535335369399327526e2,
)  # fmt: skip
_ERFC_Q = (
    1.0, 1.32281951154744992508e1, 8.67072140885989742329e1, 3.54937778887819891062e2,
    9.75708501743205489753e2, 1.82390916687909736289e3, 2.24633760818710981792e3, 1.65666309194161350182e3,
    5.57535340817727675546e2,
)  # fmt: skip
_ERFC_R = (
    5.64189583547755073984e-1, 1.27536670759978104416e0, 5.01905042251180477414e0, 6.16021097993053585195e0,
    7.40974269950448939160e0, 2.97886665372100240670e0,
)  # fmt: skip
_ERFC_S = (
    1.0, 2.26052863220117276590e0, 9.39603524938001434673e0, 1.20489539808096656605e1,
    1.70814450747565897222e1, 9.60896809063285878198e0, 3.36907645100081516050e0,
)  # fmt: skip


def _erf_centre(x: F) -> F:
    square = x * x
    return x * (polynomial(square, _ERF_P) / polynomial(square, _ERF_Q))


def _erfc_middle(a: F) -> F:
    """erfc on [1, 8]; beyond, where it is below 1e-29, a value as negligible next to 1."""
    a = a.op("Min", 27.5)
    return (-(a * a)).op("Exp") * (polynomial(a, _ERFC_P) / polynomial(a, _ERFC_Q))


def _erfc_tail(a: F) -> F:
    """erfc for a >= 1; beyond 27.5 it is below the smallest double."""
    a = a.op("Min", 27.5)
    middle = polynomial(a, _ERFC_P) / polynomial(a, _ERFC_Q)
    far = polynomial(a, _ERFC_R) / polynomial(a, _ERFC_S)
    return (-(a * a)).op("Exp") * where(a < 8.0, middle, far)


def erf(x: F) -> F:
    a = x.op("Abs")
    outside = x.op("Sign") * (1.0 - _erfc_middle(a))
    return where(a < 1.0, _erf_centre(x), outside)


def erfc(x: F) -> F:
    a = x.op("Abs")
    tail = _erfc_tail(a)
    outside = where(x < 0.0, 2.0 - tail, tail)
    return where(a < 1.0, 1.0 - _erf_centre(x), outside)


def gelu(x: F) -> F:
    if x.e.attr("approximate", "none") == "tanh":
        inner = math.sqrt(2.0 / math.pi) * (x + 0.044715 * (x * x * x))
        return (0.5 * x) * (1.0 + inner.op("Tanh"))
    return (0.5 * x) * erfc(x * -math.sqrt(0.5))


def softplus(x: F) -> F:
    return x.op("Max", 0.0) + log1p((-x.op("Abs")).op("Exp"))


def softsign(x: F) -> F:
    return x / (1.0 + x.op("Abs"))


def elu(x: F) -> F:
    return where(x > 0.0, x, expm1(x.op("Min", 0.0)) * x.e.attr("alpha", 1.0))


def celu(x: F) -> F:
    alpha = x.e.attr("alpha", 1.0)
    return where(x > 0.0, x, expm1(x.op("Min", 0.0) / alpha) * alpha)


def selu(x: F) -> F:
    alpha: float = x.e.attr("alpha", 1.67326319217681884765625)
    gamma: float = x.e.attr("gamma", 1.05070102214813232421875)
    negative = expm1(x.op("Min", 0.0)) * alpha
    return where(x > 0.0, x, negative) * gamma


def leaky_relu(x: F) -> F:
    alpha: float = x.e.attr("alpha", 0.01)
    return where(x < 0.0, x * alpha, x)


def hard_sigmoid(x: F) -> F:
    return _hard_sigmoid(x, x.e.attr("alpha", 0.2), x.e.attr("beta", 0.5))


def hard_swish(x: F) -> F:
    return x * _hard_sigmoid(x, 1.0 / 6.0, 0.5)


def _hard_sigmoid(x: F, alpha: float, beta: float) -> F:
    return (x * alpha + beta).op("Max", 0.0).op("Min", 1.0)


def mish(x: F) -> F:
    return x * softplus(x).op("Tanh")


def thresholded_relu(x: F) -> F:
    return where(x > x.e.attr("alpha", 1.0), x, x * 0.0)


def prelu(e: Emitter) -> ir.Value:
    x, slope = (F(e, v) for v in e.node.inputs if v is not None)
    return where(x < 0.0, x * slope, x).value


def mean(e: Emitter) -> ir.Value:
    first, *rest = (F(e, v) for v in e.node.inputs if v is not None)
    total = first
    for value in rest:
        total = total + value
    return (total / float(len(rest) + 1)).value


def _unary(function: Callable[[F], F]) -> Callable[[Emitter], ir.Value]:
    def expand(e: Emitter) -> ir.Value:
        (x,) = e.node.inputs
        assert x is not None
        return function(F(e, x)).value

    return expand


_UNARY = {
    "Acos": acos, "Acosh": acosh, "Asin": asin, "Asinh": asinh, "Atan": atan, "Atanh": atanh, "Celu": celu,
    "Cosh": cosh, "Elu": elu, "Erf": erf, "Gelu": gelu, "HardSigmoid": hard_sigmoid, "HardSwish": hard_swish,
    "LeakyRelu": leaky_relu, "Mish": mish, "Selu": selu, "Sinh": sinh, "Softplus": softplus,
    "Softsign": softsign, "Tan": tan, "ThresholdedRelu": thresholded_relu,
}  # fmt: skip

EXPANSIONS: Mapping[tuple[str, DType | None], Callable[[Emitter], ir.Value | None]] = {
    **{(op, DType.DOUBLE): _unary(function) for op, function in _UNARY.items()},
    ("Mean", DType.DOUBLE): mean,
    **{("PRelu", d): prelu for d in (DType.DOUBLE, DType.INT32, DType.INT64, DType.UINT32, DType.UINT64)},
}
