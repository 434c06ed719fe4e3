"""ONNX Runtime in this process."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from onnxproof.errors import ArtifactError, ConformanceError

if TYPE_CHECKING:
    import onnx
    import onnxruntime

Array = np.ndarray[Any, Any]

_BFLOAT16 = 16  # onnx.TensorProto.BFLOAT16


class OrtSession:
    """A loaded model.

    Args:
        model: path, bytes or ``ModelProto``.
        threads: intra-op threads.
        optimized: run with all graph optimizations, or with none.
        disabled: optimizers to leave out.

    Raises:
        ArtifactError: the file does not exist.
        ConformanceError: ONNX Runtime refuses the model.
    """

    def __init__(
        self, model: Any, *, threads: int = 1, optimized: bool = True, disabled: Sequence[str] = ()
    ) -> None:
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        if not optimized:
            options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        source = model
        if isinstance(model, (str, os.PathLike)):
            source = os.fspath(model)
            if not os.path.isfile(source):
                raise ArtifactError(f"there is no file {source!r}", way_out="Export the model first.")
        elif not isinstance(model, bytes):
            source = model.SerializeToString()
        try:
            self._session = ort.InferenceSession(
                source,
                options,
                providers=["CPUExecutionProvider"],
                disabled_optimizers=list(disabled) or None,
            )
        except Exception as err:  # ONNX Runtime raises classes of its own, one for each status code
            raise ConformanceError(
                f"ONNX Runtime does not load the model: {err}",
                way_out="Run onnx.checker on it; if the checker passes, report the model.",
            ) from err
        self.input_names = [i.name for i in self._session.get_inputs()]
        self.input_types = [i.type for i in self._session.get_inputs()]
        self.output_names = [o.name for o in self._session.get_outputs()]

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Run on arrays in the order of the graph's inputs; outputs in the order of its outputs.

        Raises:
            ConformanceError: the number of inputs is wrong, or the runtime fails.
        """
        if len(inputs) != len(self.input_names):
            raise ConformanceError(
                f"the model takes {len(self.input_names)} inputs ({', '.join(self.input_names)}),"
                f" {len(inputs)} were given"
            )
        feed = {n: to_ort(a) for n, a in zip(self.input_names, inputs, strict=True)}
        try:
            results = self._session.run_with_ort_values(self.output_names, feed)
        except Exception as err:  # ONNX Runtime raises classes of its own, one for each status code
            raise ConformanceError(f"ONNX Runtime fails on these inputs: {err}") from err
        return [from_ort(r) for r in results]


def available_providers() -> list[str]:
    """The execution providers of the ONNX Runtime that is installed, in its order of preference."""
    import onnxruntime as ort

    return list(ort.get_available_providers())


def to_ort(array: Array) -> onnxruntime.OrtValue:
    import onnxruntime as ort

    array = np.ascontiguousarray(array).reshape(array.shape)
    if array.dtype.name == "bfloat16":
        return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(array.view(np.uint16), _BFLOAT16)
    return ort.OrtValue.ortvalue_from_numpy(array)


def from_ort(value: onnxruntime.OrtValue) -> Array:
    array: Array
    if value.data_type() != "tensor(bfloat16)":
        array = np.asarray(value.numpy())
        return array
    import ml_dtypes  # bfloat16 alone needs it

    shape = tuple(value.shape())
    count = int(np.prod(shape, dtype=np.int64))
    raw = ctypes.string_at(value.data_ptr(), 2 * count) if count else b""
    array = np.frombuffer(raw, np.uint16).view(ml_dtypes.bfloat16).reshape(shape)
    return array


def run_graph(
    model: onnx.ModelProto,
    feed: Mapping[str, Array],
    outputs: Sequence[str],
    *,
    optimized: bool,
    disabled: Sequence[str] = (),
) -> list[Array]:
    """Run a graph for any of its values, not its outputs only.

    Args:
        feed: inputs by name.
        outputs: names of values of the main graph.
        disabled: optimizers of ONNX Runtime to leave out.

    Raises:
        ConformanceError: the runtime does not load the graph, or fails on it.
    """
    import onnx

    graph = onnx.ModelProto()
    graph.CopyFrom(model)
    told = {o.name for o in graph.graph.output}
    graph.graph.output.extend(onnx.ValueInfoProto(name=n) for n in dict.fromkeys(outputs) if n not in told)
    session = OrtSession(graph, optimized=optimized, disabled=disabled)
    values = session.run([feed[name] for name in session.input_names])
    by_name = dict(zip(session.output_names, values, strict=True))
    return [by_name[name] for name in outputs]
