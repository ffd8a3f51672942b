# make demo: the main job.  make test: all tests.  Both set up what they need first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SEEDS ?= 10000
SEED ?= 1
STAMP := $(VENV)/.setup-done
# Some shells set it. Without compiled files every test process reads the whole system as text again, a second each.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup demo check test lint toxiproxy sim crashes chaos docs mutants bench bench-adaptive bench-bytes bench-halves bench-joining bench-planner bench-plans bench-queries bench-restart bench-spark bench-trees proto clean help

help:
	@echo "make demo   three regions join three streams over an emulated network, each on its Spark, live"
	@echo "ENGINE=native make demo   the same without Spark, and so without Java"
	@echo "make check  the inner loop, about a minute: lint, types, core, planner, some simulated clusters"
	@echo "make test   lint, types and all tests, about twelve minutes on two idle cores"
	@echo "make sim SEEDS=10000   many simulated clusters, each checked against the oracle"
	@echo "make crashes   two simulated sites: a crash at every step, and every two crashes; half an hour on two cores;"
	@echo "            both with RECORD=1 write bench/results/simulated.md"
	@echo "make chaos  ten minutes of load, kills and faults on real daemons behind Toxiproxy: bench/results/chaos.md;"
	@echo "            SEED=, ENGINE=spark (an hour), SECONDS=, KILL_MEAN= seconds between two kills (0: none)"
	@echo "make docs   the generated parts of docs/"
	@echo "make mutants   bugs planted in the core, and which test notices each"
	@echo "make bench  throughput beside Spark Structured Streaming (needs Java 17)"
	@echo "make bench-adaptive   plans that change while queries run, ten minutes: bench/results/adaptive.md"
	@echo "make bench-bytes   wire bytes of the six algorithms over match rate, width and keys: bench/results/bytes.md"
	@echo "make bench-halves  processor time of a tick over the size of the window: bench/results/halves.md"
	@echo "make bench-joining a query over streams that run: time to its first complete row, bytes: bench/results/joining.md"
	@echo "make bench-planner planning: greedy over exhaustive, time to plan, trees: bench/results/planner.md"
	@echo "make bench-plans   the plan that is chosen beside forced ones, real daemons, by bytes: bench/results/plans.md"
	@echo "make bench-queries many queries beside one, the first release beside this tree: bench/results/queries.md"
	@echo "make bench-restart windows of a million rows, kill -9, the first new row: bench/results/restart.md"
	@echo "make bench-trees   joins that are kept beside sequences, real daemons, by bytes: bench/results/trees.md"
	@echo "make bench-spark   a tick on Spark over window and batch, its floor, Structured Streaming: bench/results/spark.md"
	@echo "make setup  the virtual environment; leaves $(BIN)/narrows"

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt Makefile
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "narrows requires Python 3.11 or newer; got $$($(PYTHON) --version). Set PYTHON=..."; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing pinned dependencies into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,spark]'
	@touch $@

demo: setup
	@$(BIN)/python -m demo

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Without processes, sockets and Spark; of examples and seeds a tenth.
check: lint
	NARROWS_EXAMPLES=10 $(BIN)/python -m pytest -n 2 -m 'not long' tests/tidy tests/unit/planner tests/unit/node/core tests/unit/node/engine
	$(BIN)/python -m tests.sim --seeds 40

# The emulated network's server: built before the tests, or the first of them would wait minutes for it.
toxiproxy: setup
	@$(BIN)/python -c 'from netsim.binary import server_path; server_path()'

# Four at a time, on two cores, because many wait; whole files, because tests of one file share a Spark.
test: lint toxiproxy
	$(BIN)/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder

sim: setup
	$(BIN)/python -m tests.sim --seeds $(SEEDS) $(if $(RECORD),--record)

crashes: setup
	$(BIN)/python -m tests.sim --exhaustive $(if $(RECORD),--record)

chaos: toxiproxy
	$(BIN)/python -m tests.chaos --record $(if $(SECONDS),--seconds $(SECONDS)) --seed $(SEED) --engine $(or $(ENGINE),native) $(if $(KILL_MEAN),--kill-mean $(KILL_MEAN))

mutants: setup
	$(BIN)/python -m tests.mutants

$(STAMP)-bench: $(STAMP)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	@touch $@

bench: $(STAMP)-bench
	$(BIN)/python -m bench.throughput

bench-bytes: $(STAMP)-bench
	$(BIN)/python -m bench.framing
	$(BIN)/python -m bench.bytes

bench-halves: $(STAMP)-bench
	$(BIN)/python -m bench.halves

bench-joining: setup
	$(BIN)/python -m bench.joining

bench-adaptive: toxiproxy $(STAMP)-bench
	$(BIN)/python -m bench.adaptive

bench-planner: $(STAMP)-bench
	$(BIN)/python -m bench.planner

bench-plans: setup
	$(BIN)/python -m bench.plans

bench-queries: setup
	$(BIN)/python -m bench.queries

bench-restart: setup
	$(BIN)/python -m bench.restart

bench-spark: $(STAMP)-bench
	$(BIN)/python -m bench.spark

bench-trees: setup
	$(BIN)/python -m bench.trees

# Generated code is committed; a test checks that it is current.
docs: setup
	$(BIN)/python -m docs.generate

PROTOC := $(BIN)/python -m grpc_tools.protoc -I proto --plugin=protoc-gen-mypy_grpc=$(BIN)/protoc-gen-mypy_grpc
proto: setup
	$(PROTOC) --python_out=. --pyi_out=. proto/node/rpc/link.proto proto/node/rpc/records.proto proto/node/rpc/control.proto
	$(PROTOC) --grpc_python_out=. --mypy_grpc_out=. proto/node/rpc/control.proto

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -prune -exec rm -rf {} +
