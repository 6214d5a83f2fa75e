# On a fresh machine: `make demo`, then `make test`. Everything lands in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Packages come from the lock files alone, as wheels whose digests fit; holdfast is built with them.
# The files are complete: with dependencies, pip would look for newer versions of "psycopg[binary]".
LOCKED := -q --no-deps --require-hashes --only-binary :all: -r
EDITABLE := -q --no-deps --no-build-isolation -e .
export PIP_DISABLE_PIP_VERSION_CHECK := 1
PIP := $(BIN)/python -m pip
# `$(call install,ENVIRONMENT,LOCK)`: with uv, in seconds; or else with pip, which may have an index
# configured that uv does not know.
install = $(BIN)/uv pip install --python $(1)/bin/python $(LOCKED) requirements/$(2).txt || \
	$(PIP) --python $(1)/bin/python install $(LOCKED) requirements/$(2).txt
# The one package that is not locked: PyPI's builds for Linux bring gigabytes for GPUs; pip takes a
# build for CPUs (2.13.0+cpu) where it finds one, as with --extra-index-url of PyTorch's own index.
TORCH := torch==2.13.0
SCALE ?= 1
# Tests also wait: for disks, servers and each other. Each worker takes ten seconds to get ready.
CORES := $(shell $(PYTHON) -c 'import os; print(min(os.cpu_count() or 1, 4))')
WORKERS ?= $(shell expr 2 '*' $(CORES))
PYTEST := $(BIN)/python -m pytest --dist worksteal
# What differs between Pythons: values, and how code is called.
EVERY_PYTHON := tests/codec tests/golden tests/kernel tests/operations/test_inputs.py \
	tests/operations/test_loading.py tests/operations/test_saving.py tests/engine/test_misuse.py \
	tests/evidence/test_api.py tests/workflow/test_durable.py tests/workflow/test_forms.py \
	tests/workflow/test_resuming.py tests/graph/test_resuming.py tests/graph/test_states.py \
	tests/pipeline/test_running.py

# The tests start hundreds of processes that import holdfast: compile it once, not in each.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo quick test check coverage test-pythons test-extras lint format lock dist bench bench-quick screenshots crash docs site tools collect clean

help:  ## what there is
	@sed -nE 's/^([a-z-]+):.*##/\1/p' $(MAKEFILE_LIST) | while read -r name what; do printf '%-14s%s\n' "$$name" "$$what"; done

demo: $(VENV)/installed  ## a program that is killed halfway, resumed, and not believed blindly
	$(BIN)/holdfast demo

quick: $(VENV)/tools  ## lint, and the tests that need no server and no crash: a minute
	$(MAKE) --output-sync -j2 lint collect
	$(PYTEST) -q -n $(WORKERS) --quick

test: tools $(VENV)/tools collect  ## all tests
	$(PYTEST) -n $(WORKERS)

check: $(VENV)/tools  ## what a change must pass: lint, all tests, and some on every Python >= 3.11 that is installed
	$(MAKE) --output-sync -j2 lint collect $(OTHER_PYTHONS)
	$(MAKE) test

# Compile the tests once, instead of in each worker: half of them on each core.
collect: $(VENV)/tools
	@if ! test -f $(VENV)/collected || find tests -name '*.py' -newer $(VENV)/collected | grep -q .; then \
		$(MAKE) --no-print-directory $(if $(findstring jobserver,$(MAKEFLAGS)),,-j2) collect-1 collect-2 && \
		touch $(VENV)/collected; fi

collect-%:
	@output=$$(ls -d tests/test_*.py tests/[a-z]*/ | grep -v extras | awk 'NR % 2 == $* - 1' | xargs $(BIN)/python -m pytest --collect-only -q 2>&1) || \
		{ echo "$$output"; exit 1; }

test-pythons: $(VENV)/tools  ## what differs between Pythons, on each other one that is installed
	$(MAKE) --output-sync -j2 $(OTHER_PYTHONS)

python-3.%: .venv-3.%/installed
	@echo "== Python 3.$*"
	.venv-3.$*/bin/python -m pytest -q --quick $(EVERY_PYTHON)

.PRECIOUS: .venv-3.%/installed
.venv-3.%/installed: pyproject.toml requirements/pythons.txt | $(VENV)/uv
	$(call interpreter,$*) -m venv --without-pip .venv-3.$*
	$(call install,.venv-3.$*,pythons)
	$(PIP) --python .venv-3.$*/bin/python install $(EDITABLE)
	@touch $@

test-extras: .venv-extras/installed  ## with heavy packages (pandas, Polars, pyarrow, torch, Celery, Prefect): 1 GB to install
	.venv-extras/bin/python -m pytest -q -n 2 --dist worksteal tests/extras

.venv-extras/installed: pyproject.toml requirements/extras.txt | $(VENV)/uv
	$(PYTHON) -m venv .venv-extras
	$(call install,.venv-extras,extras)
	.venv-extras/bin/python -m pip install -q $(TORCH)
	.venv-extras/bin/python -m pip install $(EDITABLE)
	@touch $@

OTHER_PYTHONS = $(foreach minor,11 12 13 14,$(if $(call interpreter,$(minor)),python-3.$(minor)))
# Python 3.$(1), unless it is the one in .venv or not installed.
interpreter = $(shell $(BIN)/python -c 'import sys; sys.exit(sys.version_info[1] == $(1))' && \
	for python in python3.$(1) $$HOME/.pyenv/versions/3.$(1).*/bin/python; do \
		$$python -c '' 2>/dev/null && echo $$python && break; done)

