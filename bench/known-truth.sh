#!/usr/bin/env bash
# Does `hone compare` tell the truth, and does its planner keep its word? Against truths that are known:
#   1. two identical brokers: must come out `not shown` or `equivalent` in 19 of 20 runs;
#   2. a broker that burns 5, 10 or 30 % more CPU for each Produce request (a build with the feature `planted-slowdown`; both arms
#      are that build, the environment is the one change): must be found as often as the plan of each run promised, and never with
#      the wrong sign.
# Chance is counted exactly, run by run: what is seen must not be so bad that it would happen in fewer than 2 of 100 repetitions if
# every promise were true. Where even nothing found would not be that rare, the runs can't tell, and it says so; at least one effect
# must be told.
# Every run has a budget, begins with an A/A pilot, and must keep the clock.
#   bench/known-truth.sh [A_A_RUNS] [RUNS_FOR_EACH_EFFECT] [BUDGET_S]
# Exit code 3 when something does not hold. About 80 minutes with the defaults, on a machine that has nothing else to do.
set -euo pipefail
cd "$(dirname "$0")/.."
a_a_runs=${1:-20}
planted_runs=${2:-20}
budget=${3:-60}
target=${CARGO_TARGET_DIR:-target}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

cargo build --release --locked -p hone -p hone-broker
cp "$target/release/hone-broker" "$out/plain"
cargo build --release --locked -p hone-broker --features planted-slowdown --target-dir "$target/planted"
cp "$target/planted/release/hone-broker" "$out/planted"

arguments='--listen 127.0.0.1:{port} --metrics-listen off --data {data}'
load=(--payload orders --bytes 500 --records 5 --compression lz4 --topic-config compression.type=zstd --rate 2000
  --warmup 1000 --duration 1 --storage fsync --budget "${budget}s")

# One run: its seed, its effect in per cent, and what is compared. Prints a line `VERDICT PROMISE RATIO LOW HIGH PAIRS SECONDS`.
run() {
  local status=0 begun=$EPOCHREALTIME seed=$1 effect=$2
  shift 2
  "$target/release/hone" compare "$@" "${load[@]}" --effect "$effect%" --seed "$seed" --output "$out/runs" --json --quiet \
    > "$out/record.json" || status=$?
  [ "$status" = 0 ] || [ "$status" = 3 ] || { echo "compare failed ($status)" >&2; return 1; }
  python3 - "$out/record.json" "$begun" "$EPOCHREALTIME" <<'PY'
import json, sys
body = json.load(open(sys.argv[1]))["body"]
first = next((j for j in body["judgements"] if j["primary"]), None)
promise = body["pilot"]["metrics"][0]["power_for_effect"]
took = float(sys.argv[3]) - float(sys.argv[2])
tests = sum(pair["kind"] == "test" for pair in body["pairs"])
if first is None:
    print("not-shown", promise, "- - -", tests, "%.1f" % took)
else:
    e = first["estimate"]
    print(first["verdict"], promise, "%.3f %.3f %.3f" % (e["ratio"], e["low"], e["high"]), tests, "%.1f" % took)
PY
  rm -rf "$out/runs"
}

for number in $(seq "$a_a_runs"); do
  line=$(run "$number" 5 "$out/plain $arguments" "$out/plain $arguments")
  echo "A/A run $number: $line"
  echo "0 $line" >> "$out/lines"
done
# The slow-down stretches the turns that serve Produce requests, which are a part of the broker's CPU. Which part is found once, by
# stretching them by half: the factors below then make the broker's whole CPU about 5, 10 and 30 % more.
line=$(run 1 30 "$out/planted $arguments" --change env.HONE_PLANTED_SLOWDOWN=1.5)
echo "turns that serve Produce requests half as long again: $line"
share=$(python3 -c "print((float('$line'.split()[2]) - 1) / 0.5)")

for effect in 5 10 30; do
  for number in $(seq "$planted_runs"); do
    factor=$(python3 -c "print(1 + $effect / 100 / $share)")
    line=$(run "$((1000 * effect + number))" "$effect" "$out/planted $arguments" --change "env.HONE_PLANTED_SLOWDOWN=$factor")
    echo "planted +$effect % run $number: $line"
    echo "$effect $line" >> "$out/lines"
  done
done

python3 - "$out/lines" "$budget" <<'PY'
import sys
runs = [line.split() for line in open(sys.argv[1])]
budget, good = float(sys.argv[2]), True

RARE = 0.02

def at_most(count, chances):
    """Probability of at most so many hits, when each run hits with a chance of its own."""
    exactly = [1.0]
    for chance in chances:
        exactly = [hit * chance + miss * (1 - chance) for miss, hit in zip(exactly + [0.0], [0.0] + exactly)]
    return sum(exactly[:count + 1])

def say(holds, text):
    global good
    good = good and holds
    print("holds" if holds else "FAILS", text)

a_a = [run for run in runs if run[0] == "0"]
silent = sum(run[1] in ("not-shown", "equivalent") for run in a_a)
chance = at_most(silent, [0.95] * len(a_a))
say(chance >= RARE, f"A/A: silent in {silent} of {len(a_a)}; so few or fewer by chance: {chance:.3f}")
told = 0
for effect in ("5", "10", "30"):
    planted = [run for run in runs if run[0] == effect]
    promises = [float(run[2]) for run in planted]
    found = sum(run[1] == "worse" for run in planted)
    wrong = sum(run[1] == "better" for run in planted)
    chance = at_most(found, promises)
    tells = at_most(0, promises) < RARE
    told += tells
    say(chance >= RARE and wrong == 0,
        f"planted +{effect} %: promised {sum(promises):.1f}, found {found}, wrong sign {wrong}, of {len(planted)}; so few or fewer "
        f"by chance: {chance:.3f}" + ("" if tells else " (so few runs, or promises, can't tell)"))
say(told > 0, f"effects of which these runs can tell: {told} of 3")
# The last pair was begun because it fitted; a start on a busy machine may still take longer than any before it.
longest = max(float(run[-1]) for run in runs)
say(longest < budget * 1.1 + 2, f"budget {budget:.0f} s: the longest run took {longest:.1f} s")
sys.exit(0 if good else 3)
PY
