"""Options of the tests, and which of them need what is not always installed."""

from __future__ import annotations

import gc
import importlib.util

import pytest

# Lanes of their own have these packages (make test-torch, make test-extras, make test-web); a test that is skipped
# fails them.
LANES = {
    "evidence_torch": "torch",
    "evidence_dask": "distributed",
    "evidence_sign": "model_signing",
    "evidence_runtimes": "tract",
    "web": "playwright",
    "web_page": "playwright",
    "examples_rl": "gymnasium",
    "examples_keras": "keras",
    "examples_safetensors": "safetensors",
}
collect_ignore = [folder for folder, package in LANES.items() if not importlib.util.find_spec(package)]
gc.set_threshold(100_000)  # traces and programs stay: looking for cycles among them costs and finds nothing
# Plugins are tested by pytest's own means.
pytest_plugins = ["pytester"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--mutations", type=int, default=200, help="how many mutations of each kind to try")
    parser.addoption("--whole-zoo", action="store_true", help="no package of the zoo may be missing")
    parser.addoption("--whole-corpus", action="store_true", help="run all of JAX's own cases, not a sample")
