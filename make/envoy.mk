# Everything that runs real Envoy. Included by the Makefile, whose `build` writes target/backpressure.wasm.

PYTHON := .venv/bin/python

.PHONY: setup demo up test-e2e test-e2e-long test-e2e-oldest bench-envoy

setup:
	@tools/setup.sh venv
	@tools/setup.sh testbed

demo: build setup ## real Envoy and a provider with caps: naive retry against the gate, one minute
	@$(PYTHON) tools/demo/demo.py

up: build setup ## leave Envoy, the gate and a mock provider running; prints URLs and curl lines
	@$(PYTHON) tools/demo/up.py

test-e2e: build setup ## end-to-end tests on real Envoy with 4 workers
	@$(PYTHON) -m pytest tests/e2e

test-e2e-long: build setup ## the same on the newest and the oldest Envoy, large bodies 50 times each
	@tools/setup.sh envoy 1.36.4
	@E2E_LONG=1 $(PYTHON) -m pytest tests/e2e
	@E2E_LONG=1 ENVOY_VERSION=1.36.4 $(PYTHON) -m pytest tests/e2e

test-e2e-oldest: build setup ## end-to-end tests on the oldest supported Envoy
	@tools/setup.sh envoy 1.36.4
	@ENVOY_VERSION=1.36.4 $(PYTHON) -m pytest tests/e2e

bench-envoy: build setup ## cost in real Envoy beside bare, native local_ratelimit and a do-nothing filter
	@tools/setup.sh wrk
	@$(PYTHON) benches/envoy/bench.py
