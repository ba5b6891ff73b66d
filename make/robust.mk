# Proofs that take longer than the tests. Included by the Makefile.

FUZZ_VERSION := 0.13.2
SECONDS ?= 600

##@ Robustness
.PHONY: fuzz
fuzz: .tools/bin/cargo-fuzz ## Every fuzz target for SECONDS (600), two at a time
	$(PYTHON) tools/fuzz.py $(SECONDS)

.PHONY: fuzz-smoke
fuzz-smoke: .tools/bin/cargo-fuzz ## The same for 60 s each
	$(PYTHON) tools/fuzz.py 60

.tools/bin/cargo-fuzz:
	cargo install --quiet --locked --root .tools --version $(FUZZ_VERSION) cargo-fuzz
