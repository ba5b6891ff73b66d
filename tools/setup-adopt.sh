#!/usr/bin/env bash
# Debian packages that the tests in tests/adopt need; asks for root when one is missing.
set -euo pipefail
missing=()
command -v chromium >/dev/null || missing+=(chromium)
command -v prometheus >/dev/null || missing+=(prometheus)
command -v node >/dev/null || missing+=(nodejs npm)
[ ${#missing[@]} = 0 ] && exit
sudo=
[ "$(id -u)" = 0 ] || sudo=sudo
$sudo apt-get update --quiet >/dev/null
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install --quiet --yes --no-install-recommends "${missing[@]}" >/dev/null
# The package starts a server of its own, which nobody asked for.
$sudo systemctl disable --now prometheus 2>/dev/null || true
