# Each target does its own set-up. V=1 shows the output of every step.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.NOTPARALLEL:
.DEFAULT_GOAL := help
.PHONY: help demo test check bench generate

# The data plane and all that is needed around it to see it work.
parts := -p jevmetrics-dataplane -p jevmetrics-testkit
demo := cargo run --locked --quiet -p jevmetrics-testkit --bin demo

help: ## list the targets
	@sed -n 's/^\([a-z]*\): ## \(.*\)/\1\t\2/p' Makefile | expand -t 8

demo: ## show what the data plane does: a judge, a sender and a backend around it, all on this machine
	@source tests/scripts/steps.sh
	need_rust
	step 'Building the data plane and the demo' cargo build --locked $(parts) --bins
	$(demo)
	finish demo

# One build for all: with other options cargo would build most dependencies a second time.
test: ## run all tests, then the demo
	@source tests/scripts/steps.sh
	need_rust
	step 'Building the data plane and the tests' cargo build --locked --workspace --bins --tests
	step 'Building a Kubernetes control plane, once' tests/kubernetes/build.sh
	# Tests of the operator mostly wait, for clusters and clocks: more of them than cores run at a time.
	step 'Testing' env RUST_TEST_THREADS=6 cargo test --locked --workspace --no-fail-fast -- --quiet
	count_tests
	step 'Running the demo' $(demo)
	finish test

check: ## formatting, lints, documentation, dependencies, every crate on its own
	@source tests/scripts/steps.sh
	need_rust
	step 'Formatting' cargo fmt --all --check -- --color never
	step 'Lints' cargo clippy --locked --workspace --all-targets -- -D warnings
	step 'Documentation' env RUSTDOCFLAGS='-D warnings' cargo doc --locked --workspace --no-deps
	step 'Every crate alone' every_crate cargo clippy --locked
	need_cargo_deny
	step 'Dependencies' "$$cargo_deny" --locked --workspace check -D unmatched-skip -D unnecessary-skip \
		bans licenses sources
	skip 'advisories of dependencies' 'their database is remote; "cargo deny check advisories" asks it'
	finish check

generate: ## write what is made of the types: the definition of the resource, its reference, rendered objects
	@source tests/scripts/steps.sh
	need_rust
	step 'Generating' env JEVMETRICS_GENERATE=1 cargo test --locked -p jevmetrics-api -p jevmetrics-operator -- --quiet
	finish generate

bench: ## measure the decision engine, then all beside the OpenTelemetry Collector; QUICK=1 takes minutes
	@source tests/scripts/steps.sh
	need_rust
	need_valgrind
	step 'Building the data plane and the benchmarks, optimised' cargo build --locked --release $(parts) --bins
	step 'Measuring the decision engine' "$$built/release/bench"
	if [[ -z $${V:-} ]]; then cat "$$step_log"; fi
	if has_go; then
		step 'Building the Collector, once' tests/peer/build.sh
		"$$built/release/bench_e2e"
	fi
	finish bench
