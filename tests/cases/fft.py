"""Fourier transforms: products with matrices, ONNX's operator, factors and chirps."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.signal as signal
import numpy as np
from jax.scipy.fft import dct, dctn, idct, idctn

from tests.cases.case import Case, f32
from tests.cases.complex import c64

LENGTHS = (1, 2, 3, 8, 30, 97, 128, 256, 300, 509, 1024, 1042, 1009)


def _long(n: int) -> list[Case]:
    x, z = f32(3, n), c64(3, n)
    rows = [
        Case(f"fft_{n}", jnp.fft.fft, [z], atol=2e-6 * n**0.5),
        Case(f"ifft_{n}", jnp.fft.ifft, [z], atol=2e-6 / n**0.5),
        Case(f"rfft_{n}", jnp.fft.rfft, [x], atol=2e-6 * n**0.5),
    ]
    half = c64(3, n // 2 + 1)
    return [*rows, Case(f"irfft_{n}", lambda y: jnp.fft.irfft(y, n), [half], atol=2e-6 / n**0.5)]


def _all_axes(x: Any) -> Any:
    z = x + 1j * jnp.flip(x)
    return (
        jnp.fft.fft2(z), jnp.fft.ifftn(z), jnp.fft.rfftn(x), jnp.fft.rfft2(x), jnp.fft.irfft2(z),
        jnp.fft.irfftn(z), jnp.fft.fft(z, axis=0), jnp.fft.fftshift(jnp.fft.fft2(x)),
    )  # fmt: skip


DOUBLE = c64(2, 300).astype(np.complex128)

CASES = [
    *(case for n in LENGTHS for case in _long(n)),
    Case("axes", _all_axes, [f32(3, 4, 5, 6)], atol=1e-5),
    Case("double", lambda z: (jnp.fft.fft(z), jnp.fft.irfft(z), jnp.fft.fft(z[:, :256])), [DOUBLE], x64=True),
    Case("long_double", jnp.fft.fft, [c64(1009).astype(np.complex128)], x64=True, rtol=1e-9, atol=1e-10),
    Case("empty", lambda z: (jnp.fft.fft(z), jnp.fft.irfft(z)), [c64(0, 4)]),
    Case("batch", lambda z: (jnp.fft.fft2(z), jnp.fft.ifft(z)), [c64(3, 2, 8, 6)], atol=1e-5,
         spec=[jax.ShapeDtypeStruct(jax.export.symbolic_shape("b, t, 8, 6"), np.complex64)],
         also=[[c64(1, 5, 8, 6)]]),
    Case("opset_17", lambda x: (jnp.fft.rfft(x), jnp.fft.fft(x)), [f32(2, 512)], options={"opset": 17}, atol=4e-5),
    Case("of_reals", jnp.fft.fft, [f32(8)], ops=["MatMul", "!Concat"]),
    Case("there_and_back", lambda x: jnp.fft.irfft(jnp.fft.rfft(x)), [f32(4, 10)]),
    Case("spectrum", lambda x: jnp.abs(jnp.fft.fft2(x)), [f32(2, 6, 8)], atol=1e-5),
    Case("welch", lambda x: signal.welch(x, nperseg=32), [f32(128)]),
    Case("stft", lambda x: signal.stft(x, nperseg=32)[2], [f32(2, 128)], spec=[("b", 128)]),
    Case("istft", lambda z: signal.istft(z, nperseg=32)[1], [c64(2, 17, 9)], atol=1e-5),
    Case("fftconvolve", lambda x, y: signal.fftconvolve(x, y), [f32(64), f32(9)], atol=1e-5),
    Case("cosine", lambda x: (dct(x), dct(x, axis=0, norm="ortho"), dct(x, n=6), dctn(x)), [f32(5, 8)], atol=1e-5,
         ops=["!Where", "!Cos"]),
    Case("cosine_back", lambda x: (idct(x), idct(x, axis=0, norm="ortho"), idctn(x)), [f32(5, 8)], atol=1e-5),
    Case("cosine_double", lambda x: (dct(x), idct(x)), [f32(5, 8).astype(np.float64)], x64=True),
    Case("gradient", jax.grad(lambda x: jnp.abs(jnp.fft.rfft(x)).sum()), [f32(10)]),
]  # fmt: skip
