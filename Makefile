# fencepost: every target sets up what it needs first; nothing to do costs nothing.
# PYTHON= and VENV= choose the interpreter and the environment's folder (a folder everybody may read lets ordinary users run it).
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
VENV ?= .venv
PY := $(VENV)/bin/python
CORE := checkers/_core.abi3.so
RUST := checkers/native/Cargo.lock $(wildcard checkers/native/*.toml checkers/native/*/Cargo.toml checkers/native/*/src/*.rs checkers/native/*/src/*/*.rs)
UV := $(shell command -v uv 2>/dev/null)
CARGO := $(shell command -v cargo 2>/dev/null)
# Images often forbid Python to keep what it compiled. Then every process compiles all that it imports: a command takes 1.1 s
# of processor time instead of 0.3 s, and to collect the tests 21 s instead of 8 s. It is kept in the environment's folder.
ifneq ($(PYTHONDONTWRITEBYTECODE),)
export PYTHONDONTWRITEBYTECODE :=
export PYTHONPYCACHEPREFIX := $(abspath $(VENV))/bytecode
endif

.PHONY: help setup demo test test-slow test-long check bench bench-checkers bench-spark-check fuzz soak soak-kafka soak-kills soak-plants
.PHONY: failover wheels clean test-paused site pictures reference preflight side-by-side

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/' | expand -t 12

setup:  ## everything a run needs: environment, native core, ZooKeeper's start-up archive
	@# Side by side: the core needs no package when cargo is there, and the archive needs no core.
	@$(MAKE) --no-print-directory -j 2 side-by-side

side-by-side: $(VENV)/.ready $(CORE) $(VENV)/.archive
	@:

demo: setup  ## two real clusters under attack, two reports, an index of both by Spark (90 seconds)
	@$(PY) -m fencepost.harness.cli demo

# Two workers compute while others wait for servers or the container engine; then the runs that tolerate no company.
SIDE_BY_SIDE := -n 4 --dist loadscope --no-loadscope-reorder
# Collecting ten thousand tests takes a quarter of a minute: only the files that have such a mark.
MARKED = $$(grep -rl --include='test_*.py' 'mark\.$(1)' tests)

test: setup  ## the tests: every promise of the product, in a quarter of an hour on two cores
	@$(PY) -m tests.prepared
	@$(PY) -m pytest -q $(SIDE_BY_SIDE) -m "not slow and not long and not alone" tests
	@$(PY) -m pytest -q -m "alone and not slow and not long" $(call MARKED,alone)

test-slow: setup  ## what CI tests besides: more systems, releases and seeds, and each property with more examples
	@$(PY) -m tests.prepared
	@$(PY) -m pytest -q $(SIDE_BY_SIDE) -m "slow and not long and not alone" $(call MARKED,slow)
	@$(PY) -m pytest -q -m "slow and alone and not long" $(call MARKED,alone)
	@HYPOTHESIS_PROFILE=many $(PY) -m pytest -q $(SIDE_BY_SIDE) \
		-m "hypothesis and not slow and not long and not alone and not cluster and not containers and not spark" tests

test-long: setup  ## the long cluster tests
	@$(PY) -m pytest -q -m long --timeout 900 tests

test-paused: setup  ## every test but the long ones, each asleep at some lines: half an hour (SEED=)
	@$(PY) -m tests.prepared
	@$(PY) -m pytest -q -p tests.pauses.plugin --pauses-seed "$(or $(SEED),1)" -n 6 --dist loadscope --no-loadscope-reorder \
		-m "not slow and not long and not alone" tests

check: $(VENV)/.ready $(CORE)  ## formatting, lint, types, the native core's own tests
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/lint-imports tools/imports.toml --no-cache --no-logo
	$(PY) -m mypy
	$(PY) -m mypy.stubtest fencepost.checkers._core
	cd checkers/native && cargo test -q --workspace

bench: setup  ## figures that a change could make worse, measured on this machine into results/benchmarks/
	@$(PY) -m bench

bench-checkers: setup  ## our checker and Porcupine in turns: 20 minutes, or 4 with QUICK=1; SEED= repeats a run
	@$(PY) -m bench.against_porcupine $(if $(QUICK),--quick) $(if $(SEED),--seed $(SEED)) $(BENCH_FLAGS)

#: The targets of Rust that wheels are made for; `rustup target add` gets the second on a machine with the first.
WHEELS := x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu
wheels: setup  ## wheels for glibc 2.28 and newer (WHEELS= names targets), each looked at by auditwheel, in dist/
	@$(PY) -m pip install -q --disable-pip-version-check ziglang auditwheel
	@for target in $(WHEELS); do PATH="$(abspath $(VENV))/bin:$$PATH" $(VENV)/bin/maturin build -q --release --zig \
		--target $$target --compatibility manylinux_2_28 -i python3.11 -o dist || exit 1; done
	@for wheel in dist/*.whl; do $(VENV)/bin/auditwheel show $$wheel || exit 1; done

fuzz:  ## ten minutes of coverage-guided fuzzing for each of the EDN reader, the search and the transactions (FUZZ_S)
	@tools/fuzz.sh

bench-spark-check: setup  ## registers through Spark: ten million operations, or as many as OPERATIONS= says
	@$(PY) -m bench spark_checks

soak: setup  ## the demo's runs and the barrier control, ten times each
	@$(PY) -m tests.runs.soak

soak-kafka: setup  ## a controller cut from its quorum, ten times each on the release with KAFKA-15489 and on the newest
	@$(PY) -m tests.runs.soak soak-kafka

failover: setup  ## how long Kafka is without a controller, against the number of partitions: table and picture into docs/reference/
	@$(PY) -m bench.failover_curve

soak-plants: setup  ## ten thousand runs of correct stores in memory, none of which may be accused (RUNS= of each fake)
	@$(PY) -m tests.runs.plant_soak $(RUNS)

soak-kills: setup  ## fifty runs on containers whose harness is killed: nothing may be left
	@$(PY) -m tests.runs.kill_soak

site: .venv-site/.ready  ## the documents as a site with search, in site/: strict, nothing loaded from any host
	@NO_MKDOCS_2_WARNING=1 .venv-site/bin/mkdocs build -q -f mkdocs.yml
	@echo "site/index.html; search needs a server: $(PYTHON) -m http.server -d site"

pictures: setup  ## the tutorial's pictures, of a fresh run's report (Chromium)
	@$(PY) -m fencepost.harness.cli run --system example --workload register --nemesis partition:leader \
		-O defect=stale-reads --time-limit 8s --results results/pictures; test $$? -eq 1
	@$(PY) -m tools.pictures "$$(ls -d results/pictures/*/* | tail -1)"

