#!/usr/bin/env bash
# Installs what the comparison needs.
#   compare/setup.sh venv NAME REQUIREMENTS   a Python environment in this folder
#   compare/setup.sh packages                 nginx and Redis (Debian packages; asks for root when one is missing)
set -euo pipefail
cd "$(dirname "$0")"

venv() {
  [ -x "$1/bin/python" ] || python3 -m venv "$1"
  "$1/bin/python" -m pip install --quiet --disable-pip-version-check -r "$2"
}

packages() {
  local missing=() sudo=
  command -v nginx >/dev/null || missing+=(nginx-light)
  command -v redis-server >/dev/null || missing+=(redis-server)
  [ ${#missing[@]} = 0 ] && return
  [ "$(id -u)" = 0 ] || sudo=sudo
  $sudo apt-get update --quiet >/dev/null
  $sudo env DEBIAN_FRONTEND=noninteractive apt-get install --quiet --yes --no-install-recommends "${missing[@]}" >/dev/null
  # The packages start servers of their own, which nobody asked for.
  $sudo systemctl disable --now nginx redis-server 2>/dev/null || true
}

case "${1:-}" in
  venv) venv "${2:?name}" "${3:?requirements}" ;;
  packages) packages ;;
  *) sed -n '2,4p' "$0"; exit 2 ;;
esac
