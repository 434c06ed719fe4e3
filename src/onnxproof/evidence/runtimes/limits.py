"""What runtimes are known not to do, as data: a difference is charged to whoever made it.

Each was seen by running small models on the versions named in ``seen``, and there is such a model for each in the
tests.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limit:
    """A known limit of a runtime; one that names no kinds, no element types and not NaN explains no case.

    Attributes:
        name: what records call it.
        what: the limit in one sentence.
        seen: the runtime and version it was seen in.
        unrefused: kinds of wrong inputs that the runtime takes, or fails on in other ways than by refusing them.
        dtypes: element types, as ONNX names them in lower case, whose values it does not keep.
        nan: it computes numbers where NaN is right. An output is explained by that only where nothing else differs.
    """

    name: str
    what: str
    seen: str
    unrefused: frozenset[str] = frozenset()
    dtypes: frozenset[str] = frozenset()
    nan: bool = False


_NAMES = "dimensions of one name are not compared with each other before the graph runs"

# What is exported for ONNX Runtime goes round its limits, so none of them explains a difference.
_ONNXRUNTIME = (
    Limit("dimension-names", _NAMES, "onnxruntime 1.32.0", unrefused=frozenset({"constraint"})),
    Limit(
        "scalar-rank",
        "the rank of an input that is declared a scalar is not checked",
        "onnxruntime 1.32.0",
        unrefused=frozenset({"scalar"}),
    ),
    Limit(
        "reduction-drops-nan",
        "ReduceMax and ReduceMin drop a NaN behind the first element",
        "onnxruntime 1.32.0",
    ),
    Limit("int32-sum-saturates", "ReduceSum of int32 saturates where it should wrap", "onnxruntime 1.32.0"),
)

_WEB = "onnxruntime-web 1.30.0"
_WEB_INPUTS = (
    Limit("dimension-names", _NAMES, _WEB, unrefused=frozenset({"constraint"})),
    Limit(
        "scalar-rank",
        "the rank of an input that is declared a scalar is not checked",
        _WEB,
        unrefused=frozenset({"scalar"}),
    ),
    Limit("opset-26", "opsets beyond 26 and IR versions beyond 13 are refused when the file is loaded", _WEB),
    Limit(
        "bfloat16-unknown", "there are no tensors of bfloat16, nor of 8-bit floats or 4-bit integers", _WEB
    ),
    Limit("reduction-drops-nan", "ReduceMax and ReduceMin drop a NaN behind the first element", _WEB),
)
_WEB_WASM = (
    *_WEB_INPUTS,
    Limit("where-int8", "Where has no kernel for int8 and uint32", _WEB),
    Limit("cast-saturates", "Cast of floats to 32 bits or to unsigned saturates, and gives 0 for NaN", _WEB),
    Limit("int32-sum-saturates", "ReduceSum of int32 saturates where it should wrap", _WEB),
    Limit("tensor-too-large", "a tensor has less than 4 GiB: what WebAssembly can address", _WEB),
)
_SWIFTSHADER = f"{_WEB}, Chromium 150, its software adapter"
_WEB_WEBGPU = (
    *_WEB_INPUTS,
    Limit(
        "types-without-kernels", "float64, int16 and uint16 have no kernels, not even in WebAssembly", _WEB
    ),
    Limit("float16-needs-shader-f16", "float16 fails when it runs, unless the adapter has shader-f16", _WEB),
    Limit(
        "nan-dropped",
        "Clip, Relu, Sigmoid, HardSigmoid, Softmax and Exp lose NaN; WGSL lets an adapter assume there is none",
        _SWIFTSHADER,
        nan=True,
    ),
    Limit("log-is-finite", "Log of 0 is -88.03 and of a negative number 0", _SWIFTSHADER),
    Limit("denormals-flushed", "numbers below the least normal one become 0", _SWIFTSHADER),
    Limit(
        "sine-imprecise", "Sin and Cos are off by up to 2e-4 near 0, and by more far from it", _SWIFTSHADER
    ),
    Limit(
        "dft-imprecise",
        "DFT takes its roots of unity from such sines, and is off by up to 7e-4",
        _SWIFTSHADER,
    ),
    Limit("log-near-one", "Log is off by up to 1.5e-7 near 1, where it should be small", _SWIFTSHADER),
    Limit(
        "slice-backwards",
        "Slice with a negative step begins at the end of the axis, whatever its start",
        _WEB,
    ),
    Limit("cast-saturates", "Cast of floats to int32 saturates at 2147483520", _SWIFTSHADER),
    Limit("nan-unsorted", "TopK leaves values with NaN among them in no order", _SWIFTSHADER),
)

LIMITS: dict[str, tuple[Limit, ...]] = {
    "onnxruntime": _ONNXRUNTIME,
    "onnxruntime-cuda": tuple(x for x in _ONNXRUNTIME if x.unrefused),  # what is checked before a kernel runs
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
        Limit(
            "nan-dropped",
            "Max, Min, Clip, Relu, HardSigmoid, Softmax and reductions by Max and Min lose NaN",
            "openvino 2026.4.1",
            nan=True,
        ),
        Limit("nan-is-false", "Cast of NaN to bool gives false", "openvino 2026.4.1"),
        Limit("nan-unsorted", "TopK leaves values with NaN among them in no order", "openvino 2026.4.1"),
        Limit(
            "int32-sum-saturates", "ReduceSum of int32 saturates where it should wrap", "openvino 2026.4.1"
        ),
    ),
    "tract": (
        Limit("bfloat16-unknown", "bfloat16 is refused when the file is loaded", "tract 0.23.9"),
        Limit("loop-unknown", "Loop is refused when the file is loaded", "tract 0.23.9"),
        Limit("lstm-symbolic-batch", "an LSTM whose batch has a name ends the process", "tract 0.23.9"),
        Limit("shape-as-output", "what Shape says of a named dimension cannot be an output", "tract 0.23.9"),
        Limit(
            "nan-dropped",
            "Max, Min, Clip, Relu, Tanh, Sigmoid, HardSigmoid and reductions by Max and Min lose NaN",
            "tract 0.23.9",
            nan=True,
        ),
        Limit("nan-unsorted", "TopK leaves values with NaN among them in no order", "tract 0.23.9"),
        Limit("cast-saturates", "Cast of floats to integers saturates, and gives 0 for NaN", "tract 0.23.9"),
    ),
    "ort-web-node-wasm": _WEB_WASM,
    "ort-web-browser-wasm": _WEB_WASM,
    "ort-web-browser-webgpu": _WEB_WEBGPU,
}


def bearing(runtime: str, dtypes: Iterable[str], kinds: Iterable[str], *, nan: bool) -> list[Limit]:
    """The limits of ``runtime`` that bear on a model with these element types and kinds of cases.

    Args:
        nan: whether the runtime gave a number where NaN was expected.
    """
    types, wrong = set(dtypes), set(kinds)
    return [x for x in LIMITS.get(runtime, ()) if x.dtypes & types or x.unrefused & wrong or (nan and x.nan)]
