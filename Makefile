# Mangrove: `make demo` runs the product, `make test` runs the tests; both set everything up first.
VENV ?= .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed
# Tests that nothing beside them can disturb run side by side; the others, with brokers under load, one after the other.
# The longest come first, so that all end together; live ones wait a lot, and others compute meanwhile.
LIVE := mqtt_matrix command_line client_connection federated_messaging queue_groups store session_asks \
	recorder_process recorder_sources broker_system readme plan_offers agent_mail leave_to_be_silent directions \
	limits_at_the_gateway replay gateway_counts calibrate changing_names own_names \
	advertisements offline
SIDE_BY_SIDE := tests/integration/test_pipeline_cluster.py tests/spark tests/integration/test_spark_ends.py \
	tests/integration/test_pipeline_run.py tests/integration/test_base_package.py \
	$(LIVE:%=tests/integration/test_%.py) tests/sim tests/property tests/unit tests/test_architecture.py \
	tests/test_documentation.py
# Hundreds of processes are started by the tests: none shall compile its modules anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test soak explore check format bench docs clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## Make the virtual environment and install everything, pinned

$(STAMP): pyproject.toml constraints.txt scripts/setup
	scripts/setup $(VENV)
	@touch $(STAMP)

demo: $(STAMP) ## Run a five-city federation of real brokers with traffic and report
	$(VENV)/bin/mangrove demo

test: $(STAMP) ## Run all tests (real brokers, real sockets)
	$(PY) -m pytest -m "not soak" -n logical --dist loadfile --no-loadscope-reorder $(SIDE_BY_SIDE)
	$(PY) -m pytest -m "not soak" $(SIDE_BY_SIDE:%=--ignore=%)

soak: $(STAMP) ## Run the long tests
	$(PY) -m pytest -m soak --timeout 1800

explore: $(STAMP) ## Try the properties with examples that were never tried before
	MANGROVE_EXAMPLES=explore $(PY) -m pytest -m "not soak" -n logical tests/property tests/unit

check: $(STAMP) ## Lint, type-check and check the import rules
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(PY) -m pytest -q tests/test_architecture.py

format: $(STAMP) ## Rewrite the code in the house format
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

bench: $(STAMP) ## Run the benchmarks, each a ratio measured in one run
	$(VENV)/bin/mangrove bench all

docs: $(STAMP) ## Write the generated reference pages, and take pictures of the live view
	$(PY) -m mangrove.cli.reference docs/reference
	$(PY) -m mangrove.cli.monitoring.pictures docs/images

clean: ## Remove the virtual environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .hypothesis .mangrove
