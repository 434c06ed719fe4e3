# Everything rests on `make setup`: a virtual environment in .venv, made from any Python 3.11 or newer.
#   make test PYTHON=python3.12 VENV=.venv-3.12     another interpreter, in an environment of its own
#   make test ARGS="-k conv -x"                     arguments for pytest
PYTHON ?= $(firstword $(foreach p,python3 python3.12 python3.11 python3.13 python3.14,\
            $(shell $(p) -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $(p))))
VENV ?= .venv
WORKERS ?= 2
ARGS ?=

# Tests start hundreds of processes: each would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

BIN := $(VENV)/bin
STAMP := $(VENV)/.ready

.PHONY: help setup demo gallery test fuzz test-torch test-extras test-web test-wheel test-min test-newest docs conformance test-zoo corpus accuracy lint format typecheck bench bench-zoo coverage lock clean
.DEFAULT_GOAL := help

help:
	@echo "make setup      make $(VENV) with everything that demo and tests need"
	@echo "make demo       train a small classifier, export it, check it, run it"
	@echo "make gallery    export ten models in five frameworks, and prove each"
	@echo "make test       run the tests            (ARGS=\"-k name -x\" for pytest)"
	@echo "make conformance  the profiles of PyTorch in four steps; files go to conformance/"
	@echo "make test-torch the profiles of PyTorch, in an environment of their own"
	@echo "make test-extras  a Dask cluster, signatures, four runtimes, JAX profiles; files go to extras/"
	@echo "make test-web   ONNX Runtime Web in Node and in Chromium, and the proof page; files go to weblane/"
	@echo "make test-wheel the wheel as users install it: ten commands, then tests; files go to wheellane/"
	@echo "make test-min   the same with the oldest dependencies; make test-newest: with the newest"
	@echo "make docs       the site of the documents, checked, in site/"
	@echo "make fuzz       random programs for SECONDS, held against JAX"
	@echo "make corpus     all of JAX's own cases for its primitives, in ONNX Runtime"
	@echo "make accuracy   the errors of these cases beside JAX's: writes docs/accuracy.md"
	@echo "make test-zoo   programs of more than forty packages, in an environment of their own"
	@echo "make lint       ruff, import contracts"
	@echo "make format     rewrite the code as ruff formats it"
	@echo "make typecheck  mypy --strict"
	@echo "make bench      measure export and inference, beside jax2onnx"
	@echo "make bench-zoo  latency of 21 models beside jax2onnx, PyTorch and jax.jit"
	@echo "make coverage   try every public function of JAX, and write docs/coverage.md"
	@echo "make lock       write requirements/ anew, for this Python"
	@echo "make clean      remove what the commands above made"

setup: $(STAMP)
	@:

# The lock file of the interpreter pins every version; a Python without one gets the newest that fit.
$(STAMP): pyproject.toml $(wildcard requirements/*.txt)
	@test -n "$(PYTHON)" || { echo "onnxproof needs Python 3.11 or newer; none was found. Give one: make $(MAKECMDGOALS) PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) scripts/make_venv.py $(VENV)
	@touch $@

demo: setup
	@$(BIN)/onnxproof demo

gallery: setup
	@$(BIN)/python -m examples.gallery --force $(ARGS)

test: setup
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(ARGS)

# PyTorch is large, and nothing else needs it: its tests have an environment of their own.
TORCH_VENV ?= .venv-torch

$(TORCH_VENV)/.ready: pyproject.toml $(wildcard requirements/*.txt)
	@$(PYTHON) scripts/make_venv.py $(TORCH_VENV)
	@$(TORCH_VENV)/bin/python -m pip install --quiet --disable-pip-version-check "torch==2.13.*" "onnxscript>=0.7"
	@touch $@

test-torch: $(TORCH_VENV)/.ready
	$(TORCH_VENV)/bin/python -m pytest tests/evidence_torch $(ARGS)

# The four steps of the conformance lane, from an environment without ONNX to both PyTorch profiles.
conformance:
	$(PYTHON) scripts/conformance_lane.py .venv-conformance conformance

# What only some users install (Dask, signing, two runtimes): an environment that rests on $(VENV).
test-extras: setup
	@$(BIN)/python scripts/extras_lane.py $(VENV) .venv-extras extras $(ARGS)

# Node and a browser, which it installs where they are missing and it may; an environment that rests on $(VENV).
test-web: setup
	@$(BIN)/python scripts/web_lane.py $(VENV) .venv-web weblane $(ARGS)

# What users install: built twice, installed elsewhere, used, tested. Each makes its environments anew.
test-wheel:
	$(PYTHON) scripts/wheel_lane.py wheellane

test-min:
	$(PYTHON) scripts/wheel_lane.py wheellane-min --versions minimum

test-newest:
	$(PYTHON) scripts/wheel_lane.py wheellane-newest --versions newest

# Nothing is fetched while the site is built, nor by who reads it.
docs: setup
	@$(BIN)/python scripts/build_docs.py $(VENV) .venv-docs site

# Programs of other people's packages: forty-five of them, and what those need, are nobody else's business.
ZOO_VENV ?= .venv-zoo

$(ZOO_VENV)/.ready: pyproject.toml $(wildcard requirements/*.txt)
	@$(PYTHON) scripts/make_venv.py $(ZOO_VENV)
	@$(ZOO_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -e ".[zoo]"
	@touch $@

test-zoo: $(ZOO_VENV)/.ready
	$(ZOO_VENV)/bin/python -m pytest tests/zoo --whole-zoo $(ARGS)

# `make test` runs a sample of these.
corpus: setup
	$(BIN)/python -m pytest tests/primitives --whole-corpus -n $(WORKERS) $(ARGS)

accuracy: setup
	$(BIN)/python -m tests.primitives.report --jobs $(WORKERS) $(ARGS)

# Random programs, other ones each time: make fuzz SECONDS=3600 SEED=7 ARGS=--x64
SECONDS ?= 600
SEED ?= 0

fuzz: setup
	PYTHONPATH=. $(BIN)/python -W ignore -m tests.fuzz --seconds $(SECONDS) --seed $(SEED) $(ARGS)

lint: setup
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports

format: setup
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

typecheck: setup
	$(BIN)/mypy

# The converter that we compare with is installed into an environment of its own.
bench:
	@$(MAKE) --no-print-directory setup VENV=.venv-bench
	@.venv-bench/bin/python -c 'import jax2onnx' 2>/dev/null || .venv-bench/bin/python -m pip install --quiet jax2onnx
	.venv-bench/bin/python -m benchmarks.export $(ARGS)

# ZOO: where the figures go; the table is printed. Ten minutes on two quiet cores.
ZOO ?= zoo.json

bench-zoo:
	@$(MAKE) --no-print-directory setup VENV=.venv-bench
	@.venv-bench/bin/python -c 'import jax2onnx' 2>/dev/null || .venv-bench/bin/python -m pip install --quiet jax2onnx
	@.venv-bench/bin/python -c 'import torch, onnxscript' 2>/dev/null || .venv-bench/bin/python -m pip install --quiet "torch==2.13.*" "onnxscript>=0.7"
	.venv-bench/bin/python -m benchmarks.zoo --output $(ZOO) $(ARGS)

# The page is about the newest JAX, which needs Python 3.12: make coverage PYTHON=python3.12 VENV=.venv-3.12
coverage: setup
	$(BIN)/python -m tests.sweep.generate $(ARGS)

lock:
	$(PYTHON) scripts/lock.py

clean:
	rm -rf .venv .venv-* build dist site wheellane* demo-output gallery-output .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
