"""Signals, images and the small modules of ``jax.scipy``."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax.scipy.spatial.transform import Rotation

from tests.cases.case import f32
from tests.sweep.call import V2, V, X, Y, array, c64, call

LONG = f32(2, 64)
IMAGE = f32(5, 7)
TAPS = f32(3, 2, seed=1)
GRID = (array(0, 1, 3), array(0, 1, 2, 4))
INSIDE = array([0.5, 1.5], [2.9, 0.1], [1.0, 3.9])
TURN = f32(3, 4)
TURNS = TURN / np.linalg.norm(TURN, axis=-1, keepdims=True)

CALLS = {
    "jax.scipy.signal": [
        (
            "convolve correlate fftconvolve",
            call(V, V2[:3]),
            call(IMAGE, TAPS, mode="same"),
            call(IMAGE, TAPS, mode="valid"),
        ),
        ("convolve correlate", call(V, V2[:3], method="fft")),
        (
            "convolve2d correlate2d",
            call(IMAGE, TAPS),
            call(IMAGE, TAPS, mode="same"),
            call(IMAGE, TAPS, mode="valid"),
        ),
        ("detrend", call(X), call(X, type="constant"), call(LONG, bp=(20,))),
        (
            "csd",
            call(LONG, LONG[::-1].copy(), nperseg=16),
            call(LONG, LONG[::-1].copy(), nperseg=32, scaling="spectrum"),
        ),
        (
            "welch",
            call(LONG, nperseg=16),
            call(LONG, fs=10.0, nperseg=32, average="median"),
            call(LONG, nperseg=16, detrend="linear"),
        ),
        ("stft", call(LONG, nperseg=16), call(LONG, nperseg=16, noverlap=4, window="hamming", boundary=None)),
        ("istft", call(c64(9, 9), nperseg=16), call(c64(2, 9, 7), nperseg=16, boundary=False)),
    ],
    "jax.scipy.ndimage": [
        (
            "map_coordinates",
            *(
                call(IMAGE, [f32(4, scale=2) + 2, f32(4, seed=1, scale=3) + 3], order, mode=mode)
                for order in (0, 1)
                for mode in ("constant", "nearest", "wrap", "mirror", "reflect")
            ),
        ),
    ],
    "jax.scipy.fft": [
        ("dct idct", call(X), call(X, axis=0, norm="ortho"), call(X, n=6)),
        ("dctn idctn", call(X), call(X, axes=(1,), norm="ortho")),
    ],
    "jax.scipy.cluster.vq": [("vq", call(f32(9, 3), f32(4, 3, seed=1)))],
    "jax.scipy.integrate": [("trapezoid", call(V), call(Y, V[:4]), call(X, dx=0.5, axis=0))],
    "jax.scipy.interpolate": [
        (
            "RegularGridInterpolator",
            call(GRID, X, INSIDE, using=lambda f, grid, values, x: f(grid, values)(x)),
            call(X, INSIDE, using=lambda f, values, x: f(GRID, values, method="nearest")(x)),
            call(
                X,
                INSIDE * 2,
                using=lambda f, values, x: f(GRID, values, bounds_error=False, fill_value=-1.0)(x),
            ),
        ),
    ],
    "jax.scipy.optimize": [
        (
            "minimize",
            call(
                array(1.3, 0.7),
                using=lambda f, x: (
                    f(lambda v: jnp.sum((v - 1) ** 2 + (v[0] * v[1]) ** 2), x, method="BFGS").x
                ),
            ),
        ),
    ],
    "jax.scipy.spatial.transform": [
        (
            "Rotation",
            call(
                TURNS,
                X[:, :3],
                using=lambda f, q, x: (
                    f.from_quat(q).as_matrix(),
                    f.from_quat(q).apply(x),
                    f.from_quat(q).as_rotvec(),
                    f.from_quat(q).as_euler("xyz"),
                    (f.from_quat(q) * f.from_quat(q[::-1])).inv().as_quat(),
                ),
            ),
            call(
                X[:, :3],
                using=lambda f, v: (
                    f.from_rotvec(v).as_quat(),
                    f.from_euler("zyx", v).as_matrix(),
                    f.from_mrp(v).magnitude(),
                ),
            ),
        ),
        (
            "Slerp",
            call(
                TURNS,
                array(0.5, 1.2),
                using=lambda f, q, at: f.init(array(0, 1, 2), Rotation.from_quat(q))(at).as_quat(),
            ),
        ),
    ],
    "jax.image": [
        (
            "resize",
            *(
                call(IMAGE, shape, method)
                for method in ("nearest", "linear", "cubic", "lanczos3", "lanczos5")
                for shape in ((8, 4), (10, 14))
            ),
            call(IMAGE, (3, 3), "linear", antialias=False),
        ),
        (
            "scale_and_translate",
            call(IMAGE, (8, 9), (0, 1), array(1.5, 0.8), array(0.5, -1.0), "linear"),
            call(IMAGE, (8, 7), (0,), array(2.0), array(0.0), "cubic", antialias=False),
        ),
    ],
}
APART = {
    "jax.image": {"names of options": "ResizeMethod"},
    "jax.scipy.optimize": {"a type": "OptimizeResults"},
}
