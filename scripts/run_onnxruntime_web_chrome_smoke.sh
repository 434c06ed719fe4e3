#!/usr/bin/env bash
# A few exports in ONNX Runtime Web in the system's Chromium, WebAssembly with threads and WebGPU, held against JAX.
set -euo pipefail
cd "$(dirname "$0")/.."
make --no-print-directory setup
.venv/bin/python -c 'import playwright' 2>/dev/null || .venv/bin/python -m pip install --quiet 'playwright>=1.50'
.venv/bin/python scripts/web_smoke.py chrome
