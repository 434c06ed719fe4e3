"""Fit the polynomials of ``onnxproof/lowering/coefficients.py`` and write that file.

Each is the Chebyshev interpolant of a function computed with 50 digits, in powers of its variable.
Needs mpmath.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath as mp

OUT = Path(__file__).parents[1] / "src/onnxproof/lowering/coefficients.py"
HEAD = '''"""Polynomials of the special functions, the highest power first.

Written by ``scripts/fit_coefficients.py``. Each table says its function, variable and interval.
"""

'''


def fit(f: Callable[[Any], Any], degree: int, low: Any, high: Any) -> list[float]:
    """Coefficients in t, which runs over [-1, 1] as x runs over [low, high]; the highest power first."""
    n = degree + 1
    middle, half = (mp.mpf(high) + low) / 2, (mp.mpf(high) - low) / 2
    angles = [mp.pi * (k + mp.mpf(1) / 2) / n for k in range(n)]
    values = [f(middle + half * mp.cos(a)) for a in angles]
    chebyshev = [
        2 / mp.mpf(n) * mp.fsum(v * mp.cos(j * a) for v, a in zip(values, angles, strict=True))
        for j in range(n)
    ]
    chebyshev[0] /= 2
    previous, current = [mp.mpf(1)], [mp.mpf(0), mp.mpf(1)]
    total = [mp.mpf(0)] * n
    for c in chebyshev:
        for i, power in enumerate(previous):
            total[i] += c * power
        following = [mp.mpf(0), *(2 * p for p in current)]
        for i, power in enumerate(previous):
            following[i] -= power
        previous, current = current, following
    return [float(v) for v in reversed(total)]


def erf_near(s: Any) -> Any:
    return mp.erf(mp.sqrt(s)) / mp.sqrt(s)


def erfc_tail(v: Any) -> Any:
    a = 2 * (1 - v) / (1 + v)
    return mp.exp(a * a) * mp.erfc(a) * (1 + a / 2)


def bessel_near(order: int) -> Callable[[Any], Any]:
    return lambda x: mp.besseli(order, x) * mp.exp(-x) / x**order


def bessel_far(order: int) -> Callable[[Any], Any]:
    return lambda w: mp.sqrt(1 / w) * mp.besseli(order, 1 / w) * mp.exp(-1 / w)


def erf_inv_near(w: Any) -> Any:
    x = mp.sqrt(-mp.expm1(-w))
    return mp.erfinv(x) / x


def erf_inv_far(s: Any) -> Any:
    return erf_inv_near(s * s)


ROOT5 = mp.mpf(5) ** 0.5
TABLES: list[tuple[str, str, Callable[[Any], Any], Any, Any, int]] = [
    ("ERF_F64", "erf(x) / x in 2 x^2 - 1, |x| <= 1", erf_near, 0, 1, 12),
    ("ERFC_F32", "exp(a^2) erfc(a) (2 + a) / 2 in 5 / (2 + a) - 1, a >= 0.5",
     erfc_tail, -1, mp.mpf(6) / 10, 9),
    ("ERFC_F64", "the same", erfc_tail, -1, mp.mpf(6) / 10, 24),
    ("ERF_INV_F32", "erf_inv(x) / x in 0.4 w - 1, w = -log(1 - x^2) <= 5", erf_inv_near, 0, 5, 9),
    ("ERF_INV_F64", "the same", erf_inv_near, 0, 5, 21),
    ("ERF_INV_FAR_F32", "the same in the s = sqrt(w) of sqrt(5) .. 4.2, scaled to -1 .. 1",
     erf_inv_far, ROOT5, mp.mpf("4.2"), 9),
    ("ERF_INV_MIDDLE_F64", "the same in the s of sqrt(5) .. 4, scaled to -1 .. 1",
     erf_inv_far, ROOT5, 4, 21),
    ("ERF_INV_FAR_F64", "the same in the s of 4 .. 6.2, scaled to -1 .. 1",
     erf_inv_far, 4, mp.mpf("6.2"), 19),
    ("I0E_F32", "i0e(x) in x / 4 - 1, 0 <= x <= 8", bessel_near(0), 0, 8, 16),
    ("I0E_F64", "the same", bessel_near(0), 0, 8, 29),
    ("I0E_FAR_F32", "sqrt(x) i0e(x) in 16 / x - 1, x >= 8", bessel_far(0), 0, mp.mpf(1) / 8, 6),
    ("I0E_FAR_F64", "the same", bessel_far(0), 0, mp.mpf(1) / 8, 22),
    ("I1E_F32", "i1e(x) / x in x / 4 - 1, 0 <= x <= 8", bessel_near(1), 0, 8, 16),
    ("I1E_F64", "the same", bessel_near(1), 0, 8, 29),
    ("I1E_FAR_F32", "sqrt(x) i1e(x) in 16 / x - 1, x >= 8", bessel_far(1), 0, mp.mpf(1) / 8, 6),
    ("I1E_FAR_F64", "the same", bessel_far(1), 0, mp.mpf(1) / 8, 22),
]  # fmt: skip


def main() -> None:
    mp.mp.dps = 50
    lines = [HEAD.rstrip(), ""]
    for name, meaning, f, low, high, degree in TABLES:
        lines += ["", f"# {meaning}", f"{name} = ("]
        lines += [f"    {c!r}," for c in fit(f, degree, low, high)]
        lines += [")"]
    OUT.write_text("\n".join(lines).replace('"""\n\n\n#', '"""\n\n#') + "\n")


if __name__ == "__main__":
    main()
