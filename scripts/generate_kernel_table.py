"""Generate ``src/onnxproof/targets/ort_cpu.json``: what ONNX Runtime's CPU provider can run.

Usage: ``python scripts/generate_kernel_table.py PROBE.json [OUTPUT.json]``

Three sources meet in the table, each recorded in it with its version:

* the kernels that the installed ONNX Runtime lists (operator, versions, types);
* the operator schemas of the installed ``onnx``: which types a version of an operator takes at all;
* PROBE.json, one real session for each operator, type and opset. It corrects the other two: kernels that
  throw when they run, and operators without a kernel that run because their function body is inlined.

The same inputs give the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as ort

OPSETS = (17, 28)
PROVIDER = "CPUExecutionProvider"
OPEN = 2**31 - 1
SHORT = {
    "tensor(float)": "f32",
    "tensor(double)": "f64",
    "tensor(float16)": "f16",
    "tensor(bfloat16)": "bf16",
    "tensor(int8)": "i8",
    "tensor(int16)": "i16",
    "tensor(int32)": "i32",
    "tensor(int64)": "i64",
    "tensor(uint8)": "u8",
    "tensor(uint16)": "u16",
    "tensor(uint32)": "u32",
    "tensor(uint64)": "u64",
    "tensor(bool)": "bool",
    "tensor(int4)": "i4",
    "tensor(uint4)": "u4",
    "tensor(int2)": "i2",
    "tensor(uint2)": "u2",
    "tensor(float8e4m3fn)": "f8e4m3fn",
    "tensor(float8e4m3fnuz)": "f8e4m3fnuz",
    "tensor(float8e5m2)": "f8e5m2",
    "tensor(float8e5m2fnuz)": "f8e5m2fnuz",
}
ORDER = {name: i for i, name in enumerate(SHORT.values())}
# The attribute whose value tells the probed variants of an operator apart.
VARIANTS = {
    "Mod": ("fmod", "0"),
    "ScatterND": ("reduction", "none"),
    "ScatterElements": ("reduction", "none"),
    "Resize": ("mode", "nearest"),
}
# The type variable that a probe varies, where it is not that of the first operand.
PROBED = {"OneHot": "T3", "Where": "T"}

Row = dict[str, frozenset[str]]


def short(types: Iterable[str]) -> frozenset[str]:
    return frozenset(SHORT[t] for t in types if t in SHORT)


def text(types: Iterable[str]) -> str:
    return " ".join(sorted(types, key=ORDER.__getitem__))


def versions(name: str) -> list[onnx.defs.OpSchema]:
    """The schemas of an operator in force at some opset of the range, oldest first."""
    found: dict[int, onnx.defs.OpSchema] = {}
    for opset in range(OPSETS[0], OPSETS[1] + 1):
        if onnx.defs.has(name, opset, ""):
            schema = onnx.defs.get_schema(name, opset, "")
            found[schema.since_version] = schema
    return [found[k] for k in sorted(found) if not found[k].deprecated]


def merged(rows: list[Row]) -> list[Row]:
    """Rows that differ in one variable only become one row."""
    rows = [dict(r) for r in rows]
    changed = True
    while changed:
        changed = False
        for i, a in enumerate(rows):
            for b in rows[i + 1 :]:
                apart = [v for v in a if a[v] != b[v]]
                if len(apart) <= 1:
                    if apart:
                        a[apart[0]] |= b[apart[0]]
                    rows.remove(b)
                    changed = True
                    break
            if changed:
                break
    return rows


def kernel_rows(schema: onnx.defs.OpSchema, kernels: list[Any], variables: Mapping[str, str]) -> list[Row]:
    """The types that kernels of this version take, cut down to those of the schema."""
    spec = {c.type_param_str: short(c.allowed_type_strs) for c in schema.type_constraints}
    rows = []
    for kernel in kernels:
        low, high = kernel.version_range
        since = schema.since_version
        if not (low == since if high == OPEN else low <= since <= high):
            continue
        row = dict(spec)
        for name, types in kernel.type_constraints.items():
            variable = variables.get(name, name)
            if variable in row:
                row[variable] &= short(types)
        for variable, types in row.items():
            if "f32" in types and "f16" in spec[variable]:  # the runtime casts around the kernel
                row[variable] = types | {"f16"}
        if all(row.values()):
            rows.append(row)
    return merged(rows)


def probed(probe: Mapping[str, Any], name: str, since: int) -> dict[str, dict[str, set[str]]]:
    """Variant → type → outcomes (ok, run, create) over the probed opsets where this version is in force."""
    found: dict[str, dict[str, set[str]]] = {}
    for opset, results in probe.items():
        if not onnx.defs.has(name, int(opset), ""):
            continue
        if onnx.defs.get_schema(name, int(opset), "").since_version != since:
            continue
        for key, (status, message) in results.items():
            label, dtype = key.split("|")
            base, _, variant = label.partition("(")
            status = "ok" if status in ("cast", "func") else status
            if status == "create" and "NOT_IMPLEMENTED" not in message:
                continue  # the probe's own node was not valid at that opset
            if base == name and status != "spec":
                variant = variant.rstrip(")").removeprefix("fmod=") if name in VARIANTS else ""
                found.setdefault(variant, {}).setdefault(dtype, set()).add(status)
    return found


def entry(schema: onnx.defs.OpSchema, kernels: list[Any], probe: Mapping[str, Any]) -> dict[str, Any]:
    """One version of one operator: its signature in type variables, and what runs."""
    name = schema.name
    constraints = {c.type_param_str for c in schema.type_constraints}
    params = [*schema.inputs, *schema.outputs]
    # Kernels name a constraint by its variable or by a parameter of that type.
    variables = {p.name: p.type_str for p in params if p.type_str in constraints}
    rows = kernel_rows(schema, kernels, variables)
    first = PROBED.get(name) or (schema.inputs[0].type_str if schema.inputs else "")
    refused: dict[str, set[str]] = {}
    inlined: set[str] = set()
    for variant, types in probed(probe, name, schema.since_version).items():
        for dtype, outcomes in types.items():
            listed = any(dtype in row.get(first, ()) for row in rows)
            if listed and "run" in outcomes:
                refused.setdefault(variant, set()).add(dtype)
            elif not listed and outcomes == {"ok"} and first in constraints:
                inlined.add(dtype)

    def signature(formal: Any) -> str:
        kind = onnx.defs.OpSchema.FormalParameterOption.Variadic
        letter = formal.type_str if formal.type_str in constraints else SHORT.get(formal.type_str, "?")
        return letter + ("*" if formal.option == kind else "")

    out: dict[str, Any] = {
        "since": schema.since_version,
        "in": " ".join(map(signature, schema.inputs)),
        "out": " ".join(map(signature, schema.outputs)),
        "kernels": [{v: text(types) for v, types in sorted(row.items())} for row in rows],
    }
    if inlined:
        out["inlined"] = {first: text(inlined)}
    if refused:
        attribute, default = VARIANTS.get(name, ("", ""))
        out["refused"] = {
            "by": attribute,
            "variable": first,
            "types": {(v or default): text(t) for v, t in sorted(refused.items())},
        }
    return out


def table(probe_bytes: bytes) -> dict[str, Any]:
    probe = json.loads(probe_bytes)
    kernels: dict[str, list[Any]] = {}
    for kernel in ort.get_all_opkernel_def():
        if kernel.provider == PROVIDER and kernel.domain == "":
            kernels.setdefault(kernel.op_name, []).append(kernel)
    names = sorted({s.name for s in onnx.defs.get_all_schemas() if s.domain == ""})
    operators = {}
    for name in names:
        entries: list[dict[str, Any]] = []
        for schema in versions(name):
            found = entry(schema, kernels.get(name, []), probe)
            measured = probed(probe, name, schema.since_version)
            if not measured and entries and "refused" in entries[-1]:
                found["refused"] = entries[-1]["refused"]  # no probe of this version: as the one before
            entries.append(found)
        if entries:
            operators[name] = entries
    return {
        "target": "ort-cpu",
        "runtime": f"onnxruntime {onnxruntime.__version__}",
        "provider": PROVIDER,
        "opsets": list(OPSETS),
        "sources": {
            "kernels": f"onnxruntime {onnxruntime.__version__} get_all_opkernel_def()",
            "schemas": f"onnx {onnx.__version__}",
            "probe": f"sha256:{hashlib.sha256(probe_bytes).hexdigest()}",
        },
        "operators": operators,
    }


def render(found: Mapping[str, Any]) -> str:
    """JSON with one version of one operator on each line."""
    head = {k: v for k, v in found.items() if k != "operators"}
    lines = []
    for name, entries in found["operators"].items():
        body = ",\n".join("  " + json.dumps(e, separators=(",", ":")) for e in entries)
        lines.append(f"{json.dumps(name)}:[\n{body}]")
    start = json.dumps(head, indent=1)[:-2]
    return start + ',\n "operators": {\n' + ",\n".join(lines) + "\n}}\n"


def main(arguments: list[str]) -> None:
    default = Path(__file__).parent.parent / "src/onnxproof/targets/ort_cpu.json"
    output = Path(arguments[1]) if len(arguments) > 1 else default
    output.write_text(render(table(Path(arguments[0]).read_bytes())))


if __name__ == "__main__":
    main(sys.argv[1:])
