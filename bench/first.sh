#!/usr/bin/env bash
# The first comparison of the README, word for word, and what it prints.
#   bench/first.sh     $RUNS (runs) keeps the run with its report
# On a machine that has nothing else to do; ports 9092 and 9192.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH="${CARGO_TARGET_DIR:-$PWD/target}/release:$PATH"
export HONE_RUNS=${RUNS:-runs}
commands=$(awk '/^## Your first comparison/ { there = 1 } there && /^```$/ { exit } code { print } there && /^```sh$/ { code = 1 }' README.md)
[ -n "$commands" ] || { echo "first.sh: README.md has no commands under \"Your first comparison\"" >&2; exit 1; }
# Job control, because the commands end their brokers by number.
bash -m -c "$commands"
