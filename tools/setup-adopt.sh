#!/usr/bin/env bash
# What the tests in tests/adopt need: Python packages into .venv, and Debian packages (asks for root when one is missing).
set -euo pipefail
cd "$(dirname "$0")/.."
tools/setup.sh clients
missing=()
command -v chromium >/dev/null || missing+=(chromium)
command -v prometheus >/dev/null || missing+=(prometheus)
command -v node >/dev/null || missing+=(nodejs npm)
[ ${#missing[@]} = 0 ] && exit 0
sudo=
[ "$(id -u)" = 0 ] || sudo=sudo
$sudo apt-get update --quiet >/dev/null
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install --quiet --yes --no-install-recommends "${missing[@]}" >/dev/null
# The package starts a server of its own, which nobody asked for.
$sudo systemctl disable --now prometheus 2>/dev/null || true
