# One cap for a fleet: the script on a real Redis, and three Envoys around it. Included by the Makefile.

FLEET_OPERATIONS ?= 12000

##@ Fleet
.PHONY: test-fleet
test-fleet: $(WASM) testbed $(VENV)/ready fleet-store ## The fleet's script and three real Envoys on a real Redis; skipped where there is none
	@if command -v redis-server >/dev/null && command -v webdis >/dev/null; then \
	  FLEET_OPERATIONS=$(FLEET_OPERATIONS) cargo test --locked -p fleet-tests -- --nocapture && \
	  $(PY) -m pytest tests/fleet/e2e; \
	else \
	  echo "##### SKIPPED: redis-server and webdis are not installed and could not be; nothing of the fleet was tested #####"; \
	fi

test: test-fleet

.PHONY: test-fleet-long
test-fleet-long: ## The same with a million operations, a longer load, the store dying under load and the waits of decisions
	FLEET_LONG=1 $(MAKE) test-fleet FLEET_OPERATIONS=1000000

.PHONY: bench-fleet
bench-fleet: $(WASM) testbed $(VENV)/ready fleet-store ## Decisions a second of one Redis with 1 000 calls waiting, and what a store adds to a call
	cargo bench --locked -p fleet-tests --bench decisions
	$(PY) benches/envoy/fleet_wait.py

.PHONY: simulate-fleet
simulate-fleet: ## Fleets of 3 to 1 000 Envoys in virtual time against the demanded figures
	cargo run --locked --release --bin simulate -- fleet

.PHONY: demo-fleet
demo-fleet: $(WASM) testbed $(VENV)/ready fleet-store ## Three Envoys, one cap: the store dies and comes back while you watch
	$(PY) tools/demo/fleet.py

.PHONY: fleet-store
fleet-store:
	-@tools/setup.sh store
	-@tools/setup.sh network
