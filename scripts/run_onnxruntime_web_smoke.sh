#!/usr/bin/env bash
# A few exports in ONNX Runtime Web's WebAssembly in Node, held against JAX.
set -euo pipefail
cd "$(dirname "$0")/.."
make --no-print-directory setup
.venv/bin/python scripts/web_smoke.py node
