# Every target installs what it needs into this folder (.venv, .tools) or through rustup; Debian packages only where
# there is no other way. `make` alone prints the targets.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

WASM := target/backpressure.wasm
WASM_RAW := target/wasm32-wasip1/wasm/envoy_backpressure.wasm
WASM_LIMIT := 614400
SOURCES := $(shell find src -type f) build.rs Cargo.toml Cargo.lock .cargo/config.toml
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
ENVOY_OLD := 1.36.4
BINDGEN := target/wasm-runner/debug/wasm-runner
# What tests may do and the filter may not.
TEST_LINTS := $(foreach lint,arithmetic_side_effects indexing_slicing string_slice unwrap_used expect_used panic \
  unreachable disallowed_methods,-A clippy::$(lint))
WASM_OPT := tools/wasm-opt/node_modules/binaryen/bin/wasm-opt
EXPORTS := tools/wasm-opt/exports.mjs
# What the compiler's target has switched on, and nothing else: Envoy's V8 knows all of it.
WASM_FEATURES := $(addprefix --enable-,simd bulk-memory sign-ext nontrapping-float-to-int mutable-globals multivalue \
  reference-types)
NOOP := target/noop.wasm
TRAP := target/backpressure-trap.wasm

##@ General
.PHONY: help
help: ## Print the targets
	@awk 'BEGIN {FS = ":.*##"} /^##@/ {group = substr($$0, 5); if (!(group in text)) order[++groups] = group} \
	  /^[a-zA-Z0-9_-]+:.*##/ {text[group] = text[group] sprintf("  %-16s %s\n", $$1, $$2)} \
	  END {for (i = 1; i <= groups; i++) if (text[order[i]] != "") printf "\n%s\n%s", order[i], text[order[i]]}' $(MAKEFILE_LIST)

.PHONY: clean
clean: ## Remove everything that was built or installed here
	rm -rf target $(VENV) .tools .run

##@ Use
.PHONY: build
build: $(WASM) ## Build target/backpressure.wasm

.PHONY: demo
demo: $(WASM) testbed $(VENV)/ready ## Real Envoy and a provider with hard caps: naive retry, then the gate
	$(PY) tools/demo/demo.py

.PHONY: up
up: $(WASM) testbed $(VENV)/ready ## Leave the demo stack running; prints URLs and curl lines
	$(PY) tools/demo/up.py

.PHONY: simulate
simulate: ## Fairness table and figures from the virtual-time simulator
	cargo run --locked --release --bin simulate

.PHONY: accuracy
accuracy: ## Estimates against real tokenizers
	test -d target/accuracy/corpus || $(PYTHON) tools/accuracy/corpus.py
	test -f target/accuracy/corpus/others.tsv || $(PYTHON) tools/accuracy/others.py
	cargo run --locked --release -p accuracy

##@ Test
.PHONY: test
test: test-unit test-wasm test-abi test-e2e ## What every change must pass: unit, wasm, ABI host, real Envoy, fleet

.PHONY: test-unit
test-unit: ## Tables, properties, interleavings, simulator assertions
	cargo test --locked

.PHONY: test-wasm
test-wasm: $(BINDGEN) toolchain ## The pure core on wasm32-unknown-unknown under Node (32-bit usize)
	CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUNNER=$(CURDIR)/$(BINDGEN) \
	  cargo test --locked --target wasm32-unknown-unknown --test wasm

.PHONY: test-abi
test-abi: $(WASM) ## The compiled filter in a small proxy-wasm host, playing field cases
	cargo test --locked -p abi-host

.PHONY: test-e2e
test-e2e: $(WASM) $(TRAP) testbed $(VENV)/ready ## The compiled filter in real Envoy, newest and oldest
	$(PY) -m pytest tests/e2e
	tools/setup.sh envoy $(ENVOY_OLD)
	ENVOY_VERSION=$(ENVOY_OLD) $(PY) -m pytest $(addprefix tests/e2e/test_,host_facts.py bodies.py caps.py reload.py)

