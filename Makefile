# Every recipe is a plain line or two, to be typed as they stand by whoever has no make. `make` alone lists them.
.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
ENGINE ?= docker
# pip: no setting of the user's moves the packages elsewhere, and what it thinks of its version and of root is not the first
# thing that one reads.
export PIP_USER := 0
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_ROOT_USER_ACTION := ignore

help: ## print this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /make \1\t/' | expand -t 20

figures: .venv/ready ## every figure and table at paper scale, into paper_figures/
	PATH="$(CURDIR)/$(BIN):$$PATH" snakemake --cores all

quick: .venv/ready ## the same workflow, scaled down (config/quick.yaml), into results/quick/
	PATH="$(CURDIR)/$(BIN):$$PATH" snakemake --cores all --configfile config/quick.yaml

test: .venv/ready ## the test suite
	$(BIN)/python -m pytest -n auto --dist loadfile

test-all: .venv/ready ## the test suite with the slow checks
	$(BIN)/python -m pytest -n auto --dist loadfile -m "not slurm"

lint: .venv/ready ## ruff, snakefmt, snakemake --lint, mypy
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/snakefmt --check Snakefile workflow && $(BIN)/mypy
	PATH="$(CURDIR)/$(BIN):$$PATH" .ci/lint-workflow

report: .venv/ready ## the HTML report of the paper-scale run by Snakemake, report.html
	PATH="$(CURDIR)/$(BIN):$$PATH" snakemake everything --cores 1 --report report.html

verify: .venv/ready ## compare the paper-scale run with paper_figures/reference/
	PATH="$(CURDIR)/$(BIN):$$PATH" snakemake --cores 1 -- paper_figures/verification.md

evaluate: .venv/ready ## the main figures at paper scale, their claims, beside the reference: paper_figures/evaluation/
	PATH="$(CURDIR)/$(BIN):$$PATH" snakemake --cores all -- evaluate

estimate: .venv/ready ## how long the paper-scale run takes on this machine
	$(BIN)/elastiqueue estimate

coverage: .venv/ready ## whether 95 % intervals cover: 20 minutes of CPU time, into results/coverage/
	PATH="$(CURDIR)/$(BIN):$$PATH" snakemake --cores all --configfile config/coverage.yaml

bench: .venv/ready ## speed of the simulators, as ratios, and beside peers, into benchmarks/results/
	$(BIN)/python benchmarks/speed.py && $(BIN)/python benchmarks/peers.py && $(BIN)/python benchmarks/precision.py

image: ## the container image (ENGINE=podman for another engine than docker)
	$(ENGINE) build -f container/Dockerfile -t elastiqueue .

lock: ## renew requirements.lock from pyproject.toml (needs uv)
	uv pip compile pyproject.toml --group dev --group hpc --universal --generate-hashes --no-emit-index-url --no-annotate --no-header -q -o requirements.lock

# The stamp is written last: what failed half-way (no python3-venv, no network) is begun again.
.venv/ready: requirements.lock pyproject.toml
	@echo "Setting up .venv, 2 to 3 minutes: some 150 MB of packages, then the simulators are compiled"
	@$(PYTHON) -c "import ensurepip" || { echo "$(PYTHON) has no venv: on Debian and Ubuntu, apt install python3-venv"; exit 1; }
	$(PYTHON) -m venv .venv && $(BIN)/python -m pip install --quiet --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e . && $(BIN)/python -m elastiqueue.workflow.precompile && touch .venv/ready
.venv: .venv/ready

clean: ## remove results and figures, not the environment
	rm -rf results paper_figures/data paper_figures/tables paper_figures/evaluation
	rm -f paper_figures/*.pdf paper_figures/*.png paper_figures/*.html paper_figures/*.json paper_figures/claims.md paper_figures/verification.md

.PHONY: help figures quick test test-all lint report verify evaluate coverage estimate bench image lock clean
