# Everything a developer or CI runs. A target first sets up what it needs: a virtual environment in .venv from the
# hashed lock file, the Azure emulator from its npm lock file, and from the system's packages Java and Maven, which run
# Spark and fetch the jars of Iceberg.
# Needed beforehand: Python >= 3.11, Node with npm, make.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
EMULATORS := tests/emulators
CODE := src tests bench examples

VENV_READY := $(VENV)/.stamp
EMULATORS_READY := $(EMULATORS)/node_modules/.stamp

MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup java maven demo test check prove rck bench sim schemas format lock clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV_READY) $(EMULATORS_READY) java maven ## Install everything the other targets need

java:
	@.ci/install-java

maven:
	@.ci/install-maven

demo: $(VENV_READY) java ## Carry out a pipeline on Spark, from nothing to a report
	@$(BIN)/python examples/demo.py $(if $(FOLDER),--folder $(FOLDER)) $(if $(FRESH),--fresh)

test: $(VENV_READY) $(EMULATORS_READY) java ## Run the tests on all cores, with branch coverage of at least 80 %
	@$(BIN)/pytest -q -n auto --maxprocesses 8 --dist worksteal --cov=arco --cov-branch --cov-fail-under=80 tests

check: $(VENV_READY) ## Lint, format, types, layers, golden schemas
	@$(BIN)/ruff check -q $(CODE)
	@$(BIN)/ruff format -q --check $(CODE)
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports
	@$(BIN)/python -m tests.schemas --check
	@$(BIN)/python -m tests.api.openapi --check
	@$(BIN)/python -m tests.client.unasync --check

prove: $(VENV_READY) $(EMULATORS_READY) java maven ## Kill tests, crash sweep, large simulation (QUICK=1 for the short form)
	@$(BIN)/python -m tests.prove $(if $(QUICK),--quick)

rck: $(VENV_READY) java maven ## Iceberg's REST Compatibility Kit (SERVER=arco, reference or a URL; ONLY=test for one)
	@$(BIN)/python -m tests.rck $(if $(SERVER),--server $(SERVER)) $(if $(ONLY),--only '$(ONLY)')

bench: $(VENV_READY) java maven ## Measure, as ratios within one run
	@$(BIN)/python -m bench

sim: $(VENV_READY) ## Simulate SEEDS=200 seeds of WORLD=engine, runs or commits (all), or replay one with SEED=n
	@$(BIN)/python -m tests.simulation $(if $(WORLD),--world $(WORLD)) $(if $(SEED),--seed $(SEED),--seeds $(or $(SEEDS),200))

schemas: $(VENV_READY) ## Rewrite what is generated: golden schemas, docs/openapi.json, the blocking client, the cost model's data
	@$(BIN)/python -m tests.schemas --write
	@$(BIN)/python -m tests.api.openapi --write
	@$(BIN)/python -m tests.client.unasync --write
	@$(BIN)/python -m tests.cost.profile --write

format: $(VENV_READY) ## Format the code and fix what ruff can fix
	@$(BIN)/ruff check -q --fix-only $(CODE)
	@$(BIN)/ruff format -q $(CODE)

RESOLVE = "$$tmp/bin/uv" pip compile -q --universal --generate-hashes --no-emit-index-url --no-emit-find-links \
	--no-annotate --python-version 3.11 $(if $(UPGRADE),--upgrade) --custom-compile-command "make lock"

lock: ## Resolve requirements.lock again (UPGRADE=1 for the newest versions)
	@tmp=$$(mktemp -d) && trap 'rm -rf "$$tmp"' EXIT && $(PYTHON) -m venv "$$tmp" && "$$tmp/bin/pip" install -q uv && \
	$(RESOLVE) --extra spark --group dev pyproject.toml -o requirements.lock && \
	printf 'dagster\npyspark==4.1.4\n' | $(RESOLVE) - -o bench/dagster/requirements.lock && \
	for engine in duckdb datafusion signing; do \
		$(RESOLVE) tests/engines/$$engine/requirements.in -o tests/engines/$$engine/requirements.lock || exit; done

clean: ## Remove everything that make created, .venv included
	@rm -rf $(VENV) $(EMULATORS)/node_modules .work build dist .coverage .coverage.* \
		.mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find $(CODE) -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

$(VENV_READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Arco needs Python 3.11 or newer as $(PYTHON); name another one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@echo "setting up $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install -q --disable-pip-version-check --require-hashes --no-deps -r requirements.lock
	@$(BIN)/pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(EMULATORS_READY): $(EMULATORS)/package-lock.json
	@command -v npm >/dev/null || { echo "the storage emulators need Node with npm: install it first" >&2; exit 1; }
	@echo "setting up $(EMULATORS)"
	@npm ci --prefix $(EMULATORS) --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@
