"""The weights of a model by path, and others in their place without a new export."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from onnxproof.errors import ConformanceError
from onnxproof.inspection.reading import TensorFacts, metadata_of, place_of, read, tensor_facts

if TYPE_CHECKING:
    import onnx

Array = np.ndarray[Any, Any]
ALIASES, DERIVED, PASSES = "onnxproof.aliases", "onnxproof.derived", "onnxproof.passes"
_SHOWN = 20  # names in a message
_MISSING = "missing in the checkpoint"
_UNEXPECTED = "in the checkpoint alone, and perhaps folded into other weights"
_LEAVE = {  # kinds of problems that may be allowed, and how
    _MISSING: "allow_missing=True, or --allow-missing, keeps the model's own.",
    _UNEXPECTED: "allow_unexpected=True, or --allow-unexpected, leaves them out.",
}
_OTHERWISE = "Export the callable with its new weights instead, or mend the checkpoint."
# As the exporter names numbers of the program: dtype, then value, or shape and digest.
_CONSTANT = re.compile(r"(bool|bfloat16|(u?int|float|complex)\d\w*)\.\S+")
_LITERAL = 6  # elements of a constant that its name spells out


@dataclass(frozen=True, slots=True)
class Weight:
    """An initializer. ``sources`` are the weights of the program that it comes from: its own path, where it is one.

    Args:
        steps: what makes it of its one source; None where a file can't say that.
        source_shape: the shape of that source, None where it is not derived.
        constant: it is a number of the program without a path, which no checkpoint holds.
    """

    tensor: TensorFacts
    sources: tuple[str, ...]
    aliases: tuple[str, ...]
    steps: tuple[tuple[Any, ...], ...] | None
    source_shape: tuple[int, ...] | None
    derived: bool
    constant: bool

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Swapped:
    """What came of a swap: paths that were taken, kept (missing), left over, and tensors that were computed anew.

    ``constants`` are arrays of the program without a path, which stay: tables, masks, and what a callable computed of
    its weights before it was exported.
    """

    files: tuple[Path, ...]
    taken: tuple[str, ...]
    computed: tuple[str, ...]
    missing: tuple[str, ...]
    unexpected: tuple[str, ...]
    constants: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "files": [str(f) for f in self.files]}


@dataclass(slots=True)
class _Problems:
    """Everything that stands in the way, by kind."""

    found: dict[str, list[str]] = field(default_factory=dict)

    def add(self, kind: str, names: Iterable[str]) -> None:
        for name in names:
            self.found.setdefault(kind, []).append(name)

    def refuse(self, checkpoint: str) -> None:
        if not self.found:
            return
        lines = []
        for kind, names in self.found.items():
            more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            lines.append(f"{kind}: {', '.join(names[:_SHOWN])}{more}")
        raise ConformanceError(
            f"the weights of {checkpoint!r} can't take the place of the model's:\n  " + "\n  ".join(lines),
            way_out=" ".join(
                ["Nothing was written.", *(_LEAVE[kind] for kind in self.found if kind in _LEAVE), _OTHERWISE]
            ),
        )


def weights(target: Path) -> list[Weight]:
    """The weights of a model, in the order of the file.

    Raises:
        ArtifactError, ConformanceError: the file is not there or can't be read.
    """
    return weights_of(read(place_of(target)))


def weights_of(model: onnx.ModelProto) -> list[Weight]:
    """The weights of a model that was read."""
    said: dict[str, dict[str, str]] = {}
    for value in (*model.graph.value_info, *model.graph.input):
        said[value.name] = {entry.key: entry.value for entry in value.metadata_props}
    found = []
    for tensor in model.graph.initializer:
        facts = tensor_facts(tensor)
        about = {**said.get(tensor.name, {}), **metadata_of(tensor)}
        recipe = json.loads(about[DERIVED]) if DERIVED in about else None
        derived = recipe is not None or PASSES in about
        # Without the shape of what it comes from the steps would fit arrays that mean something else.
        told = not derived or (recipe is not None and "shape" in recipe)
        steps = (recipe or {"steps": []})["steps"] if told else None
        shape = tuple(recipe["shape"]) if told and recipe is not None else None
        sources = tuple(recipe["from"]) if recipe is not None else (tensor.name,)
        found.append(
            Weight(
                facts,
                sources,
                tuple(about.get(ALIASES, "").split()),
                None if steps is None else tuple(tuple(step) for step in steps),
                shape,
                derived,
                all(map(_CONSTANT.fullmatch, sources)),
            )
        )
    return found


def swap(
    target: Path,
    checkpoint: Mapping[str, Array],
    output: Path,
    *,
    named: str = "the checkpoint",
    allow_missing: bool = False,
    allow_unexpected: bool = False,
) -> Swapped:
    """Write a model with the arrays of a checkpoint in the place of its weights, matched by path.

    Tensors that were derived from weights are computed anew by the steps that the file records. What can't be made
    anew is refused; nothing stays as it was in silence.

    Args:
        checkpoint: arrays by path; paths may begin with one part more or less than the model's, such as ``params``.
        named: what messages call it.
        allow_missing: keep weights that the checkpoint does not have.
        allow_unexpected: leave out what the model does not have, such as an optimizer's state.

    Raises:
        ConformanceError: paths, shapes or dtypes differ, or a weight can't be made anew. All are named.
        ArtifactError: the file can't be written.
    """
    from onnxproof.artifact.save import save

    path = place_of(target)
    model = read(path)
    _refuse_unknown_origin(model, path)
    listed = weights_of(model)
    arrays = _matched(checkpoint, {s for w in listed for s in (*w.sources, *w.aliases) if not w.constant})
    problems = _Problems()
    new, missing = _new_tensors(listed, arrays, problems)
    known = {name for w in listed for name in (*w.sources, *w.aliases)}
    unexpected = [name for name in arrays if name not in known]
    if not allow_missing:
        problems.add(_MISSING, missing)
    if not allow_unexpected:
        problems.add(_UNEXPECTED, unexpected)
    problems.refuse(named)
    import onnx_ir as ir

    whole = ir.from_proto(model)
    external = any(w.tensor.file is not None for w in listed)
    _set_base(whole, path.parent)
    for name, array in new.items():
        value = whole.graph.initializers[name]
        value.const_value = ir.Tensor(np.ascontiguousarray(array), name=name)
    derived = {w.tensor.name for w in listed if w.derived}
    return Swapped(
        files=tuple(save(whole, output, external_data=external)),
        taken=tuple(name for name in arrays if name in known),
        computed=tuple(name for name in new if name in derived),
        missing=tuple(missing),
        unexpected=tuple(unexpected),
        constants=tuple(w.tensor.name for w in listed if w.constant and math.prod(w.tensor.shape) > _LITERAL),
    )


def _refuse_unknown_origin(model: onnx.ModelProto, path: Path) -> None:
    """Only a file that says what became of its weights can have others."""
    about = metadata_of(model)
    if "onnxproof.precision" in about:
        raise ConformanceError(
            f"{str(path)!r} was made narrower ({about['onnxproof.precision']}), and so were its weights",
            way_out="Swap the weights of the model that it was made of, then convert or quantize that.",
        )
    told = any(p.key == "onnxproof.primitive" for node in model.graph.node for p in node.metadata_props)
    if model.producer_name != "onnxproof" or not told:
        raise ConformanceError(
            f"{str(path)!r} does not say what became of its weights: it was not written by onnxproof, or with"
            " --strip-provenance",
            way_out="Export it with onnxproof, without --strip-provenance.",
        )


def _matched(checkpoint: Mapping[str, Array], wanted: set[str]) -> dict[str, Array]:
    """The checkpoint by the model's paths: as they are, or with a first part more or less, whichever fits best."""
    firsts = {name.partition(".")[0] for name in (*checkpoint, *wanted)}
    forms: list[dict[str, Array]] = [dict(checkpoint)]
    for first in sorted(firsts):
        cut = {n.removeprefix(f"{first}."): a for n, a in checkpoint.items()}
        forms += [cut] if len(cut) == len(checkpoint) else []
        forms.append({f"{first}.{n}": a for n, a in checkpoint.items()})
    forms = [_unstacked(form, wanted) for form in forms]
    return max(forms, key=lambda form: len(wanted & set(form)))


