"""ONNX Runtime's own tools, in a process of their own: they configure logging and extend the path when imported.

Run with one line of JSON on standard input; the answer is one line of JSON, what the tools print goes to standard
error. What a tool raises ends the process.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from onnxproof.precision import provenance

Request = Mapping[str, Any]
WEIGHT_RANK = 2  # weights of lower rank (biases, scales) are a hundredth of a file, and stay as they are

# Which the tool leaves in float32, though ONNX Runtime has kernels for them (the table of targets, of 1.32).
FLOAT16_BY_NOW = {"Max", "Min", "TopK"}


class Refused(Exception):
    """The tool would get something in the file wrong."""


def run(request: Request) -> None:
    """Write ``request["output"]`` from ``request["model"]``.

    Raises:
        Refused: the tool can't do it right.
    """
    import onnxruntime

    source, output = Path(request["model"]), Path(request["output"])
    raw = output.with_name("raw.onnx")
    _TOOLS[request["mode"]](source, raw, request)
    model = ir.load(raw)
    provenance.restore(model, ir.load(source))
    model.metadata_props["onnxproof.precision"] = f"{request['mode']}, onnxruntime {onnxruntime.__version__}"
    ir.save(model, output, external_data=f"{output.name}.data" if request["external"] else None)


def _float16(source: Path, raw: Path, request: Request) -> None:
    """Everything in float16 but what has to stay; inputs and outputs keep their dtype behind casts."""
    from onnxruntime.transformers import float16

    inferred = raw.with_name("inferred.onnx")
    onnx.shape_inference.infer_shapes_path(str(source), str(inferred), data_prop=True)
    blocked = sorted({*float16.DEFAULT_OP_BLOCK_LIST} - FLOAT16_BY_NOW)
    stay = {*blocked, *float16.ALWAYS_FLOAT_INPUTS}
    for node in _bodies(ir.load(inferred).graph):
        if node.op_type in stay and any(v is not None and v.dtype is ir.DataType.FLOAT for v in node.inputs):
            raise Refused(
                f"{node.op_type} {node.name!r} stays in float32, and is inside a loop or branch, where the tool"
                " puts the casts into the wrong graph"
            )
    converted = float16.convert_float_to_float16(
        str(inferred), keep_io_types=True, disable_shape_infer=True, op_block_list=blocked
    )
    model = ir.from_proto(converted)
    model.graph.sort()  # the tool puts its casts behind everything else
    outer = {id(v) for v in (*model.graph.inputs, *model.graph.outputs)}
    for node in ir.traversal.RecursiveGraphIterator(model.graph):
        for value in node.outputs:
            if id(value) not in outer:  # types of what stayed in float32 are those of float16
                value.type = value.shape = None
    for graph in model.graphs():
        for value in graph.initializers.values():  # so do those of weights that only such operators take
            value.dtype = value.const_value.dtype if value.const_value is not None else value.dtype
    untyped = raw.with_name("untyped.onnx")
    ir.save(model, untyped, external_data=f"{untyped.name}.data" if request["external"] else None)
    onnx.shape_inference.infer_shapes_path(str(untyped), str(raw), data_prop=True)


def _bodies(graph: ir.Graph) -> Iterator[ir.Node]:
    """Nodes inside of loops and branches."""
    return (node for node in ir.traversal.RecursiveGraphIterator(graph) if node.graph is not graph)


def _stored(dtype: ir.DataType) -> Callable[[Path, Path, Request], None]:
    """Weights stored in ``dtype``, and cast where they are used; ONNX Runtime casts them once, on loading."""

    def convert(source: Path, raw: Path, request: Request) -> None:
        model = ir.load(source)
        for graph in model.graphs():
            for name, value in list(graph.initializers.items()):
                tensor = value.const_value
                wide = tensor is not None and tensor.dtype is ir.DataType.FLOAT
                if tensor is None or not wide or len(tensor.shape) < WEIGHT_RANK or value.is_graph_output():
                    continue
                narrow = ir.Tensor(tensor.numpy().astype(dtype.numpy()), name=name)
                node = ir.node("Cast", [value], {"to": ir.DataType.FLOAT}, name=f"{name}/cast")
                cast = node.outputs[0]
                cast.name, cast.shape, cast.dtype = f"{name}/float32", value.shape, ir.DataType.FLOAT
                value.replace_all_uses_with(cast)
                node.replace_input_with(0, value)
                value.const_value, value.dtype = narrow, dtype
                graph.insert_before(graph[0], node)
        ir.save(model, raw, external_data=f"{raw.name}.data" if request["external"] else None)

    return convert


def _int8(source: Path, raw: Path, request: Request) -> None:
    """Weights in 8 bits; what they are multiplied with is quantized in each run, by its own range."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    def quantize(model: str, to: Path, *, per_channel: bool, nodes: list[str], others: list[str]) -> None:
        quantize_dynamic(
            model,
            to,
            op_types_to_quantize=request["operators"],
            per_channel=per_channel,
            reduce_range=not request["full_range"],
            weight_type=QuantType.QInt8,
            nodes_to_quantize=nodes,
            nodes_to_exclude=others,
            use_external_data_format=request["external"],
        )

    prepared = _prepared(source, raw, request)
    stacked = _stacked(ir.load(prepared).graph)
    first = raw.with_name("first.onnx") if stacked else raw
    quantize(prepared, first, per_channel=True, nodes=[], others=stacked)
    if stacked:
        quantize(str(first), raw, per_channel=False, nodes=stacked, others=[])


