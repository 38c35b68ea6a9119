# Begin with `make demo` and `make test`. Everything is built from source; nothing is installed.

# Files that cargo fmt does not find: modules that the catalog's macro declares, and crates outside
# the workspace.
APART := $(wildcard crates/algos/src/cc/*.rs crates/algos/src/message/*.rs \
  crates/algos/src/message/*/*.rs fuzz/fuzz_targets/*.rs comparisons/src/*.rs book/*/*.rs)

# Protocols of the demo. `tidegate protocols` lists all.
PROTOCOLS := poseidon,swift,powertcp,dctcp,hpcc,sird

.PHONY: help demo test test-mpi test-kernel test-kernel-command test-p4 test-python test-book \
  check-standalone \
  lint lint-python fmt docs pictures figures book bench reproduction dist test-dist

help:
	@echo "make demo    compare protocols on a two-hop congestion scenario and on a loaded cluster"
	@echo "make test    lint and all tests"
	@echo "make test-mpi   test runs in several processes over MPI (docs/mpi.md)"
	@echo "make test-kernel   test the programs for the Linux kernel (docs/kernel.md)"
	@echo "make test-kernel-command   test the command tidegate kernel"
	@echo "make test-p4   test the P4 programs under the kernel's TCP (docs/kernel.md)"
	@echo "make test-python   check and test the Python package (docs/python.md)"
	@echo "make check-standalone   check that fuzz and comparisons compile"
	@echo "make lint    check formatting and run clippy"
	@echo "make fmt     format the code"
	@echo "make docs    regenerate docs/scenario.md, docs/protocols.md and docs/headers.md from the code"
	@echo "make pictures   redraw the pictures of the documents with Chromium; make docs embeds them"
	@echo "make figures   redraw the figures of the reproductions with Chromium from recorded plots"
	@echo "make test-book   test the site of the documents: it builds, and its links are valid"
	@echo "make book    build a site from the documents, in target/book"
	@echo "make dist    build the files of a release from the last commit, in dist (docs/releasing.md)"
	@echo "make test-dist   test these files where nothing of the project is installed"
	@echo "make bench   measure the engine"
	@echo "make reproduction   reproduce all papers but testbeds and kernel, with sensitivity analysis:"
	@echo "             three hours"

DEMO := cargo run --profile demo -q -p tidegate-cli --
demo:
	cargo build --profile demo -p tidegate-cli
	$(DEMO) compare scenarios/poseidon/multi-hop.toml --protocols $(PROTOCOLS) \
	  --out results/demo/multi-hop --force
	@echo
	$(DEMO) compare scenarios/demo/leaf-spine.toml --protocols $(PROTOCOLS) \
	  --out results/demo/leaf-spine --force
	@$(DEMO) report results/demo/multi-hop results/demo/leaf-spine \
	  --out results/demo/report.html >/dev/null
	@echo
	@echo "Open results/demo/report.html in a browser."

# The packages that cargo selects; empty: the default members. Cargo unites the features of all that
# it selects, so `.ci/run` selects the same in all phases: then each crate is compiled once for all.
SELECT :=
# `.ci/run` also compiles tests with it that run later.
CARGO_TEST := cargo test

test: lint
	$(CARGO_TEST) --no-fail-fast $(SELECT)

# Needs mpirun, mpicc and libclang.
test-mpi:
	cargo clippy --features tidegate-cli/mpi --all-targets $(SELECT) -- -D warnings
	TIDEGATE_MPI=required $(CARGO_TEST) --features tidegate-cli/mpi $(or $(SELECT),-p tidegate-cli) \
	  --test main mpi::

# Needs clang, libelf and zlib with headers, and pkg-config. As root on a kernel with BPF, programs
# are loaded; elsewhere these tests report that they are skipped.
test-kernel:
	cargo clippy -p tidegate-kernel --features kernel --all-targets -- -D warnings
	$(CARGO_TEST) -p tidegate-kernel --features kernel -- --show-output

# Builds the command line again, with the feature.
test-kernel-command:
	cargo clippy --features tidegate-cli/kernel --all-targets -- -D warnings
	cargo test --features tidegate-cli/kernel -p tidegate-cli --test main kernel:: -- --show-output

