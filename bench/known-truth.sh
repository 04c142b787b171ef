#!/usr/bin/env bash
# Does `hone compare` tell the truth? Against two truths that are known:
#   1. a broker that burns 10 % more CPU for each Produce request (a build with the feature `planted-slowdown`) against the
#      plain one: must come out worse, in every run;
#   2. two identical brokers: must come out `not shown` or `equivalent` in at least 19 of 20 runs.
#   bench/known-truth.sh [A_A_RUNS] [PLANTED_RUNS]
# Exit code 0 when both hold. About 20 minutes with the defaults.
set -euo pipefail
cd "$(dirname "$0")/.."
a_a_runs=${1:-20}
planted_runs=${2:-5}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

cargo build --release --locked -p hone -p hone-broker
cp target/release/hone-broker "$out/plain"
cargo build --release --locked -p hone-broker --features planted-slowdown --target-dir target/planted
cp target/planted/release/hone-broker "$out/planted"
printf '#!/bin/sh\nHONE_PLANTED_SLOWDOWN=1.10 exec "%s/planted" "$@"\n' "$out" > "$out/slower"
chmod +x "$out/slower"

arguments='--listen 127.0.0.1:{port} --metrics off --data {data}'
load=(--payload orders --bytes 500 --records 5 --compression lz4 --topic-config compression.type=zstd --rate 2000
  --warmup 1000 --duration 2 --pairs 10 --control-pairs 5 --storage page-cache)

# verdict SEED PROGRAM_A PROGRAM_B
verdict() {
  local status=0 found
  target/release/hone compare "$2 $arguments" "$3 $arguments" "${load[@]}" --seed "$1" --output "$out/runs" --json --quiet \
    > "$out/record.json" || status=$?
  [ "$status" = 0 ] || [ "$status" = 3 ] || { echo "compare failed ($status)" >&2; exit 1; }
  # Everything is cleared before the answer is given: the caller goes on as soon as it has read it.
  found=$(python3 -c '
import json, sys
body = json.load(open(sys.argv[1]))["body"]
first = next((j for j in body["judgements"] if j["primary"]), None)
if first is None: print("not-shown - - -"); sys.exit()
e = first["estimate"]
print(first["verdict"], "%.3f %.3f %.3f" % (e["ratio"], e["low"], e["high"]))' "$out/record.json")
  rm -rf "$out/runs"
  echo "$found"
}

failed=0
silent=0
for run in $(seq "$a_a_runs"); do
  read -r word numbers < <(verdict "$run" "$out/plain" "$out/plain")
  echo "A/A     run $run: $word $numbers"
  case "$word" in not-shown | equivalent) silent=$((silent + 1)) ;; esac
done
echo "A/A: silent in $silent of $a_a_runs"
[ $((silent * 20)) -ge $((a_a_runs * 19)) ] || failed=1

found=0
for run in $(seq "$planted_runs"); do
  read -r word numbers < <(verdict "$run" "$out/plain" "$out/slower")
  echo "planted run $run: $word $numbers"
  if [ "$word" = worse ]; then found=$((found + 1)); fi
done
echo "planted +10 %: found worse in $found of $planted_runs"
[ "$found" = "$planted_runs" ] || failed=1
exit "$failed"
