#!/usr/bin/env bash
# Holds the layers: who may import whom, and that the core never reaches the host.
set -euo pipefail
cd "$(dirname "$0")/.."
status=0

forbid() { # what, pattern, files...
  local what=$1 pattern=$2
  shift 2
  local found
  found=$(grep -rnE "$pattern" "$@" --include='*.rs' 2>/dev/null || true)
  if [ -n "$found" ]; then
    echo "layer: $what"
    echo "$found"
    status=1
  fi
}

forbid "proxy-wasm only under src/plugin" 'proxy_wasm' $(find src -name '*.rs' ! -path 'src/plugin/*')
forbid "no clock below src/plugin" 'SystemTime|Instant::now' $(find src -name '*.rs' ! -path 'src/plugin/*')
forbid "units import nothing of the crate" 'use crate::' src/units.rs
forbid "the gate knows no provider, session or metrics" 'crate::(cost|session|observe|plugin|reply)' src/gate
forbid "cost knows no gate, session or metrics" 'crate::(gate|session|observe|plugin|reply|pool)' src/cost
forbid "the session makes no host calls" 'crate::plugin' src/session
forbid "a bare token in a name" '\b(let|fn|struct|enum|mut) (token|tokens)\b' src

# Source paths named in documents must exist.
for path in $(grep -ohE '`(src|tests|envoy|benches|tools|docs|examples)/[A-Za-z0-9_./-]+`' ./*.md docs -r 2>/dev/null | tr -d '`' | sort -u); do
  if [ ! -e "$path" ]; then
    echo "layer: a document names $path, which does not exist"
    status=1
  fi
done
exit $status
