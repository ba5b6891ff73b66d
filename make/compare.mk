# The gate beside what people use today, and what needs Temporal or a simulated GPU. Included by the Makefile. Dependencies of its own,
# pinned, in compare/.venv and compare/.venv-litellm; nothing of it is part of the filter.

COMPARE_PY := compare/.venv/bin/python
COMPARE_FLAGS ?=

##@ Compare
.PHONY: compare
compare: $(WASM) $(NOOP) testbed $(VENV)/ready compare/.venv/ready compare/.venv-litellm/ready ## Other systems on the same load; COMPARE_FLAGS="--repeat 3"; writes docs/comparison.md
	compare/setup.sh packages
	$(COMPARE_PY) compare/compare.py $(COMPARE_FLAGS)

.PHONY: compare-overhead
compare-overhead: $(WASM) testbed $(VENV)/ready compare/.venv/ready ## Throughput, latency, CPU and memory beside other filters of Envoy
	tools/setup.sh wrk
	$(COMPARE_PY) compare/overhead.py --out compare/results/overhead.json --page docs/comparison.md

.PHONY: compare-test
compare-test: $(WASM) testbed $(VENV)/ready compare/.venv/ready ## The Temporal example on a real server; the arithmetic of the comparison
	$(COMPARE_PY) -m pytest -q -p no:cacheprovider compare

.PHONY: demo-pipeline
demo-pipeline: $(WASM) testbed $(VENV)/ready compare/.venv/ready ## Backpressure from a GPU to its clients: docs/figures/pipeline.svg
	$(COMPARE_PY) tools/pipeline/pipeline.py

compare/.venv/ready: compare/requirements.txt
	compare/setup.sh venv .venv requirements.txt
	touch $@

compare/.venv-litellm/ready: compare/requirements-litellm.txt
	compare/setup.sh venv .venv-litellm requirements-litellm.txt
	touch $@