reference:  ## the pages of docs/ that are made from the program
	@$(PY) -m tools.reference --write
	@$(PY) tools/facts_page.py
	@$(PY) -m tools.rooms --write

clean:  ## remove what set-up made in this folder
	rm -rf $(VENV) .venv-site site $(CORE) checkers/native/target .mypy_cache .ruff_cache .pytest_cache .hypothesis

preflight:
	@test -e $(VENV)/.ready || bash tools/preflight.sh $(PYTHON)

# PySpark comes as source only. The wheel that is built of it here and thrown away need not be compressed.
INSTALL := --require-hashes --config-settings=--build-option=--compression=stored -r requirements.lock

$(VENV)/.ready: pyproject.toml requirements.lock tools/requirements-uv.lock tools/preflight.sh | preflight
ifneq ($(UV),)
	uv venv -q --allow-existing --python $(PYTHON) $(VENV)
	uv pip install -q --python $(PY) $(INSTALL)
else
	$(PYTHON) -m venv $(VENV)
	@# uv takes a third of pip's processor time, but knows nothing of pip's configuration (an index of your own).
	@# Nothing is compiled: each module is when it is first imported; most never are.
	$(PY) -m pip install -q --disable-pip-version-check --no-compile --require-hashes -r tools/requirements-uv.lock
	$(VENV)/bin/uv pip install -q --python $(PY) $(INSTALL) || { echo "uv could not; pip does it" >&2; \
	$(PY) -m pip install -q --disable-pip-version-check --no-compile $(INSTALL); }
endif
	@# The tree itself is on the path by one .pth file and one script: no build, no stale copy.
	@$(PY) tools/install_tree.py
	@touch $@

.venv-site/.ready: tools/requirements-site.lock
	$(PYTHON) -m venv .venv-site
	.venv-site/bin/pip install -q --disable-pip-version-check --require-hashes -r tools/requirements-site.lock
	@touch $@

ifneq ($(CARGO),)
$(CORE): $(RUST) | preflight
	@echo "building the native core"
	@PYO3_NO_PYTHON=1 PYO3_BUILD_EXTENSION_MODULE=1 cargo build -q --release --locked --lib \
		--manifest-path checkers/native/Cargo.toml --target-dir checkers/native/target
	@cp checkers/native/target/release/libfencepost_core.so $@.new && mv $@.new $@
else
# maturin, of the environment, fetches a Rust of its own.
$(CORE): $(VENV)/.ready $(RUST)
	@echo "building the native core"
	@rm -rf $(VENV)/wheels
	@$(VENV)/bin/maturin build -q --release --interpreter $(PY) -o $(VENV)/wheels
	@$(PY) tools/take_core.py $(VENV)/wheels $(CORE)
endif

$(VENV)/.archive: $(VENV)/.ready
	@$(PY) -m fencepost.harness.cli prepare zookeeper
	@touch $@
