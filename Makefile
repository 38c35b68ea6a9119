# What a newcomer needs: `make demo`, `make test`. Everything is built from source; nothing is installed.

# Modules that the catalog's macro declares: cargo fmt does not find them.
CATALOG := $(wildcard crates/algos/src/cc/*.rs crates/algos/src/message/*.rs)

.PHONY: help demo test lint fmt bench

help:
	@echo "make demo    congestion on two hops under two protocols, side by side"
	@echo "make test    lint and all tests"
	@echo "make lint    formatting and clippy"
	@echo "make fmt     format the code"
	@echo "make bench   measure the engine"

demo:
	cargo run --release -p tidegate-cli -- compare scenarios/poseidon/multi-hop.toml \
	  --protocols poseidon,swift --out results/demo --force

test: lint
	cargo test --workspace

# A toolchain without these components still runs the tests.
lint:
	@if cargo fmt --version >/dev/null 2>&1; then \
	  echo "cargo fmt --all --check"; cargo fmt --all --check && rustfmt --check $(CATALOG); \
	else echo "rustfmt is not installed: formatting is not checked"; fi
	@if cargo clippy --version >/dev/null 2>&1; then \
	  echo "cargo clippy"; cargo clippy --workspace --all-targets -- -D warnings; \
	else echo "clippy is not installed: lints are not checked"; fi

fmt:
	cargo fmt --all
	rustfmt $(CATALOG)

# One core; median of five, CPU time of the whole process. Then instruction counts against the recorded ones.
bench:
	cargo bench -p tidegate-sim --bench permutation
	cargo bench -p tidegate-sim --bench permutation -- --large swift poseidon
	scripts/instructions.sh
