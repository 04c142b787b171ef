#!/usr/bin/env bash
# What a fetched record costs a broker: CPU of hone-broker and of Apache Kafka, in turns on the same machine.
#   catch-up   a consumer reads a backlog from its beginning
#   tail       four consumers read what is sent at the time: CPU with them, less CPU without them, by fetched record
#   bench/consumers.sh [ROUNDS]      3 rounds: five minutes. Exit code 3 when hone-broker needs more than a third of Kafka's CPU
# Needs what `bench/kafka.sh fetch` fetches.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-3}
target=${CARGO_TARGET_DIR:-target}
hone=${HONE:-$target/release/hone}
[ -x "$hone" ] || cargo build --release --locked -p hone -p hone-broker
broker=$(dirname "$hone")/hone-broker
out=$(mktemp -d)
pids=()
trap '[ ${#pids[@]} -eq 0 ] || kill "${pids[@]}" 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$out"' EXIT
trap 'exit 130' INT TERM
declare -A address

# started NAME COMMAND
started() {
  local name=$1
  shift
  "$@" > "$out/$name.ready" 2> "$out/$name.log" &
  pids+=("$!")
  until grep -q '^ready' "$out/$name.ready"; do
    kill -0 "${pids[-1]}" 2>/dev/null || { cat "$out/$name.log" >&2; exit 1; }
    sleep 0.1
  done
  address[$name]=$(sed -n 's/^ready kafka=\([^ ]*\).*/\1/p' "$out/$name.ready")
}

# measured KIND TARGET OPTION...: appends the window's record to the file of its kind.
measured() {
  local kind=$1 name=$2
  shift 2
  rm -f "$out/record.json"
  # A virtual machine that still compiles now and then ends with 1: the window is measured all the same.
  "$hone" load "${address[$name]}" --partitions 4 --connections 4 --records 10 --bytes 200 --warmup 4000 --max-lateness 60s "$@" \
    --json --quiet --output "$out/record.json" > /dev/null || [ -s "$out/record.json" ]
  python3 -c 'import json, sys; print(json.dumps(json.load(open(sys.argv[1]))))' "$out/record.json" >> "$out/$kind.$name.jsonl"
}

started hone-broker "$broker" --listen 127.0.0.1:0 --metrics-listen off --data "$out/data"
started kafka bench/kafka.sh run "$out/kafka"
# What a virtual machine has not compiled yet costs more.
for name in hone-broker kafka; do
  measured warm "$name" --rate 2000 --duration 30 --consumers 4
  measured warm "$name" --rate 0 --backlog 256MiB --consumers 1 --duration 60
done
for round in $(seq "$rounds"); do
  for name in hone-broker kafka; do
    echo "consumers.sh: round $round of $rounds, $name" >&2
    measured catch-up "$name" --rate 0 --backlog 256MiB --consumers 1 --duration 60
    measured without "$name" --rate 2000 --duration 6
    measured with "$name" --rate 2000 --duration 6 --consumers 4
  done
done
python3 bench/fetch/cpu.py "$out"
