# Two commands: `make demo` runs a distributed computation in tmux, `make test` runs the tests. Both set up first.
.DEFAULT_GOAL := help
.PHONY: help setup python examples demo lint types tests test test-kubernetes test-slurm test-thorough test-slow chaos chaos-short check bench clean

BIN := .venv/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)
SOURCES := symphony providers caraml toolchain tests stacks examples
PYTEST_ARGS ?=

help: ## show this
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/^([a-z-]+):[^#]*## (.*)/  make \1|\2/' | column -t -s '|'

setup: python ## get all that is needed: Python packages, tmux, the Pulumi engine
	@$(BIN)/python -m toolchain.engine
	@$(BIN)/symphony setup

python:
	@scripts/python.sh

examples: setup ## and what examples/surreal learns with: jax, optax, gymnasium, TensorBoard
	@scripts/python.sh examples

demo: setup ## numerical integration over worker processes, shown live and checked
	@$(BIN)/python examples/numint/demo.py

test: setup lint ## lint, types and the tests: pure ones, tmux and the engine
	@$(MAKE) --no-print-directory --jobs=2 types tests

tests:
	@scripts/test.sh $(PYTEST_ARGS)

test-kubernetes: setup ## the tests that need a cluster: one that is up, else one of one machine, as root
	@scripts/test.sh --kubernetes $(PYTEST_ARGS)

test-slurm: examples ## the tests that need Slurm: one of four nodes on this machine, installed as root
	@scripts/test.sh --slurm $(PYTEST_ARGS)

test-thorough: examples ## further tests: more faults, doors and corners
	@scripts/test.sh --thorough $(PYTEST_ARGS)

test-slow: setup ## the tests that take minutes each, an hour or two in all: 10,000 random changes and their like
	@scripts/test.sh --slow $(PYTEST_ARGS)

chaos: setup ## an hour of kills, races and full disks
	@$(BIN)/python -m toolchain.guard $(BIN)/python -m tests.chaos $(if $(KIND),--kind '$(KIND)') $(if $(SEED),--seed $(SEED))

chaos-short: setup ## three minutes of it, other seeds each time
	@$(BIN)/python -m toolchain.guard $(BIN)/python -m tests.chaos --short

check: python lint types ## lint, format, types and the direction of imports: the fast half of `make test`

lint:
	$(BIN)/ruff check $(wildcard $(SOURCES))
	$(BIN)/ruff format --check $(wildcard $(SOURCES))
	$(BIN)/lint-imports --no-logo

types:
	$(BIN)/basedpyright

bench: setup ## figures and their goals, on an idle machine
	@$(BIN)/python -m compileall -q symphony caraml providers toolchain
	@$(BIN)/python -m tests.benchmarks

clean: ## forget what was set up in this folder; the engine stays in the user's cache
	rm -rf .venv .pytest_cache .ruff_cache .import_linter_cache
