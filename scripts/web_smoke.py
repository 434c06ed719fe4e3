"""Three models in ONNX Runtime Web, held against JAX, one line each: ``python scripts/web_smoke.py node|chrome``.

It needs Node with npm, and for ``chrome`` Chromium and the extra ``web``. Exits with 0 when every value matches, with
10 when something is missing, with 16 when a value differs, and with 18 when a runtime fails: codes of ``onnxproof``.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np

from onnxproof import ConformanceError, allclose_onnxruntime_web, to_onnx
from onnxproof.models import build
from web_lane import PROGRAMS, packages

WEB = Path(__file__).resolve().parent.parent / "web"
MODELS = ("mlp", "cnn", "lstm")
NEEDED = {"node": ("node", "npm"), "chrome": ("npm",)}  # Chromium has several names: the runtime looks for it
PLACES: dict[str, list[dict[str, Any]]] = {
    "node": [{"runner": "node"}],
    "chrome": [{"runner": "browser", "threads": 2}, {"runner": "browser", "provider": "webgpu"}],
}


def matches(name: str, place: dict[str, Any]) -> bool:
    """Export a model, run it there, and print a line."""
    built = build(name, "float32", seed=0)
    gpu = place.get("provider") == "webgpu"
    target, opset = ("ort-web-webgpu", 21) if gpu else ("ort-web-wasm", 23)
    model = to_onnx(built.fn, built.inputs, export_mode="web", target=target, opset=opset)
    rng = np.random.default_rng(0)
    shapes = [[d if isinstance(d, int) else 3 for d in spec.shape] for spec in built.inputs]
    arrays = [rng.normal(size=shape).astype(np.float32) for shape in shapes]
    bound = 1e-3 if gpu else 1e-5  # a software adapter's functions are coarser
    agrees, text = allclose_onnxruntime_web(model, arrays, bound, bound, fn=built.fn, package=WEB, **place)
    print(f"{name}: {text}", flush=True)
    return agrees


def main(where: str) -> int:
    """The exit code."""
    if missing := [program for program in NEEDED[where] if shutil.which(program) is None]:
        names = " ".join(PROGRAMS[program] for program in missing)
        print(f"missing: {', '.join(missing)}; as root: apt-get install {names}", file=sys.stderr)
        return 10
    packages()
    try:
        failed = [name for name in MODELS for place in PLACES[where] if not matches(name, place)]
    except ConformanceError as err:
        print(f"error: {err}", file=sys.stderr)
        return 10 if "missing-dependency" in str(err) else 18
    if failed:
        print(f"values differ: {', '.join(dict.fromkeys(failed))}", file=sys.stderr)
    return 16 if failed else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("where", choices=list(PLACES))
    sys.exit(main(parser.parse_args().where))
