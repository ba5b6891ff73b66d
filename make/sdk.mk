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
