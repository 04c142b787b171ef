#!/usr/bin/env bash
# What a broker that dies or hangs costs, with acks=1 and acks=all: three nodes of Apache Kafka, topics with three replicas, and the leader of
# partition 0 killed, shut down, or stopped for three seconds at a known second. Then the same for hone-broker, stopped for a known time.
#   bench/faults.sh [RUNS]      $RUNS/faults (a new folder without RUNS) keeps each run: one that was broken off goes on. RUNS is 5 without it
# Prints the table of docs/faults.md. Exit code 3 when a gap differs by more than 100 ms from what was planted, or when acks=all lost a record.
# About two minutes for each of the RUNS. Needs what `bench/kafka.sh fetch` fetches.
set -euo pipefail
cd "$(dirname "$0")/.."
runs=${1:-5}
target=${CARGO_TARGET_DIR:-target}
hone=${HONE:-$target/release/hone}
[ -x "$hone" ] || cargo build --release --locked -p hone -p hone-broker
broker=$(dirname "$hone")/hone-broker
out=$(mktemp -d)
kept=${RUNS:-$out}/faults
mkdir -p "$kept"
pid=
clean() {
  [ -z "$pid" ] || kill "$pid" 2>/dev/null || true
  [ -z "$pid" ] || wait "$pid" 2>/dev/null || true
  pid=
}
trap 'clean; rm -rf "$out"' EXIT
trap 'exit 130' INT TERM

# ready COMMAND: starts it, and sets `address` from the line that says so.
ready() {
  "$@" > "$out/ready" 2> "$out/log" &
  pid=$!
  until grep -q '^ready' "$out/ready"; do
    kill -0 "$pid" 2>/dev/null || { cat "$out/log" >&2; exit 1; }
    sleep 0.1
  done
  address=$(sed -n 's/^ready kafka=\([^ ]*\).*/\1/p' "$out/ready")
}

# loaded FILE OPTION...: one load of 20 s with a fault at 5 s, after which whatever is measured is an answer.
loaded() {
  local file=$1 status=0
  shift
  echo "faults.sh: $(basename "$file" .json)" >&2
  "$hone" load "$address" --rate "$rate" --records 1 --bytes 200 --partitions 12 --connections 12 --consumers 1 --duration 20 --warmup 2000 --warmup-limit 15 \
    --max-lateness 60s --timeout 30 --quiet --output "$file.part" "$@" > "$out/said" || status=$?
  [ -s "$file.part" ] || { cat "$out/said" >&2; exit "$status"; }
  mv "$file.part" "$file"
}

for run in $(seq "$runs"); do
  for acks in 1 all; do
    # With more than this, three nodes on two cores do not keep up with acks=all.
    rate=2000
    [ "$acks" = 1 ] || rate=500
    for fault in kill:leader term:leader stop:leader:3s; do
      file=$kept/kafka-$acks-${fault%%:*}-$run.json
      [ ! -s "$file" ] || continue
      # Each fault meets a cluster that is whole.
      KAFKA_HEAP=512M ready bench/kafka.sh cluster "$out/kafka" min.insync.replicas=2
      loaded "$file" --replication-factor 3 --acks "$acks" --fault "5s=$fault"
      clean
      rm -rf "$out/kafka"
    done
  done
  rate=500
  file=$kept/hone-broker-all-stop-$run.json
  if [ ! -s "$file" ]; then
    ready "$broker" --listen 127.0.0.1:0 --metrics-listen off --data "$out/data"
    loaded "$file" --acks all --fault 5s=stop:leader:3s
    clean
    rm -rf "$out/data"
  fi
done
python3 bench/faults/table.py "$kept"/*.json
