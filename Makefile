# `make setup` once, then `make test` and `make demo`. `make help` lists the targets.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
export PATH := $(abspath $(BIN)):$(PATH)

JOBS ?= 2
DEMO_MODEL = $$($(BIN)/python -c 'import onnx, pathlib; print(pathlib.Path(onnx.__file__).parent / "backend/test/data/light/light_squeezenet.onnx")')

.PHONY: help setup test demo lint typecheck imports pytest filecheck bench

help:
	@echo "setup      virtual environment in $(VENV) with the project and its test tools"
	@echo "test       lint, import rules, FileCheck tests, pytest"
	@echo "demo       compile light SqueezeNet, run it, compare it with onnxruntime (no download)"
	@echo "lint       ruff: rules and format"
	@echo "typecheck  pyright strict"
	@echo "imports    the one-way import rules"
	@echo "filecheck  lit over tests/filecheck"
	@echo "pytest     everything else under tests"
	@echo "bench      our time, memory and error beside the installed peers"

$(BIN)/.ready: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test,lint]'
	touch $@

setup: $(BIN)/.ready

test: lint imports filecheck pytest

demo: setup
	$(BIN)/glow-run $(DEMO_MODEL) --random 0 --compare onnxruntime --iterations 10

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

typecheck: setup
	$(BIN)/pyright

imports: setup
	$(BIN)/lint-imports --no-cache

filecheck: setup
	@if find tests/filecheck -name '*.mlir' | grep -q .; then \
	  $(BIN)/lit --verbose -j $(JOBS) tests/filecheck; \
	else echo "filecheck: no tests"; fi

pytest: setup
	$(BIN)/python -m pytest -n $(JOBS)

bench: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[peers]'
	$(BIN)/python -m benchmarks.compare
