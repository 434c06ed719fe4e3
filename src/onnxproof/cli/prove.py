"""What ``onnxproof export`` proves of the file it wrote: its values at a few sizes, in ONNX Runtime."""

from __future__ import annotations

import itertools
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from onnxproof.capture import dims
from onnxproof.capture.program import SymDim
from onnxproof.cli.explain import Drawn
from onnxproof.cli.target import guarded
from onnxproof.errors import ConformanceError, InputSpecError

if TYPE_CHECKING:
    from onnxproof.cli.export import Options
    from onnxproof.cli.inputs import Arguments
    from onnxproof.evidence import Record

SIZES = (1, 2, 3, 7)  # that dimensions take in turn, neighbours apart
_MAX_TRIED = 20_000
_CASE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,99}")
_TESTS: dict[str, Callable[[int, int], bool]] = {
    ">=": lambda a, b: a >= b,
    "<=": lambda a, b: a <= b,
    "==": lambda a, b: a == b,
}


@dataclass(frozen=True, slots=True)
class Proof:
    """What a record says, in a line."""

    level: str
    failure: str | None
    exit_code: int
    cases: int  # that compared values, over all runs
    max_abs_error: float | str | None  # None where nothing was compared
    evidence: str  # the folder

    def __str__(self) -> str:
        verdict = self.level if self.failure is None else f"{self.level}, {self.failure}"
        error = self.max_abs_error
        said = (
            "" if error is None else f", largest error {error if isinstance(error, str) else f'{error:.3g}'}"
        )
        return f"{verdict}, {self.cases} cases{said}, evidence in {self.evidence}"


def folder_of(model: Path) -> Path:
    """Where the evidence for a model lies: ``net.onnx`` has ``net.evidence``.

    Raises:
        ConformanceError: something is there that is no earlier evidence.
    """
    folder = model.with_suffix(".evidence")
    if folder == model:
        raise ConformanceError(
            f"{str(model)!r} is where the evidence goes",
            way_out="Give the model another suffix, such as .onnx.",
        )
    if folder.is_symlink() or (folder.exists() and not (folder / "record.json").is_file()):
        raise ConformanceError(
            f"{str(folder)!r} is where the evidence goes, and holds something else",
            way_out="Move it away, or give --no-prove to export without evidence.",
        )
    return folder


class Call:
    """The callable with the arrays that the file takes as its only arguments, keyword ones last.

    Weights that the file takes as inputs come after them: the callable has its own, which are the same.
    """

    def __init__(self, fn: Callable[..., Any], given: Arguments, fixed: Mapping[str, Any], options: Options):
        self.__qualname__ = options.target  # what the record calls it
        self._fn = fn
        self._fixed = dict(fixed)
        self._count = len(given.inputs)
        self._names = sorted(given.input_params)
        self._channels_first = options.inputs_as_nchw, options.outputs_as_nchw

    def __call__(self, *args: Any) -> list[Any]:
        args = self._moved(args[: self._count + len(self._names)], self._channels_first[0], 1, -1)
        keywords = dict(zip(self._names, args[self._count :], strict=True))
        fn = partial(self._fn, *args[: self._count], **keywords, **self._fixed)
        out = guarded(f"running {self.__qualname__}", fn)
        moved: list[Any] = self._moved(jax.tree_util.tree_leaves(out), self._channels_first[1], -1, 1)
        return moved

    def given(self, args: Sequence[Any]) -> Any:
        """Arguments of the callable as the file takes them."""
        return self._moved(args, self._channels_first[0], -1, 1)

    @staticmethod
    def _moved(tree: Any, positions: Sequence[int], source: int, target: int) -> Any:
        """``tree`` with an axis moved in the leaves at ``positions``."""
        leaves, form = jax.tree_util.tree_flatten(tree)
        for i in positions:
            leaves[i] = jnp.moveaxis(leaves[i], source, target)
        return jax.tree_util.tree_unflatten(form, leaves)


