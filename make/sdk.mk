# Prices on real Envoy: the official clients of the other providers, learning, usage from elsewhere. Included by the Makefile.

##@ Test
.PHONY: test-sdk
test-sdk: $(WASM) testbed $(VENV)/ready ## google-genai, mistralai, cohere, ollama and boto3 through real Envoy
	tools/setup.sh clients
	$(PY) -m pytest tests/e2e/sdk

.PHONY: test-price
test-price: $(WASM) testbed $(VENV)/ready ## Learning from the provider, injected and published usage, on real Envoy
	$(PY) -m pytest tests/e2e/price

##@ Quality
.PHONY: bench-reading
bench-reading: $(WASM) testbed $(VENV)/ready ## What reading and pricing a body of 1 MiB costs in real Envoy
	$(PY) benches/envoy/reading.py

.PHONY: bench-learn
bench-learn: $(WASM) testbed $(VENV)/ready ## Half of the cap used by others, agents that declare too much: real Envoy, six minutes, against bounds
	$(PY) benches/envoy/learning.py

READERS := target/reading.wasm

.PHONY: bench-read
bench-read: $(READERS) ## Text estimate and body reader in V8, MB/s against their bounds
	node benches/reading/reading.mjs $(READERS)

$(READERS): $(SOURCES) benches/reading/src/lib.rs benches/reading/Cargo.toml | toolchain $(WASM_OPT)
	cargo build --locked --profile wasm --target wasm32-wasip1 -p reading
	node $(WASM_OPT) -O3 $(WASM_FEATURES) target/wasm32-wasip1/wasm/reading.wasm -o $@
