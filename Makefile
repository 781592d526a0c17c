# Each target does its own set-up. V=1 shows the output of every step.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.NOTPARALLEL:
.DEFAULT_GOAL := help
.PHONY: help demo test check bench

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
	step 'Testing' cargo test --locked --workspace --no-fail-fast -- --quiet
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
