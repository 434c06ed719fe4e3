"""How two model files differ: graphs by where nodes come from, weights by path, outputs by running."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnxproof.errors import ConformanceError, InputSpecError
from onnxproof.inspection.facts import ModelFacts, PortFacts, facts_of
from onnxproof.inspection.reading import graphs, metadata_of, operator_of, place_of, read, tensor_facts

if TYPE_CHECKING:
    import numpy as np
    import onnx

    Array = np.ndarray[Any, Any]
_MAX_LINES = 5  # of a place in the program


@dataclass(frozen=True, slots=True)
class Changed:
    """A fact that both files have, with what each says."""

    what: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Place:
    """A primitive in a scope that became other operators, the lines it stands on, and both counts."""

    scope: str
    primitive: str
    lines: tuple[str, ...]
    before: dict[str, int]
    after: dict[str, int]


@dataclass(frozen=True, slots=True)
class WeightChange:
    """A weight that both files have in one shape and dtype, with other values."""

    name: str
    changed: int  # of its elements
    elements: int
    max_abs: float
    max_rel: float


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights by path."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    reshaped: tuple[Changed, ...]
    changed: tuple[WeightChange, ...]
    equal: int

    @property
    def differ(self) -> bool:
        return bool(self.added or self.removed or self.reshaped or self.changed)


@dataclass(frozen=True, slots=True)
class OutputChange:
    """An output of a case: whether it is within the tolerance, and how far apart both are."""

    case: str
    output: str
    matches: bool
    max_abs: float
    max_rel: float
    reason: str


@dataclass(frozen=True, slots=True)
class Difference:
    """All of it; ``outputs`` is None where nothing was run."""

    facts: tuple[Changed, ...]
    operators: dict[str, tuple[int, int]]
    places: tuple[Place, ...]
    weights: Weights
    outputs: tuple[OutputChange, ...] | None

    @property
    def differ(self) -> bool:
        """Whether anything differs that was looked at; outputs within the tolerance are the same."""
        outputs = any(not o.matches for o in self.outputs or ())
        return bool(self.facts or self.operators or self.places or self.weights.differ or outputs)

    def as_dict(self) -> dict[str, Any]:
        return {"differ": self.differ, **asdict(self)}


def diff(before: Path, after: Path, cases: Mapping[str, Sequence[Array]] | None = None,
         rtol: float | None = None, atol: float | None = None) -> Difference:  # fmt: skip
    """Hold one model against another.

    Args:
        cases: arrays for the inputs, by name of the case, in the order of the inputs of ``before``; both are run on
            them in ONNX Runtime. None runs nothing.
        rtol, atol: of outputs; by dtype when not given.

    Raises:
        ArtifactError, ConformanceError: a file is not there, can't be read, or can't be run.
    """
    paths = place_of(before), place_of(after)
    models = read(paths[0]), read(paths[1])
    facts = facts_of(models[0], paths[0]), facts_of(models[1], paths[1])
    return Difference(
        facts=tuple(_facts(*facts)),
        operators=_counts(facts[0].operators, facts[1].operators),
        places=tuple(_places(*models)),
        weights=_weights(models, paths),
        outputs=None if cases is None else tuple(_outputs(paths, cases, rtol, atol)),
    )


def _facts(a: ModelFacts, b: ModelFacts) -> Iterable[Changed]:
    said = {
        "input": [_types(m.inputs) for m in (a, b)],
        "output": [_types(m.outputs) for m in (a, b)],
        "opset": [{k: str(v) for k, v in m.opsets.items()} for m in (a, b)],
        "function": [{f.name: f"{f.nodes} nodes" for f in m.functions} for m in (a, b)],
        "metadata": [a.metadata, b.metadata],
    }
    if (a.producer, a.ir_version) != (b.producer, b.ir_version):
        yield Changed("producer", f"{a.producer}, IR {a.ir_version}", f"{b.producer}, IR {b.ir_version}")
    for kind, (left, right) in said.items():
        for name in dict.fromkeys([*left, *right]):
            if left.get(name) != right.get(name):
                yield Changed(f"{kind} {name}", left.get(name, "none"), right.get(name, "none"))
    for kind, names in (("inputs", (a.inputs, b.inputs)), ("outputs", (a.outputs, b.outputs))):
        order = [[p.name for p in ports] for ports in names]
        if sorted(order[0]) == sorted(order[1]) and order[0] != order[1]:
            yield Changed(f"order of {kind}", ", ".join(order[0]), ", ".join(order[1]))


def _types(ports: Sequence[PortFacts]) -> dict[str, str]:
    return {p.name: str(p).partition("  ")[2] for p in ports}


def _counts(a: Mapping[str, int], b: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    return {op: (a.get(op, 0), b.get(op, 0)) for op in sorted({*a, *b}) if a.get(op, 0) != b.get(op, 0)}


def _places(a: onnx.ModelProto, b: onnx.ModelProto) -> Iterable[Place]:
    left, right = _by_place(a), _by_place(b)
    for key in dict.fromkeys([*left, *right]):
        before, after = left.get(key, _Made()), right.get(key, _Made())
        if before.operators != after.operators:
            lines = tuple(dict.fromkeys([*before.lines, *after.lines]))
            yield Place(*key, lines[:_MAX_LINES], dict(before.operators), dict(after.operators))


@dataclass(slots=True)
class _Made:
    """What a primitive in a scope became, and the lines that it stands on; those may move."""

    operators: Counter[str] = field(default_factory=Counter)
    lines: list[str] = field(default_factory=list)


def _by_place(model: onnx.ModelProto) -> dict[tuple[str, str], _Made]:
    found: dict[tuple[str, str], _Made] = {}
    for _, graph in graphs(model):
        for node in graph.node:
            said = metadata_of(node)
            primitive = said.get("onnxproof.composite") or said.get("onnxproof.primitive")
            if primitive is not None:  # of nodes without provenance the counts of operators say enough
                made = found.setdefault((said.get("namespace", ""), primitive), _Made())
                made.operators[operator_of(node)] += 1
                made.lines.append(said.get("onnxproof.source", ""))
    return found


def _weights(models: tuple[onnx.ModelProto, onnx.ModelProto], paths: tuple[Path, Path]) -> Weights:
    left, right = ({t.name: t for t in model.graph.initializer} for model in models)
    reshaped, changed, equal = [], [], 0
    for name in left:
        if name not in right:
            continue
        a, b = tensor_facts(left[name]), tensor_facts(right[name])
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            texts = (f"{t.dtype}[{', '.join(map(str, t.shape))}]" for t in (a, b))
            reshaped.append(Changed(name, *texts))
            continue
        found = _values(name, array_of(left[name], paths[0]), array_of(right[name], paths[1]))
        equal += found is None
        changed += [found] if found is not None else []
    return Weights(
        added=tuple(n for n in right if n not in left),
        removed=tuple(n for n in left if n not in right),
        reshaped=tuple(reshaped),
        changed=tuple(sorted(changed, key=lambda c: -c.max_abs)),
        equal=equal,
    )


def array_of(tensor: onnx.TensorProto, path: Path) -> Array:
    """The array of a tensor of the model at ``path``, from the file beside it where it is kept in one.

    Raises:
        ConformanceError: it is not there, or shorter than the model says.
    """
    import onnx

    try:
        if tensor.data_location == tensor.EXTERNAL:
            whole = onnx.TensorProto()
            whole.CopyFrom(tensor)
            tensor = whole  # which now gets the data that is read
        array: Array = onnx.numpy_helper.to_array(tensor, str(path.parent))
    except (OSError, ValueError, onnx.checker.ValidationError) as err:
        raise ConformanceError(
            f"the weight {tensor.name!r} of {str(path)!r} can't be read: {err}",
            way_out="Is the file that it is kept in beside the model, and whole?",
        ) from err
    return array


def _values(name: str, a: Array, b: Array) -> WeightChange | None:
    """How the values differ, None when they are the same bits."""
    import numpy as np

    if a.dtype == object:
        return None if (a == b).all() else WeightChange(name, int((a != b).sum()), a.size, 0.0, 0.0)
    if a.tobytes() == b.tobytes():
        return None
    wide = complex if a.dtype.kind == "c" else float
    x, y = a.astype(wide), b.astype(wide)
    unequal = ~((x == y) | (np.isnan(x) & np.isnan(y)))
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        apart = np.where(unequal, np.abs(x - y), 0.0)
        relative = np.where(unequal, apart / np.abs(x), 0.0)
    return WeightChange(
        name, int(unequal.sum()), a.size, float(apart.max(initial=0.0)), float(relative.max(initial=0.0))
    )


def _outputs(
    paths: tuple[Path, Path], cases: Mapping[str, Sequence[Array]], rtol: float | None, atol: float | None
) -> Iterable[OutputChange]:
    from onnxproof.evidence.compare import difference
    from onnxproof.evidence.runtimes.ort import OrtSession

    left, right = (OrtSession(path) for path in paths)
    if sorted(left.input_names) == sorted(right.input_names):
        order = [left.input_names.index(name) for name in right.input_names]
    elif len(left.input_names) == len(right.input_names):
        order = list(range(len(left.input_names)))
    else:
        raise InputSpecError(
            f"they take {len(left.input_names)} and {len(right.input_names)} inputs, so they can't be run on the same",
            way_out="Leave --run and --cases out to compare the files alone.",
        )
    common = [name for name in left.output_names if name in right.output_names]
    named = [(left.output_names.index(n), right.output_names.index(n)) for n in common]
    pairs = named or [(i, i) for i in range(min(len(left.output_names), len(right.output_names)))]
    for case, arrays in cases.items():
        got = left.run(arrays), right.run([arrays[i] for i in order])
        for i, j in pairs:
            found = difference(got[1][j], got[0][i], rtol, atol)
            name = left.output_names[i]
            yield OutputChange(case, name, found.matches, found.max_abs, found.max_rel, found.reason)
