"""Generate the kernel tables of ONNX Runtime Web: ``src/onnxproof/targets/ort_web_{wasm,webgpu}.json``.

Usage: ``python scripts/generate_web_tables.py [wasm|webgpu …]`` in an environment with the extra ``web``, in a folder
where ``onnxruntime-web`` is installed (``web/`` of this repository). It takes some minutes.

ONNX Runtime Web does not list its kernels, so it is asked: one session of one node for each operator, version and
type that the table of the CPU has, in Node for WebAssembly and in Chromium for WebGPU. A session that is created has
a kernel; one that fails because none was found has none. What can't be asked so (control flow, sequences, strings) is
as on the CPU. Of WebGPU the log of each session also says on which provider the node was placed: types that stay on
WebGPU are ``accelerated``, others run in WebAssembly, which is slower, and copies them there and back.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto, helper

from onnxproof.evidence.runtimes.ort_web import WEBGPU, OrtWeb, OrtWebGpu, OrtWebNode
from onnxproof.evidence.runtimes.web import locate, wire
from onnxproof.evidence.runtimes.web.link import Link
from scripts.generate_kernel_table import SHORT, render, text

TABLES = Path(__file__).parent.parent / "src/onnxproof/targets"
OPSETS = (17, 26)  # 26 is the newest that it takes
IR_VERSION = 13  # likewise
_CODES = dict(TensorProto.DataType.items())
_NAMES = (
    "FLOAT DOUBLE FLOAT16 BFLOAT16 INT8 INT16 INT32 INT64 UINT8 UINT16 UINT32 UINT64 BOOL INT4 UINT4 INT2 UINT2"
    " FLOAT8E4M3FN FLOAT8E4M3FNUZ FLOAT8E5M2 FLOAT8E5M2FNUZ"
)  # in the order of SHORT
CODES = {
    short: _CODES[name] for short, name in zip(SHORT.values(), _NAMES.split(), strict=True) if name in _CODES
}
FIRST = ("f32", "i64", "i32", "bool")  # which type a variable has while another one is varied
NO_KERNEL = ("Could not find an implementation", "ERROR_CODE: 9", "Provider type for", "NOT_IMPLEMENTED")
CREATED = "unsupported data type"  # what JavaScript says of an input's type, after the session was made
# Attributes without which a node is not valid, beside those whose name says what they are.
ATTRIBUTES: Mapping[str, Mapping[str, Any]] = {
    "Concat": {"axis": 0},
    "MaxPool": {"kernel_shape": [1, 1]},
    "AveragePool": {"kernel_shape": [1, 1]},
    "LpPool": {"kernel_shape": [1, 1]},
    "DepthToSpace": {"blocksize": 2},
    "SpaceToDepth": {"blocksize": 2},
    "Einsum": {"equation": "ij,jk->ik"},
    "LSTM": {"hidden_size": 2},
    "GRU": {"hidden_size": 2},
    "RNN": {"hidden_size": 2},
    "BitShift": {"direction": "LEFT"},
    "GroupNormalization": {"num_groups": 1},
    "LRN": {"size": 1},
    "Split": {"num_outputs": 1},
    "RandomNormal": {"shape": [2]},
    "RandomUniform": {"shape": [2]},
    "MaxUnpool": {"kernel_shape": [1, 1]},
}
_WINDOWS = ("HannWindow", "HammingWindow", "BlackmanWindow", "MelWeightMatrix")
_RANDOM = ("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "EyeLike", "Bernoulli")
BODIES_ALONE = ("If",)  # control flow that stays on WebGPU, with what is in it
# Kernels that are there and not used: DFT takes its roots of unity from the shader's sine and cosine, and is off by
# 3e-4 to 7e-4 of its result.
UNUSED: Mapping[str, tuple[str, ...]] = {"webgpu": ("DFT",)}
# What a table says beside kernels: forms that they get wrong, or refuse when they run (passes/legalize_avoided.py).
LIMITS: Mapping[str, Mapping[str, Any]] = {
    "webgpu": {
        "avoided": [
            "slices-backwards",
            "rows-far-from-0",
            "resizing-of-other-ranks",
            "convolution-of-4-axes",
            "transposed-convolution-of-3-axes",
        ]
    }
}
# The attribute that says the type of the output.
TARGET_TYPE = {
    **dict.fromkeys(("Cast", "BitCast"), "to"),
    **dict.fromkeys(_WINDOWS, "output_datatype"),
    **dict.fromkeys((*_RANDOM, "Multinomial"), "dtype"),
}
Row = dict[str, str]  # type variable → one type


def assignments(row: Mapping[str, str]) -> Iterator[tuple[str, Row]]:
    """One variable, and types for all of them: each variable takes every type that it has in the row, in turn."""
    types = {v: t.split() for v, t in row.items()}
    base = {v: next((x for x in FIRST if x in t), t[0]) for v, t in types.items()}
    for variable, each in types.items():
        for one in each:
            yield variable, {**base, variable: one}


def model_of(op: str, opset: int, schema: onnx.defs.OpSchema, entry: Mapping[str, Any], row: Row) -> Any:
    """A graph of one node with these types, of unknown shapes; None where it takes what is no tensor."""
    optional = onnx.defs.OpSchema.FormalParameterOption.Optional
    variadic = onnx.defs.OpSchema.FormalParameterOption.Variadic
    seen: set[str] = set()
    sides: list[list[tuple[str, str]]] = []
    for place, formals, letters in (
        ("x", schema.inputs, entry["in"].split()),
        ("y", schema.outputs, entry["out"].split()),
    ):
        side: list[tuple[str, str]] = []
        for i, (formal, letter) in enumerate(zip(formals, letters, strict=True)):
            plain = letter.rstrip("*")
            if formal.option == optional and (plain in seen or plain not in row):
                side.append(("", ""))
                continue
            seen.add(plain)
            kind = row.get(plain, plain)
            if kind not in CODES:
                return None
            count = 2 if formal.option == variadic and place == "x" else 1
            side += [(f"{place}{i}_{j}", kind) for j in range(count)]
        while side and not side[-1][0]:
            side.pop()
        sides.append(side)
    attributes: dict[str, Any] = dict(ATTRIBUTES.get(op, {}))
    if op == "Split" and "num_outputs" not in schema.attributes:
        attributes = {}
    given = CODES[row.get(entry["out"].split()[0], "f32")]
    if op in TARGET_TYPE:
        attributes[TARGET_TYPE[op]] = given
    elif op == "ConstantOfShape":
        attributes["value"] = helper.make_tensor("", given, [1], [0])
    node = helper.make_node(op, [n for n, _ in sides[0]], [n for n, _ in sides[1]], **attributes)
    values = [[helper.make_tensor_value_info(n, CODES[k], None) for n, k in side if n] for side in sides]
    graph = helper.make_graph([node], "probe", *values)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = IR_VERSION
    return model


class Asked:
    """Sessions of one provider, and how many of them said what."""

    def __init__(self, adapter: OrtWeb) -> None:
        self._adapter, self._link = adapter, adapter.start()
        self.counts = {"created": 0, "no kernel": 0, "as on the CPU": 0}
        self.other: list[str] = []

    @property
    def link(self) -> Link:
        return self._link

    def ask(self, model: Any) -> tuple[bool | None, bool]:
        """Whether there is a kernel (None where that can't be said), and whether the node is on WebGPU."""
        if model is None:
            self.counts["as on the CPU"] += 1
            return None, False
        header = {"do": "load", "provider": self._adapter.provider, "threads": 1, "external": []}
        header["options"] = {"graphOptimizationLevel": "disabled"}
        answer, _ = wire.unpack(self._link.ask(wire.pack(header, [model.SerializeToString()])))
        error = answer.get("error", "")
        if not error or CREATED in error:
            self.counts["created"] += 1
            return True, WEBGPU in (answer.get("placement") or {})
        if any(sign in error for sign in NO_KERNEL):
            self.counts["no kernel"] += 1
            return False, False
        self.counts["as on the CPU"] += 1
        self.other.append(f"{model.graph.node[0].op_type}: {error[:160]}")
        return None, False


def asked_row(
    op: str, entry: Mapping[str, Any], row: Mapping[str, str], asked: Asked
) -> tuple[Row | None, Row | None]:
    """What of a row of kernels is there, and what of that is on WebGPU; None where nothing is."""
    opset = max(entry["since"], OPSETS[0])
    schema = onnx.defs.get_schema(op, opset, "")
    there: dict[str, set[str]] = {v: set() for v in row}
    fast: dict[str, set[str]] = {v: set() for v in row}
    for variable, types in assignments(row):
        found, on_gpu = asked.ask(model_of(op, opset, schema, entry, types))
        if found is not False:
            there[variable].add(types[variable])
        if on_gpu:
            fast[variable].add(types[variable])
    kept = {v: text(t) for v, t in there.items()}
    quick = {v: text(t) for v, t in fast.items()}
    return (kept if all(kept.values()) else None), (quick if row and all(quick.values()) else None)


def table(provider: str, asked: Asked, version: str) -> dict[str, Any]:
    cpu = json.loads((TABLES / "ort_cpu.json").read_text())
    operators: dict[str, Any] = {}
    for op, entries in cpu["operators"].items():
        print(f"{provider}: {op}", file=sys.stderr)
        for entry in entries:
            if entry["since"] > OPSETS[1]:
                continue
            listed = [] if op in UNUSED.get(provider, ()) else entry["kernels"]
            rows = [asked_row(op, entry, row, asked) for row in listed]
            found = {**entry, "kernels": [kept for kept, _ in rows if kept is not None]}
            quick = [fast for _, fast in rows if fast]
            if "inlined" in entry:
                kept, fast = asked_row(op, entry, entry["inlined"], asked)
                found.pop("inlined")
                if kept:
                    found["inlined"] = kept
                quick += [fast] if fast else []
            if op in BODIES_ALONE and provider == "webgpu":
                quick = found["kernels"]
            if quick:
                found["accelerated"] = quick
            operators.setdefault(op, []).append(found)
    return {
        "target": f"ort-web-{provider}",
        "runtime": f"onnxruntime-web {version}",
        "provider": provider,
        **({"accelerator": "WebGPU"} if provider == "webgpu" else {}),
        "opsets": list(OPSETS),
        "limits": {"max_ir_version": IR_VERSION, **LIMITS.get(provider, {})},
        "sources": {
            "asked": f"one session for each operator, version and type: {version}",
            "sessions": asked.counts,
            "otherwise": cpu["runtime"],
        },
        "operators": operators,
    }


def main(arguments: list[str]) -> None:
    for provider in arguments or ("wasm", "webgpu"):
        adapter: OrtWeb = OrtWebNode() if provider == "wasm" else OrtWebGpu()
        asked = Asked(adapter)
        made = table(provider, asked, locate.package().version)
        made["sources"]["asked"] = f"onnxruntime-web {adapter.version()}"
        (TABLES / f"ort_web_{provider}.json").write_text(render(made))
        print(f"{provider}: {asked.counts}")
        for line in sorted(set(asked.other)):
            print(f"  {line}", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