# Processes that tests start are measured as well: coverage begins with each, by its .pth file.
coverage: $(VENV)/tools  ## what the quick tests reach of src/holdfast; fails below the floor in pyproject.toml
	rm -f .coverage .coverage.*
	COVERAGE_FILE=$(CURDIR)/.coverage COVERAGE_PROCESS_START=$(CURDIR)/pyproject.toml $(PYTEST) -q -n $(WORKERS) --quick
	$(BIN)/coverage combine -q
	$(BIN)/coverage report

lint: $(VENV)/tools  ## style, types, layers, and whether the lock files fit pyproject.toml
	$(BIN)/python requirements/lock.py --check
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/mypy

format: $(VENV)/tools  ## before you commit
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lock: $(VENV)/tools  ## bring requirements/*.txt up to date with pyproject.toml; OPTIONS=--upgrade for the newest versions
	$(BIN)/python requirements/lock.py $(OPTIONS)

dist: $(VENV)/installed  ## the wheel and the sdist, in dist/, and their digests: the same bytes on every machine
	rm -rf dist
	$(BIN)/python -m hatchling build -d dist
	@cd dist && sha256sum *

BENCH := .bench-venv/bin/python -m bench

bench: .bench-venv/installed tools  ## speed and size beside others, in half an hour; writes PERFORMANCE.md
	rm -f bench/results/*.json
	$(BENCH).goals --json bench/results/goals.json
	$(BENCH).servers --quick --only "100 at once, 2 KB" --json bench/results/servers.json
	$(BENCH).heads --json bench/results/heads.json
	$(BENCH).ui --runs 10000 --steps 1000 --json bench/results/ui.json
	-$(BENCH).imports --json bench/results/imports.json  # needs an index of packages
	$(BENCH).page --from bench/results

bench-quick: .bench-venv/installed tools  ## the same with smaller sizes, in five minutes
	rm -f bench/results/*.json
	$(BENCH).goals --quick --json bench/results/goals.json
	$(BENCH).page --from bench/results

screenshots: $(VENV)/tools tools  ## pictures of the web UI and of the demo, in docs/images
	$(BIN)/python -m tests.terminal
	$(BIN)/python -m tests.web.screenshots

crash: $(VENV)/tools tools  ## the long fault programme: hours; PARTS="power bytes" and SCALE=0.01 for less; writes RELIABILITY.md
	$(BIN)/python -m tests.proof $(PARTS) --scale $(SCALE) --workers $(WORKERS)

docs: $(VENV)/tools  ## run every example in the docs, and build the site in site/; it needs no network
	$(PYTEST) -n $(WORKERS) tests/test_docs.py
	@$(MAKE) --no-print-directory site

site: $(VENV)/tools  ## only build the site in site/; the first time it installs what it needs
	$(BIN)/python -m website.build
	@echo "open site/index.html"

# Any Chromium will do; its headless shell takes half of the CPU time.
BROWSER = $(if $(shell command -v chromium),chromium:chromium,chromium-headless-shell:chromium-headless-shell)

tools:  # what the tests need besides Python; they start servers of their own
	@missing=""; \
	for tool in strace:strace ps:procps openssl:openssl systemd-analyze:systemd postgres:postgresql pgbouncer:pgbouncer mariadbd:mariadb-server redis-server:redis-server $(BROWSER); do \
		PATH="$$PATH:/usr/local/bin:/usr/sbin:$$(echo /usr/lib/postgresql/*/bin | tr ' ' :)" \
			command -v $${tool%%:*} >/dev/null || missing="$$missing $${tool##*:}"; \
	done; \
	if [ -n "$$missing" ]; then \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing; \
		else echo "the tests need: sudo apt-get update && sudo apt-get install -y$$missing" >&2; exit 1; fi; fi

$(VENV)/installed: pyproject.toml requirements/base.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "holdfast needs Python 3.11 or newer; set PYTHON=")'
	$(PYTHON) -m venv $(VENV)
	$(PIP) install $(LOCKED) requirements/base.txt
	$(PIP) install $(EDITABLE)
	@touch $@

$(VENV)/uv: $(VENV)/installed requirements/dev.txt
	awk '/^[^ #]/ { ours = /^uv==/ } ours' requirements/dev.txt > $(VENV)/uv.txt
	$(PIP) install $(LOCKED) $(VENV)/uv.txt
	@touch $@

$(VENV)/tools: $(VENV)/uv
	$(call install,$(VENV),dev)
	@touch $@

.bench-venv/installed: pyproject.toml requirements/bench.txt requirements/redis-stack.txt | $(VENV)/uv
	$(PYTHON) -m venv .bench-venv
	$(call install,.bench-venv,bench)
	.bench-venv/bin/python -m pip install $(EDITABLE)
	-.bench-venv/bin/python -m pip install $(LOCKED) requirements/redis-stack.txt \
		--platform manylinux_2_38_x86_64 --target .bench-venv/lib/python3.*/site-packages
	@touch $@

clean:
	rm -rf site .cache .venv .venv-3.* .venv-extras .bench-venv .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis dist build
