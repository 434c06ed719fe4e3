"""ONNX Runtime as a worker runs it, on the provider asked for and no other."""

from __future__ import annotations

import ctypes
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from onnxproof.evidence.runtimes.adapter import Array, Loaded, NotLoaded, Options, Refused
from onnxproof.evidence.runtimes.ort import from_ort, to_ort
from onnxproof.evidence.runtimes.recommended import RECOMMENDED

CUDA = "CUDAExecutionProvider"
_CUDA_DRIVER = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
_RECORD_PLACEMENT = "session.record_ep_graph_assignment_info"  # onnxruntime_session_options_config_keys.h


class OnnxRuntime:
    """ONNX Runtime; session options are attributes of ``SessionOptions``, enumerations by name, and config entries."""

    provider_options: ClassVar[dict[str, str]] = {}

    def __init__(self) -> None:
        self._session: Any = None

    def version(self) -> str:
        import onnxruntime as ort

        return str(ort.__version__)

    def load(self, model: Path, provider: str, session: Options) -> Loaded:
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.log_severity_level = 4
        for name, value in session.items():
            if name == "graph_optimization_level":
                options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, value)
            elif name in ("intra_op_num_threads", "inter_op_num_threads"):
                setattr(options, name, value)
            elif name in RECOMMENDED:
                options.add_session_config_entry(name, str(value))
            else:
                raise NotLoaded(f"{name!r} is no session option that records state")
        options.add_session_config_entry(_RECORD_PLACEMENT, "1")
        if provider not in ort.get_available_providers():
            raise NotLoaded(
                f"{provider} is not among the providers: {', '.join(ort.get_available_providers())}"
            )
        chosen = [(provider, self.provider_options)]
        self._session = ort.InferenceSession(str(model), options, providers=chosen)
        self._session.disable_fallback()
        providers = self._session.get_providers()
        if providers[0] != provider:
            raise NotLoaded(f"the session runs on {providers[0]}, not on {provider}")
        placed: Counter[str] = Counter()
        for part in self._session.get_provider_graph_assignment_info():
            placed[part.ep_name] += len(part.get_nodes())
        return Loaded(providers, placed)

    def run(self, inputs: Sequence[Array]) -> list[tuple[str, Array]]:
        from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument

        names = [i.name for i in self._session.get_inputs()]
        feed = {name: to_ort(array) for name, array in zip(names, inputs, strict=True)}
        outputs = [o.name for o in self._session.get_outputs()]
        try:
            values = self._session.run_with_ort_values(outputs, feed)
        except InvalidArgument as err:
            raise Refused(f"InvalidArgument: {err}") from err
        return [(name, from_ort(value)) for name, value in zip(outputs, values, strict=True)]


class OnnxRuntimeCuda(OnnxRuntime):
    """ONNX Runtime on a GPU of NVIDIA's: missing where the package or the driver is, not merely slow.

    Nodes that CUDA has no kernel for run on the CPU; the placement says how many. Products are computed in
    float32 throughout: by default the GPU rounds their operands to 10 bits (TF32).
    """

    provider_options: ClassVar[dict[str, str]] = {"use_tf32": "0"}

    def version(self) -> str:
        version = super().version()
        import onnxruntime as ort

        if CUDA not in ort.get_available_providers():
            raise ImportError(f"onnxruntime {version} was built without {CUDA}: install onnxruntime-gpu")
        try:
            ctypes.CDLL(_CUDA_DRIVER)
        except OSError as err:
            raise ImportError(f"there is no driver of NVIDIA's for {CUDA}: {err}") from err
        return version
