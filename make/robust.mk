# Proofs that take longer than the tests: fuzzing, faults under load, every version, a long run, supply chain. Included by the
# Makefile.

DENY_VERSION := 0.20.2
SECONDS ?= 600
# The published package of 1.38.3 was built without V8 and loads no wasm filter at all.
ENVOY_VERSIONS := 1.36.4 1.37.0 1.38.2 1.39.3 1.40.0

##@ Robustness
.PHONY: fuzz
fuzz: ## Every fuzz target for SECONDS (600), two at a time
	$(PYTHON) tools/fuzz.py $(SECONDS) 2

.PHONY: fuzz-smoke
fuzz-smoke: ## Every fuzz target for 60 s, all at once
	$(PYTHON) tools/fuzz.py 60 16

.PHONY: fuzz-build
fuzz-build:
	$(PYTHON) tools/fuzz.py build

.PHONY: faults
faults: $(WASM) $(TRAP) testbed $(VENV)/ready ## Dying VMs, a failing provider, 1 000 clients that leave, a full disk, changing configurations
	$(PY) -m pytest tests/e2e/faults.py

.PHONY: soak
soak: $(WASM) testbed $(VENV)/ready ## Half an hour at 60 % of the machine: memory flat, every call settled
	$(PY) tools/soak.py 1800

.PHONY: matrix
matrix: $(WASM) $(TRAP) testbed $(VENV)/ready ## The end-to-end tests on every supported Envoy; prints a table
	$(PY) tools/matrix.py $(ENVOY_VERSIONS)

.PHONY: deny
deny: .tools/bin/cargo-deny ## Licences, sources and duplicates of dependencies; known vulnerabilities where the index is reachable
	tools/deny.sh

.PHONY: reproducible
reproducible: toolchain ## Builds the committed sources in two folders and compares the bytes
	tools/reproducible.sh

.tools/bin/cargo-deny:
	cargo install --quiet --locked --root .tools --version $(DENY_VERSION) cargo-deny
