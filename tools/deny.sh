#!/usr/bin/env bash
# Checks the dependencies: licences and sources of everything, duplicates of what is in the module, and known
# vulnerabilities and withdrawn releases where the index can be reached.
set -euo pipefail
cd "$(dirname "$0")/.."
deny=.tools/bin/cargo-deny

"$deny" --locked --workspace check --hide-inclusion-graph licenses sources
for own in fuzz tools/wasm-runner tests/e2e/probe tests/abi/probe benches/noop; do
  "$deny" --locked --manifest-path "$own/Cargo.toml" --config "$PWD/deny.toml" check --hide-inclusion-graph licenses sources
done
"$deny" --locked --exclude-dev --target wasm32-wasip1 check bans
if "$deny" --locked fetch db 2>/dev/null; then
  "$deny" --locked --workspace check advisories
else
  echo "advisories: NOT CHECKED, their index cannot be reached from here"
fi
