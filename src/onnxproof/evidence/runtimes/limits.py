"""What runtimes are known not to do, as data: a difference is charged to whoever made it.

Each was seen by running small models on the versions named in ``seen``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limit:
    """A known limit of a runtime; one that names neither kinds nor element types excuses no case.

    Attributes:
        name: what records call it.
        what: the limit in one sentence.
        seen: the runtime and version it was seen in.
        unrefused: kinds of wrong inputs that the runtime takes, or fails on in other ways than by refusing them.
        dtypes: element types, as ONNX names them in lower case, whose values it does not keep.
    """

    name: str
    what: str
    seen: str
    unrefused: frozenset[str] = frozenset()
    dtypes: frozenset[str] = frozenset()


_NAMES = "dimensions of one name are not compared with each other before the graph runs"

LIMITS: dict[str, tuple[Limit, ...]] = {
    "onnxruntime": (
        Limit("dimension-names", _NAMES, "onnxruntime 1.32.0", unrefused=frozenset({"constraint"})),
        Limit(
            "scalar-rank",
            "the rank of an input that is declared a scalar is not checked",
            "onnxruntime 1.32.0",
            unrefused=frozenset({"scalar"}),
        ),
    ),
    "onnx-reference": (
        Limit(
            "inputs-unchecked",
            "inputs are not held against the graph's signature",
            "onnx 1.23.2",
            unrefused=frozenset({"width", "rank", "scalar", "dtype", "constraint"}),
        ),
    ),
    "openvino": (
        Limit("dimension-names", _NAMES, "openvino 2026.4.1", unrefused=frozenset({"constraint"})),
        Limit(
            "dtype-converted",
            "an input of another element type is converted, not refused",
            "openvino 2026.4.1",
            unrefused=frozenset({"dtype"}),
        ),
        Limit(
            "int64-as-int32",
            "64-bit integers are computed in 32 bits",
            "openvino 2026.4.1",
            dtypes=frozenset({"int64", "uint64"}),
        ),
        Limit(
            "float64-as-float32",
            "float64 is computed in float32",
            "openvino 2026.4.1",
            dtypes=frozenset({"double"}),
        ),
    ),
    "tract": (
        Limit("bfloat16-unknown", "bfloat16 is refused when the file is loaded", "tract 0.23.9"),
        Limit("loop-unknown", "Loop is refused when the file is loaded", "tract 0.23.9"),
        Limit("lstm-symbolic-batch", "an LSTM whose batch has a name ends the process", "tract 0.23.9"),
        Limit("shape-as-output", "what Shape says of a named dimension cannot be an output", "tract 0.23.9"),
        Limit("nan-dropped", "Max, Min, Clip, Relu and reductions by them drop NaN", "tract 0.23.9"),
    ),
}


def bearing(runtime: str, dtypes: Iterable[str], kinds: Iterable[str]) -> list[Limit]:
    """The limits of ``runtime`` that bear on a model with these element types and kinds of cases."""
    types, wrong = set(dtypes), set(kinds)
    return [x for x in LIMITS.get(runtime, ()) if x.dtypes & types or x.unrefused & wrong]
