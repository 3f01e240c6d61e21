# Two commands matter: `make quickstart` and `make test`.
# Each sets itself up on a bare machine (Python 3.11+ and a package index) and is quick the second time.
#   PYTHON=python3.12   another interpreter        MINTACT_VENV=DIR   an environment that is ready

PYTHON ?= python3
VENV := $(if $(MINTACT_VENV),$(MINTACT_VENV),.venv)
BIN := $(VENV)/bin
# torch is named with its version before anything that would pull another one
TORCH := $(shell sed -n 's/^\(torch==.*\)/\1/p' requirements-dev.txt)
PROJECTS := pyproject.toml $(wildcard envs/*/pyproject.toml rewards/*/pyproject.toml \
  algorithms/*/pyproject.toml plugins/*/pyproject.toml)
READY := $(if $(MINTACT_VENV),,.venv/.ready)
SGLANG_VENV ?= .sglang-venv
BENCHMARKS := $(wildcard benchmarks/*.py benchmarks/*/run.py)
SOURCES := mintact_platform envs rewards algorithms plugins tests benchmarks

# one thread a process: schedulers, engines and trainers share the cores
export OMP_NUM_THREADS := 1
export PATH := $(abspath $(BIN)):$(PATH)

.DEFAULT_GOAL := help
.PHONY: help quickstart test test-runs test-slow lint types docs bench sglang-venv clean machine

help: ## what there is
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

quickstart: machine $(READY) ## train a tiny model on four domains on this machine, and report
	@sh docs/quickstart/run.sh

test: lint types ## lint, types, the default suite, wheels outside the checkout
	python -m pytest --numprocesses=2 --dist=loadfile --no-loadscope-reorder

test-runs: machine $(READY) ## whole runs, storms, installations: what takes minutes each
	python -m pytest -m "runs and not slow and not real_sglang" --numprocesses=2 --dist=loadfile --no-loadscope-reorder

test-slow: machine $(READY) ## the long runs: learning on three seeds, kills, soak
	python -m pytest -m slow --timeout=3600

lint: machine $(READY) ## ruff, both ways
	ruff check .
	ruff format --check .

types: machine $(READY) ## mypy, strict
	mypy

docs: machine $(READY) ## the manual, in build/site
	zensical build --clean --strict --config-file mkdocs.yml

bench: machine $(READY) ## the measured claims
	@for file in $(BENCHMARKS); do echo "== $$file"; python "$$file" || exit 1; done

sglang-venv: machine ## SGLang on a CPU, in an environment of its own: five minutes, 3.5 GB
	sh plugins/sglang/cpu/make-venv.sh "$(SGLANG_VENV)" "$(PYTHON)"

machine:
	@sh docs/quickstart/machine.sh $(PYTHON)

.venv/.ready: requirements-dev.txt $(PROJECTS) | machine
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet "$(TORCH)" "setuptools>=77"
	$(BIN)/python -m pip install --quiet --no-build-isolation -r requirements-dev.txt
	@touch $@

clean: ## remove what the other targets made, the runs kept
	rm -rf .venv .bench .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
	find . -name '*.egg-info' -prune -exec rm -rf {} + -o -name __pycache__ -prune -exec rm -rf {} +
