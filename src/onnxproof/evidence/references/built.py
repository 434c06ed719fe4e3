"""A model that a function of the user's, or of this package, returns for a profile."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from onnxproof.errors import ConformanceError
from onnxproof.evidence.profile import Profile, ProfileCase
from onnxproof.evidence.record import BuilderConfig
from onnxproof.evidence.references.jax import JaxReference
from onnxproof.evidence.references.subject import Array, Oracle, State, digest

Exporter = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Built:
    """What a builder returns.

    Attributes:
        fn: the callable, in JAX.
        inputs: what ``to_onnx`` takes, one entry for each argument.
        make: arguments for the shapes and seed of a case; by default standard normal arrays of the profile's dtype.
        weights: names and arrays that the digest of the weights is made of.
        state: the arrays that an export must not change, read anew at each call.
    """

    fn: Callable[..., Any]
    inputs: Sequence[Any]
    make: Callable[[Sequence[Sequence[int]], int], Sequence[Any]] | None = None
    weights: Mapping[str, Any] = field(default_factory=dict)
    state: Callable[[], Mapping[str, Any]] | None = None


class BuiltSubject:
    """The model of a builder, written by ``onnxproof.to_onnx`` or by an exporter of the user's.

    An exporter ``module:function`` is called with the callable, its inputs, the path, and the options by name.
    """

    def __init__(self, profile: Profile) -> None:
        assert isinstance(profile.config, BuilderConfig)
        self._profile = profile
        built = imported(profile.config.builder)(**profile.config.arguments)
        if not isinstance(built, Built):
            raise ConformanceError(f"{profile.config.builder} returns a {type(built).__name__}, not a Built")
        self._built = built
        self._reference = JaxReference(built.fn, double=profile.dtype == "float64")

    def weights_sha256(self) -> str | None:
        return arrays_digest(self._built.weights) if self._built.weights else None

    def state(self) -> State:
        now = self._built.state() if self._built.state else self._built.weights
        return State(parameters=arrays_digest(now) if now else None)

    def export(self, path: Path) -> None:
        options = dict(self._profile.exporter.options)
        if self._profile.exporter.name != "onnxproof":
            imported(self._profile.exporter.name)(self._built.fn, self._built.inputs, path, **options)
            return
        # by name: what judges does not import what it judges
        to_onnx = imported("onnxproof:to_onnx")
        opset = {} if self._profile.opset is None else {"opset": self._profile.opset}
        to_onnx(self._built.fn, self._built.inputs, return_mode="file", output_path=path, **opset, **options)

    def inputs(self, case: ProfileCase) -> list[Array]:
        return self._reference.flat(self._arguments(case))

    def native(self, case: ProfileCase) -> list[Array]:
        return self._reference.run(self._arguments(case))

    def oracle(self, case: ProfileCase) -> Oracle | None:
        return self._reference.oracle(self._arguments(case))

    def _arguments(self, case: ProfileCase) -> Sequence[Any]:
        if self._built.make is not None:
            return self._built.make(case.shapes, case.seed or 0)
        from onnxproof.evidence.tensors import dtype_of

        rng = np.random.default_rng(case.seed)
        dtype = dtype_of(self._profile.dtype)
        return [rng.normal(size=tuple(shape)).astype(dtype) for shape in case.shapes]


def arrays_digest(arrays: Mapping[str, Any]) -> str:
    """SHA-256 over named arrays, in order of name."""
    return digest((name, np.asarray(arrays[name])) for name in sorted(arrays))


def imported(place: str) -> Callable[..., Any]:
    """The function at ``module:name``.

    Raises:
        ConformanceError: there is none.
    """
    module, _, name = place.partition(":")
    try:
        found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    except Exception as err:  # a module of the user's raises what it likes
        raise ConformanceError(
            f"{place!r} can't be imported: {type(err).__name__}: {err}",
            way_out="Name it as module:function, and run in the folder that holds the module, or put it on PYTHONPATH.",
        ) from err
    return found
