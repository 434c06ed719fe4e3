"""``onnxproof explain``: draw inputs, or take those of a bundle, and say where a file first goes wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from onnxproof.cli.console import progress
from onnxproof.cli.places import there
from onnxproof.evidence.dimensions import dimension

if TYPE_CHECKING:
    from onnxproof.cli.inputs import Arguments
    from onnxproof.evidence import Record
    from onnxproof.evidence.localize import Finding

SIZES = (3, 5, 7, 4, 6)  # of symbolic dimensions in the order of their names' first use: all apart
CASE = "fault"  # the name of the case in the bundle that is written
_NAME = re.compile(r"\b(?!(?:floordiv|mod|max|min)\b)[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class Options:
    """The command line of one explanation."""

    target: str
    inputs: tuple[str, ...]
    fixed: tuple[str, ...]
    model: Path | None
    bundle: Path | None
    case: str | None
    sizes: tuple[str, ...]
    seed: int
    opset: int
    double: bool
    rtol: float | None
    atol: float | None
    output: Path | None
    as_json: bool


def run(options: Options) -> None:
    """Find the first fault, print it, and write the part of the graph that shows it."""
    if options.bundle is not None and options.model is not None:
        raise typer.BadParameter("a bundle has a model of its own", param_hint="--model")
    if options.model is not None:
        there(options.model, "--model", "file")
    if options.bundle is not None:
        there(options.bundle, "--bundle", "folder")
    with progress("importing JAX") as doing:
        from onnxproof._explain import describe, explain
        from onnxproof.cli import inputs as parsing
        from onnxproof.cli.target import build, load

        specs = [parsing.parse(text, options.double) for text in options.inputs]
        fixed = parsing.parse_fixed(options.fixed)
        doing(f"loading {options.target}")
        fn = build(load(options.target), options.target, [s.name.partition(".")[0] or "-" for s in specs])
        given = parsing.arrange(fn, specs)
        model: Path | None
        if options.bundle is not None:
            model, flat = _of_bundle(options.bundle, options.case)
            args, keywords = _arranged(flat, given)
        else:
            drawn = Drawn(sizes(options.sizes), options.seed, double=options.double)
            model, args = options.model, [drawn.arrays(spec) for spec in given.inputs]
            keywords = {k: drawn.arrays(v) for k, v in given.input_params.items()}
        doing("running both sides")
        finding = explain(
            fn,
            given.inputs,
            args,
            model,
            input_params={**keywords, **fixed},
            opset=options.opset,
            enable_double_precision=options.double,
            rtol=options.rtol,
            atol=options.atol,
        )
    typer.echo(json.dumps(_facts(finding), indent=1) if options.as_json else describe(finding))
    if options.output is not None and finding.model is not None:
        write(finding, options.output)
        typer.echo(f"smallest part that still shows it: {options.output}", err=True)


class Drawn:
    """Concrete arrays for specs: standard normal floats, 0 and 1 in other dtypes; keys are made of the seed.

    Args:
        sizes: of symbolic dimensions; a name that is not among them gets the next of :data:`SIZES`.
    """

    def __init__(self, sizes: Mapping[str, int], seed: int, *, double: bool) -> None:
        import numpy as np

        self._sizes = dict(sizes)
        self._rng = np.random.default_rng(seed)
        self._seed = seed
        self._float: Any = np.float64 if double else np.float32

    def arrays(self, spec: Any) -> Any:
        """``spec`` (a shape, a ``ShapeDtypeStruct``, a dict or list of them) with arrays in its places."""
        if isinstance(spec, Mapping):
            return {name: self.arrays(part) for name, part in spec.items()}
        if isinstance(spec, list):
            return [self.arrays(part) for part in spec]
        shape, dtype = (spec, self._float) if isinstance(spec, tuple) else (spec.shape, spec.dtype)
        return self._array(tuple(self._size(d) for d in shape), dtype)

    def _size(self, dim: int | str) -> int:
        if isinstance(dim, int):
            return dim
        for name in _NAME.findall(dim):
            if name not in self._sizes:
                taken = set(self._sizes.values())
                self._sizes[name] = next((n for n in SIZES if n not in taken), SIZES[0])
        return dimension(_NAME.sub(lambda m: str(self._sizes[m[0]]), dim), SIZES[0])

    def _array(self, shape: tuple[int, ...], dtype: Any) -> Any:
        import jax
        import numpy as np

        if jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key):
            key = jax.random.key(self._seed)
            return jax.random.split(key, shape) if shape else key
        kind = np.dtype(dtype).kind
        wide: Any = self._rng.integers(0, 2, shape)
        if kind in "fcV":
            wide = self._rng.normal(size=shape)
        if kind == "c":
            wide = wide + 1j * self._rng.normal(size=shape)
        return np.asarray(wide).astype(dtype)


def sizes(texts: Sequence[str]) -> dict[str, int]:
    """``("B=3",)`` → ``{"B": 3}``.

    Raises:
        typer.BadParameter: a text is not of that form.
    """
    found = {}
    for text in texts:
        name, _, size = text.partition("=")
        if not name.isidentifier() or not size.isdecimal():
            raise typer.BadParameter(f"{text!r} is not of the form NAME=SIZE", param_hint="--size")
        found[name] = int(size)
    return found


def _of_bundle(folder: Path, wanted: str | None) -> tuple[Path, list[Any]]:
    """The model of a bundle, and the inputs of the case that is wanted: by default the first that differs."""
    from onnxproof.evidence.bundle import read_tensors
    from onnxproof.evidence.conform import read_bundle, verify_folder
    from onnxproof.evidence.files import safe_parts

    record = read_bundle(folder)
    verify_folder(record, folder)
    name = wanted or _failing(record)
    if name not in [c.name for c in record.input_cases if c.expect == "match"]:
        raise typer.BadParameter(f"the bundle has no case {name!r} that compares values", param_hint="--case")
    arrays = [array for _, array in read_tensors(folder, record.artifacts, name, "input")]
    return folder.joinpath(*safe_parts(record.artifacts.model)), arrays


def _arranged(flat: Sequence[Any], given: Arguments) -> tuple[list[Any], dict[str, Any]]:
    """Positional and keyword arguments from the arrays of a graph's inputs, which stand in the order of JAX's leaves.

    Keys are made of their words, and complex numbers of the pairs that the graph holds.
    """
    import jax

    tree = (list(given.inputs), dict(given.input_params))
    specs, form = jax.tree_util.tree_flatten(tree, is_leaf=lambda s: isinstance(s, tuple) and s is not tree)
    if len(specs) != len(flat):
        raise typer.BadParameter(
            f"the case has {len(flat)} inputs, {len(specs)} are described", param_hint="-i"
        )
    args, keywords = jax.tree_util.tree_unflatten(form, map(_as_given, flat, specs))
    return args, keywords


def _as_given(array: Any, spec: Any) -> Any:
    import jax

    dtype = getattr(spec, "dtype", array.dtype)
    if jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(array)
    return array.view(dtype)[..., 0] if dtype.kind == "c" and array.dtype.kind == "f" else array


def _failing(record: Record) -> str:
    from onnxproof.evidence.court import runs_of

    cases = [c for run in runs_of(record) for c in run.input_cases if c.expect == "match"]
    return next((c.name for c in cases if c.outcome == "mismatch"), cases[0].name if cases else "")


def _facts(finding: Finding) -> dict[str, Any]:
    point = finding.point
    return {
        "fault": finding.fault,
        "explanation": finding.explanation,
        "value": point.name if point else None,
        "primitive": point.primitive if point else None,
        "source": point.source if point else None,
        "inside": list(finding.inside),
        "nodes": list(finding.nodes),
        "optimizer": finding.optimizer,
    }


def write(finding: Finding, folder: Path) -> None:
    """Write the part of the graph that shows a fault, its inputs, and what the program says it gives.

    Raises:
        ConformanceError: the folder holds files already.
    """
    from onnxproof.evidence.bundle import write_tensors
    from onnxproof.evidence.conform import refuse_existing
    from onnxproof.evidence.files import write_file

    if finding.model is None or finding.point is None or finding.inputs is None:
        return
    import numpy as np
    import onnx

    refuse_existing(folder, force=False)
    folder.mkdir(parents=True, exist_ok=True)
    part = onnx.ModelProto()
    part.CopyFrom(finding.model)
    for output in [o for o in part.graph.output if o.name != finding.point.name]:
        part.graph.output.remove(output)
    write_file(folder / "model.onnx", part.SerializeToString())
    names = [v.name for v in part.graph.input]
    write_tensors(folder, CASE, "input", [(name, finding.inputs[name]) for name in names])
    want = finding.point.reference
    if want.dtype.kind == "c":  # the graph holds complex numbers as pairs
        want = np.stack([want.real, want.imag], -1)
    write_tensors(folder, CASE, "output", [(finding.point.name, want)])
