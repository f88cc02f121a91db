# Everything runs in .venv; `make demo` on a fresh machine needs Python >= 3.11 and pip, nothing else.
PYTHON ?= python3
BIN := .venv/bin
FAST := not (chaos or slow or browser or weights or live)

.PHONY: demo test test-unit test-all soak lint bench clean

.venv/ready: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --editable .
	touch $@

.venv/ready-dev: .venv/ready
	$(BIN)/pip install --quiet --editable '.[dev]'
	touch $@

demo: .venv/ready  ## improve LawBench's harness: no key, no GPU
	$(BIN)/sia-ray run lawbench --local

test: .venv/ready-dev  ## unit, contract, one real run
	$(BIN)/pytest -m "$(FAST)"

test-unit: .venv/ready-dev  ## no Ray, no sandbox, no pip
	$(BIN)/pytest -n auto --dist worksteal -m "$(FAST) and not ray and not sandbox and not installs"

test-all: .venv/ready-dev  ## everything but live endpoints
	$(BIN)/pytest -m "not live"

soak: .venv/ready-dev  ## 200 kills of each of Supervisor, Target and evaluator, 20 of driver and cluster
	CHAOS_KILLS=200 CHAOS_CLUSTERS=20 $(BIN)/pytest tests/chaos

lint: .venv/ready-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: .venv/ready-dev  ## each benchmark with its bars
	$(BIN)/python benchmarks/overhead.py --check
	$(BIN)/python benchmarks/sandbox.py --check
	$(BIN)/python benchmarks/lawbench.py --check

clean:
	rm -rf .venv
