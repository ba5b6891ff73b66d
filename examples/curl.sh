#!/usr/bin/env bash
# Twelve calls at once; curl obeys retry-after. One line for each: status and seconds.
set -euo pipefail
# Not /dev/null: before a retry curl empties the file that it wrote.
answers=$(mktemp --directory)
trap 'rm -r "$answers"' EXIT
gate=${GATE_URL:-http://127.0.0.1:10000}

call() {
  curl --silent --output "$answers/$1" --retry 8 \
    --write-out "call $1: %{http_code} after %{time_total} s\n" \
    --header 'content-type: application/json' --header 'x-tenant: acme' --header 'x-priority: high' \
    --data "{\"model\": \"m-chat\", \"max_tokens\": 200, \"messages\": [{\"role\": \"user\", \"content\": \"Name knot number $1.\"}]}" \
    "$gate/v1/chat/completions"
}

for number in $(seq 12); do call "$number" & done
wait
