#!/usr/bin/env bash
# Sources of jaq 3.1.2, a jq in Rust, from the registry that cargo uses.
#   examples/jaq/fetch.sh && hone optimize examples/jaq/hone.toml
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
version=3.1.2
mkdir -p "$here/fetched"
cd "$here/fetched"
if [ "$(cat made-from 2>/dev/null)" != "$version" ]; then
  rm -rf source needs
  mkdir -p needs/src
  # cargo brings sources only for a package that needs them.
  printf '[package]\nname = "needs"\nversion = "0.0.0"\nedition = "2021"\n[dependencies]\njaq = "=%s"\n[workspace]\n' "$version" >needs/Cargo.toml
  echo 'fn main() {}' >needs/src/main.rs
  (cd needs && cargo vendor --quiet vendor >/dev/null) || { echo "fetch: cargo could not bring jaq $version" >&2; exit 1; }
  mv needs/vendor/jaq source
  # A package inside of another one is a workspace of its own.
  printf '\n[workspace]\n' >>source/Cargo.toml
  rm -rf needs source/.cargo-checksum.json
  echo "$version" >made-from
fi
echo "sources: $PWD/source"
