# Two commands to begin with: `make demo` and `make test`. Each sets up what it needs.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 15))' 2>/dev/null && echo $$p && break; done)
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# One worker per core: each test process computes with one thread (tests/conftest.py).
TEST_WORKERS ?= 2

# How much of the battery is run, in how many minutes at most, and where its record is kept.
SHARE ?= 1
MINUTES ?= 240
BATTERY ?= build/battery

.PHONY: help demo test test-all battery lint format setup clean

help:
	@echo "make demo      find the wrong labels among 326 small pictures, in half a minute"
	@echo "make test      run the tests"
	@echo "make test-all  run the tests, then the slow ones and those in a browser"
	@echo "make battery   hostile input, kills, full disks, a loaded review: an hour or two; SHARE=0.1"
	@echo "make lint      ruff, spelling and words, mypy --strict, imports, and the site of the docs"
	@echo "make format    let ruff rewrite the sources"

demo: $(VENV)/.base
	$(BIN)/josrc demo

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n $(TEST_WORKERS) --dist worksteal

test-all: test
	$(BIN)/python -m pytest -n $(TEST_WORKERS) --dist worksteal -m "slow or browser"

battery: $(VENV)/.dev
	PYTHONPATH=tests $(BIN)/python -m battery --out $(BATTERY) --share $(SHARE) --minutes $(MINUTES)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell src tests tools docs *.md
	$(BIN)/python tools/check_words.py
	$(BIN)/mypy
	$(BIN)/mypy tools/*.py
	$(BIN)/lint-imports --no-cache --no-logo
	$(BIN)/python tools/build_site.py

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

setup: $(VENV)/.dev

clean:
	rm -rf $(VENV) build dist

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "josrc needs Python 3.11 to 3.14; set PYTHON=/path/to/python"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "Could not make a virtual environment with $(PYTHON); on Debian and Ubuntu: apt install python3-venv"; exit 1; }

$(VENV)/.base: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing josrc and its libraries into $(VENV) (a few minutes, some 5 GB with torch) ..."
	$(PIP) install --quiet --constraint constraints.txt --editable '.[features,review]'
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt $(VENV)/.base
	$(PIP) install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@
