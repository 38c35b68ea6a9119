# What a newcomer needs: `make demo`, `make test`. Everything is built from source; nothing is installed.

# Modules that the catalog's macro declares, and what is no part of the workspace: cargo fmt does not
# find them.
APART := $(wildcard crates/algos/src/cc/*.rs crates/algos/src/message/*.rs \
  crates/algos/src/message/*/*.rs fuzz/fuzz_targets/*.rs peers/src/*.rs book/*/*.rs)

# Protocols that the demo compares. `tidegate protocols` lists all there are.
PROTOCOLS := poseidon,swift,powertcp,dctcp,hpcc,sird

.PHONY: help demo test test-mpi test-python test-book lint fmt docs pictures book bench reproduction

help:
	@echo "make demo    congestion on two hops, and a busy cluster, under several protocols side by side"
	@echo "make test    lint and all tests"
	@echo "make test-mpi   runs in several processes, over MPI (docs/mpi.md)"
	@echo "make test-python   tidegate in Python: its checks and tests (docs/python.md)"
	@echo "make lint    formatting and clippy"
	@echo "make fmt     format the code"
	@echo "make docs    write docs/scenario.md, docs/protocols.md and docs/headers.md anew from what the code says of itself"
	@echo "make pictures   draw the pictures of the documents anew, with Chromium"
	@echo "make test-book   the documents as a site: it builds, and its links lead somewhere"
	@echo "make book    make a site of the documents, in target/book"
	@echo "make bench   measure the engine"
	@echo "make reproduction   papers, figure by figure, under every choice they leave: three hours"

demo:
	cargo build --release -p tidegate-cli
	cargo run --release -q -p tidegate-cli -- compare scenarios/poseidon/multi-hop.toml \
	  --protocols $(PROTOCOLS) --out results/demo/multi-hop --force
	@echo
	cargo run --release -q -p tidegate-cli -- compare scenarios/demo/leaf-spine.toml \
	  --protocols $(PROTOCOLS) --out results/demo/leaf-spine --force

test: lint
	cargo test

# Needs mpirun, mpicc and libclang.
test-mpi:
	cargo clippy -p tidegate-cli -p tidegate-mpi --features mpi --all-targets -- -D warnings
	TIDEGATE_MPI=required cargo test -p tidegate-cli --features mpi --test mpi

# Needs python3 with venv, and a network. The wheel is built like the tests, to share what they built.
PYTHON := target/python
test-python: export PATH := $(CURDIR)/$(PYTHON)/bin:$(PATH)
test-python:
	python3 -m venv $(PYTHON)
	MATURIN_PEP517_ARGS="--profile dev" pip install --quiet '.[plot,dask,test]'
	cargo clippy -p tidegate-python -- -D warnings
	ruff check python scripts docs/notebooks
	ruff format --check python scripts docs/notebooks
	mypy python/tidegate
	python -m mypy.stubtest tidegate._native
	pytest -q

# A toolchain without these components still runs the tests.
lint:
	@if cargo fmt --version >/dev/null 2>&1; then \
	  echo "cargo fmt --all --check"; cargo fmt --all --check && rustfmt --check $(APART); \
	else echo "rustfmt is not installed: formatting is not checked"; fi
	@if cargo clippy --version >/dev/null 2>&1; then \
	  echo "cargo clippy"; cargo clippy --all-targets -- -D warnings; \
	else echo "clippy is not installed: lints are not checked"; fi

fmt:
	cargo fmt --all
	rustfmt $(APART)

docs:
	UPDATE=1 cargo test -p tidegate-cli --test docs

pictures:
	cargo build --release -p tidegate-cli
	scripts/pictures.sh target/release/tidegate $(PROTOCOLS)

book:
	cargo run --manifest-path book/Cargo.toml

# The site builds, and every link of the documents leads somewhere.
test-book:
	cargo test --manifest-path book/Cargo.toml

# One core; median of five, CPU time of the whole process. Then instruction counts against the recorded ones.
bench:
	cargo bench -p tidegate-sim --bench permutation
	cargo bench -p tidegate-sim --bench permutation -- --large swift poseidon
	scripts/instructions.sh

# Figures and claims of the papers, and how they move with what the papers leave open: some three
# hours on two quiet cores, which go on where they were stopped. What the alternatives measured is
# kept beside the registry, for runs that do not vary them.
PAPERS := poseidon powertcp etalon homa dcpim sird authors beyond

reproduction:
	cargo build --release -p tidegate-cli
	for paper in $(PAPERS); do \
	  mkdir -p docs/papers/$$paper && \
	  target/release/tidegate reproduce $$paper --sensitivity --out results/$$paper --force && \
	  cp results/$$paper/reproduction.md results/$$paper/sensitivity.md docs/papers/$$paper/ && \
	  cp results/$$paper/$$paper.record.json \
	    crates/papers/src/reproduce/records/$$paper.json || exit 1; done
