"""JAX's own cases for its primitives, which ship inside its wheel, as cases that can be exported and run."""

from __future__ import annotations

import re
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import numpy as np

Array = np.ndarray[Any, Any]

# Variants of one case that only tell another converter how to go about it: same function, same arguments.
VARIANT = re.compile(r"_?(enable_?xla|associative_scan_reductions)[=_]?(True|False)?")
WIDE = {"int64": np.int32, "uint64": np.uint32, "float64": None, "complex128": None}


class NotOnCpu(Exception):
    """JAX itself does not run a case here."""


@dataclass(frozen=True, slots=True)
class Call:
    """A case at its arguments.

    Attributes:
        x64: whether JAX computes with 64-bit types.
        want: what JAX gives under jit.
    """

    fn: Callable[..., Any]
    args: tuple[Array, ...]
    x64: bool
    want: tuple[Array, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """One function of the corpus with a description of its arguments."""

    name: str
    group: str
    dtype: str
    harness: Any

    def call(self) -> Call:
        """Draw arguments under a seed of the case's own, and run JAX.

        The corpus is written for 64-bit mode. A case whose function or drawn arguments have no 64-bit type runs
        without it, which is how JAX runs by default; index arrays that are written as NumPy literals are then int32.

        Raises:
            NotOnCpu: JAX raises.
        """
        fn = self.harness.dyn_fun
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                with jax.enable_x64(True):
                    drawn = self.harness.dyn_args_maker(np.random.RandomState(zlib.crc32(self.name.encode())))
                    args = tuple(map(np.asarray, drawn))
                    shapes = jax.tree.leaves(jax.eval_shape(fn, *args))
                x64 = self._needs_64_bits(args, [s.dtype for s in shapes])
                if not x64:
                    args = tuple(a.astype(WIDE.get(a.dtype.name) or a.dtype) for a in args)
                with jax.enable_x64(x64):
                    want = tuple(np.array(x) for x in jax.tree.leaves(jax.jit(fn)(*args)))
            except Exception as err:  # what JAX refuses, it refuses in its own ways
                raise NotOnCpu(f"{type(err).__name__}: {err}") from err
        return Call(fn, args, x64, want)

    def _needs_64_bits(self, args: Sequence[Array], results: Iterable[Any]) -> bool:
        if self.dtype in WIDE or any(np.dtype(r).name in WIDE for r in results):
            return True
        described = [d for d in self.harness.arg_descriptors if type(d).__name__ != "StaticArg"]
        drawn = ("RandArg", "CustomArg")
        return any(
            a.dtype.name in WIDE and (a.dtype.kind in "fc" or type(d).__name__ in drawn)
            for a, d in zip(args, described, strict=True)
        )


@cache
def corpus() -> dict[str, Case]:
    """Every case that JAX means to run on a CPU, by name, variants left out."""
    state = np.random.get_state()
    np.random.seed(0)  # one array of the corpus is drawn when it is imported
    try:
        with jax.enable_x64(True):
            from jax._src.internal_test_util import test_harnesses
    finally:
        np.random.set_state(state)
    found: dict[str, Case] = {}
    for h in test_harnesses.all_harnesses:
        key = VARIANT.sub("", h.fullname)
        if h.filter("cpu") and (key not in found or h.fullname == key):
            found[key] = Case(h.fullname, h.group_name, np.dtype(h.dtype).name, h)
    return {c.name: c for c in sorted(found.values(), key=lambda c: c.name)}


def sample(per_group: int) -> list[str]:
    """At most so many cases of each primitive: every dtype in turn, within a dtype in an order that is like chance."""
    chosen: list[str] = []
    groups: dict[str, list[Case]] = {}
    for case in corpus().values():
        groups.setdefault(case.group, []).append(case)
    for group in groups.values():
        rank, seen = {}, Counter[str]()
        for case in sorted(group, key=lambda c: zlib.crc32(c.name.encode())):
            rank[case.name] = seen[case.dtype]
            seen[case.dtype] += 1
        chosen += sorted(rank, key=lambda name: (rank[name], name))[:per_group]
    return sorted(chosen)