def _stacked(graph: ir.Graph) -> list[str]:
    """Products with stacks of matrices, of which ONNX Runtime's kernel takes one scale only."""
    return [
        node.name or ""
        for node in graph
        if node.op_type == "MatMul"
        and (weight := node.inputs[1]) is not None
        and weight.const_value is not None
        and len(weight.const_value.shape) > WEIGHT_RANK
    ]


def _int8_static(source: Path, raw: Path, request: Request) -> None:
    """Weights and what they are multiplied with in 8 bits, by the ranges seen in the calibration cases."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    class Cases(CalibrationDataReader):  # type: ignore[misc]  # it has no types
        def __init__(self) -> None:
            self._left = iter(request["calibration"])

        def get_next(self) -> dict[str, Any] | None:
            path = next(self._left, None)
            return None if path is None else dict(np.load(path).items())

    quantize_static(
        _prepared(source, raw, request),
        raw,
        Cases(),
        quant_format=QuantFormat.QDQ,
        op_types_to_quantize=request["operators"],
        per_channel=True,
        reduce_range=not request["full_range"],
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        use_external_data_format=request["external"],
    )


def _int4(source: Path, raw: Path, request: Request) -> None:
    """Weights of products in 4 bits, a scale for each block of a column; everything else in float32."""
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
    from onnxruntime.quantization.onnx_model import ONNXModel

    model = ONNXModel(onnx.load(_prepared(source, raw, request)))
    model.replace_gemm_with_matmul()
    double = {t.name for t in model.initializer() if t.data_type == onnx.TensorProto.DOUBLE}
    quantizer = MatMulNBitsQuantizer(
        model.model,
        bits=4,
        block_size=request["block_size"],
        is_symmetric=True,
        nodes_to_exclude=[n.name for n in model.nodes() if double & set(n.input)],  # there is no kernel
    )
    quantizer.process()
    quantizer.model.save_model_to_file(str(raw), request["external"])


def _prepared(source: Path, raw: Path, request: Request) -> str:
    """The model with the shapes of its values, which the quantizers ask for."""
    from onnxruntime.quantization.shape_inference import quant_pre_process

    prepared = raw.with_name("prepared.onnx")
    quant_pre_process(
        str(source),
        str(prepared),
        skip_symbolic_shape=True,  # it needs sympy, and adds nothing to what the exporter wrote
        skip_optimization=True,  # it would rename values and drop where they come from
        save_as_external_data=request["external"],
    )
    return str(prepared)


_TOOLS: Mapping[str, Callable[[Path, Path, Request], None]] = {
    "float16": _float16,
    "float16-weights": _stored(ir.DataType.FLOAT16),
    "bfloat16": _stored(ir.DataType.BFLOAT16),
    "int8": _int8,
    "int8-static": _int8_static,
    "int4": _int4,
}


def main() -> None:
    """Answer one request."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    answer = {"refused": ""}
    try:
        run(json.loads(sys.stdin.readline()))
    except Refused as err:
        answer = {"refused": str(err)}
    answers.write(json.dumps(answer) + "\n")
    answers.close()
