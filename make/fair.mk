# Fairness and the official clients on real Envoy. Included by the Makefile.

##@ Test
.PHONY: test-crowd
test-crowd: $(WASM) testbed $(VENV)/ready tests/crowd/node_modules/ready ## OpenAI and Anthropic clients, Python and Node, at 2.5 times the cap: all calls succeed
	$(PY) tests/crowd/crowd.py --check

tests/crowd/node_modules/ready: tests/crowd/package-lock.json
	cd tests/crowd && npm ci --ignore-scripts --no-audit --no-fund --silent
	touch $@

##@ Quality
.PHONY: bench-fair
bench-fair: $(WASM) testbed $(VENV)/ready ## Shares, kept bookings and tails on real Envoy, a minute a load, against their bounds
	$(PY) benches/envoy/fairness.py --check
