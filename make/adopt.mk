# Everything around the filter: image, release, documentation, and the tests of them. Included by the Makefile.

VERSION := $(shell sed -n '/^\[package\]$$/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
MDBOOK_VERSION := 0.5.4
MDBOOK := .tools/bin/mdbook

##@ Ship
.PHONY: image
image: $(WASM) ## OCI image layout in target/image, both forms; prints the digests
	@python3 tools/image/image.py $(WASM) target/image $(VERSION)

.PHONY: release
release: image ## Module, image, schema, bill of materials and notes in target/release-VERSION
	@python3 tools/image/release.py target/release-$(VERSION)

.PHONY: docs
docs: $(MDBOOK) ## The documentation as a book in target/docs
	$(MDBOOK) build

$(MDBOOK):
	cargo install --quiet --locked --root .tools --version $(MDBOOK_VERSION) --no-default-features --features search mdbook

##@ Test
.PHONY: test-adopt
test-adopt: $(WASM) testbed $(VENV)/ready tests/adopt/node_modules/ready examples/node/node_modules/ready ## Examples, image, metrics in Prometheus, status page in Chromium
	tools/setup-adopt.sh
	$(PY) -m pytest tests/adopt

%/node_modules/ready: %/package-lock.json
	cd $* && npm ci --ignore-scripts --no-audit --no-fund --silent
	touch $@
