"""OpenVINO on the CPU, in 32-bit floats unless the model has others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from onnxproof.evidence.runtimes.adapter import Array, Loaded, NotLoaded, Options, Refused

_REFUSAL = "Can't set the input tensor"  # what infer_request.cpp says of a shape that does not fit


class OpenVino:
    """OpenVINO; session options are its properties, such as ``INFERENCE_PRECISION_HINT``."""

    def __init__(self) -> None:
        self._compiled: Any = None

    def version(self) -> str:
        import openvino

        return str(openvino.__version__).partition("-")[0]

    def load(self, model: Path, provider: str, session: Options) -> Loaded:
        import openvino

        core = openvino.Core()
        if provider not in core.available_devices:
            raise NotLoaded(f"{provider} is not among the devices: {', '.join(core.available_devices)}")
        self._compiled = core.compile_model(core.read_model(str(model)), provider, dict(session))
        devices = list(self._compiled.get_property("EXECUTION_DEVICES"))
        placed = Counter({devices[0]: len(self._compiled.get_runtime_model().get_ops())}) if devices else None
        return Loaded(devices, placed)

    def run(self, inputs: Sequence[Array]) -> list[tuple[str, Array]]:
        feed = {port.get_any_name(): a for port, a in zip(self._compiled.inputs, inputs, strict=True)}
        try:
            values = self._compiled(feed)
        except RuntimeError as err:
            if _REFUSAL in str(err):
                raise Refused(str(err)) from err
            raise
        return [(port.get_any_name(), np.asarray(values[port])) for port in self._compiled.outputs]
