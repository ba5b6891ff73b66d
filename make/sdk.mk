# The official clients of the other providers through real Envoy. Included by the Makefile.

##@ Test
.PHONY: test-sdk
test-sdk: $(WASM) testbed $(VENV)/ready ## google-genai, mistralai, cohere, ollama and boto3 through real Envoy
	tools/setup.sh clients
	$(PY) -m pytest tests/e2e/sdk
