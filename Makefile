# `make train` runs the quick start, `make test` everything the tests need. Both set up .venv first.

PYTHON ?= python3
BIN := .venv/bin

# What computes, and so could round otherwise on another processor.
COMPUTING := tests/layers tests/quantizers tests/training tests/deployment tests/test_lagrangian.py tests/test_constraints.py tests/test_under_plan.py

.PHONY: setup train test test-processors test-slow clean

setup: .venv/installed

.venv/installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[data,plan,paper,ray,export,openvino,examples,test]'
	touch $@

train: setup
	$(BIN)/pdqat train --preset quickstart

test: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -n 2 --dist worksteal  # neighbours share fixtures, and no worker ends long before the other

test-processors: setup
	$(BIN)/python tests/processors.py -n 2 $(COMPUTING)

test-slow: setup
	$(BIN)/pytest -m slow

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis
