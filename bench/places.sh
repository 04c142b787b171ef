#!/usr/bin/env bash
# What binding the arms of a duet to halves of the cores does to the noise of CPU per request: the embedded broker beside itself, in A/A
# and A/B pairs alike, once bound and once left to the scheduler. Prints the smallest and the largest ratio of a pair, of each.
#   bench/places.sh       $RUNS (runs) keeps the two runs. Five minutes on two cores that have nothing else to do.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${RUNS:-runs}
target=${CARGO_TARGET_DIR:-target}
cargo build --release --locked -p hone -p hone-broker >&2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
broker="$target/release/hone-broker --listen 127.0.0.1:{port} --metrics-listen off --data {data}"

for how in bound free; do
  options=()
  [ "$how" = bound ] || options=(--free)
  status=0
  # Every pair counts: what neighbours do to one is what this is about.
  "$target/release/hone" compare "$broker" "$broker" --rate 6000 --duration 3 --pairs 8 --control-pairs 6 --keep-disturbed \
    --primary cpu-per-request --output "$out" "${options[@]}" --json --quiet >"$scratch/$how.json" || status=$?
  # 3 is an answer, though one that two equal brokers should not get.
  [ "$status" = 0 ] || [ "$status" = 3 ] || { echo "places.sh: hone compare ended with $status" >&2; exit "$status"; }
  python3 - "$how" "$scratch/$how.json" <<'PY'
import json, sys
pairs = json.load(open(sys.argv[2]))["body"]["pairs"]
ratios = sorted(p["values_b"]["cpu-per-request"] / p["values_a"]["cpu-per-request"] for p in pairs if not p.get("dropped"))
print(f"{sys.argv[1]}: {len(ratios)} pairs, CPU per request of the twin {ratios[0]:.2f} to {ratios[-1]:.2f} times the other's")
PY
done
