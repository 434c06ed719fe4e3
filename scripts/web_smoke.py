"""Three models in ONNX Runtime Web, held against JAX, one line each: ``python scripts/web_smoke.py node|chrome``.

It needs Node and ``npm ci --ignore-scripts`` in ``web/``, and for ``chrome`` Chromium and the extra ``web``.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from onnxproof import allclose_onnxruntime_web, to_onnx
from onnxproof.models import build

WEB = Path(__file__).resolve().parent.parent / "web"
PLACES: dict[str, list[dict[str, Any]]] = {
    "node": [{"runner": "node"}],
    "chrome": [{"runner": "browser", "threads": 2}, {"runner": "browser", "provider": "webgpu"}],
}


def main(where: str) -> int:
    failed = 0
    for name in ("mlp", "cnn", "lstm"):
        built = build(name, "float32", seed=0)
        for place in PLACES[where]:
            gpu = place.get("provider") == "webgpu"
            target, opset = ("ort-web-webgpu", 21) if gpu else ("ort-web-wasm", 23)
            model = to_onnx(built.fn, built.inputs, export_mode="web", target=target, opset=opset)
            rng = np.random.default_rng(0)
            shapes = [[d if isinstance(d, int) else 3 for d in spec.shape] for spec in built.inputs]
            arrays = [rng.normal(size=shape).astype(np.float32) for shape in shapes]
            bound = 1e-3 if gpu else 1e-5  # a software adapter's functions are coarser
            matches, text = allclose_onnxruntime_web(
                model, arrays, bound, bound, fn=built.fn, package=WEB, **place
            )
            failed += not matches
            print(f"{name}: {text}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
