# Each target does its own set-up. V=1 shows the output of every step.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.NOTPARALLEL:
.DEFAULT_GOAL := help
.PHONY: help demo demo-local test e2e collector cluster images check bench generate screenshot

# As it ships; "image" is built in half the time, for tests.
IMAGE_PROFILE ?= release

# The data plane and all that is needed around it to see it work.
parts := -p jevmetrics-dataplane -p jevmetrics-testkit
control_plane := etcd kube-apiserver kube-controller-manager kube-scheduler kubectl
demo := cargo run --locked --quiet -p jevmetrics-testkit --bin demo

help: ## list the targets
	@sed -n 's/^\([a-z0-9-]*\): ## \(.*\)/\1\t\2/p' Makefile | expand -t 12

demo: ## show what it does: on this machine, then as a whole on Kubernetes in a sandbox, which needs root
	@source tests/scripts/steps.sh
	need_rust
	step 'Building the data plane and the demo' cargo build --locked $(parts) --bins
	$(demo) local --result "$$built/demo.line"
	printf '\nNow all of it on Kubernetes, in three minutes; the first time its programs are built, in about 15.\n'
	if has_cluster; then
		test_images
		tests/scripts/sandbox.sh "$$built/debug/demo" cluster --result "$$built/demo.line"
	fi
	finish demo

demo-local: ## the first part of the demo alone: a stand-in for Jev, senders and a backend around a data plane
	@source tests/scripts/steps.sh
	need_rust
	step 'Building the data plane and the demo' cargo build --locked $(parts) --bins
	$(demo) local
	finish demo-local

# One build for all: with other options cargo would build most dependencies a second time.
test: ## run all tests, then the demo
	@source tests/scripts/steps.sh
	need_rust
	step 'Building the data plane and the tests' cargo build --locked --workspace --bins --tests
	step 'Building a Kubernetes control plane and Helm, once' tests/kubernetes/build.sh $(control_plane) helm
	need_redis
	# Tests of the operator mostly wait, for clusters and clocks: more of them than cores run at a time.
	step 'Testing' env RUST_TEST_THREADS=6 cargo test --locked --workspace --no-fail-fast -- --quiet "$${left_out[@]}"
	count_tests
	if [[ -z $${JEVMETRICS_TEST_REDIS_ADDR:-} ]]; then
		step 'Testing coordination over TLS' env RUST_TEST_THREADS=6 JEVMETRICS_TEST_REDIS_TLS=1 \
			cargo test --locked --workspace --no-fail-fast --test coordination -- --quiet "$${left_out[@]}"
		count_tests
	fi
	step 'Running the demo' $(demo) local
	finish test

# Built before the sandbox is entered: there is no network in it.
e2e: ## run the tests that need a real node, in a sandbox that goes with all that is in it; needs root
	@source tests/scripts/steps.sh
	need_rust
	if has_cluster; then
		# The whole workspace, as in the other targets: with other features most dependencies would be built again.
		step 'Building the stand-ins' cargo build --locked --workspace --bins
		step 'Building the tests' cargo test --locked --workspace --no-run --test e2e
		test=$$(executable e2e)
		need_redis
		test_images
		step 'Checking the sandbox' tests/scripts/check_sandbox.sh
		step 'Showing the whole product' tests/scripts/sandbox.sh "$$built/debug/demo" cluster
		# They mostly wait for rollouts: more of them than cores run at a time.
		step 'Testing on a real node' env RUST_TEST_THREADS=8 tests/scripts/sandbox.sh "$$test" --nocapture "$${left_out[@]}"
		count_tests
	elif [[ -n $${CI:-} ]]; then
		fail 'these tests are not to be skipped in CI'
	fi
	finish e2e

# What a Collector is made of is downloaded and built the first time.
collector: ## test what is written for OpenTelemetry Collectors in front with a real one, in a sandbox; needs root
	@source tests/scripts/steps.sh
	need_rust
	if has_go 'a Collector in front' && has_sandbox 'a Collector in front'; then
		step 'Building the Collector, once' tests/collector/build.sh
		JEVMETRICS_COLLECTOR=$$(tests/collector/build.sh)
		export JEVMETRICS_COLLECTOR
		step 'Building the data plane' cargo build --locked --workspace --bins
		step 'Building the tests' cargo test --locked --workspace --no-run --test collector
		test=$$(executable collector)
		step 'Testing with a Collector in front' tests/scripts/sandbox.sh "$$test" --nocapture
		count_tests
	elif [[ -n $${CI:-} ]]; then
		fail 'these tests are not to be skipped in CI'
	fi
	finish collector

cluster: ## open a shell with kubectl and helm in a cluster with a real node, which goes with it; needs root
	@source tests/scripts/steps.sh
	need_rust
	if has_cluster; then
		step 'Building the program that starts it, and stand-ins' cargo build --locked $(parts) --bins
		test_images
		tests/scripts/sandbox.sh "$$built/debug/cluster" --node
	fi

check: ## formatting, lints, documentation, dependencies, every crate on its own
	@source tests/scripts/steps.sh
	need_rust
	step 'Formatting' cargo fmt --all --check -- --color never
	step 'Lints' cargo clippy --locked --workspace --all-targets -- -D warnings
	step 'Lints of the tests in a sandbox' cargo clippy --locked -p jevmetrics-testkit --test e2e --test collector -- -D warnings
	step 'Documentation' env RUSTDOCFLAGS='-D warnings' cargo doc --locked --workspace --no-deps
	step 'Every crate alone' every_crate cargo clippy --locked
	need_cargo_deny
	step 'Dependencies' "$$cargo_deny" --locked --workspace check -D unmatched-skip -D unnecessary-skip \
		bans licenses sources
	skip 'advisories of dependencies' 'their database is remote; "cargo deny check advisories" asks it'
	finish check

images: ## write the images of operator and data plane as files for import, without a container engine
	@source tests/scripts/steps.sh
	need_rust
	write_images $(IMAGE_PROFILE) "$$built/images"
	ls -l "$$built"/images/*.tar
	finish images

generate: ## write what is made of the types: the definition of the resource, its reference, rendered objects, values
	@source tests/scripts/steps.sh
	need_rust
	step 'Generating' env JEVMETRICS_GENERATE=1 cargo test --locked -p jevmetrics-api -p jevmetrics-operator -- --quiet
	step 'Generating the table of values' env JEVMETRICS_GENERATE=1 \
		cargo test --locked -p jevmetrics-testkit --test chart -- --quiet readme
	finish generate

screenshot: ## take the pictures of docs/members.md again; needs Redis and chromium-headless-shell
	@source tests/scripts/steps.sh
	need_rust
	need_redis
	step 'Building the data plane and what takes the pictures' cargo build --locked $(parts) --bins
	step 'Taking pictures' "$$built/debug/screenshot" --folder docs/images
	finish screenshot

bench: ## measure the decision engine, then all beside the OpenTelemetry Collector; QUICK=1 takes minutes
	@source tests/scripts/steps.sh
	need_rust
	need_valgrind
	step 'Building the data plane and the benchmarks, optimised' cargo build --locked --release $(parts) --bins
	step 'Measuring the decision engine' "$$built/release/bench"
	if [[ -z $${V:-} ]]; then cat "$$step_log"; fi
	if has_go 'the comparison with the Collector'; then
		step 'Building the Collector, once' tests/peer/build.sh
		"$$built/release/bench_e2e"
	fi
	finish bench