# Needs root, p4c, the behavioral model and the needs of test-kernel; without them it reports
# SKIPPED before it builds the command line. Takes two minutes.
test-p4:
	python3 scripts/p4_lab.py --build

# Needs python3 with venv, and a network. The wheel is built with the profile of the tests, and with
# the features that `.ci/run` selects in them, to share build artefacts.
PYTHON := target/python
test-python: export PATH := $(CURDIR)/$(PYTHON)/bin:$(PATH)
test-python: lint-python
	python3 -m venv $(PYTHON)
	MATURIN_PEP517_ARGS="--profile dev --features as-with-mpi" \
	  pip install --quiet --no-compile '.[plot,dask,test]'
	ruff check python scripts docs/notebooks
	ruff format --check python scripts docs/notebooks
	mypy python/tidegate & types=$$!; python -m mypy.stubtest tidegate._native; stubs=$$?; \
	  wait $$types && exit $$stubs
	pytest -q -n 2

lint-python:
	@if cargo clippy --version >/dev/null 2>&1; then \
	  cargo clippy -p tidegate-python --features as-with-mpi -- -D warnings; \
	else echo "clippy is not installed: lints are not checked"; fi

# The workspaces that no test builds. Their target folder is apart from that of the tests, because
# cargo locks it.
STANDALONE := cargo check --target-dir target/standalone --manifest-path
check-standalone:
	$(STANDALONE) fuzz/Cargo.toml --no-default-features
	$(STANDALONE) comparisons/Cargo.toml

# Without these components of the toolchain, the tests still run.
lint:
	@if cargo fmt --version >/dev/null 2>&1; then \
	  echo "cargo fmt --all --check"; cargo fmt --all --check && rustfmt --check $(APART); \
	else echo "rustfmt is not installed: formatting is not checked"; fi
	@if cargo clippy --version >/dev/null 2>&1; then \
	  echo "cargo clippy"; cargo clippy --all-targets $(SELECT) -- -D warnings; \
	else echo "clippy is not installed: lints are not checked"; fi

fmt:
	cargo fmt --all
	rustfmt $(APART)

docs:
	UPDATE=1 cargo test -p tidegate-cli --test main docs::

pictures:
	cargo build --release -p tidegate-cli
	scripts/pictures.sh target/release/tidegate $(PROTOCOLS)

# Draws the figures of the reproductions again from their recorded plots, with the marks of the
# present registry.
figures:
	cargo build --profile demo -p tidegate-cli
	for paper in docs/papers/*/; do \
	  $(DEMO) report $$paper --pages $$paper --out results/figures.html || exit 1; done

book:
	cargo run --manifest-path book/Cargo.toml

# The site builds, and every link of the documents leads somewhere.
test-book:
	cargo test --manifest-path book/Cargo.toml

# Needs musl-gcc and python3 with venv, and a network.
dist:
	scripts/dist.sh

# As root, or where users may create namespaces.
test-dist:
	python3 scripts/test_dist.py

# One core; median of five runs, CPU time of the process. Then instruction counts, compared with
# the recorded ones.
bench:
	cargo bench -p tidegate-sim --bench permutation
	cargo bench -p tidegate-sim --bench permutation -- --large swift poseidon
	scripts/instructions.sh

# Figures and claims of the papers, with their sensitivity to unspecified settings: about three
# hours on two idle cores. An interrupted run resumes from its cache. The measurements of alternatives are
# recorded beside the registry, for runs without sensitivity analysis. Live runs (testbeds, kernel)
# are renewed by hand: docs/releasing.md.
PAPERS := poseidon powertcp etalon homa dcpim sird ndp eqds uet authors beyond tide

reproduction:
	cargo build --release -p tidegate-cli
	for paper in $(PAPERS); do \
	  target/release/tidegate reproduce $$paper --sensitivity --out results/$$paper --force && \
	  target/release/tidegate report results/$$paper --pages docs/papers/$$paper && \
	  cp results/$$paper/sensitivity.md docs/papers/$$paper/ && \
	  cp results/$$paper/$$paper.record.json \
	    crates/papers/src/reproduce/records/$$paper.json || exit 1; done
	UPDATE=1 cargo test -p tidegate-papers --lib pages::