.PHONY: test-e2e-long
test-e2e-long: $(WASM) $(TRAP) testbed $(VENV)/ready ## The same, all of it on both, large bodies 50 times each
	E2E_LONG=1 $(PY) -m pytest tests/e2e
	tools/setup.sh envoy $(ENVOY_OLD)
	E2E_LONG=1 ENVOY_VERSION=$(ENVOY_OLD) $(PY) -m pytest tests/e2e

##@ Quality
.PHONY: lint
lint: toolchain ## Formatting, clippy (native and wasm), layers, size
	cargo fmt --all --check
	cargo clippy --locked --workspace --lib --bins -- -D warnings
	cargo clippy --locked --workspace --tests --benches -- -D warnings $(TEST_LINTS)
	cargo clippy --locked --target wasm32-wasip1 --lib -- -D warnings
	tools/layers.sh
	$(MAKE) size

.PHONY: size
size: $(WASM) ## Size of the module against its limit
	@bytes=$$(stat -c %s $(WASM)); echo "$(WASM): $$bytes of $(WASM_LIMIT) bytes"; test $$bytes -le $(WASM_LIMIT)

.PHONY: bench
bench: $(WASM) $(NOOP) testbed $(VENV)/ready ## Decision cost (criterion), ratios against bare Envoy, fairness on real Envoy, three minutes of the long run
	cargo bench --locked --bench decide
	tools/setup.sh wrk
	$(PY) benches/envoy/bench.py
	$(PY) benches/envoy/fairness.py
	$(PY) tools/soak.py 180

##@ Parts
# What tests need from elsewhere; each is fetched by the target that needs it as well.
.PHONY: fetch
fetch: $(VENV)/ready
	tools/setup.sh envoy $(ENVOY_OLD)
	tools/setup.sh node
	-tools/setup.sh store
	-tools/setup.sh network

.PHONY: toolchain
toolchain:
	@rustup target list --installed | grep -q wasm32-wasip1 || rustup target add wasm32-wasip1
	@rustup target list --installed | grep -q wasm32-unknown-unknown || rustup target add wasm32-unknown-unknown

# Panic messages name source files; without their folders the module is the same wherever it is built.
REMAP = --config 'target.wasm32-wasip1.rustflags=["--remap-path-prefix=$(or $(CARGO_HOME),$(HOME)/.cargo)/registry/src=/crates"]'

$(WASM): $(SOURCES) tools/wasm-opt/package-lock.json $(EXPORTS) | toolchain $(WASM_OPT)
	cargo build --locked $(REMAP) --profile wasm --target wasm32-wasip1 --lib
	node $(EXPORTS) $(WASM_RAW) $(WASM_RAW:.wasm=.exports.wasm)
	node $(WASM_OPT) -O3 $(WASM_FEATURES) $(WASM_RAW:.wasm=.exports.wasm) -o $@

$(WASM_OPT): tools/wasm-opt/package-lock.json
	tools/setup.sh node
	cd tools/wasm-opt && npm ci --ignore-scripts --no-audit --no-fund --silent
	touch $@

$(TRAP): $(SOURCES) $(EXPORTS) | toolchain $(WASM_OPT)
	cargo build --locked --profile wasm --target wasm32-wasip1 --lib --features trap-test --target-dir target/trap
	node $(EXPORTS) target/trap/wasm32-wasip1/wasm/envoy_backpressure.wasm $@

$(NOOP): $(wildcard benches/noop/src/*.rs) benches/noop/Cargo.toml | toolchain
	cargo build --locked --release --target wasm32-wasip1 --manifest-path benches/noop/Cargo.toml --target-dir target/noop
	cp target/noop/wasm32-wasip1/release/noop.wasm $@

.PHONY: testbed
testbed:
	tools/setup.sh testbed

$(VENV)/ready: tests/e2e/requirements.txt
	tools/setup.sh venv
	touch $@

$(BINDGEN): tools/wasm-runner/Cargo.toml tools/wasm-runner/Cargo.lock tools/wasm-runner/src/main.rs
	cargo build --quiet --locked --manifest-path tools/wasm-runner/Cargo.toml --target-dir target/wasm-runner
	touch $@

include $(sort $(wildcard make/*.mk))
