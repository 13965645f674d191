# Two commands to begin with: `make demo` and `make test`. Each sets up what it needs.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' 2>/dev/null && echo $$p && break; done)
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# One worker a core: each test process computes with one thread (tests/conftest.py).
TEST_WORKERS ?= 2

.PHONY: help demo test test-all lint format setup clean

help:
	@echo "make demo      train on noisy digits for a minute and see what josrc finds"
	@echo "make test      run the tests"
	@echo "make test-all  run the tests and then the slow ones"
	@echo "make lint      ruff, mypy --strict, and whether imports point down"
	@echo "make format    let ruff rewrite the sources"

demo: $(VENV)/.base
	$(BIN)/josrc demo

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n $(TEST_WORKERS) --dist worksteal

test-all: test
	$(BIN)/python -m pytest -n $(TEST_WORKERS) --dist worksteal -m slow

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache --no-logo

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

setup: $(VENV)/.dev

clean:
	rm -rf $(VENV) build dist

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "josrc needs Python 3.11, 3.12 or 3.13; set PYTHON=/path/to/python"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "Could not make a virtual environment with $(PYTHON); on Debian and Ubuntu: apt install python3-venv"; exit 1; }

$(VENV)/.base: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing josrc and its libraries into $(VENV) (a few minutes, some 5 GB with torch) ..."
	$(PIP) install --quiet --constraint constraints.txt --editable .
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt $(VENV)/.base
	$(PIP) install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@