def sizes(specs: Sequence[Any], constraints: Sequence[str]) -> list[dict[str, int]]:
    """Sizes of symbolic dimensions, for up to four cases that the constraints allow.

    Raises:
        InputSpecError: none was found.
    """
    shapes = [
        spec if isinstance(spec, tuple) else spec.shape
        for spec in jax.tree_util.tree_leaves(list(specs), is_leaf=lambda s: isinstance(s, tuple))
    ]
    texts = list(dict.fromkeys(d for shape in shapes for d in shape if isinstance(d, str)))
    names = list(dict.fromkeys(name for text in texts for name in sorted(dims.symbols(SymDim(text)))))
    found: list[dict[str, int]] = []
    for case in range(len(SIZES)):
        for tried in itertools.islice(_candidates(case, len(names)), _MAX_TRIED):
            env = dict(zip(names, tried, strict=True))
            if env not in found and _allowed(env, texts, constraints):
                found.append(env)
                break
    if not found:
        raise InputSpecError(
            f"no sizes of {', '.join(names)} were found that its constraints allow",
            way_out="Give --no-prove to export without evidence.",
        )
    return found


def _candidates(case: int, count: int) -> Iterator[tuple[int, ...]]:
    """Sizes to try: those of the case in turn, then all alike, then whatever there is."""
    yield tuple(SIZES[(case + i) % len(SIZES)] for i in range(count))
    for size in range(SIZES[case], 65):
        yield (size,) * count
    for top in (8, 16, 32, 64):
        yield from itertools.product(range(1, top + 1), repeat=count)


def _allowed(env: Mapping[str, int], texts: Sequence[str], constraints: Sequence[str]) -> bool:
    def size(text: str) -> int:
        return dims.evaluate(SymDim(text), env)

    def holds(constraint: str) -> bool:
        sign = next(sign for sign in _TESTS if sign in constraint)
        left, _, right = constraint.partition(sign)
        return _TESTS[sign](size(left), size(right))

    return all(size(text) > 0 for text in texts) and all(map(holds, constraints))


def _named(number: int, env: Mapping[str, int]) -> str:
    """``B-2.T-3`` for those sizes, where that can be the name of a case."""
    name = ".".join(f"{dim}-{size}" for dim, size in env.items())
    return name if _CASE.fullmatch(name) else f"case-{number}"


def prove(
    call: Call,
    given: Arguments,
    cases: Sequence[dict[str, int]],
    model: Path,
    options: Options,
    weights: Sequence[Any] = (),
) -> Record:
    """Run both sides, and leave the evidence beside ``model``.

    Args:
        cases: sizes of the symbolic dimensions of each.
        weights: arrays that the file takes as inputs after those of the callable.
    """
    from onnxproof.evidence import verify
    from onnxproof.evidence.record import Exporter

    keywords = [given.input_params[name] for name in sorted(given.input_params)]
    drawn = (Drawn(env, i, double=options.double) for i, env in enumerate(cases))
    names = [_named(i, env) for i, env in enumerate(cases)]
    with jax.enable_x64(options.double):
        inputs = {
            name: [
                *call.given([draw.arrays(spec) for spec in (*given.inputs, *keywords)]),
                *weights,
            ]
            for name, draw in zip(names, drawn, strict=True)
        }
    folder = folder_of(model)
    if folder.exists():
        shutil.rmtree(folder)  # of the file that was there before, whatever becomes of this one
    with redirect_stdout(sys.stderr):  # what the callable prints is no part of the summary
        record = verify(
            call,
            model,
            inputs,
            double=options.double,
            bundle_path=folder,
            exporter=Exporter(name="onnxproof", options=options.exporter_options()),
            opset=options.opset,
        )
        jax.effects_barrier()
    return record


def line(record: Record, model: Path) -> Proof:
    """What the summary says of a record."""
    from onnxproof.evidence.court import runs_of

    cases = [c for run in runs_of(record) for c in run.input_cases if c.expect == "match"]
    errors = [c.max_abs_error for c in cases if c.max_abs_error is not None]
    return Proof(
        level=record.level,
        failure=record.failure,
        exit_code=record.exit_code,
        cases=len(cases),
        max_abs_error=max(errors, key=float, default=None),
        evidence=str(model.with_suffix(".evidence")),
    )
