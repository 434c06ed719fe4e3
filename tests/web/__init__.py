"""Tests that need Node, the npm package of ONNX Runtime Web, and Chromium: ``make test-web``."""
