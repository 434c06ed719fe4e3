"""The small export that ``onnxproof doctor`` runs in a process of its own.

It prints a JSON object after each stage, so that a process that ends too soon has told how far it came.
"""

from __future__ import annotations

import json
import time
from typing import Any


def main() -> None:
    """Import, export, load, compare."""
    began = time.perf_counter()
    done: list[str] = []

    def tell(stage: str, **facts: Any) -> None:
        done.append(stage)
        print(json.dumps({"done": done, **facts}), flush=True)

    import jax
    import jax.numpy as jnp
    import numpy as np

    from onnxproof import to_onnx
    from onnxproof.evidence.compare import difference
    from onnxproof.evidence.runtimes.ort import OrtSession, available_providers

    devices = [f"{d.platform} {d.device_kind}".strip() for d in jax.devices()]
    tell("import", devices=devices, providers=available_providers())
    weight = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)

    def small(x: Any) -> Any:
        return jnp.tanh(x @ weight).sum(axis=-1)

    model = to_onnx(small, [("B", 3)])
    tell("export")
    session = OrtSession(model)
    tell("load")
    x = np.linspace(-2, 2, 15, dtype=np.float32).reshape(5, 3)
    found = difference(session.run([x])[0], np.asarray(small(x)))
    if not found.matches:
        raise SystemExit(f"ONNX Runtime and JAX differ by {found.max_abs}")
    tell("compare", seconds=round(time.perf_counter() - began, 3))
