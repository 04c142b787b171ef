#!/usr/bin/env bash
# The two measured runs of docs/tune.md, by `hone tune` alone, and what each came to on standard output, as Markdown.
#   embedded   the embedded broker with small batches: builds, settings of broker, topic, producers and this machine's kernel (an hour at most). Needs root
#   kafka      an Apache Kafka, started here, with producers that wait for nothing to a topic that packs anew (45 minutes at most)
#   bench/tune.sh [embedded|kafka]     $RUNS (runs) keeps the run with its page: one that was broken off goes on, one that is done is read
# On two cores with nothing else to do. Needs what script/bootstrap --test installs; port 9092 for Kafka.
set -euo pipefail
cd "$(dirname "$0")/.."
story=${1:-embedded} out=${RUNS:-runs}
file=examples/tune/$story.toml
die() { printf 'tune.sh: %s\n' "$*" >&2; exit 2; }
[ -f "$file" ] || die "there is no story $story: embedded or kafka"
[ "$story" != embedded ] || [ "$(id -u)" = 0 ] || die "a setting of the kernel is tried, which takes root; $file says how to do without"
hone=${HONE:-${CARGO_TARGET_DIR:-target}/release/hone}
[ -x "$hone" ] || cargo build --release --locked -p hone -p hone-broker

scratch=$(mktemp -d)
kafka=
clean_up() {
  [ -z "$kafka" ] || { kill "$kafka" 2>/dev/null || true; wait "$kafka" 2>/dev/null || true; }
  rm -rf "$scratch"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

start_kafka() {
  if (exec 3<>/dev/tcp/127.0.0.1/9092) 2>/dev/null; then die "something listens on 127.0.0.1:9092 already, where $file looks for Kafka"; fi
  PORT=9092 bench/kafka.sh run "$scratch/kafka" >"$scratch/said" 2>"$scratch/errors" &
  kafka=$!
  local waited
  for waited in $(seq 120); do
    if grep -q '^ready ' "$scratch/said"; then return; fi
    kill -0 "$kafka" 2>/dev/null || break
    sleep 1
  done
  tail -n 5 "$scratch/errors" >&2
  die "Kafka did not serve within $waited s"
}

mkdir -p "$out"
run=$(find "$out" -maxdepth 1 -type d -name "tune-$story-[0-9]*" 2>/dev/null | sort | tail -n 1)
if [ -z "$run" ] || [ ! -f "$run/tuning.json" ]; then
  if [ "$story" = kafka ]; then
    bench/kafka.sh fetch
    start_kafka
  fi
  what=("$file" --output "$out")
  [ -z "$run" ] || what=(--resume "$run")
  [ "$story" != embedded ] || what+=(--yes)
  status=0
  "$hone" tune "${what[@]}" >&2 || status=$?
  # 3 is an answer: not shown to help together.
  [ "$status" = 0 ] || [ "$status" = 3 ] || exit "$status"
  run=$(find "$out" -maxdepth 1 -type d -name "tune-$story-[0-9]*" | sort | tail -n 1)
fi
"$hone" report "$run" --markdown
