# The verbs, the same for people and for CI: make install | run | test | lint | dev
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
ARGS ?=

.PHONY: install run test test-long integrity lint format dev system system-test clean

install: $(VENV)/.dev

# torch first and alone, so that the build chosen for it (CPU where pip offers one) is the one everything else uses.
$(VENV)/.base: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "ksearch needs Python 3.11 or newer: make PYTHON=python3.11")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --constraint constraints.txt torch
	$(PIP) install --quiet --constraint constraints.txt --editable .
	touch $@

$(VENV)/.dev: $(VENV)/.base
	$(PIP) install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

# A C++ compiler is all that the CPU tasks need from the system.
system:
	@command -v g++ >/dev/null || $(call apt,g++,g++)

# Tests start a PostgreSQL server of their own and look at pages in Chromium; without these, such tests are skipped.
system-test: system
	@command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || $(call apt,PostgreSQL,postgresql)
	@command -v chromium >/dev/null || $(call apt,Chromium,chromium)

# Installs package $(2) where we may; elsewhere says how to get $(1).
apt = { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && \
	  apt-get install -y -qq --no-install-recommends $(2) >/dev/null || \
	  echo "$(1) is missing: install it with your system's packages (Debian: sudo apt-get install $(2))" >&2; }

# The quickstart: a real search on this machine's CPU; fails when it stays below 1.8x and says why.
run: system $(VENV)/.base
	$(BIN)/ksearch run softmax --require 1.8 $(ARGS)

# Two at a time: half of the suite's time is spent waiting, for processes and for the one evaluation that may be timed.
TESTS := $(BIN)/python -m pytest --numprocesses 2 --dist loadfile

test: system-test $(VENV)/.dev
	$(TESTS) -m 'not long' $(ARGS)

test-long: system-test $(VENV)/.dev
	$(TESTS) $(ARGS)

# Every cheat of the catalogue, what stops it and where: on this machine's CPU, and on its GPU when there is one.
integrity: system $(VENV)/.dev
	PYTHONPATH=. $(BIN)/python -m benchmarks.integrity $(ARGS)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pyright
	$(BIN)/lint-imports

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# LangGraph's development server on this machine: no key and no internet needed.
dev: system $(VENV)/.dev
	PYTHONPATH=. LANGGRAPH_CLI_NO_ANALYTICS=1 LANGGRAPH_NO_VERSION_CHECK=true \
	  $(BIN)/langgraph dev --no-browser --no-reload --n-jobs-per-worker 4 $(ARGS)

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .langgraph_api
