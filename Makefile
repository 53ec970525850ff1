# Whichever target runs first makes the one environment of all of them, .venv; nothing outside this folder is written.
#
#   make read       weave the book (running every chapter) and serve it on 127.0.0.1:8000
#   make test       the quick layers of the test suite, at most 10 minutes on 2 cores
#   make test-all   everything; continuous integration leaves out its last part, test-book
#   make lab        open the chapters in JupyterLab
#   make parity     add PyTorch 2.13.0 to .venv, so that claims and parity tests run on both libraries
#   make bench      ratios beside torch and other peers

PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
PORT ?= 8000
JOBS ?= 2
# One BLAS thread: two of them on a busy machine turn seconds into minutes.
export OPENBLAS_NUM_THREADS = 1
export OMP_NUM_THREADS = 1
export MKL_NUM_THREADS = 1
export NO_MKDOCS_2_WARNING = 1
PYTEST := $(BIN)/python -m pytest -n $(JOBS) --dist loadgroup

.PHONY: read test test-rest test-slow test-book test-all compiled lint lab parity bench site tangle clean help
.DEFAULT_GOAL := help

help:
	@sed -n 's/^#   //p' Makefile

$(VENV)/.installed: pyproject.toml
	@test -n "$(PYTHON)" || { echo "readtorch needs Python 3.11 or newer; none found on PATH (or say: make PYTHON=/path/to/python …)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

read: $(VENV)/.installed
	$(BIN)/readtorch read --port $(PORT)

site: $(VENV)/.installed
	$(BIN)/mkdocs build --strict

lab: $(VENV)/.installed
	$(BIN)/readtorch lab

tangle: $(VENV)/.installed
	$(BIN)/readtorch tangle

test: $(VENV)/.installed compiled
	$(BIN)/readtorch tangle --check
	$(PYTEST) -m "not browser and not slow and not gpu"

# Hundreds of tests start a process of their own; where Python may not write byte code, each of them would compile the package.
compiled: $(VENV)/.installed
	@$(BIN)/python -m compileall -q src

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/readtorch coverage
	$(BIN)/readtorch upstream check

test-rest: lint site
	$(PYTEST) -m "browser and not slow and not book and not gpu"
	$(BIN)/python benchmarks/import_time.py --check

# Each chapter's tests on its as-of build, wrong calls beside PyTorch's, wide models, the whole book live.
test-slow: $(VENV)/.installed compiled
	$(PYTEST) -m "slow and not browser and not book and not gpu"

# The longest: every page and trace of the woven book in a browser, the whole book run twice, and a real JupyterLab.
test-book: $(VENV)/.installed compiled
	$(PYTEST) -m "(book or (browser and slow)) and not gpu"

test-all: test test-rest test-slow test-book

parity: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'torch==2.13.0'

bench: $(VENV)/.installed
	@for script in benchmarks/*.py; do echo "== $$script"; env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE $(BIN)/python $$script || exit 1; done

clean:
	rm -rf $(VENV) site build dist .cache
