# Every recipe is a plain line or two, to be typed as they stand by whoever has no make. `make` alone lists them.
.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin

help: ## print this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /make \1\t/' | expand -t 20

figures: .venv ## every figure and table at paper scale, into paper_figures/
	PATH="$(CURDIR)/$(BIN):$$PATH" snakemake --cores all

quick: .venv ## the same workflow in little (config/quick.yaml), into results/quick/
	PATH="$(CURDIR)/$(BIN):$$PATH" snakemake --cores all --configfile config/quick.yaml

test: .venv ## the test suite
	$(BIN)/python -m pytest -n auto --dist loadfile

test-all: .venv ## the test suite with the slow checks
	$(BIN)/python -m pytest -n auto --dist loadfile -m "not slurm"

lint: .venv ## ruff, snakefmt, snakemake --lint, mypy
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/snakefmt --check Snakefile workflow && $(BIN)/mypy
	PATH="$(CURDIR)/$(BIN):$$PATH" .ci/lint-workflow

report: .venv ## Snakemake's HTML report of the paper-scale run, report.html
	PATH="$(CURDIR)/$(BIN):$$PATH" snakemake everything claims --cores 1 --report report.html

verify: .venv ## compare the paper-scale run with paper_figures/reference/
	PATH="$(CURDIR)/$(BIN):$$PATH" snakemake --cores 1 -- paper_figures/verification.md

estimate: .venv ## how long the paper-scale run takes on this machine
	$(BIN)/elastiqueue estimate

bench: .venv ## speed of the simulators, as ratios
	$(BIN)/python benchmarks/speed.py

lock: ## renew requirements.lock from pyproject.toml (needs uv)
	uv pip compile pyproject.toml --group dev --group hpc --universal --generate-hashes --no-emit-index-url --no-annotate --no-header -q -o requirements.lock

.venv: requirements.lock pyproject.toml
	$(PYTHON) -m venv .venv && $(BIN)/python -m pip install --quiet --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e . && $(BIN)/python -m elastiqueue.workflow.precompile && touch .venv

clean: ## remove results and figures, not the environment
	rm -rf results paper_figures/data paper_figures/tables
	rm -f paper_figures/*.pdf paper_figures/*.png paper_figures/*.html paper_figures/*.json paper_figures/claims.md paper_figures/verification.md

.PHONY: help figures quick test test-all lint report verify estimate bench lock clean