def _unstacked(arrays: Mapping[str, Array], wanted: set[str]) -> dict[str, Array]:
    """Stacks that the model has layer by layer: ``layers`` is ``layers.0``, ``layers.1`` ... where a scan was spelled
    out.
    """
    found: dict[str, Array] = {}
    for name, array in arrays.items():
        parts = [f"{name}.{i}" for i in range(len(array))] if array.ndim else []
        whole = name in wanted or not parts or not wanted.issuperset(parts)
        found.update({name: array} if whole else zip(parts, array, strict=True))
    return found


def _new_tensors(
    listed: Sequence[Weight], arrays: Mapping[str, Array], problems: _Problems
) -> tuple[dict[str, Array], list[str]]:
    """New content by name of the initializer, and the paths that the checkpoint lacks."""
    new: dict[str, Array] = {}
    missing: dict[str, None] = {}
    for weight in listed:
        if weight.constant:
            continue
        name = weight.tensor.name
        sources = [s for s in weight.sources if not _CONSTANT.fullmatch(s)]
        lacking = [s for s in sources if s not in arrays]
        missing.update(dict.fromkeys(lacking))
        if len(lacking) == len(sources):
            continue  # all of it stays as it is, if that is allowed
        if weight.steps is None:
            problems.add(
                "derived in ways that the file can't repeat", [f"{name} (of {', '.join(weight.sources)})"]
            )
            continue
        array = arrays[weight.sources[0]]
        tied = [a for a in weight.aliases if a in arrays and not _same(arrays[a], array)]
        problems.add(
            "one array in the model and several in the checkpoint", [f"{name} and {a}" for a in tied]
        )
        shape = weight.tensor.shape if weight.source_shape is None else weight.source_shape
        if (array.dtype.name, array.shape) != (weight.tensor.dtype, shape):
            want, got = (
                f"{d}{list(s)}" for d, s in ((weight.tensor.dtype, shape), (array.dtype, array.shape))
            )
            problems.add(
                "of another shape or dtype", [f"{weight.sources[0]} is {want}, the checkpoint gives {got}"]
            )
            continue
        made = _made(array, weight.steps)
        if made is None or made.shape != weight.tensor.shape:
            problems.add("of which the file tells wrongly what became of it", [weight.sources[0]])
            continue
        new[name] = made
    return new, list(missing)


def _made(array: Array, steps: Sequence[Sequence[Any]]) -> Array | None:
    """The array after the steps, None where it does not fit them."""
    try:
        for step in steps:
            match step:
                case ("reshape", shape):
                    array = array.reshape(shape)
                case ("transpose", order):
                    array = array.transpose(order)
                case ("slice", starts, ends, axes, strides):
                    array = _sliced(array, zip(starts, ends, axes, strides, strict=True))
                case _:
                    return None
    except (ValueError, IndexError):
        return None
    return array


def _sliced(array: Array, bounds: Iterable[tuple[int, int, int, int]]) -> Array:
    index = [slice(None)] * array.ndim
    for start, end, axis, stride in bounds:
        stop = None if stride < 0 and end < -array.shape[axis] else end
        index[axis] = slice(start, stop, stride)
    return array[tuple(index)]


def _same(a: Array, b: Array) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def _set_base(model: Any, folder: Path) -> None:
    """Tell tensors that are kept in other files where those lie."""
    import onnx_ir as ir

    for value in model.graph.initializers.values():
        if isinstance(value.const_value, ir.ExternalTensor):
            value.const_value.base_dir = str(folder)
