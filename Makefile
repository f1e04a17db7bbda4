# Two commands: `make run` and `make test`. Both call `make setup` first, which is instant once it has run.
# Tests come in tiers: `make test` is what one runs while working, `make check` adds the deep tier, `make crash` the long
# runs; CONTRIBUTING.md says what belongs where.

# The first Python on PATH that is new enough.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)

BIN := .venv/bin
UV := $(BIN)/uv
# Where all is broken the first thirty failures say so; the others would take hours.
PYTEST := $(BIN)/pytest -n auto --maxfail=30
export UV_PYTHON_DOWNLOADS := never
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Tests start processes by the hundred: modules are compiled once, not in each.
unexport PYTHONDONTWRITEBYTECODE

# uv hard-links from its cache in the home folder; who has no such folder caches inside the clone. Likewise for /tmp.
CACHE := $(if $(XDG_CACHE_HOME),$(XDG_CACHE_HOME),$(if $(HOME),$(HOME)/.cache))
ifeq ($(shell test -n "$(CACHE)" && mkdir -p "$(CACHE)" 2>/dev/null && test -w "$(CACHE)" && echo yes),)
export XDG_CACHE_HOME := $(CURDIR)/.cache
endif
ifeq ($(shell test -w "$${TMPDIR:-/tmp}" && echo yes),)
export TMPDIR := $(CURDIR)/.cache/tmp
$(shell mkdir -p "$(TMPDIR)")
endif

# An environment whose Python has gone, or that was made elsewhere and moved, is made anew.
ifneq ($(shell $(BIN)/python -c 'import sys; print(sys.prefix)' 2>/dev/null),$(CURDIR)/.venv)
$(shell rm -f .venv/ready)
endif

# What is ours: a clone also holds what its user puts there.
SOURCES := src tests bench examples

.PHONY: help setup run test check lint crash mutants bench bench-peers docs lock clean packages azurite brokers

help:
	@echo 'make run     start Holdfast on http://127.0.0.1:7777'
	@echo 'make test    lint, types and the first tier of tests'
	@echo 'make check   make test, then the deep tier: processes killed, all seeds and pairs, other Postgres, a browser'
	@echo 'make setup   .venv with the locked versions (run and test do this themselves)'
	@echo 'make lint    ruff, mypy --strict, import rules'
	@echo 'make crash   the long fault runs; most of an hour'
	@echo 'make mutants put bugs into the engine, one at a time: the tests must notice each'
	@echo 'make bench   measurements, written to bench/results/local'
	@echo 'make bench-peers   Holdfast beside other task queues, written to bench/results/local'
	@echo 'make docs    the documentation, built into site/'
	@echo 'make lock    choose versions anew and write requirements.lock'
	@echo 'make clean   remove what setup and the tools made; .holdfast stays'

setup: .venv/weights
	@:

.venv/ready: requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo 'Holdfast needs Python 3.11 or newer: install it, or name it: make PYTHON=/path/to/python3 $(MAKECMDGOALS)'; exit 1; }
	@test "$$($(BIN)/python -c 'import sys; print(sys.prefix)' 2>/dev/null)" = "$(CURDIR)/.venv" || \
		{ rm -rf .venv && $(PYTHON) -m venv .venv; } || { rm -rf .venv; \
		echo 'This Python cannot make a virtual environment (on Debian and Ubuntu: apt-get install python3-venv).'; exit 1; }
	@test -x $(UV) || $(BIN)/python -m pip install --quiet "uv==$$(sed -n 's/^uv==\([^ ]*\).*/\1/p' requirements.lock)"
	@$(UV) pip sync --quiet --compile-bytecode --python $(BIN)/python --require-hashes requirements.lock
	@$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $@

# A model that comes with no dependency. Tried once: without it all else works, and `holdfast models install` tries again.
.venv/weights: .venv/ready
	@$(BIN)/holdfast models install >/dev/null || echo 'Prompts cannot be completed on this machine yet: $(BIN)/holdfast models install'
	@touch $@

run: setup
	@exec $(BIN)/holdfast up --demo

test:
	@echo "[1/3] $$(date +%T) setup"
	@$(MAKE) --no-print-directory setup
	@echo "[2/3] $$(date +%T) lint"
	@$(MAKE) --no-print-directory lint
	@echo "[3/3] $$(date +%T) tests, the first tier"
	@$(PYTEST) -m 'not deep and not long'

# Packages arrive while costs are measured: only the deep tier needs them.
check: test
	@echo "[deep, 1/2] $$(date +%T) what each test of the first tier may cost"
	@$(MAKE) --no-print-directory packages & $(BIN)/python -m tests.costs && wait
	@echo "[deep, 2/2] $$(date +%T) tests, the deep tier"
	@$(PYTEST) -m 'deep and not long'

lint: setup
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

# For the deep tier: the oldest Postgres we promise, a pooler to stand before it, and a browser. Without them their tests
# say that they are skipped.
packages: azurite
	@{ test -x /usr/lib/postgresql/15/bin/postgres && test -x /usr/sbin/pgbouncer && command -v chromium >/dev/null; } \
		|| test "$$(id -u)" != 0 || ! command -v apt-get >/dev/null || { \
		apt-get update -qq && apt-get install -qq -y --no-install-recommends postgresql-15 pgbouncer chromium >/dev/null \
		|| echo 'Postgres 15, pgbouncer or chromium could not be installed: their tests are skipped'; }

# What speaks like Azure's storage.
azurite:
	@test -d .cache/azurite/node_modules/azurite || ! command -v npm >/dev/null || { mkdir -p .cache/azurite && \
		npm install --prefix .cache/azurite --cache .cache/npm --no-audit --no-fund --loglevel=error azurite@3.37.0 >/dev/null \
		|| echo 'Azurite could not be installed: its tests are skipped'; }

crash: setup
	$(BIN)/pytest -n 0 -m long -s --ignore=tests/crash/test_workers.py
	$(BIN)/pytest -n 0 -m long -s tests/crash/test_workers.py

mutants: setup
	$(BIN)/python -m tests.mutants

bench: setup
	$(BIN)/python -m bench

bench-peers: setup brokers
	$(BIN)/python -m bench.peers

# Celery's brokers. Without them Celery is reported as missing.
brokers:
	@{ command -v redis-server && test -x /usr/lib/rabbitmq/bin/rabbitmq-server; } >/dev/null || test "$$(id -u)" != 0 \
		|| ! command -v apt-get >/dev/null || { \
		apt-get update -qq && apt-get install -qq -y --no-install-recommends redis-server rabbitmq-server >/dev/null \
		|| echo 'Redis or RabbitMQ could not be installed: Celery is left out'; }

docs: setup
	$(BIN)/zensical build --clean

lock: setup
	$(UV) pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-header \
		--extra analysis --extra aws --extra ingest --extra local --extra newsroom --extra otel --extra sqs --extra tables --group dev pyproject.toml --output-file requirements.lock

clean:
	rm -rf .venv .cache .bench .mypy_cache .ruff_cache .pytest_cache .import_linter_cache site dist
