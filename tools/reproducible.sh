#!/usr/bin/env bash
# The same sources give the same module, wherever they lie and whoever builds them: builds the commit twice, in folders
# with names of different lengths and with another home of cargo, and compares the bytes.
set -euo pipefail
cd "$(dirname "$0")/.."
place=target/reproducible
rm -rf "$place"
home=${CARGO_HOME:-$HOME/.cargo}

build() { # folder, cargo's home
  mkdir -p "$1"
  git archive HEAD | tar -x -C "$1"
  (cd "$1" && env -u CARGO_TARGET_DIR RUSTC_WRAPPER='' CARGO_HOME="$2" make --silent target/backpressure.wasm >/dev/null)
  sha256sum "$1/target/backpressure.wasm" | cut -d' ' -f1
}

# Another home with the same packages: only the path differs.
other=$PWD/$place/another-home
mkdir -p "$other"
for name in registry bin config.toml git; do
  if [ -e "$home/$name" ]; then ln -s "$home/$name" "$other/$name"; fi
done

first=$(build "$place/a" "$home")
second=$(build "$place/another/folder/further/down" "$other")
echo "$first"
echo "$second"
if [ "$first" != "$second" ]; then
  echo "the two modules differ"
  exit 1
fi
if grep -aqE "$(printf '%s|%s' "$home" "$PWD")" "$place/a/target/backpressure.wasm"; then
  echo "the module names folders of this machine"
  exit 1
fi
echo "same bytes"
