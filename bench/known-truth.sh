#!/usr/bin/env bash
# Does `hone compare` tell the truth, and in time? Against truths that are known:
#   1. two identical brokers: a verdict in at most 5 of 100 runs;
#   2. new copies of the broker, three against three, read from disk: a verdict in at most 2 of 40 runs (docs/bias.md, the luck of a copy);
#   3. a broker that burns 2, 3, 5 or 10 % more CPU (a build with the feature `planted-slowdown`; both arms are that build, the
#      environment is the one change): found in at least 80 % of the runs within 5, 3, 2 and 1 minutes, never with the wrong sign.
#   bench/known-truth.sh [A_A_RUNS] [RUNS_FOR_EACH_EFFECT] [COPIES_RUNS] [NEIGHBOURS]
# NEIGHBOURS processes compute all the time (0 without it); with any, each budget is three times as long. $RUNS/known-truth (a new folder without
# RUNS) keeps each run's line: one that was broken off goes on.
# Exit code 3 when something does not hold. With 100, 20 and 40 about five hours, on two cores that have nothing else to do.
set -euo pipefail
cd "$(dirname "$0")/.."
a_a_runs=${1:-100}
planted_runs=${2:-20}
copies_runs=${3:-40}
neighbours=${4:-0}
target=${CARGO_TARGET_DIR:-target}
out=$(mktemp -d)
lines=${RUNS:-$out}/known-truth-$neighbours
mkdir -p "$(dirname "$lines")"
touch "$lines"
children=()
clean() {
  [ ${#children[@]} -eq 0 ] || kill "${children[@]}" 2>/dev/null || true
  rm -rf "$out"
}
trap clean EXIT
trap 'exit 130' INT TERM

cargo build --release --locked -p hone -p hone-broker
cp "$target/release/hone" "$target/release/hone-broker" "$out"
cargo build --release --locked -p hone-broker --features planted-slowdown --target-dir "$target/planted"
cp "$target/planted/release/hone-broker" "$out/planted"
patience=1
for _ in $(seq "$neighbours"); do
  patience=3
  python3 -c 'while True: pass' &
  children+=("$!")
done

arguments='--listen 127.0.0.1:{port} --metrics-listen off --data {data}'
load=(--payload orders --bytes 500 --records 5 --compression lz4 --topic-config compression.type=zstd --rate 2000
  --warmup 1000 --duration 1 --storage fsync)

# One run: what it is, its seed, its effect in per cent, its budget in seconds (0: 60 pairs), and what is compared. Keeps and prints a line
# `WHAT SEED VERDICT PROMISE RATIO LOW HIGH PAIRS SECONDS`, once for each WHAT and SEED.
run() {
  local status=0 begun=$EPOCHREALTIME what=$1 seed=$2 effect=$3 until=(--budget "$(($4 * patience))s")
  [ "$4" != 0 ] || until=(--pairs 60 --control-pairs 5)
  shift 4
  if grep "^$what $seed " "$lines"; then return; fi
  "$out/hone" compare "$@" "${load[@]}" "${until[@]}" --effect "$effect%" --seed "$seed" --output "$out/runs" --json --quiet \
    > "$out/record.json" || status=$?
  [ "$status" = 0 ] || [ "$status" = 3 ] || { echo "known-truth: hone compare ended with $status" >&2; exit 1; }
  python3 - "$out/record.json" "$what $seed" "$begun" "$EPOCHREALTIME" <<'PY' | tee -a "$lines"
import json, sys
body = json.load(open(sys.argv[1]))["body"]
first = next((one for one in body["judgements"] if one["primary"]), None)
promised = (metric["power_for_effect"] or 0 for metric in (body["pilot"] or {}).get("metrics", []))
promise = next(promised, 0)
estimate = first and first["estimate"]
span = "%.3f %.3f %.3f" % (estimate["ratio"], estimate["low"], estimate["high"]) if estimate else "- - -"
tests = sum(pair["kind"] == "test" for pair in body["pairs"])
print(sys.argv[2], first["verdict"] if first else "not-shown", "%.2f" % promise, span, tests,
      "%.1f" % (float(sys.argv[4]) - float(sys.argv[3])))
PY
  rm -rf "$out/runs"
}

for seed in $(seq "$a_a_runs"); do run none "$seed" 5 60 "$out/hone-broker $arguments" "$out/hone-broker $arguments"; done
for seed in $(seq "$copies_runs"); do
  for name in {1..6}; do
    rm -f "$out/copy-$name"
    cp "$out/hone-broker" "$out/copy-$name"
    sync "$out/copy-$name"
    # Out of the page cache: the pages of a file that is read again lie anywhere.
    dd if="$out/copy-$name" iflag=nocache count=0 status=none
  done
  run copies "$seed" 5 60 "$out/copy-1 $arguments" --a-build "$out/copy-2 $arguments" --a-build "$out/copy-3 $arguments" \
    "$out/copy-4 $arguments" --b-build "$out/copy-5 $arguments" --b-build "$out/copy-6 $arguments"
done
# The slow-down stretches the turns that serve Produce requests, which are a part of the broker's CPU. Which part is found first, by
# stretching them by a third in 60 pairs: the factors below then make the broker's whole CPU more by that much.
run third 1 10 0 "$out/planted $arguments" --change env.HONE_PLANTED_SLOWDOWN=1.333333
share=$(awk '$1 == "third" { print 3 * ($5 - 1) }' "$lines")
while read -r effect budget; do
  factor=$(python3 -c "print(1 + $effect / 100 / $share)")
  for seed in $(seq "$planted_runs"); do
    run "+$effect%" "$((1000 * effect + seed))" "$effect" "$budget" "$out/planted $arguments" --change "env.HONE_PLANTED_SLOWDOWN=$factor"
  done
done <<<$'10 60\n5 120\n3 180\n2 300'

python3 - "$lines" <<'PY'
import sys
runs = [line.split() for line in open(sys.argv[1])]
good = True

def say(holds, text):
    global good
    good = good and holds
    print("holds" if holds else "FAILS", text)

for same in ("none", "copies"):
    silent = [run for run in runs if run[0] == same]
    false = sum(run[2] in ("better", "worse") for run in silent)
    if silent:
        say(false <= 0.05 * len(silent), f"{same}: {false} verdicts in {len(silent)} runs")
for effect in ("+10%", "+5%", "+3%", "+2%"):
    planted = [run for run in runs if run[0] == effect]
    if not planted:
        continue
    found = sum(run[2] == "worse" for run in planted)
    wrong = sum(run[2] == "better" for run in planted)
    seconds = sorted(float(run[-1]) for run in planted)
    say(found >= 0.8 * len(planted) and wrong == 0,
        f"{effect}: found in {found} of {len(planted)} runs, promised {sum(float(run[3]) for run in planted):.1f}, wrong sign {wrong}; "
        f"median {seconds[len(seconds) // 2]:.0f} s, longest {seconds[-1]:.0f} s")
sys.exit(0 if good else 3)
PY
