#!/usr/bin/env bash
# Lint, types and tests; with ONNXPROOF_RUN_ONNXRUNTIME_WEB=1 also a smoke test of ONNX Runtime Web in Node, and with
# ONNXPROOF_RUN_ONNXRUNTIME_WEB_CHROME=1 one in Chromium. `make test-web` runs all of their tests.
set -euo pipefail
cd "$(dirname "$0")/.."
make lint typecheck test
if [ "${ONNXPROOF_RUN_ONNXRUNTIME_WEB:-0}" = 1 ]; then
    scripts/run_onnxruntime_web_smoke.sh
fi
if [ "${ONNXPROOF_RUN_ONNXRUNTIME_WEB_CHROME:-0}" = 1 ]; then
    scripts/run_onnxruntime_web_chrome_smoke.sh
fi
